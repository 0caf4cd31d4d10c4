//! A provider behind HTTP, byte by byte: it refuses what the real ones refuse, and answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::strict;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// What is answered to one request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A stream of events.
    Events(String),
    /// The same, one byte after the other.
    Bytes(String),
    /// The start of a stream, and then nothing.
    Hang(String),
    /// A status, with headers, and a body.
    Refuse { status: u16, headers: &'static str, body: String },
    /// The connection breaks before anything is said.
    Reset,
}

struct Inner {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    /// Connections that the other side has closed while an answer hung.
    closed: watch::Sender<usize>,
}

/// A running provider. It ends with the test's runtime.
pub(crate) struct Provider {
    port: u16,
    inner: Arc<Inner>,
}

impl Provider {
    /// Gives these answers, one a request; a request that a provider would refuse is refused instead.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let answers = Mutex::new(answers.into_iter().collect());
        let inner = Arc::new(Inner { answers, seen: Mutex::default(), closed: watch::Sender::new(0) });
        let shared = inner.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let inner = shared.clone();
                // A client that goes away ends its connection, and nothing else.
                tokio::spawn(async move { drop(serve(stream, &inner).await) });
            }
        });
        Self { port, inner }
    }

    /// Where the API begins.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().expect("nothing panics").clone()
    }

    pub(crate) fn closed(&self) -> watch::Receiver<usize> {
        self.inner.closed.subscribe()
    }
}

async fn serve(stream: TcpStream, inner: &Inner) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let Some(seen) = request(&mut stream).await? else { return Ok(()) };
    let refused = if seen.path.starts_with("/v1/messages") {
        strict::anthropic(&seen.body).err().or_else(|| {
            let lacks = |header: &&&str| !seen.headers.contains_key(**header);
            ["x-api-key", "anthropic-version"]
                .iter()
                .find(lacks)
                .map(|header| format!("{header}: header is required"))
        })
    } else if seen.path.starts_with("/v1/chat/completions") {
        strict::openai(&seen.body).err()
    } else {
        Some(format!("there is nothing at {}", seen.path))
    };
    inner.seen.lock().expect("nothing panics").push(seen);
    let answer = match refused {
        Some(words) => {
            let body = json!({"error": {"type": "invalid_request_error", "message": words}}).to_string();
            Answer::Refuse { status: 400, headers: "", body }
        }
        None => inner.answers.lock().expect("nothing panics").pop_front().unwrap_or(Answer::Reset),
    };
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n";
    match answer {
        Answer::Events(events) => stream.write_all(format!("{head}{events}").as_bytes()).await?,
        Answer::Bytes(events) => {
            stream.write_all(head.as_bytes()).await?;
            for byte in events.bytes() {
                stream.write_all(&[byte]).await?;
                stream.flush().await?;
            }
        }
        Answer::Hang(events) => {
            stream.write_all(format!("{head}{events}").as_bytes()).await?;
            stream.flush().await?;
            // Ends when the client closes.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            inner.closed.send_modify(|closed| *closed += 1);
        }
        Answer::Refuse { status, headers, body } => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Said\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await?;
        }
        Answer::Reset => {}
    }
    stream.shutdown().await
}

async fn request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Seen>> {
    let (mut line, mut headers) = (String::new(), BTreeMap::new());
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Seen { path, headers, body }))
}
