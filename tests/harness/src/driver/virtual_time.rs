//! Where a run in virtual time keeps its data, and which clock it has.
//!
//! Its store is in memory, behind a disk that can be told that the process ended; what was durable is the next start's.

use std::sync::Arc;

use pilothouse::Builder;
use pilothouse::clock::TokioClock;
use pilothouse::store::StoreId;
use pilothouse::store::memory::MemoryStore;
use pilothouse::time::Timestamp;

use crate::line::{TransportFields, Verb};
use crate::storm::{FaultyStore, Loss, SoundDisk};

/// When virtual time begins: 2000-01-01.
const BEGINS: Timestamp = Timestamp(946_684_800_000);

/// The data and the clock of a run in virtual time.
pub(super) struct VirtualTime {
    clock: TokioClock,
    /// What the next start finds.
    left: MemoryStore,
    /// The store of the runtime that runs.
    store: Option<FaultyStore>,
}

impl VirtualTime {
    pub(super) fn new() -> Self {
        Self { clock: TokioClock::starting_at(BEGINS), left: MemoryStore::new(), store: None }
    }

    pub(super) fn clock(&self) -> TokioClock {
        self.clock
    }

    /// Starts on what was left.
    pub(super) fn prepare(&mut self, builder: Builder, seed: u64) -> Builder {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&seed.to_be_bytes());
        let store = FaultyStore::over(self.left.clone(), StoreId(id), SoundDisk);
        self.store = Some(store.clone());
        builder.store(Arc::new(store)).clock(self.clock).heavy_work_in_turn()
    }

    /// The runtime has shut down.
    pub(super) fn rest(&mut self) {
        if let Some(store) = self.store.take() {
            self.left = store.memory().crash_keeping_lazy();
        }
    }

    /// The process has ended, and the power went with it.
    pub(super) fn crash(&mut self) {
        if let Some(store) = self.store.take() {
            self.left = store.crash(Loss::PowerCut);
        }
    }
}

/// Which field of a line has no place in virtual time, and why: nothing there may wait for the real world.
pub(super) fn unfit(verb: &Verb) -> Option<(&'static str, &'static str)> {
    let Verb::Server(server) = verb else { return None };
    match server.transport {
        TransportFields::Peer(_) => None,
        TransportFields::Stdio(_) | TransportFields::Http(_) | TransportFields::Sse(_) => Some((
            "server.transport",
            "a run in virtual time has servers in memory only: write a `peer`, or use --clock real",
        )),
    }
}
