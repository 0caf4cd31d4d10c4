//! Decides how much of a response is taken in: bodies and events are bounded each, and all of a connection together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Response;

use super::fault::Fault;
use crate::mcp::lines::LINE_BYTES_MAX;

/// What all answers of a connection may hold while they are read (64 MiB).
const TOGETHER_MAX: usize = 64 << 20;

/// The bytes that a connection's answers hold.
#[derive(Debug, Clone, Default)]
pub(in crate::mcp) struct Budget(Arc<AtomicUsize>);

/// One answer's part of a budget; given back when it is dropped.
#[derive(Debug)]
pub(in crate::mcp) struct Share {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// An empty part.
    pub(in crate::mcp) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes more.
    pub(in crate::mcp) fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.bytes + bytes > LINE_BYTES_MAX {
            let most = LINE_BYTES_MAX >> 20;
            return Err(Fault::Malformed(format!("it is longer than {most} MiB")));
        }
        let before = self.budget.0.fetch_add(bytes, Ordering::AcqRel);
        self.bytes += bytes;
        if before + bytes > TOGETHER_MAX {
            let most = TOGETHER_MAX >> 20;
            return Err(Fault::Broken(format!("the answers under way have more than {most} MiB together")));
        }
        Ok(())
    }

    /// Gives everything back.
    pub(in crate::mcp) fn clear(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::AcqRel);
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Reads a whole body.
pub(in crate::mcp) async fn whole(response: &mut Response, share: &mut Share) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Fault::of(&error))? {
        share.grow(chunk.len())?;
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
