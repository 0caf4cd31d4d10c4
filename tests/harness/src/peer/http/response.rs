//! Writes one HTTP/1.1 response, also a wrong one.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

use super::sessions::HttpSession;
use super::stream::{Next, Stream};
use super::{HttpKind, Shared};
use crate::peer::fault::{Hang, HttpFault, Reset, StreamEnd};
use crate::peer::frame::{Frame, Manner};
use crate::peer::lock;

/// How long bytes have to leave before a connection is reset: the reset throws away what is left.
const BEFORE_RESET: Duration = Duration::from_millis(20);

/// Whether the connection serves another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Whole,
    Last,
    Reset,
}

/// One response.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    reset: Option<Reset>,
    hang: Option<Hang>,
    delay: Duration,
}

#[derive(Debug)]
pub(super) enum Body {
    Whole(Vec<u8>),
    /// So many MiB of blanks.
    Blanks(u64),
    /// The answer on a stream as one JSON body.
    Json(Arc<Stream>, Arc<HttpSession>),
    Events(Events),
}

/// An event stream.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) stream: Arc<Stream>,
    /// The first event that is sent.
    pub(super) from: usize,
    /// How it goes without its answer.
    pub(super) end: Option<StreamEnd>,
    /// The event that stands before all others.
    pub(super) first: Option<String>,
    /// What the stream keeps alive; with a session that nobody else holds, it ends with its client.
    pub(super) held: Arc<HttpSession>,
}

impl Reply {
    pub(super) fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, reset: None, hang: None, delay: Duration::ZERO }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::new(status, Body::Whole(Vec::new()))
    }

    pub(super) fn text(status: u16, words: &str) -> Self {
        Self::new(status, Body::Whole(words.as_bytes().to_vec())).with("Content-Type", "text/plain")
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        let bytes = body.to_string().into_bytes();
        Self::new(status, Body::Whole(bytes)).with("Content-Type", "application/json")
    }

    pub(super) fn answer(stream: Arc<Stream>, session: Arc<HttpSession>) -> Self {
        Self::new(200, Body::Json(stream, session)).with("Content-Type", "application/json")
    }

    pub(super) fn events(events: Events) -> Self {
        Self::new(200, Body::Events(events))
            .with("Content-Type", "text/event-stream")
            .with("Cache-Control", "no-cache")
    }

    /// No answer, ever.
    pub(super) fn silence() -> Self {
        Self { hang: Some(Hang::Head), ..Self::empty(200) }
    }

    /// Sets a header in the place of one of the same name.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What a script makes of it.
    pub(super) fn spoilt(mut self, fault: &HttpFault) -> Self {
        if let Some(status) = fault.status {
            self.status = status;
        }
        match (&fault.body, fault.body_mib) {
            (_, Some(mib)) => self.body = Body::Blanks(mib),
            (Some(text), None) => self.body = Body::Whole(text.clone().into_bytes()),
            (None, None) => {}
        }
        (self.reset, self.hang) = (fault.reset, fault.hang);
        self.delay = Duration::from_millis(fault.delay_ms);
        fault.headers.iter().fold(self, |reply, (name, value)| reply.with(name, value))
    }

    /// Writes it, and watches meanwhile whether the client is still there.
    pub(super) async fn write<R, W>(self, shared: &Shared, read: &mut R, write: &mut W) -> io::Result<Sent>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (session, is_owed) = match &self.body {
            Body::Json(_, session) => (Some(session.clone()), true),
            Body::Events(events) => (Some(events.held.clone()), events.stream.number > 0),
            Body::Whole(_) | Body::Blanks(_) => (None, false),
        };
        let writing = Writing { shared, manner: Manner::of(&shared.state.live()), reply: self };
        let sent = tokio::select! {
            biased;
            sent = writing.run(write) => sent,
            () = gone(read) => {
                // A request without a session ends with its response.
                if is_owed && session.as_ref().is_some_and(|session| session.id.is_empty()) {
                    shared.client_left();
                }
                Err(io::ErrorKind::BrokenPipe.into())
            }
        };
        if let (HttpKind::Sse, Some(session)) = (shared.kind, session) {
            // The stream was the session.
            lock(&shared.sessions).close(&session.id);
        }
        sent
    }
}

/// Resolves when the client has closed its side; a request that it sends early waits.
async fn gone<R: AsyncBufRead + Unpin>(read: &mut R) {
    match read.fill_buf().await {
        Ok([]) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

struct Writing<'a> {
    shared: &'a Shared,
    manner: Manner,
    reply: Reply,
}

impl Writing<'_> {
    async fn run<W: AsyncWrite + Unpin>(self, write: &mut W) -> io::Result<Sent> {
        if !self.reply.delay.is_zero() {
            tokio::time::sleep(self.reply.delay).await;
        }
        match (self.reply.hang, self.reply.reset) {
            (Some(Hang::Head), _) => return std::future::pending().await,
            (Some(Hang::Body), _) => {
                let head = self.head(&[("Content-Length", "1048576")]);
                self.manner.write(write, head.as_bytes()).await?;
                return std::future::pending().await;
            }
            (None, Some(Reset::BeforeAnswer)) => return Ok(Sent::Reset),
            (None, Some(Reset::InHead)) => {
                let head = self.head(&[]);
                let half = head.as_bytes().get(..head.len() / 2).unwrap_or_default();
                self.manner.write(write, half).await?;
                return Ok(reset().await);
            }
            (None, Some(Reset::InBody) | None) => {}
        }
        match &self.reply.body {
            Body::Whole(bytes) => self.whole(write, bytes).await,
            Body::Blanks(mib) => self.blanks(write, *mib).await,
            Body::Json(stream, session) => match answer_of(stream, session).await {
                Some(text) => {
                    let text = format!("{}{text}", self.manner.mark(0));
                    self.whole(write, text.as_bytes()).await
                }
                // It was cancelled: there is nothing to say.
                None => Ok(Sent::Last),
            },
            Body::Events(events) => self.events(write, events).await,
        }
    }

    fn head(&self, framing: &[(&str, &str)]) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.reply.status, reason(self.reply.status));
        let said = self.reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let framing = framing.iter().copied().filter(|(name, _)| {
            // A script that frames the body itself is followed.
            !self.reply.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
        });
        for (name, value) in said.chain(framing) {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    async fn whole<W: AsyncWrite + Unpin>(&self, write: &mut W, bytes: &[u8]) -> io::Result<Sent> {
        let length = bytes.len().to_string();
        let head = match self.reply.status {
            204 | 304 => self.head(&[]),
            _ => self.head(&[("Content-Length", &length)]),
        };
        let is_reset = self.reply.reset == Some(Reset::InBody);
        let sent = if is_reset { bytes.get(..bytes.len() / 2).unwrap_or_default() } else { bytes };
        self.manner.write(write, &[head.as_bytes(), sent].concat()).await?;
        Ok(if is_reset { reset().await } else { Sent::Whole })
    }

    async fn blanks<W: AsyncWrite + Unpin>(&self, write: &mut W, mib: u64) -> io::Result<Sent> {
        let length = mib.saturating_mul(1 << 20).to_string();
        self.manner.write(write, self.head(&[("Content-Length", &length)]).as_bytes()).await?;
        let piece = vec![b' '; 1 << 16];
        for _ in 0..mib.saturating_mul(16) {
            write.write_all(&piece).await?;
        }
        write.flush().await?;
        Ok(Sent::Whole)
    }

    async fn events<W: AsyncWrite + Unpin>(&self, write: &mut W, events: &Events) -> io::Result<Sent> {
        let http = &self.shared.state.live().script.http;
        let end = self.manner.newline();
        self.manner.write(write, self.head(&[("Transfer-Encoding", "chunked")]).as_bytes()).await?;
        let mut start = self.manner.mark(0).to_owned();
        if let Some(retry) = http.retry_ms {
            // Writing to a string cannot fail.
            let _ = write!(start, "retry: {retry}{end}{end}");
        }
        start.push_str(events.first.as_deref().unwrap_or_default());
        if events.end.is_some() {
            // Writing to a string cannot fail.
            let _ = write!(start, "id: {}.{}{end}data:{end}{end}", events.stream.number, events.from);
        }
        self.chunk(write, start.as_bytes()).await?;
        match events.end {
            Some(StreamEnd::Ends) => return self.last(write).await,
            Some(StreamEnd::Resets) => return Ok(reset().await),
            Some(StreamEnd::Hangs) => return std::future::pending().await,
            None => {}
        }
        let mut index = events.from;
        while let Next::Event(at, frame) = events.stream.next(index).await {
            index = at + 1;
            let id = if http.event_ids {
                format!("id: {}.{index}{end}", events.stream.number)
            } else {
                String::new()
            };
            let text = match &frame {
                Frame::Answer(text) => {
                    let junk: String =
                        self.manner.junk.iter().map(|line| format!("data: {line}{end}{end}")).collect();
                    format!("{junk}{id}data: {text}{end}{end}")
                }
                Frame::Notice(text) => format!("{id}data: {text}{end}{end}"),
                Frame::Raw(text) => text.clone(),
                Frame::Flood(mib) => {
                    self.flood(write, *mib).await?;
                    format!("{end}{end}")
                }
            };
            if self.reply.reset == Some(Reset::InBody) {
                let half = text.as_bytes().get(..text.len() / 2).unwrap_or_default();
                self.chunk(write, half).await?;
                return Ok(reset().await);
            }
            self.chunk(write, text.as_bytes()).await?;
        }
        self.last(write).await
    }

    async fn flood<W: AsyncWrite + Unpin>(&self, write: &mut W, mib: u64) -> io::Result<()> {
        let piece = vec![b'x'; 1 << 16];
        self.chunk(write, b"data: ").await?;
        for _ in 0..mib.saturating_mul(16) {
            write.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            write.write_all(&piece).await?;
            write.write_all(b"\r\n").await?;
        }
        write.flush().await
    }

    async fn chunk<W: AsyncWrite + Unpin>(&self, write: &mut W, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            // An empty chunk would end the body.
            return Ok(());
        }
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.manner.write(write, &chunk).await
    }

    async fn last<W: AsyncWrite + Unpin>(&self, write: &mut W) -> io::Result<Sent> {
        self.manner.write(write, b"0\r\n\r\n").await?;
        Ok(Sent::Whole)
    }
}

/// The answer on a stream; what else is said there goes to the session's own.
async fn answer_of(stream: &Stream, session: &HttpSession) -> Option<String> {
    let mut index = 0;
    loop {
        match stream.next(index).await {
            Next::Event(_, Frame::Answer(text)) => return Some(text),
            Next::Event(at, frame @ (Frame::Notice(_) | Frame::Raw(_) | Frame::Flood(_))) => {
                // The session keeps the other end for as long as it lives.
                let _kept_by_the_session = session.out.send(frame).await;
                index = at + 1;
            }
            Next::End => return None,
        }
    }
}

async fn reset() -> Sent {
    tokio::time::sleep(BEFORE_RESET).await;
    Sent::Reset
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        301 | 302 | 307 | 308 => "Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500..=599 => "Server Error",
        _ => "Status",
    }
}
