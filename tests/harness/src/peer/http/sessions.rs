//! The sessions of a listener, and the streams of each.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::stream::Stream;
use crate::peer::connection::FRAMES_AHEAD;
use crate::peer::frame::{Frame, Out};
use crate::peer::session::Session;
use crate::peer::{State, lock};

/// Sessions of a listener; the oldest go, as if they had been ended.
const SESSIONS_MAX: usize = 1024;
/// Streams of a session that are kept for `Last-Event-ID`; the oldest go.
const STREAMS_KEPT: usize = 64;

/// All sessions of one listener. Dropping one ends what runs in it.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Differs from start to start, so that an id of an earlier listener is unknown.
    start: u128,
    made: u64,
    open: HashMap<String, Arc<HttpSession>>,
    order: VecDeque<String>,
}

/// One session over HTTP.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) id: String,
    pub(super) session: Arc<Session>,
    /// What belongs to no request: the stream of `GET`.
    pub(super) main: Arc<Stream>,
    /// Where that goes.
    pub(super) out: Out,
    streams: Mutex<VecDeque<Arc<Stream>>>,
    numbers: AtomicU64,
    /// Requests that run whether or not their client still reads.
    work: Mutex<JoinSet<()>>,
    /// Keeps and announces.
    keeper: AbortHandle,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Self { start, made: 0, open: HashMap::new(), order: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.order.clear();
    }

    pub(super) fn open(&mut self, state: &Arc<State>) -> Arc<HttpSession> {
        self.made += 1;
        let session = HttpSession::new(format!("{:x}-{}", self.start, self.made), state);
        if self.order.len() == SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.order.push_back(session.id.clone());
        self.open.insert(session.id.clone(), session.clone());
        session
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.open.get(id).cloned()
    }

    pub(super) fn close(&mut self, id: &str) {
        self.open.remove(id);
        self.order.retain(|one| one != id);
    }
}

impl HttpSession {
    /// A session with its own stream for what belongs to no request.
    pub(super) fn new(id: String, state: &Arc<State>) -> Arc<Self> {
        let (out, frames) = mpsc::channel(FRAMES_AHEAD);
        let session = Session::new(state.clone(), out.clone());
        let main = Arc::new(Stream::new(0));
        let (kept, announcing) = (main.clone(), session.clone().announce(state.announced.subscribe()));
        let keeper = tokio::spawn(async move {
            // What is announced goes through the channel that is kept, so the latter ends last.
            tokio::join!(kept.keep(frames), announcing);
        });
        Arc::new(Self {
            id,
            session,
            main,
            out,
            streams: Mutex::default(),
            numbers: AtomicU64::new(0),
            work: Mutex::default(),
            keeper: keeper.abort_handle(),
        })
    }

    /// A stream for one request.
    pub(super) fn stream(&self) -> (Arc<Stream>, Out, mpsc::Receiver<Frame>) {
        let number = self.numbers.fetch_add(1, Ordering::AcqRel) + 1;
        let stream = Arc::new(Stream::new(number));
        let mut streams = lock(&self.streams);
        if streams.len() == STREAMS_KEPT {
            streams.pop_front();
        }
        streams.push_back(stream.clone());
        let (out, frames) = mpsc::channel(FRAMES_AHEAD);
        (stream, out, frames)
    }

    /// The stream and the index behind an event's id.
    pub(super) fn resume(&self, event: &str) -> Option<(Arc<Stream>, usize)> {
        let (stream, index) = event.split_once('.')?;
        let (stream, index) = (stream.parse::<u64>().ok()?, index.parse::<usize>().ok()?);
        let found = if stream == 0 {
            Some(self.main.clone())
        } else {
            lock(&self.streams).iter().find(|one| one.number == stream).cloned()
        };
        found.map(|stream| (stream, index))
    }

    /// Lets something run for as long as the session lives.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.work);
        while running.try_join_next().is_some() {}
        running.spawn(work);
    }
}

impl HttpSession {
    /// Lives until its requests have ended, whoever else holds it.
    pub(super) fn run_on(self: Arc<Self>) {
        let mut work = std::mem::take(&mut *lock(&self.work));
        tokio::spawn(async move {
            let mut killed = self.session.state.killed.subscribe();
            tokio::select! {
                () = async { while work.join_next().await.is_some() {} } => {}
                // The sender lives in the state, so this resolves on a kill only.
                _changed = killed.changed() => {}
            }
        });
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        self.keeper.abort();
        self.main.end();
        for stream in lock(&self.streams).iter() {
            stream.end();
        }
    }
}
