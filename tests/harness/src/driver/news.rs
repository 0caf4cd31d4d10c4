//! What the runtime as a whole reports: servers, listings, restarts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::id::ServerId;
use pilothouse::listing::{ListingState, ListingView};
use pilothouse::server::ServerView;
use pilothouse::tree::RuntimeEvent;
use pilothouse::{Runtime, RuntimeEvents, ServerHandle};

use super::out::Out;
use super::show;

/// How long tools that are listed may take to be callable.
const CALLABLE: Duration = Duration::from_secs(2);

/// Prints a runtime's own events, once each.
pub(super) struct News {
    out: Arc<Out>,
    events: RuntimeEvents,
    /// What was printed last of each server.
    servers: BTreeMap<ServerId, ServerView>,
    /// What was printed last of each listing.
    listings: BTreeMap<ServerId, RuntimeEvent>,
    /// Servers that were listed before anybody listened; their tools may not be callable yet.
    listed: Vec<ServerHandle>,
}

impl News {
    /// Listens, and prints how the servers stand: nobody could listen while the runtime started.
    pub(super) fn begin(runtime: &Runtime, out: Arc<Out>) -> Self {
        let mut news = Self {
            out,
            events: runtime.events(),
            servers: BTreeMap::new(),
            listings: BTreeMap::new(),
            listed: Vec::new(),
        };
        for server in runtime.servers() {
            let view = server.view();
            // A look at a cold listing would be a wish for it.
            let listing = view.revision.map(|_listed| server.list());
            news.print(RuntimeEvent::Server(Box::new(view)));
            match listing.as_deref() {
                Some(listing) if matches!(listing.state, ListingState::Warm) => news.listed.push(server),
                Some(listing) => news.print(listed(listing)),
                None => {}
            }
        }
        news
    }

    /// Goes on until the runtime is gone.
    pub(super) async fn follow(mut self) {
        for server in std::mem::take(&mut self.listed) {
            let listing = server.warm(CALLABLE).await;
            self.print(listed(&listing));
        }
        while let Some(event) = self.events.next().await {
            self.print(event);
        }
    }

    fn print(&mut self, event: RuntimeEvent) {
        if self.is_old(&event) {
            return;
        }
        if let Some((kind, fields)) = show::runtime(&event, self.out.now()) {
            self.out.event(kind, fields);
        }
        match event {
            RuntimeEvent::Server(view) => {
                self.servers.insert(view.server.clone(), *view);
            }
            RuntimeEvent::Listing { ref server, .. } => {
                self.listings.insert(server.clone(), event);
            }
            // The others are no states; the enum may grow.
            _ => {}
        }
    }

    /// Whether it was already said by the first look.
    fn is_old(&self, event: &RuntimeEvent) -> bool {
        match event {
            RuntimeEvent::Server(view) => self.servers.get(&view.server).is_some_and(|last| {
                let state =
                    |view: &ServerView| (view.state, view.attempt, view.reason.clone(), view.retry_at);
                view.since < last.since || (view.since == last.since && state(view) == state(last))
            }),
            RuntimeEvent::Listing { server, .. } => self.listings.get(server) == Some(event),
            // The others are no states; the enum may grow.
            _ => false,
        }
    }
}

fn listed(view: &ListingView) -> RuntimeEvent {
    RuntimeEvent::Listing {
        server: view.server.clone(),
        revision: view.listing.as_ref().map(|listing| listing.revision),
        tools: view.tools().len(),
        fresh: matches!(view.state, ListingState::Warm),
        reason: match &view.state {
            ListingState::Cold | ListingState::Warm => None,
            ListingState::Stale { reason } => Some(reason.clone()),
        },
    }
}
