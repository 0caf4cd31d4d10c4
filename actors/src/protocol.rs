//! Owns what is remembered of each server's protocol over its connections, and says on what terms the next one is
//! opened.

use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_adapters::asks::AskPort;
use pilothouse_adapters::server::{Negotiate, Notices, Terms};
use pilothouse_messages::protocol::{Heard, LEGACY, ProtocolStep, Remembered};
use pilothouse_messages::server::Transport;
use pilothouse_rules::protocol::Negotiation;

use crate::wiring::{ServerPlace, Wiring};

/// What one server spoke last; lives as long as its definition.
#[derive(Debug, Clone, Default)]
pub struct Spoken(Arc<Mutex<Remembered>>);

impl Spoken {
    /// What is known of a server that nobody has spoken to: its transport may leave one answer only.
    pub(crate) fn by(transport: &Transport) -> Self {
        let known = match transport {
            Transport::Stdio { .. } | Transport::Http { .. } | Transport::InMemory { .. } => {
                Remembered::Nothing
            }
            // HTTP+SSE was gone before there was another generation.
            Transport::Sse { .. } => Remembered::Legacy(LEGACY[LEGACY.len() - 1].to_owned()),
        };
        Self(Arc::new(Mutex::new(known)))
    }

    /// What is known now.
    pub fn remembered(&self) -> Remembered {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, spoken: Remembered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = spoken;
    }
}

/// One greeting, whose outcome is remembered as soon as it is known.
struct Greeting {
    negotiation: Negotiation,
    spoken: Spoken,
}

impl Negotiate for Greeting {
    fn first(&mut self) -> ProtocolStep {
        self.negotiation.first()
    }

    fn heard(&mut self, heard: Heard) -> ProtocolStep {
        let step = self.negotiation.heard(heard);
        self.spoken.remember(self.negotiation.remembered().clone());
        step
    }
}

/// The terms of the server's next connection.
pub(crate) fn terms(wiring: &Wiring, place: &ServerPlace, notices: Notices) -> Terms {
    let negotiation = Negotiation::new(place.spoken.remembered());
    let greeting = Greeting { negotiation, spoken: place.spoken.clone() };
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
