//! The web, as far as the embedder lends it: a search engine and a reader of pages, and the tools that models get for
//! them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use pilothouse_messages::tool::Effect;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::BoxFuture;
use crate::text::{cut, one_line};
use crate::tool::{Function, Invocation};

/// The namespace of the tools.
const NAMESPACE: &str = "web";
/// Results where a model does not say, and at most.
const RESULTS: (usize, usize) = (8, 20);
/// How long a search's words may be, in bytes.
const QUERY_BYTES: usize = 2 << 10;
/// The longest URL, in bytes.
const URL_BYTES: usize = 2 << 10;
/// How much of a title is told, in bytes.
const TITLE_BYTES: usize = 300;
/// How much of a snippet is told, in bytes.
const SNIPPET_BYTES: usize = 1 << 10;
/// How much of a page is told, in bytes.
const PAGE_BYTES: usize = 48 << 10;

/// What a search engine is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebQuery {
    /// Words, never empty, bounded.
    pub text: String,
    /// The most results that are of use.
    pub limit: usize,
}

/// One result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebHit {
    /// The page's title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What it says about the question.
    pub snippet: String,
}

/// A page, read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebPage {
    /// The address at which it was found in the end.
    pub url: String,
    /// Its title; empty if it has none.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// A search engine.
///
/// For implementers: the future is dropped at the call's deadline or cancellation. `Err` is told to the model. Results
/// beyond the limit, and text beyond a bound, are left out.
pub trait WebSearch: Send + Sync + 'static {
    /// Looks for pages.
    fn search(&self, query: WebQuery) -> BoxFuture<'_, Result<Vec<WebHit>, String>>;
}

/// A reader of pages.
///
/// For implementers: the address comes from a model. It is an `http` or `https` URL without credentials, and names no
/// private address as such; what its name resolves to, and where a redirect leads, only you can check. The future is
/// dropped at the call's deadline or cancellation.
pub trait WebFetch: Send + Sync + 'static {
    /// Reads one page.
    fn fetch(&self, url: String) -> BoxFuture<'_, Result<WebPage, String>>;
}

/// What an embedder lends of the web; a tool for each part that is there.
#[derive(Clone, Default)]
#[must_use = "hand it to a builder"]
pub struct Web {
    search: Option<Arc<dyn WebSearch>>,
    fetch: Option<Arc<dyn WebFetch>>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { search, fetch } = self;
        f.debug_struct("Web").field("search", &search.is_some()).field("fetch", &fetch.is_some()).finish()
    }
}

impl Web {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches with this engine: models get `web_search`. It only reads, so it runs without a person.
    pub fn search(mut self, engine: impl WebSearch) -> Self {
        self.search = Some(Arc::new(engine));
        self
    }

    /// Reads pages with this reader: models get `web_fetch`. A model chooses the address and can put into it what it
    /// knows, so it counts as talking to the open world: by default a person is asked.
    pub fn fetch(mut self, reader: impl WebFetch) -> Self {
        self.fetch = Some(Arc::new(reader));
        self
    }

    /// The tools: `web_search` and `web_fetch`, as far as there is something behind them.
    pub fn functions(&self) -> Vec<Function> {
        let search = self.search.clone().map(search_function);
        let fetch = self.fetch.clone().map(fetch_function);
        search.into_iter().chain(fetch).collect()
    }
}

fn search_function(engine: Arc<dyn WebSearch>) -> Function {
    let (usual, most) = RESULTS;
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "Words to look for."},
            "limit": {
                "type": "integer", "minimum": 1, "maximum": most,
                "description": format!("The most results; {usual} if not given."),
            },
        },
        "required": ["query"],
    });
    let run = move |invocation: Invocation| {
        let engine = engine.clone();
        async move {
            let text = text_of(&invocation.arguments, "query", QUERY_BYTES)?;
            let limit = limit_of(&invocation.arguments, RESULTS);
            let hits = engine.search(WebQuery { text, limit }).await?;
            let results: Vec<_> = hits.into_iter().take(limit).map(bounded_hit).collect();
            Ok(json!({"results": results}).to_string())
        }
    };
    Function::new("web_search", "Searches the web; gives title, URL and snippet of each result", &schema, run)
        .namespace(NAMESPACE)
        .effect(Effect::Reads)
}

fn bounded_hit(hit: WebHit) -> WebHit {
    WebHit {
        title: one_line(&hit.title, TITLE_BYTES),
        url: one_line(&hit.url, URL_BYTES),
        snippet: one_line(&hit.snippet, SNIPPET_BYTES),
    }
}

fn fetch_function(reader: Arc<dyn WebFetch>) -> Function {
    let schema = json!({
        "type": "object",
        "properties": {"url": {"type": "string", "description": "An http or https URL."}},
        "required": ["url"],
    });
    let run = move |invocation: Invocation| {
        let reader = reader.clone();
        async move {
            let url = text_of(&invocation.arguments, "url", URL_BYTES)?;
            check_url(&url)?;
            let page = reader.fetch(url).await?;
            let text = cut(&page.text, PAGE_BYTES);
            let answer = json!({
                "url": one_line(&page.url, URL_BYTES),
                "title": one_line(&page.title, TITLE_BYTES),
                "text": text,
                "truncated": text.len() < page.text.len(),
            });
            Ok(answer.to_string())
        }
    };
    Function::new("web_fetch", "Reads one web page and gives its text", &schema, run)
        .namespace(NAMESPACE)
        .effect(Effect::OpenWorld)
}

/// The text of an argument, within its bound.
pub(crate) fn text_of(arguments: &Value, name: &str, bytes: usize) -> Result<String, String> {
    let text = arguments.get(name).and_then(Value::as_str).unwrap_or_default().trim();
    if text.is_empty() {
        return Err(format!("{name} is empty"));
    }
    if text.len() > bytes {
        return Err(format!("{name} is longer than {bytes} bytes"));
    }
    Ok(text.to_owned())
}

/// How many results a model asks for, within the bounds.
pub(crate) fn limit_of(arguments: &Value, (usual, most): (usize, usize)) -> usize {
    let asked = arguments.get("limit").and_then(Value::as_u64);
    asked.map_or(usual, |asked| usize::try_from(asked).unwrap_or(most)).clamp(1, most)
}

/// Refuses what is no address on the open web, as far as its text tells.
fn check_url(url: &str) -> Result<(), String> {
    let lower = url.to_ascii_lowercase();
    let rest = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"));
    let rest = rest.ok_or("only http and https URLs can be read")?;
    if url.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("the URL holds a character that no URL has".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a URL with credentials is not read".to_owned());
    }
    let host = match authority.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let host = host.trim_end_matches('.');
    if host.is_empty() {
        return Err("the URL names no host".to_owned());
    }
    // A reader's parser would make another host of it than stands here.
    let is_literal = authority.starts_with('[');
    if !host.is_ascii() || host.contains('%') || (is_literal && host.parse::<IpAddr>().is_err()) {
        return Err("the URL names its host in a form that is not read: write it in plain letters".to_owned());
    }
    let is_local_name = host == "localhost" || host.ends_with(".localhost");
    if is_local_name || host.parse().is_ok_and(is_private) || is_odd_number(host) {
        return Err("the URL names a private address, which is not read".to_owned());
    }
    Ok(())
}

/// A number that is no address in the usual form: some resolvers take `2130706433` and `0x7f.1` for one.
fn is_odd_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()));
    is_number && host.parse::<Ipv4Addr>().is_err()
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || a == 0
        || is_shared
}

fn is_private_v6(v6: Ipv6Addr) -> bool {
    let [first, ..] = v6.segments();
    let is_unique_local = first & 0xfe00 == 0xfc00;
    let is_link_local = first & 0xffc0 == 0xfe80;
    let as_v4 = v6.to_ipv4();
    v6.is_loopback()
        || v6.is_unspecified()
        || v6.is_multicast()
        || is_unique_local
        || is_link_local
        || as_v4.is_some_and(is_private_v4)
}

#[cfg(test)]
mod tests;
