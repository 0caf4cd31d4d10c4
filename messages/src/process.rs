//! Child processes, as they are noted to be ended after our own death. Stored: the bytes are frozen.

use serde::{Deserialize, Serialize};

use crate::id::ServerId;

/// Tells one process from every other one, over the reuse of process ids and over reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// The boot of the machine in which it was started.
    pub boot: String,
    /// Its process id, which is its group's, too.
    pub pid: u32,
    /// When it was started, in the kernel's ticks after that boot.
    pub started: u64,
    /// The server that it is.
    pub server: ServerId,
}
