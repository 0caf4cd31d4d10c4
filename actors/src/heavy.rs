//! Decides where work is done that takes longer than a turn of Tokio's scheduler may: reading tools and schemas.

use tokio::task::{JoinHandle, spawn_blocking};

/// Where heavy work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Heavy {
    /// On Tokio's blocking threads: nobody waits for it but who asked.
    #[default]
    Beside,
    /// In turn with everything else. Nothing depends then on how fast another thread is, so a run in virtual time is the
    /// same each time.
    InTurn,
}

impl Heavy {
    /// Starts it; who drops the handle leaves it to end by itself. A panic is an error of the handle.
    pub fn start<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        match self {
            Self::Beside => spawn_blocking(work),
            Self::InTurn => tokio::spawn(async move { work() }),
        }
    }
}
