use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::Outbox;
use crate::mcp::life::Life;

/// Where an input panics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Write,
    Flush,
    Shutdown,
}

struct Panicking(At);

impl Panicking {
    fn reach<T>(&self, at: At, value: T) -> Poll<io::Result<T>> {
        assert!(self.0 != at, "as an embedder's pipe may");
        Poll::Ready(Ok(value))
    }
}

impl AsyncWrite for Panicking {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.reach(At::Write, bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reach(At::Flush, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reach(At::Shutdown, ())
    }
}

async fn check(at: At) {
    let life = Arc::new(Life::default());
    let outbox = Outbox::open(Panicking(at), life.clone());
    outbox.push(b"{}\n".to_vec()).unwrap();
    tokio::task::yield_now().await;
    outbox.close();
    let ended = tokio::time::timeout(Duration::from_secs(1), life.ended()).await;
    assert_eq!(ended, Ok("its input panicked".to_owned()));
}

#[tokio::test]
async fn an_input_that_panics_ends_the_connection() {
    check(At::Write).await;
    check(At::Flush).await;
    check(At::Shutdown).await;
}
