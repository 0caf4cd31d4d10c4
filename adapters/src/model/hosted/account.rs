//! An account at a provider: where its API is, and what every request to it carries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::Proxies;

use super::site::Site;
use super::{Api, HostedModel};

/// An account at a provider. Its settings hold for every model that it [makes](Self::model).
///
/// ```
/// use pilothouse_adapters::model::hosted::Account;
/// use pilothouse_messages::secret::Secret;
///
/// let local = Account::compatible("http://localhost:11434/v1").context_window(128_000);
/// let model = local.model("qwen3")?;
/// assert_eq!(model.name(), "qwen3");
/// assert!(!format!("{:?}", local.key(Secret::new("sk-canary"))).contains("canary"));
/// # Ok::<(), pilothouse_adapters::model::hosted::AccountError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Account {
    pub(super) api: Api,
    pub(super) base_url: String,
    pub(super) key: Option<Secret>,
    pub(super) headers: BTreeMap<String, Secret>,
    pub(super) proxies: Proxies,
    pub(super) system: Option<String>,
    pub(super) max_output: Option<u64>,
    pub(super) context_window: Option<u64>,
}

/// Why an account cannot be used, whatever its provider does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// Its URL is none.
    #[error("the base URL cannot be used: {0}")]
    Url(String),
    /// A header, or the key, cannot be sent; no part of the value is shown.
    #[error("the header {name:?} cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// In plain words.
        reason: String,
    },
    /// It wants TLS, and none is compiled in.
    #[error("https needs one of the cargo features rustls, native-tls, tls-no-provider")]
    NoTls,
}

impl Account {
    /// OpenAI's chat completions, with this key.
    pub fn openai(key: Secret) -> Self {
        Self::of(Api::OpenAi, "https://api.openai.com/v1").key(key)
    }

    /// Anthropic's messages, with this key.
    pub fn anthropic(key: Secret) -> Self {
        Self::of(Api::Anthropic, "https://api.anthropic.com/v1").key(key)
    }

    /// Whatever speaks OpenAI's chat completions below this URL: Ollama, vLLM, a gateway. The URL ends before
    /// `/chat/completions`; a query is kept.
    pub fn compatible(base_url: impl Into<String>) -> Self {
        Self::of(Api::Compatible, base_url)
    }

    fn of(api: Api, base_url: impl Into<String>) -> Self {
        Self {
            api,
            base_url: base_url.into(),
            key: None,
            headers: BTreeMap::new(),
            proxies: Proxies::None,
            system: None,
            max_output: None,
            context_window: None,
        }
    }

    /// Sends this key with every request.
    pub fn key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// Another place for the same API, such as a gateway. The URL ends before `/chat/completions` or `/messages`.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Sends this header with every request; its value is never shown.
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.headers.insert(name.into(), value);
        self
    }

    /// Whether proxies are used; none by default.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Begins every request with this prompt.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// The longest reply, in tokens. Anthropic wants one, so it is told 8 192 by default; others use their own.
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// What its models can hold, in tokens; a topic without a window of its own takes it.
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// The model of this name. Nothing is sent before it runs.
    ///
    /// # Errors
    /// What is wrong with the account.
    pub fn model(&self, name: impl Into<String>) -> Result<HostedModel, AccountError> {
        Ok(HostedModel { site: Arc::new(Site::of(self)?), name: name.into().into() })
    }
}

/// No part of a key, a header or the URL is shown.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("api", &self.api).finish_non_exhaustive()
    }
}
