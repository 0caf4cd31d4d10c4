//! Pipes that misbehave, between a runtime and a scripted server: lines are late, in pieces, lost, doubled, made up, or
//! the last ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse::mcp::InMemoryServer;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::dice::{Dice, jitter};
use crate::input::LineReader;
use crate::peer::Peer;

/// Bytes that a pipe holds before its writer waits.
const PIPE_BYTES: usize = 64 << 10;
/// How long a stage waits before it lets a line through that is to be lost for now.
const LATE: Duration = Duration::from_secs(75);

type Output = Box<dyn AsyncRead + Send + Unpin>;
type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// What happens to a connection as it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It is opened.
    Sound,
    /// It ends at once.
    Dead,
    /// Nothing is ever said on it.
    Silent,
}

/// What happens to one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// It comes this much later, and what follows behind it.
    Delay(Duration),
    /// It comes in pieces.
    Split,
    /// It is lost.
    Drop,
    /// It comes twice.
    Duplicate,
    /// Something that is no message comes before it.
    Junk,
    /// An error without an id, and an answer to nobody, come before it.
    Stray,
    /// A result of a wrong shape comes in place of an answer.
    Misshape,
    /// The connection ends in the middle of it.
    Cut,
    /// It comes when its caller has given up; others go on.
    Late,
    /// Notices that the tools changed come before it.
    Notices,
}

/// Which way a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    There,
    /// To the runtime.
    Back,
}

/// Decides what happens on the wires of one server.
pub trait Weather: Send + Sync + 'static {
    /// What happens to a connection.
    fn opening(&self, _dice: &mut Dice) -> Opening {
        Opening::Sound
    }

    /// What happens to a line.
    fn twist(&self, _way: Way, _dice: &mut Dice) -> Option<Twist> {
        None
    }

    /// Told of each call as it reaches the server: its parameters.
    fn called(&self, _call: &Value) {}

    /// Told of each call as the runtime writes it.
    fn wrote(&self, _call: &Value) {}
}

/// A scripted server behind wires with a weather.
pub struct FaultyWire {
    peer: Arc<Peer>,
    weather: Arc<dyn Weather>,
    seed: u64,
    name: String,
    connections: AtomicU64,
}

impl std::fmt::Debug for FaultyWire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyWire").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FaultyWire {
    /// Puts wires in front of a server. What happens on them follows from the seed and the name.
    pub fn new(peer: Arc<Peer>, weather: Arc<dyn Weather>, seed: u64, name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { peer, weather, seed, name: name.into(), connections: AtomicU64::new(0) })
    }

    /// The server behind.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    fn dice(&self, what: &str, connection: u64) -> Dice {
        Dice::new(self.seed, &format!("wire/{}/{connection}/{what}", self.name))
    }
}

impl InMemoryServer for FaultyWire {
    /// # Panics
    /// Outside a Tokio runtime.
    fn open(&self) -> (Output, Input) {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let (output, back) = tokio::io::duplex(PIPE_BYTES);
        let (input, there) = tokio::io::duplex(PIPE_BYTES);
        match self.weather.opening(&mut self.dice("opening", connection)) {
            Opening::Sound => {}
            Opening::Dead => return (Box::new(output), Box::new(input)),
            Opening::Silent => {
                // Held until the runtime lets go.
                tokio::spawn(async move {
                    let mut lines = LineReader::new(there);
                    while let Ok(Some(_unheard)) = lines.next().await {}
                    drop(back);
                });
                return (Box::new(output), Box::new(input));
            }
        }
        let (served, to_server) = self.peer.open();
        let stage =
            |way, what| Stage { way, weather: self.weather.clone(), dice: self.dice(what, connection) };
        let (out, home) = (stage(Way::There, "there"), stage(Way::Back, "back"));
        tokio::spawn(async move {
            // The end of either way is the end of the connection.
            tokio::select! {
                biased;
                () = out.carry(there, to_server) => {}
                () = home.carry(served, back) => {}
            }
        });
        (Box::new(output), Box::new(input))
    }
}

/// One way of a connection.
struct Stage {
    way: Way,
    weather: Arc<dyn Weather>,
    dice: Dice,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Over,
}

impl Stage {
    async fn carry<R, W>(mut self, from: R, mut to: W)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut lines = LineReader::new(from);
        let (late, mut overdue) = tokio::sync::mpsc::unbounded_channel::<String>();
        loop {
            let line = tokio::select! {
                biased;
                line = lines.next() => match line {
                    Ok(Some(line)) => Carried::Fresh(line),
                    Ok(None) | Err(_) => return,
                },
                Some(line) = overdue.recv() => Carried::Overdue(line),
            };
            let goes = match line {
                Carried::Fresh(line) => self.take(line, &mut to, &late).await,
                Carried::Overdue(line) => self.pass(&line, &mut to).await,
            };
            if goes == Goes::Over {
                return;
            }
        }
    }

    async fn take<W: AsyncWrite + Unpin>(
        &mut self,
        line: String,
        to: &mut W,
        late: &tokio::sync::mpsc::UnboundedSender<String>,
    ) -> Goes {
        if line.trim().is_empty() {
            return Goes::On;
        }
        if let (Way::There, Some(call)) = (self.way, call_of(&line)) {
            self.weather.wrote(&call);
        }
        jitter(&mut self.dice).await;
        match self.weather.twist(self.way, &mut self.dice) {
            None => self.pass(&line, to).await,
            Some(Twist::Delay(long)) => {
                sleep(long).await;
                self.pass(&line, to).await
            }
            Some(Twist::Split) => self.in_pieces(&line, to).await,
            Some(Twist::Drop) => Goes::On,
            Some(Twist::Duplicate) if self.way == Way::Back => {
                self.pass(&line, to).await;
                self.pass(&line, to).await
            }
            // A line that came twice to a server would be a call that was sent twice, which no wire does.
            Some(Twist::Duplicate) => self.pass(&line, to).await,
            Some(Twist::Junk) => {
                self.write("Listening on port 3000 ...", to).await;
                self.pass(&line, to).await
            }
            Some(Twist::Stray) => {
                self.write(r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"whose?"}}"#, to).await;
                self.write(r#"{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#, to).await;
                self.pass(&line, to).await
            }
            Some(Twist::Misshape) => self.misshapen(&line, to).await,
            Some(Twist::Cut) => {
                let half = line.floor_char_boundary_at(line.len() / 2);
                // The end follows at once, so that nobody needs to hear that it failed.
                let _half = to.write_all(&line.as_bytes()[..half]).await;
                Goes::Over
            }
            Some(Twist::Late) => {
                let late = late.clone();
                tokio::spawn(async move {
                    sleep(LATE).await;
                    // The connection may be over by then.
                    let _over = late.send(line);
                });
                Goes::On
            }
            Some(Twist::Notices) => {
                for _ in 0..20 {
                    self.write(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, to).await;
                }
                self.pass(&line, to).await
            }
        }
    }

    async fn pass<W: AsyncWrite + Unpin>(&mut self, line: &str, to: &mut W) -> Goes {
        if let (Way::There, Some(call)) = (self.way, call_of(line)) {
            self.weather.called(&call);
        }
        self.write(line, to).await
    }

    async fn write<W: AsyncWrite + Unpin>(&self, line: &str, to: &mut W) -> Goes {
        let whole = format!("{line}\n");
        if to.write_all(whole.as_bytes()).await.is_ok() { Goes::On } else { Goes::Over }
    }

    async fn in_pieces<W: AsyncWrite + Unpin>(&mut self, line: &str, to: &mut W) -> Goes {
        if let (Way::There, Some(call)) = (self.way, call_of(line)) {
            self.weather.called(&call);
        }
        let whole = format!("{line}\n");
        let mut left = whole.as_bytes();
        while !left.is_empty() {
            let most = u64::try_from(left.len()).unwrap_or(u64::MAX).min(400);
            let cut = usize::try_from(self.dice.between(1, most)).unwrap_or(1);
            let (piece, rest) = left.split_at(cut);
            if to.write_all(piece).await.is_err() {
                return Goes::Over;
            }
            left = rest;
            jitter(&mut self.dice).await;
        }
        Goes::On
    }

    /// An answer whose result has another shape; anything else passes.
    async fn misshapen<W: AsyncWrite + Unpin>(&mut self, line: &str, to: &mut W) -> Goes {
        match serde_json::from_str::<Value>(line) {
            Ok(mut message) if self.way == Way::Back && message.get("result").is_some() => {
                message["result"] = serde_json::json!({"tools": 7, "content": "none"});
                self.write(&message.to_string(), to).await
            }
            Ok(_) | Err(_) => self.pass(line, to).await,
        }
    }
}

enum Carried {
    Fresh(String),
    Overdue(String),
}

/// The parameters of a call, if the line is one.
fn call_of(line: &str) -> Option<Value> {
    if !line.contains("\"tools/call\"") {
        return None;
    }
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("params").cloned()
}

/// `str::floor_char_boundary` is newer than our oldest compiler.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index.min(self.len())).rev().find(|cut| self.is_char_boundary(*cut)).unwrap_or(0)
    }
}
