//! The runtime's own events, for anybody who listens; a slow listener is told what it missed.

use pilothouse_messages::tree::RuntimeEvent;
use tokio::sync::broadcast;

/// Where the runtime's events go.
#[derive(Debug, Clone)]
pub struct EventBus(broadcast::Sender<RuntimeEvent>);

impl EventBus {
    /// A bus that keeps this many events for each listener.
    pub fn new(capacity: usize) -> Self {
        Self(broadcast::Sender::new(capacity.max(1)))
    }

    /// Tells everybody who listens; never waits.
    pub fn publish(&self, event: RuntimeEvent) {
        // No listener is a listener less, not a failure.
        let _nobody = self.0.send(event);
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> RuntimeEvents {
        RuntimeEvents(self.0.subscribe())
    }
}

/// One listener.
#[derive(Debug)]
pub struct RuntimeEvents(broadcast::Receiver<RuntimeEvent>);

impl RuntimeEvents {
    /// The next event; `None` when the runtime is gone.
    ///
    /// # Cancel safety
    /// Safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<RuntimeEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(RuntimeEvent::Lagged { missed }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
