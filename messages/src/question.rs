//! Questions of servers to a person: what is shown, how it is answered, and how it ends.
//!
//! A question belongs to a call that waits for it. It is kept in the ledger beside the cards; no mode, grant or model
//! answers one. What a person wrote goes to the server alone: the ledger keeps its digest.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{CallId, QuestionId, ServerId, TenantId, TopicId};
use crate::json::JsonText;
use crate::time::Timestamp;

/// One question, as a person is shown it. Stored: its bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionCard {
    /// Its name.
    pub question: QuestionId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The topic whose call waits.
    pub topic: TopicId,
    /// The call.
    pub call: CallId,
    /// The server that asks.
    pub server: ServerId,
    /// The embedder's label of the server.
    pub label: String,
    /// What it asks: text from outside, to be shown as a quotation.
    pub ask: PersonAsk,
    /// When it stops waiting.
    pub expires_at: Timestamp,
}

/// What a server asks of a person (MCP 2025-11-25, "Elicitation").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonAsk {
    /// A form to fill in.
    Form {
        /// What the server says about it.
        message: String,
        /// A JSON Schema of one flat object.
        schema: JsonText,
    },
    /// A page to visit; nothing here ever opens it.
    Url {
        /// What the server says about it.
        message: String,
        /// The whole URL: show all of it.
        url: String,
        /// Its host: show that, too.
        host: String,
    },
}

impl QuestionCard {
    /// Digest of what a person is shown: server and question.
    pub fn digest(&self) -> Digest {
        let ask = match &self.ask {
            PersonAsk::Form { message, schema } => {
                serde_json::json!({"message": message, "schema": schema.value()})
            }
            PersonAsk::Url { message, url, host: _ } => serde_json::json!({"message": message, "url": url}),
        };
        let shown = serde_json::json!({"server": self.server.as_str(), "ask": ask});
        Digest::of_json("pilothouse/question/1", &shown)
    }
}

/// What a person says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The form's fields; no fields to a URL: the person agrees to visit it.
    Accept(JsonText),
    /// No.
    Decline,
    /// Neither: the question was put away.
    Dismiss,
}

/// One answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What is said.
    pub reply: Reply,
    /// Who says it; 256 bytes are kept.
    pub by: String,
    /// The digest of the question that was shown: a different one is refused.
    pub digest: Option<Digest>,
    /// For which tenant the answer speaks; another tenant's question is unknown to it. `None` is the embedder itself.
    pub tenant: Option<TenantId>,
}

impl Answer {
    /// Fills the form in, or agrees to visit the page (with `{}`).
    pub fn accept(by: impl Into<String>, content: JsonText) -> Self {
        Self::new(Reply::Accept(content), by.into())
    }

    /// Says no.
    pub fn decline(by: impl Into<String>) -> Self {
        Self::new(Reply::Decline, by.into())
    }

    /// Puts the question away.
    pub fn dismiss(by: impl Into<String>) -> Self {
        Self::new(Reply::Dismiss, by.into())
    }

    fn new(reply: Reply, by: String) -> Self {
        Self { reply, by, digest: None, tenant: None }
    }

    /// Binds the answer to the question that was shown.
    #[must_use]
    pub fn of(mut self, card: &QuestionCard) -> Self {
        self.digest = Some(card.digest());
        self
    }

    /// Speaks for this tenant only.
    #[must_use]
    pub fn for_tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The word that the ledger keeps, and the digest of what goes with it.
    pub fn word(&self) -> (QuestionWord, Option<Digest>) {
        match &self.reply {
            Reply::Accept(content) => {
                let digest = Digest::of_json("pilothouse/answer/1", &content.value());
                (QuestionWord::Accepted, Some(digest))
            }
            Reply::Decline => (QuestionWord::Declined, None),
            Reply::Dismiss => (QuestionWord::Dismissed, None),
        }
    }
}

/// How a question ended. Stored: its bytes are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionWord {
    /// A person answered it.
    Accepted,
    /// A person said no.
    Declined,
    /// A person put it away.
    Dismissed,
    /// Nobody said anything in time.
    Expired,
    /// Its call no longer waits.
    Withdrawn,
}

/// A question's last word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionEnd {
    /// How it ended.
    pub word: QuestionWord,
    /// Who answered.
    pub by: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What somebody who answers is told. The first answer wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// This is the question's last word, it is durable, and the server is told.
    Applied,
    /// It already has the same answer.
    Already(QuestionEnd),
    /// It already has another answer.
    Conflict(QuestionEnd),
    /// Nobody answered in time, or its call no longer waits.
    Over(QuestionEnd),
    /// The question that was shown is not this one: show it again.
    Changed {
        /// The digest of the question as it is.
        digest: Digest,
    },
    /// No such question.
    Unknown,
}
