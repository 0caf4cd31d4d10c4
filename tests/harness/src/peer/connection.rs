//! A conversation over a pair of streams: lines in, lines out, and the requests that run meanwhile.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::State;
use super::fault::Fault;
use super::frame::{Flow, Frame, Out, write_lines};
use super::session::{Incoming, Session, read};
use crate::input::LineReader;

/// Frames that wait for a client that does not read; beyond that the peer stops reading, too.
pub(super) const FRAMES_AHEAD: usize = 256;

/// Serves one connection until its input ends, a fault ends it, or the peer is killed.
pub(super) async fn serve<R, W>(state: Arc<State>, input: R, output: W)
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    let mut killed = state.killed.subscribe();
    let announced = state.announced.subscribe();
    let _open = Open::new(state.clone());
    let (out, frames) = mpsc::channel(FRAMES_AHEAD);
    let session = Session::new(state.clone(), out.clone());
    let reading = async move {
        let announcing = session.clone().announce(announced);
        tokio::select! {
            () = run(session, LineReader::new(input), out) => {}
            // Nobody reads any more.
            () = announcing => {}
        }
    };
    let writing = write_lines(output, frames, || state.live());
    tokio::select! {
        // The sender lives in the state, so this resolves on a kill only.
        _changed = killed.changed() => {}
        ((), ()) = async { tokio::join!(reading, writing) } => {}
    }
}

/// Counts a connection for as long as it is open.
pub(super) struct Open(Arc<State>);

impl Open {
    pub(super) fn new(state: Arc<State>) -> Self {
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

async fn run<R: AsyncRead + Unpin>(session: Arc<Session>, mut lines: LineReader<R>, out: Out) {
    let mut flow = if session.is_used_up() { Flow::End } else { Flow::On };
    let mut requests = JoinSet::new();
    while flow == Flow::On {
        flow = tokio::select! {
            line = lines.next() => match line {
                Ok(Some(line)) => take(&session, &line, &out, &mut requests).await,
                // A broken input is an ended one.
                Ok(None) | Err(_) => at_end(&session.state).await,
            },
            // One that panicked answers nothing.
            Some(done) = requests.join_next() => done.unwrap_or(Flow::On),
        };
    }
}

async fn at_end(state: &State) -> Flow {
    let ignores = state.live().is_on(|fault| if let Fault::IgnoreEof(on) = fault { Some(*on) } else { None });
    if ignores && state.is_process.load(Ordering::Acquire) {
        std::future::pending::<()>().await;
    }
    Flow::End
}

async fn take(session: &Arc<Session>, line: &str, out: &Out, requests: &mut JoinSet<Flow>) -> Flow {
    if line.trim().is_empty() {
        return Flow::On;
    }
    match read(line, Vec::new()) {
        Incoming::Request(request) => {
            let live = session.state.live();
            let plan = live.plan(&request.method, request.tool());
            session.state.saw(&request.method);
            // Answers at once what can be answered at once, in order; the rest runs beside the next requests.
            let mut work = Box::pin(session.clone().respond(live, request, plan, out.clone()));
            match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                Poll::Ready(flow) => flow,
                Poll::Pending => {
                    requests.spawn(work);
                    Flow::On
                }
            }
        }
        Incoming::Notice { method, params } => {
            session.state.saw(&method);
            let plan = session.state.live().plan(&method, None);
            session.note(&method, &params);
            session.after_note(&plan, out).await
        }
        Incoming::Response(response) => {
            session.hear(response);
            Flow::On
        }
        Incoming::Bad(words) => match out.send(Frame::Answer(words.to_string())).await {
            Ok(()) => Flow::On,
            // The client reads no more.
            Err(_) => Flow::End,
        },
    }
}
