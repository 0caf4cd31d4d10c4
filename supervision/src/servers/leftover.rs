//! What an earlier process of the embedder, killed without warning, has left running: ended before its server starts.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_actors::processes::Processes;
use pilothouse_adapters::process;
use pilothouse_adapters::server::ProcessNotes;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::process::ProcessMark;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ServersShell;

impl ServersShell {
    /// Ends what is left, once in the life of a runtime; each server's next process waits for its own only.
    pub(super) fn look_back(&self) {
        let Some(looking) = self.wiring.servers.processes.look_back() else { return };
        let grace = self.wiring.limits.stop_child;
        let within = self.wiring.limits.commit;
        self.tasks.spawn(async move {
            let left = left_behind(looking.processes(), within).await;
            looking.found(left.keys().cloned().collect());
            let mut ending = JoinSet::new();
            for (server, marks) in left {
                ending.spawn(async move {
                    for mark in &marks {
                        let found = process::end(mark, grace).await;
                        tracing::info!(target: "pilothouse", %server, pid = mark.pid, ?found, "a process of an earlier start");
                    }
                    (server, marks)
                });
            }
            while let Some(ended) = ending.join_next().await {
                // A panic leaves its server to the end of all.
                if let Ok((server, marks)) = ended {
                    marks.iter().for_each(|mark| looking.processes().ended(mark));
                    looking.cleared(&server);
                }
            }
        });
    }
}

/// The processes that are noted, by server; none if they cannot be read in time: servers do not wait for a disk.
async fn left_behind(processes: &Processes, within: Duration) -> BTreeMap<ServerId, Vec<ProcessMark>> {
    let mut by_server: BTreeMap<_, Vec<_>> = BTreeMap::new();
    match timeout(within, processes.left_behind()).await {
        Ok(Ok(marks)) => marks.into_iter().for_each(|mark| {
            by_server.entry(mark.server.clone()).or_default().push(mark);
        }),
        Ok(Err(error)) => {
            tracing::error!(target: "pilothouse", %error, "the records of processes could not be read")
        }
        Err(_elapsed) => {
            tracing::error!(target: "pilothouse", "the records of processes could not be read in time")
        }
    }
    by_server
}
