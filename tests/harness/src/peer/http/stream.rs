//! An event stream that is kept for a while, so that a client which lost it can take it up again.

use std::sync::Mutex;

use tokio::sync::{mpsc, watch};

use crate::peer::frame::Frame;
use crate::peer::lock;

/// Events that one stream keeps; the oldest go.
const EVENTS_KEPT: usize = 4096;

/// What was said on one stream, for as long as its session keeps it.
#[derive(Debug)]
pub(super) struct Stream {
    /// Part of each event's id.
    pub(super) number: u64,
    log: Mutex<Log>,
    /// Grows with each event, and at the end.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    /// Events that went; the first one kept has this index.
    gone: usize,
    kept: std::collections::VecDeque<Frame>,
    /// The first one that no client has read.
    unread: usize,
    ended: bool,
}

/// What comes next on a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Event(usize, Frame),
    End,
}

impl Stream {
    pub(super) fn new(number: u64) -> Self {
        Self { number, log: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Keeps what is said until nobody speaks any more.
    pub(super) async fn keep(&self, mut frames: mpsc::Receiver<Frame>) {
        while let Some(frame) = frames.recv().await {
            let mut log = lock(&self.log);
            if log.kept.len() == EVENTS_KEPT {
                log.kept.pop_front();
                log.gone += 1;
            }
            log.kept.push_back(frame);
            drop(log);
            self.changed.send_modify(|count| *count += 1);
        }
        self.end();
    }

    pub(super) fn end(&self) {
        lock(&self.log).ended = true;
        self.changed.send_modify(|count| *count += 1);
    }

    /// The first event that no client has read.
    pub(super) fn unread(&self) -> usize {
        lock(&self.log).unread
    }

    /// The event at this index, or the first kept one after it, once it is there.
    pub(super) async fn next(&self, index: usize) -> Next {
        let mut changed = self.changed.subscribe();
        loop {
            // Marks what is there as seen before it is looked at, so that nothing that comes now is missed.
            changed.borrow_and_update();
            {
                let mut log = lock(&self.log);
                let index = index.max(log.gone);
                if let Some(frame) = log.kept.get(index - log.gone).cloned() {
                    log.unread = log.unread.max(index + 1);
                    return Next::Event(index, frame);
                }
                if log.ended {
                    return Next::End;
                }
            }
            if changed.changed().await.is_err() {
                return Next::End;
            }
        }
    }
}
