//! What an embedder lends so that a server behind HTTP can be logged in to: a person's consent, and a place for tokens.
//!
//! Discovery, PKCE, the state, the issuer and refreshing are seen to here (MCP 2025-11-25 and 2026-07-28,
//! "Authorization"). The runtime opens no browser and listens on no port: the URL goes to [`Authorise`], which answers
//! with what the browser was redirected with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_messages::id::{ServerId, TenantId};
use pilothouse_messages::secret::Secret;

use crate::BoxFuture;

/// How one server is logged in to. Clones share the ports.
#[derive(Clone)]
#[must_use = "hand it to a server"]
pub struct OAuth {
    pub(crate) redirect_uri: String,
    pub(crate) client_name: String,
    pub(crate) registered: Option<(String, Option<Secret>)>,
    pub(crate) metadata_url: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) authorise: Option<Arc<dyn Authorise>>,
    pub(crate) tokens: Arc<dyn TokenStore>,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

impl OAuth {
    /// A login whose browser ends at this URI. The client registers itself with the authorization server unless
    /// something better is said below; tokens are kept in memory, and nobody is asked.
    pub fn new(redirect_uri: impl Into<String>) -> Self {
        Self {
            redirect_uri: redirect_uri.into(),
            client_name: "Pilothouse".to_owned(),
            registered: None,
            metadata_url: None,
            scopes: Vec::new(),
            authorise: None,
            tokens: Arc::new(MemoryTokens::default()),
        }
    }

    /// What people read when they are asked for consent.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// The client is registered already, under this id; `secret` if it is a confidential one.
    pub fn registered(mut self, client_id: impl Into<String>, secret: Option<Secret>) -> Self {
        self.registered = Some((client_id.into(), secret));
        self
    }

    /// The `https` URL of a Client ID Metadata Document, for authorization servers that take one.
    pub fn client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.metadata_url = Some(url.into());
        self
    }

    /// Scopes to ask for; without this those that the server names.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Who brings a person to the authorization URL. Without it a server that wants a login has failed for good, unless
    /// a stored token still does.
    pub fn authorise(mut self, authorise: impl Authorise) -> Self {
        self.authorise = Some(Arc::new(authorise));
        self
    }

    /// Where tokens are kept.
    pub fn tokens(mut self, tokens: impl TokenStore) -> Self {
        self.tokens = Arc::new(tokens);
        self
    }
}

/// What a person is asked to consent to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consent {
    /// For which server.
    pub server: ServerId,
    /// The page to visit: show its host to the person first. It holds the state, so it belongs to one person only.
    pub url: String,
    /// Where the browser is sent afterwards.
    pub redirect_uri: String,
}

/// What the browser was redirected with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirected {
    /// `code`.
    pub code: Secret,
    /// `state`.
    pub state: Secret,
    /// `iss`, where it is there (RFC 9207).
    pub issuer: Option<String>,
}

impl Redirected {
    /// Reads it off the whole URL that the browser was sent to.
    ///
    /// # Errors
    /// What is missing, or what the authorization server says instead of a code.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let url = reqwest::Url::parse(url).map_err(|error| format!("the redirect is no URL: {error}"))?;
        let named =
            |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if let Some(error) = named("error") {
            return Err(format!("the authorization server answered {error}"));
        }
        Ok(Self {
            code: Secret::new(named("code").ok_or("the redirect has no code")?),
            state: Secret::new(named("state").ok_or("the redirect has no state")?),
            issuer: named("iss"),
        })
    }
}

/// Brings a person to an authorization URL: a port of the embedder.
///
/// For implementers: one question at a time for each server, for at most ten minutes; dropping the future means that
/// nobody waits any more. One that panics has refused.
pub trait Authorise: Send + Sync + 'static {
    /// Gets the consent.
    ///
    /// # Errors
    /// Why there is none, in plain words; the server has failed for good then.
    fn authorise(&self, consent: Consent) -> BoxFuture<'_, Result<Redirected, String>>;
}

/// Whose token it is, and for what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenKey {
    /// The server's tenant; `None` for everybody's.
    pub tenant: Option<TenantId>,
    /// The server's canonical URL: without user, query and fragment.
    pub resource: String,
    /// Who issued it. A token is never sent on the word of another issuer.
    pub issuer: String,
}

/// Keeps tokens: a port of the embedder. The values are opaque, and as secret as a password.
pub trait TokenStore: Send + Sync + 'static {
    /// What is kept under this key.
    ///
    /// # Errors
    /// Why it cannot be read, in plain words.
    fn load(&self, key: &TokenKey) -> BoxFuture<'_, Result<Option<Secret>, String>>;

    /// Keeps a value under this key, instead of the last one.
    ///
    /// # Errors
    /// Why it cannot be kept; it is used all the same until the process ends.
    fn save(&self, key: &TokenKey, value: Secret) -> BoxFuture<'_, Result<(), String>>;

    /// Forgets what is kept under this key: its issuer takes it no more.
    ///
    /// # Errors
    /// Why it cannot be forgotten; it is not used again before the process ends.
    fn remove(&self, key: &TokenKey) -> BoxFuture<'_, Result<(), String>>;
}

/// Keeps tokens until the process ends.
#[derive(Default)]
pub struct MemoryTokens(Mutex<BTreeMap<TokenKey, Secret>>);

impl TokenStore for MemoryTokens {
    fn load(&self, key: &TokenKey) -> BoxFuture<'_, Result<Option<Secret>, String>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        Box::pin(std::future::ready(Ok(kept)))
    }

    fn save(&self, key: &TokenKey, value: Secret) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), value);
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove(&self, key: &TokenKey) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        Box::pin(std::future::ready(Ok(())))
    }
}
