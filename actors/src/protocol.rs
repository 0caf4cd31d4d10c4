//! Owns what is remembered of each server's protocol over its connections, and says on what terms the next one is
//! opened.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_adapters::asks::AskPort;
use pilothouse_adapters::server::{Negotiate, Notices, Terms};
use pilothouse_adapters::store::log::{GENESIS, SPOKEN};
use pilothouse_adapters::store::{Batch, Keyspace, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::protocol::{Heard, LEGACY, ProtocolStep, Remembered, SpokenRecord};
use pilothouse_messages::server::Transport;
use pilothouse_rules::protocol::Negotiation;

use crate::wiring::{ServerPlace, Wiring};

/// What one server spoke last; lives as long as its definition, over restarts, too.
#[derive(Debug, Clone, Default)]
pub struct Spoken(Arc<Mutex<Known>>);

#[derive(Debug, Clone, Default)]
struct Known {
    remembered: Remembered,
    stored: Stored,
}

/// What is known of a server's record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Stored {
    /// Nobody has looked.
    #[default]
    Unread,
    /// It says this; `None` if there is none.
    Says(Option<(Digest, Remembered)>),
}

impl Spoken {
    /// What is known of a server that nobody has spoken to: its transport may leave one answer only.
    pub(crate) fn by(transport: &Transport) -> Self {
        let remembered = match transport {
            Transport::Stdio { .. } | Transport::Http { .. } | Transport::InMemory { .. } => {
                Remembered::Nothing
            }
            // HTTP+SSE was gone before there was another generation.
            Transport::Sse { .. } => Remembered::Legacy(LEGACY[LEGACY.len() - 1].to_owned()),
        };
        Self(Arc::new(Mutex::new(Known { remembered, stored: Stored::Unread })))
    }

    /// What is known now.
    pub fn remembered(&self) -> Remembered {
        self.known().remembered.clone()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The records of what the servers of one runtime spoke; written by their connections.
pub struct Protocols {
    store: Arc<dyn Store>,
    within: Duration,
}

impl std::fmt::Debug for Protocols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Protocols")
    }
}

impl Protocols {
    /// Records in this store; a read is waited for at most `within`.
    pub(crate) fn new(store: Arc<dyn Store>, within: Duration) -> Self {
        Self { store, within }
    }

    /// Remembers what an earlier process has heard of this server under this definition. Waits for the store the first
    /// time only, and not long: a server does not wait for a disk.
    pub async fn recall(&self, place: &ServerPlace) {
        if place.spoken.known().stored != Stored::Unread {
            return;
        }
        let server = &place.definition.id;
        let read = tokio::time::timeout(self.within, self.read(server)).await;
        let record = read.unwrap_or(Err(StoreError::TimedOut)).unwrap_or_else(|error| {
            tracing::warn!(target: "pilothouse", %server, %error, "what a server spoke last cannot be read");
            None
        });
        let mut known = place.spoken.known();
        let says = record.map(|record| (record.definition, record.spoken));
        if let (Some((definition, spoken)), Remembered::Nothing) = (&says, &known.remembered)
            && *definition == place.fingerprint
        {
            known.remembered = spoken.clone();
        }
        known.stored = Stored::Says(says);
    }

    async fn read(&self, server: &ServerId) -> Result<Option<SpokenRecord>, StoreError> {
        match self.store.get(Keyspace::Spoken, key(server)).await? {
            Some(bytes) => Ok(Some(SPOKEN.decode::<SpokenRecord>(&bytes)?.payload)),
            None => Ok(None),
        }
    }

    /// Forgets a server that was removed.
    pub fn forget(&self, place: &ServerPlace) {
        place.spoken.known().stored = Stored::Says(None);
        let mut batch = Batch::new();
        batch.delete(Keyspace::Spoken, key(&place.definition.id));
        self.write(batch);
    }

    fn remember(&self, server: &ServerId, definition: Digest, spoken: &Spoken, heard: Remembered) {
        let mut known = spoken.known();
        known.remembered = heard.clone();
        let says = Stored::Says(Some((definition, heard.clone())));
        if heard == Remembered::Nothing || known.stored == says {
            return;
        }
        let record = SpokenRecord { server: server.clone(), definition, spoken: heard };
        let Ok(bytes) = SPOKEN.encode(1, GENESIS, &record) else { return };
        known.stored = says;
        let mut batch = Batch::new();
        batch.put(Keyspace::Spoken, key(server), bytes);
        self.write(batch);
    }

    fn write(&self, batch: Batch) {
        // A lane of its own for each of the few writes: one that failed before takes nothing from this. What is not
        // written is heard again.
        drop(self.store.lane().append(batch));
    }
}

fn key(server: &ServerId) -> Vec<u8> {
    server.as_str().as_bytes().to_vec()
}

/// One greeting, whose outcome is remembered as soon as it is known.
struct Greeting {
    negotiation: Negotiation,
    server: ServerId,
    definition: Digest,
    spoken: Spoken,
    protocols: Arc<Protocols>,
}

impl Negotiate for Greeting {
    fn first(&mut self) -> ProtocolStep {
        self.negotiation.first()
    }

    fn heard(&mut self, heard: Heard) -> ProtocolStep {
        let step = self.negotiation.heard(heard);
        let heard = self.negotiation.remembered().clone();
        self.protocols.remember(&self.server, self.definition, &self.spoken, heard);
        step
    }
}

/// The terms of the server's next connection.
pub(crate) fn terms(wiring: &Wiring, place: &ServerPlace, notices: Notices) -> Terms {
    let negotiation = Negotiation::new(place.spoken.remembered());
    let greeting = Greeting {
        negotiation,
        server: place.definition.id.clone(),
        definition: place.fingerprint,
        spoken: place.spoken.clone(),
        protocols: wiring.servers.protocols.clone(),
    };
    let connect = place.definition.connect_timeout.unwrap_or(wiring.limits.connect);
    // Silence leaves most of the deadline to the handshake that follows.
    let discover = wiring.limits.discover.min(connect / 3);
    Terms::new(notices, Box::new(greeting), discover, ask_port(wiring, place))
}

/// The server's way to the embedder's answers.
pub(crate) fn ask_port(wiring: &Wiring, place: &ServerPlace) -> AskPort {
    let (server, places) = (place.definition.id.clone(), place.questions.clone());
    AskPort::new(server, wiring.asks.clone(), places, wiring.limits.question)
}
