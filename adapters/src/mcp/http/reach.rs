//! Owns the HTTP client of one connection: which hosts it reaches, what it tells whom, and where it follows.
//!
//! Redirects are followed here and not in the client, since each hop is asked of the policy and what is secret goes to
//! the server's own origin only.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_messages::server::Proxies;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, Method, Request, Response, StatusCode, Url};

use super::fault::Fault;
use crate::policy::{Approach, Gate};

/// Redirects that one request follows.
const REDIRECTS_MAX: usize = 5;
/// Until a host counts as unreachable.
const TCP_WITHIN: Duration = Duration::from_secs(10);
/// How often a quiet connection is looked after, so that a host that vanished is found.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Headers of one answer.
const HEADERS_MAX: usize = 100;
/// Addresses of one host.
const ADDRESSES_MAX: usize = 32;
/// Hosts that the policy has allowed and that are not asked again within one connection.
const ALLOWED_MAX: usize = 64;

/// Where requests go, with what every one of them carries.
pub(in crate::mcp) struct Reach {
    client: Client,
    home: Url,
    /// For the server's own origin only.
    headers: HeaderMap,
    gate: Gate,
    proxies: Proxies,
    allowed: Allowed,
}

/// Hosts of which the policy was asked before the resolver, with the addresses that it was asked about: what a proxy
/// resolves has none. The resolver gives these and no others, so that a name cannot mean something else by then.
#[derive(Clone, Default)]
struct Allowed(Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>);

impl Allowed {
    fn get(&self, host: &str) -> Option<Vec<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }

    fn insert(&self, host: String, addresses: Vec<IpAddr>) {
        let mut allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.len() >= ALLOWED_MAX {
            // Whichever goes is asked again.
            allowed.pop_first();
        }
        allowed.insert(host, addresses);
    }
}

/// One request.
#[derive(Clone)]
pub(in crate::mcp) struct Order {
    /// The method.
    pub(in crate::mcp) method: Method,
    /// Where.
    pub(in crate::mcp) url: Url,
    /// Headers that anybody may see.
    pub(in crate::mcp) plain: HeaderMap,
    /// Headers for the server's own origin only.
    pub(in crate::mcp) secret: HeaderMap,
    /// The body, if there is one.
    pub(in crate::mcp) body: Option<bytes::Bytes>,
}

/// What a connector knows of a server.
#[derive(Clone)]
pub(in crate::mcp) struct Place {
    /// Where, without user and password.
    pub(in crate::mcp) home: Url,
    /// Headers of every request, all sensitive.
    pub(in crate::mcp) headers: HeaderMap,
    /// Who is asked first.
    pub(in crate::mcp) gate: Gate,
    /// Whether proxies are used.
    pub(in crate::mcp) proxies: Proxies,
}

impl Reach {
    /// Builds a client of its own, so that no connection of an ended one is used again. Reading the certificates of
    /// the machine blocks, so it is done aside.
    pub(in crate::mcp) async fn open(place: Place) -> Result<Self, Fault> {
        let Place { home, headers, gate, proxies } = place;
        let allowed = Allowed::default();
        let names = Arc::new(Names { gate: gate.clone(), proxies, allowed: allowed.clone() });
        let built = tokio::task::spawn_blocking(move || client(names, proxies)).await;
        let client = match built {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Fault::of(&error)),
            Err(_panicked) => {
                let reason = "the HTTP client could not be built: with the feature `tls-no-provider`, install a rustls crypto provider first";
                return Err(Fault::Malformed(reason.to_owned()));
            }
        };
        Ok(Self { client, home, headers, gate, proxies, allowed })
    }

    /// The server's URL.
    pub(in crate::mcp) fn home(&self) -> &Url {
        &self.home
    }

    /// Sends a request and follows redirects; any other status is an answer.
    pub(in crate::mcp) async fn send(&self, order: Order) -> Result<Response, Fault> {
        let mut url = order.url.clone();
        let mut at_home = true;
        for _ in 0..=REDIRECTS_MAX {
            at_home &= is_same_origin(&url, &self.home);
            self.ask(&url).await?;
            let mut request = Request::new(order.method.clone(), url.clone());
            let headers = request.headers_mut();
            if at_home {
                headers.extend(self.headers.clone());
                headers.extend(order.secret.clone());
            }
            headers.extend(order.plain.clone());
            *request.body_mut() = order.body.clone().map(Into::into);
            let response = self.client.execute(request).await.map_err(|error| Fault::of(&error))?;
            match next_hop(&response, &url)? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(Fault::Malformed(format!("it redirects more than {REDIRECTS_MAX} times")))
    }

    /// Sends a request with its plain headers alone, and follows nothing.
    #[cfg(feature = "mcp-oauth")]
    pub(in crate::mcp) async fn send_once(&self, order: &Order, url: &Url) -> Result<Response, Fault> {
        self.ask(url).await?;
        let mut request = Request::new(order.method.clone(), url.clone());
        request.headers_mut().extend(order.plain.clone());
        *request.body_mut() = order.body.clone().map(Into::into);
        self.client.execute(request).await.map_err(|error| Fault::of(&error))
    }

    /// Asks the policy where the resolver will not: once a host.
    async fn ask(&self, url: &Url) -> Result<(), Fault> {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let addresses = match (literal, self.proxies) {
            (Some(address), _) => vec![address],
            (None, Proxies::None) => return Ok(()),
            (None, Proxies::FromEnvironment) => Vec::new(),
        };
        if self.allowed.get(host).is_some() {
            return Ok(());
        }
        let addresses = match literal {
            Some(_) => addresses,
            // Where only the proxy can resolve names, the policy hears of no address.
            None => lookup(host).await.unwrap_or_default(),
        };
        let approach = Approach::Connect { host: host.to_owned(), addresses: addresses.clone() };
        self.gate.ask(approach).await.map_err(Fault::Refused)?;
        self.allowed.insert(host.to_owned(), addresses);
        Ok(())
    }
}

fn client(names: Arc<Names>, proxies: Proxies) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("pilothouse/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(TCP_WITHIN)
        .tcp_keepalive(TCP_KEEPALIVE)
        .http1_only()
        .http1_max_headers(HEADERS_MAX)
        .dns_resolver(names);
    match proxies {
        Proxies::None => builder.no_proxy().build(),
        Proxies::FromEnvironment => builder.build(),
    }
}

/// Whether both are one server to a browser: scheme, host and port.
pub(in crate::mcp) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Where a response sends us. The method stays: a GET would be another request than the one that was meant.
pub(in crate::mcp) fn next_hop(response: &Response, from: &Url) -> Result<Option<Url>, Fault> {
    let location = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
    hop(response.status(), location, from)
}

fn hop(status: StatusCode, location: Option<&str>, from: &Url) -> Result<Option<Url>, Fault> {
    match status {
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {}
        _ => return Ok(None),
    }
    let Some(target) = location else {
        return Err(Fault::Malformed("it redirects to nowhere".to_owned()));
    };
    let Ok(mut target) = from.join(target) else {
        return Err(Fault::Malformed("it redirects to what is no URL".to_owned()));
    };
    match (from.scheme(), target.scheme()) {
        ("http" | "https", "https") | ("http", "http") => {}
        _ => {
            return Err(Fault::Malformed(
                "it redirects away from https; the request was not sent there".to_owned(),
            ));
        }
    }
    // Whoever redirects does not choose credentials.
    if target.set_username("").is_err() || target.set_password(None).is_err() {
        return Err(Fault::Malformed("it redirects to what is no URL".to_owned()));
    }
    Ok(Some(target))
}

async fn lookup(host: &str) -> std::io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((host, 0)).await?;
    Ok(found.map(|address| address.ip()).take(ADDRESSES_MAX).collect())
}

/// Resolves names, and asks the policy about what they mean: the connection goes to the addresses that were asked.
struct Names {
    gate: Gate,
    proxies: Proxies,
    allowed: Allowed,
}

impl Names {
    async fn addresses(self, host: String) -> Result<Vec<IpAddr>, Box<dyn std::error::Error + Send + Sync>> {
        match (self.proxies, self.allowed.get(&host)) {
            (Proxies::FromEnvironment, Some(addresses)) if !addresses.is_empty() => return Ok(addresses),
            // Every host that is meant was asked about, so this one is the proxy's.
            (Proxies::FromEnvironment, None) => return Ok(lookup(&host).await?),
            // Nobody but us could resolve it then, and now somebody can; or nobody was asked yet.
            (Proxies::FromEnvironment, Some(_)) | (Proxies::None, _) => {}
        }
        let addresses = lookup(&host).await?;
        self.gate.ask(Approach::Connect { host, addresses: addresses.clone() }).await?;
        Ok(addresses)
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let (gate, proxies, allowed) = (self.gate.clone(), self.proxies, self.allowed.clone());
        let names = Self { gate, proxies, allowed };
        Box::pin(async move {
            let addresses = names.addresses(name.as_str().to_owned()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests;
