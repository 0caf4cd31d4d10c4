//! One connection of a scripted server: lines in, lines out, and the calls that run meanwhile.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::State;
use super::answer::{Answer, Request, answer, error};
use crate::input::LineReader;

/// Lines that wait for a client that does not read; beyond that the peer stops reading, too.
const LINES_AHEAD: usize = 256;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    End,
}

/// Serves one connection until its input ends, a fault ends it, or the peer is killed.
pub(super) async fn serve<R, W>(state: Arc<State>, read: R, write: W)
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    let mut killed = state.killed.subscribe();
    let _open = Open::new(state.clone());
    let (out, lines) = mpsc::channel(LINES_AHEAD);
    let reading = Connection::new(state, out).run(LineReader::new(read));
    tokio::select! {
        // The sender lives in the state, so this resolves on a kill only.
        _changed = killed.changed() => {}
        ((), ()) = async { tokio::join!(reading, write_all(write, lines)) } => {}
    }
}

/// Counts a connection for as long as it is open.
struct Open(Arc<State>);

impl Open {
    fn new(state: Arc<State>) -> Self {
        state.open.fetch_add(1, Ordering::AcqRel);
        state.opened.fetch_add(1, Ordering::AcqRel);
        Self(state)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Writes until nobody sends or nobody reads.
async fn write_all<W: AsyncWrite + Unpin>(mut write: W, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if write.write_all(line.as_bytes()).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

struct Connection {
    state: Arc<State>,
    out: mpsc::Sender<String>,
    /// Requests that could not be answered at once.
    calls: JoinSet<(String, Answer)>,
    /// The same by the text of their ids, for cancel notices.
    running: HashMap<String, AbortHandle>,
    /// Requests answered, for the fault that counts them.
    answered: u64,
    announced: watch::Receiver<u64>,
    announce_at: Option<Instant>,
}

impl Connection {
    fn new(state: Arc<State>, out: mpsc::Sender<String>) -> Self {
        let announced = state.announced.subscribe();
        Self {
            state,
            out,
            calls: JoinSet::new(),
            running: HashMap::new(),
            answered: 0,
            announced,
            announce_at: None,
        }
    }

    async fn run<R: AsyncRead + Unpin>(mut self, mut lines: LineReader<R>) {
        let mut flow = if self.is_used_up() { Flow::End } else { Flow::On };
        while flow == Flow::On {
            let announce_at = self.announce_at;
            let due = async move {
                match announce_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            flow = tokio::select! {
                line = lines.next() => match line {
                    Ok(Some(line)) => self.take(&line).await,
                    // A broken input is an ended one.
                    Ok(None) | Err(_) => Flow::End,
                },
                Some(done) = self.calls.join_next() => match done {
                    Ok((id, answer)) => {
                        self.running.remove(&id);
                        self.settle(answer).await
                    }
                    // Cancelled: it gets no answer.
                    Err(_) => Flow::On,
                },
                _changed = self.announced.changed() => self.say_tools_changed().await,
                () = due => {
                    self.announce_at = None;
                    self.say_tools_changed().await
                }
            };
        }
    }

    async fn take(&mut self, line: &str) -> Flow {
        if line.trim().is_empty() {
            return Flow::On;
        }
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return self.say(&error(Value::Null, PARSE_ERROR, "this is not JSON")).await;
        };
        let Value::Object(mut fields) = message else {
            return self.say(&error(Value::Null, INVALID_REQUEST, "a message is one object")).await;
        };
        let params = fields.remove("params").unwrap_or_else(|| json!({}));
        match (fields.remove("id"), fields.remove("method")) {
            (Some(id), Some(Value::String(method))) => self.ask(Request { id, method, params }).await,
            (None, Some(Value::String(method))) => {
                self.note(&method, &params);
                Flow::On
            }
            // The peer asks nothing, so an answer belongs to nothing.
            (Some(_), None) => Flow::On,
            (_, _) => self.say(&error(Value::Null, INVALID_REQUEST, "a message has a method")).await,
        }
    }

    /// Answers at once what can be answered at once, in order; the rest runs beside the next requests.
    async fn ask(&mut self, request: Request) -> Flow {
        let id = request.id.to_string();
        let state = self.state.clone();
        let mut work = Box::pin(async move { answer(&state, request).await });
        match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            Poll::Ready(answer) => self.settle(answer).await,
            Poll::Pending => {
                let key = id.clone();
                let handle = self.calls.spawn(async move { (key, work.await) });
                self.running.insert(id, handle);
                Flow::On
            }
        }
    }

    fn note(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                let after = self.state.live().behaviour.list_changed_after;
                self.announce_at = after.map(|after| Instant::now() + after);
            }
            "notifications/cancelled" => {
                self.state.cancellations.fetch_add(1, Ordering::AcqRel);
                let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(call) = self.running.remove(&id) {
                    call.abort();
                }
            }
            // Any other notice asks for nothing.
            _ => {}
        }
    }

    async fn settle(&mut self, answer: Answer) -> Flow {
        match answer {
            Answer::Say(response) => {
                self.answered += 1;
                let said = self.say(&response).await;
                if self.is_used_up() { Flow::End } else { said }
            }
            Answer::Silence => Flow::On,
            Answer::Exit => Flow::End,
        }
    }

    fn is_used_up(&self) -> bool {
        self.state.live().behaviour.exit_after.is_some_and(|most| self.answered >= most)
    }

    async fn say_tools_changed(&mut self) -> Flow {
        let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        self.send(format!("{notice}\n")).await
    }

    async fn say(&mut self, response: &Value) -> Flow {
        let live = self.state.live();
        self.send(format!("{}{response}\n", live.behaviour.junk)).await
    }

    async fn send(&mut self, text: String) -> Flow {
        match self.out.send(text).await {
            Ok(()) => Flow::On,
            // The client reads no more.
            Err(_) => Flow::End,
        }
    }
}
