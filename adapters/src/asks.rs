//! What servers ask of people, and of the embedder: roots, sampling, elicitation.
//!
//! Every question is answered: by the embedder's [`Asks`], or with a polite refusal if there is none, if it panics, if
//! it takes too long, or if too many questions of that server are open already. Nothing else ever answers one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::endpoint::Endpoint;
use pilothouse_messages::id::{CallId, ServerId, TopicId};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::BoxFuture;

/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i64 = -32602;
/// A sampling request that was refused (MCP 2025-11-25, "Sampling", error handling).
const REFUSED: i64 = -1;
/// A longer URL is no page for a person (8 KiB).
const URL_BYTES_MAX: usize = 8 << 10;

/// The kinds of questions; a capability is declared for each that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AskKind {
    /// `roots/list`.
    Roots,
    /// `sampling/createMessage`.
    Sampling,
    /// `elicitation/create` with a form.
    Form,
    /// `elicitation/create` with a URL.
    Url,
}

/// One question of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who asks.
    pub server: ServerId,
    /// For which call, as far as that is known.
    pub origin: Origin,
    /// What it asks.
    pub ask: Ask,
}

/// For whom a call runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The topic.
    pub topic: Option<TopicId>,
    /// The call within it.
    pub call: Option<CallId>,
}

/// What a server asks. Its words are data: show them as quoted, and as the server's.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// The directories that it may work in.
    Roots,
    /// A model's reply; the parameters of `sampling/createMessage` as they came.
    Sampling(Value),
    /// A form that a person fills in.
    Form {
        /// What the server says about it.
        message: String,
        /// The form's fields, a JSON Schema of one flat object.
        schema: Value,
    },
    /// A page that a person visits. It is never opened by the runtime.
    Url {
        /// What the server says about it.
        message: String,
        /// The whole URL, `https` only: show all of it.
        url: String,
        /// Its host: show that, too.
        host: String,
        /// How the server names this question.
        id: Option<String>,
    },
}

impl Ask {
    /// Which kind it is.
    pub fn kind(&self) -> AskKind {
        match self {
            Self::Roots => AskKind::Roots,
            Self::Sampling(_) => AskKind::Sampling,
            Self::Form { .. } => AskKind::Form,
            Self::Url { .. } => AskKind::Url,
        }
    }
}

/// A directory that servers may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

/// An answer. One that does not fit its question is a refusal.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Ask::Roots`].
    Roots(Vec<Root>),
    /// To [`Ask::Sampling`]: the result of `sampling/createMessage`.
    Message(Map<String, Value>),
    /// To [`Ask::Form`], with the fields; to [`Ask::Url`], with none: the person agreed to visit it.
    Accepted(Map<String, Value>),
    /// A person said no.
    Declined,
    /// A person said nothing.
    Dismissed,
}

/// Answers what servers ask: a port of the embedder.
///
/// For implementers: questions come from many servers at once. `answer` is bounded by `limits.question`, and dropped
/// when nobody waits for it any more; one that panics has declined.
pub trait Asks: Send + Sync + 'static {
    /// What is answered here; a server is told so, and anything else is refused before it gets here. Read at each
    /// connect.
    fn kinds(&self) -> BTreeSet<AskKind> {
        BTreeSet::new()
    }

    /// Answers one question.
    fn answer(&self, question: Question) -> BoxFuture<'_, Reply> {
        drop(question);
        Box::pin(std::future::ready(Reply::Declined))
    }
}

/// Why a question got no answer, as a JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AskRefusal {
    /// The error's code.
    pub code: i64,
    /// The error's words.
    pub message: String,
}

impl AskRefusal {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// One server's way to the embedder's [`Asks`], with its bounds. Clones share the bounds.
#[derive(Clone)]
pub struct AskPort {
    server: ServerId,
    asks: Option<Arc<dyn Asks>>,
    kinds: BTreeSet<AskKind>,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl fmt::Debug for AskPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskPort")
            .field("server", &self.server)
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl AskPort {
    /// The port of one server: at most as many questions as `places` has wait at the same time, each for `patience`.
    pub fn new(
        server: ServerId,
        asks: Option<Arc<dyn Asks>>,
        places: Arc<Semaphore>,
        patience: Duration,
    ) -> Self {
        let kinds = asks.as_ref().map(kinds_of).unwrap_or_default();
        Self { server, asks, kinds, places, patience }
    }

    /// The port of a server whose questions are all refused.
    pub fn refusing(server: ServerId) -> Self {
        Self::new(server, None, Arc::new(Semaphore::new(0)), Duration::ZERO)
    }

    /// What is answered, and hence declared.
    pub fn kinds(&self) -> &BTreeSet<AskKind> {
        &self.kinds
    }

    /// How long a question waits.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether this is a question that may take a person's time, and so stops its call's clock.
    pub fn would_ask(&self, method: &str, params: &Value) -> bool {
        read(method, params).is_ok_and(|ask| self.kinds.contains(&ask.kind()))
    }

    /// Answers a request of the server: the result, or the error that refuses it. Returns within the patience.
    ///
    /// # Errors
    /// The refusal.
    pub async fn put(&self, origin: Origin, method: &str, params: &Value) -> Result<Value, AskRefusal> {
        let ask = read(method, params)?;
        let kind = ask.kind();
        let Some(asks) = self.asks.clone().filter(|_| self.kinds.contains(&kind)) else {
            return refused(kind, "nobody here answers this");
        };
        let Ok(_place) = self.places.try_acquire() else {
            return refused(kind, "too many questions of this server are open");
        };
        let question = Question { server: self.server.clone(), origin, ask };
        let answering = AbortOnDropHandle::new(tokio::spawn(async move { asks.answer(question).await }));
        match timeout(self.patience, answering).await {
            Ok(Ok(reply)) => written(kind, reply),
            Ok(Err(_panicked)) => refused(kind, "the question could not be answered"),
            Err(_elapsed) => refused(kind, "nobody answered in time"),
        }
    }
}

/// A port that panics here answers nothing.
fn kinds_of(asks: &Arc<dyn Asks>) -> BTreeSet<AskKind> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| asks.kinds())).unwrap_or_default()
}

fn read(method: &str, params: &Value) -> Result<Ask, AskRefusal> {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    match method {
        "roots/list" => Ok(Ask::Roots),
        "sampling/createMessage" => Ok(Ask::Sampling(params.clone())),
        "elicitation/create" => {
            let message = text("message").unwrap_or_default().to_owned();
            match text("mode") {
                None | Some("form") => {
                    let schema =
                        params.get("requestedSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
                    Ok(Ask::Form { message, schema })
                }
                Some("url") => url(message, text("url").unwrap_or_default(), text("elicitationId")),
                Some(_) => Err(AskRefusal::new(INVALID_PARAMS, "the mode is neither form nor url")),
            }
        }
        _ => Err(AskRefusal::new(METHOD_NOT_FOUND, "method not found")),
    }
}

fn url(message: String, url: &str, id: Option<&str>) -> Result<Ask, AskRefusal> {
    let refusal = |why: &str| AskRefusal::new(INVALID_PARAMS, format!("the URL is refused: {why}"));
    if url.len() > URL_BYTES_MAX {
        return Err(refusal("it is too long"));
    }
    Endpoint::parse(url).map_err(|error| refusal(&error.to_string()))?;
    let rest = url.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("https"));
    let Some((_, rest)) = rest else {
        return Err(refusal("only https is visited"));
    };
    // A browser takes a backslash for a slash, so what stands behind one is not the host.
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(refusal("a user name hides its host"));
    }
    Ok(Ask::Url { message, url: url.to_owned(), host: authority.to_owned(), id: id.map(Into::into) })
}

/// How each kind is politely refused.
fn refused(kind: AskKind, why: &str) -> Result<Value, AskRefusal> {
    match kind {
        AskKind::Roots => Ok(json!({"roots": []})),
        AskKind::Form | AskKind::Url => Ok(json!({"action": "decline"})),
        AskKind::Sampling if why.starts_with("nobody here") => {
            Err(AskRefusal::new(METHOD_NOT_FOUND, "method not found"))
        }
        AskKind::Sampling => Err(AskRefusal::new(REFUSED, why)),
    }
}

fn written(kind: AskKind, reply: Reply) -> Result<Value, AskRefusal> {
    match (kind, reply) {
        (AskKind::Roots, Reply::Roots(roots)) => {
            Ok(json!({"roots": roots.iter().map(root).collect::<Vec<_>>()}))
        }
        (AskKind::Sampling, Reply::Message(message)) => Ok(Value::Object(message)),
        (AskKind::Form, Reply::Accepted(content)) => Ok(json!({"action": "accept", "content": content})),
        (AskKind::Url, Reply::Accepted(_)) => Ok(json!({"action": "accept"})),
        (AskKind::Form | AskKind::Url, Reply::Dismissed) => Ok(json!({"action": "cancel"})),
        (
            kind,
            Reply::Roots(_) | Reply::Message(_) | Reply::Accepted(_) | Reply::Declined | Reply::Dismissed,
        ) => refused(kind, "it was declined"),
    }
}

fn root(root: &Root) -> Value {
    match &root.name {
        Some(name) => json!({"uri": root.uri, "name": name}),
        None => json!({"uri": root.uri}),
    }
}

#[cfg(test)]
mod tests;
