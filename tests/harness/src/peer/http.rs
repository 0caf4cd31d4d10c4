//! A scripted server behind HTTP/1.1, written byte by byte: Streamable HTTP, or the older HTTP+SSE.
//!
//! `GET /_peer` tells what the server ran, for a test in another process.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::connection::Open;
use super::{Peer, State, keep, lock, process};

mod legacy;
mod request;
mod response;
mod sessions;
mod stream;
mod streamable;

use request::HttpRequest;
use response::{Reply, Sent};
use sessions::Sessions;

/// Connections that are open at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// How long answers have to leave before a fault ends the server.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);
/// Requests that [`HttpPeer::requests`] keeps, the newest ones.
pub const REQUESTS_KEPT: usize = 256;

/// Which of the two a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP (2025-03-26 and later).
    Streamable,
    /// HTTP+SSE (2024-11-05).
    Sse,
}

/// A peer that listens. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct HttpPeer {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// One HTTP request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSeen {
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its headers; names in lower case.
    pub headers: BTreeMap<String, String>,
}

/// What the connections of one listener share.
#[derive(Debug)]
struct Shared {
    state: Arc<State>,
    kind: HttpKind,
    sessions: Mutex<Sessions>,
    seen: Mutex<VecDeque<HttpSeen>>,
}

impl Peer {
    /// Listens at this address (`127.0.0.1:0` for a free port).
    ///
    /// # Errors
    /// The system's own, if it cannot listen there.
    pub async fn listen(&self, address: impl ToSocketAddrs, kind: HttpKind) -> std::io::Result<HttpPeer> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: self.state.clone(),
            kind,
            sessions: Mutex::new(Sessions::new()),
            seen: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(shared.clone(), listener));
        Ok(HttpPeer { shared, address, accepting })
    }

    /// Does what a script has for the start of a process: words on standard error, a child, a signal that is ignored.
    ///
    /// # Errors
    /// A fault that the system refuses.
    pub fn begin_process(&self) -> std::io::Result<()> {
        process::begin(&self.state)
    }
}

impl HttpPeer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that a client is given.
    pub fn url(&self) -> String {
        let http = &self.shared.state.live().script.http;
        let path = match self.shared.kind {
            HttpKind::Streamable => &http.path,
            HttpKind::Sse => &http.sse_path,
        };
        format!("http://{}{path}", self.address)
    }

    /// The last [`REQUESTS_KEPT`] requests, oldest first, those to `/_peer` left out.
    pub fn requests(&self) -> Vec<HttpSeen> {
        lock(&self.shared.seen).iter().cloned().collect()
    }

    /// Sessions that are open now.
    pub fn sessions(&self) -> usize {
        lock(&self.shared.sessions).len()
    }

    /// Forgets every session, as a server does that was started anew.
    pub fn forget_sessions(&self) {
        lock(&self.shared.sessions).clear();
    }

    /// Resolves when a fault ends the server, with the exit status of its process.
    pub async fn ended(&self) -> u8 {
        let mut exited = self.shared.state.exited.subscribe();
        // An error would mean that the sender is gone, and `self` holds it.
        let status = exited.wait_for(Option::is_some).await.ok().and_then(|status| *status).unwrap_or(0);
        tokio::time::sleep(LAST_WORDS).await;
        status
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        self.accepting.abort();
        lock(&self.shared.sessions).clear();
    }
}

impl Shared {
    /// Counts a client that left while its answer was owed.
    fn client_left(&self) {
        self.state.cancellations.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this task: no connection outlives the listener.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _client)) = accepted {
                    let shared = shared.clone();
                    connections.spawn(async move {
                        serve(shared, stream).await;
                        drop(place);
                    });
                }
            }
            Some(_done) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until its client or a fault ends it.
async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut killed = shared.state.killed.subscribe();
    let mut exited = shared.state.exited.subscribe();
    let _open = Open::new(shared.state.clone());
    // Small answers should leave at once; a system that refuses this is only slower.
    let _slower = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let talking = async {
        loop {
            let request = match request::read(&mut read).await {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(status) => {
                    let refused = Reply::text(status, "this is no request that is served here");
                    // The client may be gone, and the connection ends in any case.
                    let _gone = refused.write(&shared, &mut read, &mut write).await;
                    return;
                }
            };
            let reply = answer(&shared, request).await;
            match reply.write(&shared, &mut read, &mut write).await {
                Ok(Sent::Whole) => {}
                Ok(Sent::Last) | Err(_) => return,
                Ok(Sent::Reset) => {
                    let stream = read.into_inner();
                    if let Ok(stream) = stream.reunite(write) {
                        // A system that refuses this closes in order instead.
                        let _in_order = stream.set_zero_linger();
                    }
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = talking => {}
        // The senders live in the state, so these resolve on a kill or a fault only.
        _changed = killed.changed() => lock(&shared.sessions).clear(),
        () = async {
            let _changed = exited.changed().await;
            // The last answer before the end leaves first.
            tokio::time::sleep(LAST_WORDS).await;
        } => lock(&shared.sessions).clear(),
    }
}

async fn answer(shared: &Arc<Shared>, request: HttpRequest) -> Reply {
    if request.path() == "/_peer" {
        return Reply::json(200, &told(shared));
    }
    let seen = HttpSeen {
        method: request.method.clone(),
        path: request.target.clone(),
        headers: request.headers.iter().cloned().collect(),
    };
    keep(&mut lock(&shared.seen), seen, REQUESTS_KEPT);
    let live = shared.state.live();
    let http = &live.script.http;
    let strange = http.require.iter().any(|(name, value)| request.header(name) != Some(value));
    if strange {
        return Reply::text(401, "unauthorized").with("WWW-Authenticate", &http.authenticate);
    }
    match shared.kind {
        HttpKind::Streamable if request.path() == http.path => {
            streamable::answer(shared, &live, request).await
        }
        HttpKind::Sse if request.path() == http.sse_path => legacy::open(shared, &live, &request),
        HttpKind::Sse if request.path() == legacy::MESSAGE_PATH => legacy::take(shared, &live, request).await,
        HttpKind::Streamable | HttpKind::Sse => Reply::text(404, "there is nothing here"),
    }
}

/// What a test in another process may ask.
fn told(shared: &Shared) -> Value {
    let state = &shared.state;
    let requests: Vec<Value> = lock(&shared.seen)
        .iter()
        .map(|seen| json!({"method": seen.method, "path": seen.path, "headers": seen.headers}))
        .collect();
    json!({
        "executions": state.executions.all(),
        "calls": lock(&state.calls).iter().collect::<Vec<_>>(),
        "methods": lock(&state.methods).iter().collect::<Vec<_>>(),
        "answers": lock(&state.answers).iter().collect::<Vec<_>>(),
        "cancellations": state.cancellations.load(std::sync::atomic::Ordering::Acquire),
        "sessions": lock(&shared.sessions).len(),
        "requests": requests,
    })
}

#[cfg(test)]
mod tests;
