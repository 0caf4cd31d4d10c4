//! Owns an account's HTTP client, made when it is first needed, and what every request carries.

use std::time::Duration;

use pilothouse_messages::server::Proxies;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio::sync::OnceCell;

use super::{Account, AccountError, Api};
use crate::model::ModelError;
use crate::response::{HAS_TLS, innermost};
use crate::words::Words;

/// Until a host counts as unreachable.
const TCP_WITHIN: Duration = Duration::from_secs(10);
/// How often a quiet connection is looked after, so that a host that vanished is found.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// The version of Anthropic's API whose shapes are read here.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Where an account's requests go, and with what.
pub(super) struct Site {
    pub(super) api: Api,
    pub(super) system: Option<String>,
    pub(super) max_output: Option<u64>,
    pub(super) context_window: Option<u64>,
    /// Masks keys in whatever is told.
    pub(super) words: Words,
    url: Url,
    headers: HeaderMap,
    proxies: Proxies,
    /// One for all requests, so that they share connections.
    client: OnceCell<Client>,
}

impl Site {
    pub(super) fn of(account: &Account) -> Result<Self, AccountError> {
        let Account { api, base_url, key, headers, proxies, system, max_output, context_window } = account;
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| refused(name, "it is no header's name"))?;
            sent.insert(header, sensitive(name, value.expose())?);
        }
        match (api, key) {
            (Api::OpenAi | Api::Compatible, Some(key)) => {
                let bearer = format!("Bearer {}", key.expose());
                sent.insert(AUTHORIZATION, sensitive("authorization", &bearer)?);
            }
            (Api::Anthropic, Some(key)) => {
                sent.insert("x-api-key", sensitive("x-api-key", key.expose())?);
            }
            (Api::OpenAi | Api::Compatible | Api::Anthropic, None) => {}
        }
        if *api == Api::Anthropic && !sent.contains_key("anthropic-version") {
            sent.insert("anthropic-version", ANTHROPIC_VERSION);
        }
        sent.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        sent.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let secrets = headers.values().chain(key).map(|secret| secret.expose());
        let url = url(*api, base_url)?;
        Ok(Self {
            api: *api,
            system: system.clone(),
            max_output: *max_output,
            context_window: *context_window,
            words: Words::of_secrets(secrets.chain(url.query())),
            url,
            headers: sent,
            proxies: *proxies,
            client: OnceCell::new(),
        })
    }

    /// Sends one request; any status is an answer.
    pub(super) async fn post(&self, body: String) -> Result<Response, ModelError> {
        let client = self.client.get_or_try_init(|| open(self.proxies)).await?;
        let request = client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        request.send().await.map_err(|error| self.broken(&error))
    }

    /// A connection that failed.
    pub(super) fn broken(&self, error: &reqwest::Error) -> ModelError {
        ModelError::Connection(self.words.reason(innermost(error)))
    }
}

/// Where requests of this API go.
fn url(api: Api, base: &str) -> Result<Url, AccountError> {
    let mut url = Url::parse(base).map_err(|error| AccountError::Url(error.to_string()))?;
    if url.scheme() == "https" && !HAS_TLS {
        return Err(AccountError::NoTls);
    }
    let bad = |reason: &str| Err(AccountError::Url(reason.to_owned()));
    if !matches!(url.scheme(), "http" | "https") {
        return bad("it begins with neither http nor https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return bad("it has a user in it; give a key or a header instead");
    }
    let end: &[&str] = match api {
        Api::OpenAi | Api::Compatible => &["chat", "completions"],
        Api::Anthropic => &["messages"],
    };
    match url.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().extend(end)),
        Err(()) => return bad("it has no host"),
    }
    url.set_fragment(None);
    Ok(url)
}

fn refused(name: &str, reason: &str) -> AccountError {
    AccountError::Header { name: name.to_owned(), reason: reason.to_owned() }
}

fn sensitive(name: &str, value: &str) -> Result<HeaderValue, AccountError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| refused(name, "its value has a character that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reading the certificates of the machine blocks, so it is done aside.
async fn open(proxies: Proxies) -> Result<Client, ModelError> {
    match tokio::task::spawn_blocking(move || client(proxies)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(ModelError::Broken(innermost(&error))),
        Err(_panicked) => {
            let reason = "the HTTP client could not be built: with the feature `tls-no-provider`, install a rustls crypto provider first";
            Err(ModelError::Broken(reason.to_owned()))
        }
    }
}

fn client(proxies: Proxies) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("pilothouse/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(TCP_WITHIN)
        .tcp_keepalive(TCP_KEEPALIVE);
    match proxies {
        Proxies::None => builder.no_proxy().build(),
        Proxies::FromEnvironment => builder.build(),
    }
}
