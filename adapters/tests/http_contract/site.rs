//! A scripted server behind HTTP, byte by byte, so that it can do what no proper server does.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::script::{Script, Step};

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn tool(&self) -> &str {
        self.body["params"]["name"].as_str().unwrap_or_default()
    }
}

/// What is done instead of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Write(Vec<u8>),
    OneByOne(Vec<u8>),
    Reset,
    Hang,
}

pub(crate) type Fault = Arc<dyn Fn(&Seen) -> Option<Vec<Act>> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Events,
    /// HTTP+SSE.
    Legacy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessions {
    Yes,
    No,
}

pub(crate) const SESSION: &str = "session-0123456789";

struct Inner {
    script: Mutex<Script>,
    kind: Kind,
    sessions: Sessions,
    fault: Fault,
    seen: Mutex<Vec<Seen>>,
    waiting: Mutex<HashMap<String, UnboundedSender<String>>>,
    listeners: Mutex<Vec<UnboundedSender<String>>>,
    over: CancellationToken,
}

/// A running server. Dropping it ends it.
pub(crate) struct Site {
    port: u16,
    inner: Arc<Inner>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.inner.over.cancel();
    }
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    vec![Act::Write(format!("{head}{body}").into_bytes())]
}

pub(crate) fn json_body(body: &str) -> Vec<Act> {
    response("200 OK", "content-type: application/json\r\n", body)
}

pub(crate) fn stream(body: &str) -> Vec<Act> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    vec![Act::Write(format!("{head}{body}").into_bytes())]
}

impl Site {
    pub(crate) async fn start(script: &str, kind: Kind, sessions: Sessions, fault: Fault) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Inner {
            script: Mutex::new(Script::new(script)),
            kind,
            sessions,
            fault,
            seen: Mutex::default(),
            waiting: Mutex::default(),
            listeners: Mutex::default(),
            over: CancellationToken::new(),
        });
        let shared = inner.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = shared.over.cancelled() => return,
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.unwrap();
                        let (over, serving) = (shared.over.clone(), shared.clone());
                        tokio::spawn(async move {
                            tokio::select! {
                                biased;
                                () = over.cancelled() => {}
                                _ = serving.serve(stream) => {}
                            }
                        });
                    }
                }
            }
        });
        Self { port, inner }
    }

    pub(crate) fn url(&self) -> String {
        let path = if self.inner.kind == Kind::Legacy { "sse" } else { "mcp" };
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }
}

impl Inner {
    async fn serve(self: Arc<Self>, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let seen = read(&mut stream).await?;
            self.seen.lock().unwrap().push(seen.clone());
            match (self.fault)(&seen) {
                Some(acts) => return self.act(stream, acts).await,
                None => self.answer(&mut stream, seen).await?,
            }
        }
    }

    async fn act(&self, mut stream: BufReader<TcpStream>, acts: Vec<Act>) -> Option<()> {
        for act in acts {
            match act {
                Act::Write(bytes) => stream.write_all(&bytes).await.ok()?,
                Act::OneByOne(bytes) => {
                    for byte in bytes {
                        stream.write_all(&[byte]).await.ok()?;
                        tokio::task::yield_now().await;
                    }
                }
                Act::Reset => stream.get_ref().set_zero_linger().ok()?,
                Act::Hang => std::future::pending().await,
            }
        }
        Some(())
    }

    async fn answer(self: &Arc<Self>, stream: &mut BufReader<TcpStream>, seen: Seen) -> Option<()> {
        match (self.kind, seen.method.as_str(), seen.path.as_str()) {
            (Kind::Legacy, "GET", "/sse") => self.listen(stream, "event: endpoint\ndata: /message\n\n").await,
            (Kind::Legacy, "POST", "/message") => {
                self.steps(&seen, None)?;
                empty(stream, "202 Accepted").await
            }
            (Kind::Json | Kind::Events, method, "/mcp") => {
                let given = seen.headers.get("mcp-session-id").map(String::as_str);
                let known = self.sessions == Sessions::No || given == Some(SESSION);
                match method {
                    "POST" if known || seen.rpc() == "initialize" => self.post(stream, seen).await,
                    "GET" if known => self.listen(stream, ": quiet\n\n").await,
                    "DELETE" if known => empty(stream, "200 OK").await,
                    _ => empty(stream, "404 Not Found").await,
                }
            }
            _ => empty(stream, "405 Method Not Allowed").await,
        }
    }

    async fn listen(&self, stream: &mut BufReader<TcpStream>, first: &str) -> Option<()> {
        let (sender, mut said) = unbounded_channel();
        self.listeners.lock().unwrap().push(sender);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(format!("{head}{first}").as_bytes()).await.ok()?;
        while let Some(line) = said.recv().await {
            stream.write_all(format!("event: message\r\ndata: {line}\r\n\r\n").as_bytes()).await.ok()?;
        }
        None
    }

    async fn post(self: &Arc<Self>, stream: &mut BufReader<TcpStream>, seen: Seen) -> Option<()> {
        let is_request = seen.body.get("method").is_some() && seen.body.get("id").is_some();
        let (sender, said) = unbounded_channel();
        let id = seen.body["id"].to_string();
        if is_request {
            self.waiting.lock().unwrap().insert(id.clone(), sender.clone());
        }
        self.steps(&seen, Some(&sender).filter(|_| is_request && self.kind == Kind::Events))?;
        drop(sender);
        if !is_request {
            return empty(stream, "202 Accepted").await;
        }
        let session = match (self.sessions, seen.rpc()) {
            (Sessions::Yes, "initialize") => format!("mcp-session-id: {SESSION}\r\n"),
            _ => String::new(),
        };
        if self.kind == Kind::Json {
            json(stream, said, &session).await
        } else {
            events(stream, said, &id, &session).await
        }
    }

    /// Answers go to whoever waits for them, what else is said to `here` or to whoever listens.
    fn steps(&self, seen: &Seen, here: Option<&UnboundedSender<String>>) -> Option<()> {
        for step in self.script.lock().unwrap().steps(&seen.body.to_string()) {
            match step {
                Step::Say(text) => text.lines().for_each(|line| self.say(line, here)),
                Step::Cry(_) | Step::StopReading => {}
                Step::Die(_) => {
                    self.over.cancel();
                    return None;
                }
            }
        }
        Some(())
    }

    fn say(&self, line: &str, here: Option<&UnboundedSender<String>>) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let answered = message.get("method").is_none().then(|| message["id"].to_string());
        let waiting = answered.and_then(|id| self.waiting.lock().unwrap().remove(&id));
        match (waiting, here) {
            (Some(waiting), _) => drop(waiting.send(line.to_owned())),
            (None, Some(here)) => drop(here.send(line.to_owned())),
            (None, None) => {
                self.listeners.lock().unwrap().retain(|listener| listener.send(line.to_owned()).is_ok());
            }
        }
    }
}

async fn json(
    stream: &mut BufReader<TcpStream>,
    mut said: UnboundedReceiver<String>,
    session: &str,
) -> Option<()> {
    let body = said.recv().await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n";
    let head = format!("{head}{session}content-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

async fn events(
    stream: &mut BufReader<TcpStream>,
    mut said: UnboundedReceiver<String>,
    id: &str,
    session: &str,
) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    stream.write_all(format!("{head}{session}\r\n").as_bytes()).await.ok()?;
    loop {
        let line = said.recv().await?;
        let event = format!("data: {line}\n\n");
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.ok()?;
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let answered = message["id"].to_string();
        if message.get("method").is_none() && answered == id {
            return stream.write_all(b"0\r\n\r\n").await.ok();
        }
    }
}

async fn empty(stream: &mut BufReader<TcpStream>, status: &str) -> Option<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.ok()
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Seen { method, path, headers, body })
}
