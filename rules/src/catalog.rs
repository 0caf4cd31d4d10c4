//! Decides about listings: which one counts, how sure it is, and when a server is listed again.
//!
//! ```text
//! what a server is known to offer:
//!
//!   Cold ── Fetched ──▶ Warm ── FetchFailed, Disconnected ──▶ Stale ── Fetched ──▶ Warm
//!   Warm, Stale ── Define, with another definition ──▶ Cold
//!
//! whether it is being listed:
//!
//!   Idle ── Refresh ──▶ under way ── ToolsChanged ──▶ under way, then again
//!    ▲                  │   ▲  ▲                        │
//!    │     the answer   │   │  └── the answer, or a ────┘
//!    ├──────────────────┘   │      new connection: a new ticket
//!    │                      └── a new connection: a new ticket
//!    └── from both: another definition, the connection's end, removal
//!
//!   Idle ── Tick, when a fresh listing is as old as its server said that it may be, or when a server that is
//!           connected and did not list its tools is asked again ──▶ under way
//! ```
//!
//! Illegal, and refused: an answer under a ticket that is not the current one, anything about an unknown server.
//! A failed refresh keeps the last known good listing; a cold server that fails stays cold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::listing::{
    CacheScope, CatalogCommand, CatalogDirective, CatalogEvent, CatalogRejection, Contact, ListedTools,
    Listing, ListingView, RefreshCause, RefreshTicket,
};
use pilothouse_messages::time::Timestamp;

use crate::{Decider, Decision};

mod entry;

use entry::{Entry, Offer, Refresh, Then};

type Outcome = Decision<CatalogEvent, CatalogDirective, ()>;

/// Why a listing from the store is stale until its server has answered.
const FROM_STORE: &str = "read from the store; the server has not answered yet";
/// What those who wait for a refresh are told when its server is defined anew.
const REDEFINED: &str = "the server was given another definition while its tools were being listed";
/// What those who wait for a refresh are told when its server was stopped for want of use.
const RESTED: &str = "the server was stopped just then because nobody used it; ask again";
/// What those who wait for a refresh are told when its server is removed.
const REMOVED: &str = "the server was removed while its tools were being listed";

/// All listings, one entry a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    servers: BTreeMap<ServerId, Entry>,
    /// The newest ticket of any server: one is never used twice.
    last_ticket: u64,
}

/// The least time for which a listing is fresh, whatever its server says.
const TTL_FLOOR: Duration = Duration::from_secs(30);

impl Catalog {
    /// A catalog that knows no server.
    pub fn new() -> Self {
        Self::default()
    }

    /// One server's place, readable at once; `None` for an unknown server.
    pub fn view(&self, server: &ServerId) -> Option<ListingView> {
        self.servers.get(server).map(|entry| entry.view(server))
    }

    /// Every server's place. The listings are shared, not copied.
    pub fn views(&self) -> BTreeMap<ServerId, ListingView> {
        self.servers.iter().map(|(server, entry)| (server.clone(), entry.view(server))).collect()
    }

    /// The events that put a stored listing back, to be applied before any command is decided.
    ///
    /// The listing is stale until its server has answered; a later `Define` with another definition drops it.
    pub fn restore(server: ServerId, listing: Listing) -> Vec<CatalogEvent> {
        vec![
            CatalogEvent::Defined { server: server.clone(), definition: listing.definition },
            CatalogEvent::Listed {
                server: server.clone(),
                listing,
                cache: CacheScope::Public,
                expires: None,
            },
            CatalogEvent::WentStale { server, reason: FROM_STORE.to_owned() },
        ]
    }

    fn known(&self, server: &ServerId) -> Result<&Entry, CatalogRejection> {
        let unknown = || CatalogRejection::UnknownServer { server: server.clone() };
        self.servers.get(server).ok_or_else(unknown)
    }

    /// The entry and what follows, if this ticket is the current one.
    fn current(&self, server: &ServerId, ticket: RefreshTicket) -> Result<(&Entry, Then), CatalogRejection> {
        let entry = self.known(server)?;
        match entry.under_way() {
            Some((current, then)) if current == ticket => Ok((entry, then)),
            Some(_) | None => Err(CatalogRejection::Overtaken),
        }
    }

    fn define(&self, server: &ServerId, definition: Digest) -> Outcome {
        let mut outcome = Decision::answer(());
        let known = self.servers.get(server);
        if known.is_some_and(|entry| entry.definition == definition) {
            return outcome;
        }
        if known.is_some_and(|entry| entry.listing().is_some()) {
            outcome.events.push(CatalogEvent::Dropped { server: server.clone() });
            outcome.directives.push(CatalogDirective::Changed { server: server.clone() });
        }
        outcome.events.push(CatalogEvent::Defined { server: server.clone(), definition });
        if known.is_some_and(|entry| entry.under_way().is_some()) {
            outcome.directives.push(failed(server, REDEFINED));
        }
        outcome
    }

    fn refresh(&self, server: &ServerId, cause: RefreshCause) -> Result<Outcome, CatalogRejection> {
        let mut outcome = Decision::answer(());
        match (self.known(server)?.under_way(), cause) {
            (
                None,
                RefreshCause::Asked
                | RefreshCause::Expired
                | RefreshCause::ToolsChanged
                | RefreshCause::Connected,
            )
            | (Some(_), RefreshCause::Connected) => self.start(server, &mut outcome),
            (Some((_, Then::Rest)), RefreshCause::ToolsChanged) => {
                outcome.events.push(CatalogEvent::RefreshQueued { server: server.clone() });
            }
            (Some((_, Then::Again)), RefreshCause::ToolsChanged)
            | (Some(_), RefreshCause::Asked | RefreshCause::Expired) => {}
        }
        Ok(outcome)
    }

    fn start(&self, server: &ServerId, outcome: &mut Outcome) {
        let ticket = RefreshTicket(self.last_ticket + 1);
        outcome.events.push(CatalogEvent::RefreshStarted { server: server.clone(), ticket });
        outcome.directives.push(CatalogDirective::Fetch { server: server.clone(), ticket });
    }

    fn fetched(
        &self,
        now: Timestamp,
        server: &ServerId,
        ticket: RefreshTicket,
        listed: &ListedTools,
    ) -> Result<Outcome, CatalogRejection> {
        let (entry, then) = self.current(server, ticket)?;
        let (says_nothing_new, was_warm) = (entry.says(listed), matches!(entry.offer, Offer::Warm(_)));
        let mut outcome = Decision::answer(());
        let expires = listed.ttl.map(|ttl| now.after(ttl.max(TTL_FLOOR)));
        let (server_id, cache) = (server.clone(), listed.cache);
        let revision = if says_nothing_new {
            outcome.events.push(CatalogEvent::Confirmed { server: server_id, at: now, expires });
            entry.revision
        } else {
            let listing = entry.listing_of(now, listed);
            let revision = listing.revision;
            outcome.events.push(CatalogEvent::Listed { server: server_id, listing, cache, expires });
            revision
        };
        if !(says_nothing_new && was_warm) {
            outcome.directives.push(CatalogDirective::Changed { server: server.clone() });
        }
        outcome.directives.push(CatalogDirective::Answer { server: server.clone(), result: Ok(revision) });
        self.follow(server, then, &mut outcome);
        Ok(outcome)
    }

    fn fetch_failed(
        &self,
        now: Timestamp,
        server: &ServerId,
        ticket: RefreshTicket,
        (reason, contact): (&str, Contact),
    ) -> Result<Outcome, CatalogRejection> {
        let (entry, then) = self.current(server, ticket)?;
        let mut outcome = Decision::answer(());
        outcome.events.push(CatalogEvent::RefreshEnded { server: server.clone() });
        let old_news = match &entry.offer {
            Offer::Cold => true,
            Offer::Warm(_) => false,
            Offer::Stale { listing: _, reason: last } => last == reason,
        };
        if !old_news {
            go_stale(server, reason, &mut outcome);
        }
        outcome.directives.push(failed(server, reason));
        match (contact, then) {
            // Its tools cannot be called before it has listed them, and nothing else may ask it for that.
            (Contact::Made, Then::Rest) => {
                let at = Some(now.after(entry.retry_after()));
                outcome.events.push(CatalogEvent::RetrySet { server: server.clone(), at });
            }
            (Contact::Made, Then::Again) | (Contact::None, _) => {}
        }
        self.follow(server, then, &mut outcome);
        Ok(outcome)
    }

    fn follow(&self, server: &ServerId, then: Then, outcome: &mut Outcome) {
        match then {
            Then::Rest => {}
            Then::Again => self.start(server, outcome),
        }
    }

    /// A refresh under way asked the connection that ended: it ends too, so that an answer which was read just
    /// before the end cannot make the listing look undisturbed. The next connection brings its own refresh.
    fn disconnected(&self, server: &ServerId, reason: &str) -> Result<Outcome, CatalogRejection> {
        let entry = self.known(server)?;
        let mut outcome = Decision::answer(());
        let under_way = entry.under_way().is_some();
        if under_way {
            outcome.events.push(CatalogEvent::RefreshEnded { server: server.clone() });
        }
        if matches!(entry.offer, Offer::Warm(_)) {
            go_stale(server, reason, &mut outcome);
        }
        if under_way {
            outcome.directives.push(failed(server, reason));
        }
        if entry.failures > 0 {
            outcome.events.push(CatalogEvent::RetrySet { server: server.clone(), at: None });
        }
        Ok(outcome)
    }

    /// A refresh is a use, so that none is under way here unless it came too late for this connection.
    fn rested(&self, server: &ServerId) -> Result<Outcome, CatalogRejection> {
        let under_way = self.known(server)?.under_way().is_some();
        let mut outcome = only(CatalogEvent::Rested { server: server.clone() });
        if under_way {
            outcome.directives.push(failed(server, RESTED));
        }
        Ok(outcome)
    }

    /// A refresh under way asked with the last credential, too.
    fn recredentialed(&self, server: &ServerId) -> Result<Outcome, CatalogRejection> {
        let entry = self.known(server)?;
        let mut outcome = Decision::answer(());
        match (entry.cache, entry.listing()) {
            (CacheScope::Private, Some(_)) => {
                outcome.events.push(CatalogEvent::Dropped { server: server.clone() });
                outcome.directives.push(CatalogDirective::Changed { server: server.clone() });
            }
            (CacheScope::Private, None) | (CacheScope::Public, _) => {}
        }
        if entry.under_way().is_some() {
            outcome.events.push(CatalogEvent::RefreshEnded { server: server.clone() });
            outcome.directives.push(failed(server, REDEFINED));
        }
        Ok(outcome)
    }

    fn tick(&self, now: Timestamp) -> Outcome {
        let is_due = |entry: &Entry| entry.due_at().is_some_and(|at| at <= now);
        let due = self.servers.iter().filter(|(_, entry)| is_due(entry));
        let mut outcome = Decision::answer(());
        for (ticket, (server, _)) in (self.last_ticket + 1..).map(RefreshTicket).zip(due) {
            outcome.events.push(CatalogEvent::RefreshStarted { server: server.clone(), ticket });
            outcome.directives.push(CatalogDirective::Fetch { server: server.clone(), ticket });
        }
        outcome
    }

    fn remove(&self, server: &ServerId) -> Result<Outcome, CatalogRejection> {
        let waited_for = self.known(server)?.under_way().is_some();
        let changed = CatalogDirective::Changed { server: server.clone() };
        let answer = waited_for.then(|| failed(server, REMOVED));
        Ok(Decision {
            answer: (),
            events: vec![CatalogEvent::Removed { server: server.clone() }],
            directives: [changed].into_iter().chain(answer).collect(),
        })
    }
}

fn only(event: CatalogEvent) -> Outcome {
    Decision { events: vec![event], ..Decision::answer(()) }
}

fn go_stale(server: &ServerId, reason: &str, outcome: &mut Outcome) {
    let reason = reason.to_owned();
    outcome.events.push(CatalogEvent::WentStale { server: server.clone(), reason });
    outcome.directives.push(CatalogDirective::Changed { server: server.clone() });
}

fn failed(server: &ServerId, reason: &str) -> CatalogDirective {
    CatalogDirective::Answer { server: server.clone(), result: Err(reason.to_owned()) }
}

impl Decider for Catalog {
    type Command = CatalogCommand;
    type Event = CatalogEvent;
    type Directive = CatalogDirective;
    type Answer = ();
    type Rejection = CatalogRejection;

    fn decide(&self, now: Timestamp, command: &CatalogCommand) -> Result<Outcome, CatalogRejection> {
        match command {
            CatalogCommand::Define { server, definition } => Ok(self.define(server, *definition)),
            CatalogCommand::Refresh { server, cause } => self.refresh(server, *cause),
            CatalogCommand::Fetched { server, ticket, listed } => self.fetched(now, server, *ticket, listed),
            CatalogCommand::FetchFailed { server, ticket, reason, contact } => {
                self.fetch_failed(now, server, *ticket, (reason, *contact))
            }
            CatalogCommand::Rested { server } => self.rested(server),
            CatalogCommand::Recredentialed { server } => self.recredentialed(server),
            CatalogCommand::Tick => Ok(self.tick(now)),
            CatalogCommand::Disconnected { server, reason } => self.disconnected(server, reason),
            CatalogCommand::Remove { server } => self.remove(server),
        }
    }

    fn apply(&mut self, event: &CatalogEvent) {
        match event {
            CatalogEvent::Defined { server, definition } => {
                let entry = self.servers.entry(server.clone()).or_insert_with(|| Entry::new(*definition));
                entry.definition = *definition;
                entry.refresh = Refresh::Idle;
                entry.no_retry();
            }
            CatalogEvent::RefreshStarted { server, ticket } => {
                self.last_ticket = self.last_ticket.max(ticket.0);
                self.change(server, |entry| {
                    entry.refresh = Refresh::UnderWay { ticket: *ticket, then: Then::Rest };
                    entry.retry_at = None;
                });
            }
            CatalogEvent::RefreshQueued { server } => self.change(server, |entry| {
                if let Refresh::UnderWay { ticket: _, then } = &mut entry.refresh {
                    *then = Then::Again;
                }
            }),
            CatalogEvent::RefreshEnded { server } => {
                self.change(server, |entry| entry.refresh = Refresh::Idle);
            }
            CatalogEvent::Listed { server, listing, cache, expires } => self.change(server, |entry| {
                entry.revision = entry.revision.max(listing.revision);
                entry.offer = Offer::Warm(Arc::new(listing.clone()));
                entry.refresh = Refresh::Idle;
                (entry.cache, entry.expires) = (*cache, *expires);
                entry.no_retry();
            }),
            CatalogEvent::Confirmed { server, at, expires } => self.change(server, |entry| {
                if let Some(mut listing) = entry.listing().cloned() {
                    Arc::make_mut(&mut listing).listed_at = *at;
                    entry.offer = Offer::Warm(listing);
                }
                entry.refresh = Refresh::Idle;
                entry.expires = *expires;
                entry.no_retry();
            }),
            CatalogEvent::Rested { server } => self.change(server, |entry| {
                entry.refresh = Refresh::Idle;
                entry.expires = None;
                entry.no_retry();
            }),
            CatalogEvent::WentStale { server, reason } => self.change(server, |entry| {
                if let Some(listing) = entry.listing().cloned() {
                    entry.offer = Offer::Stale { listing, reason: reason.clone() };
                }
            }),
            CatalogEvent::Dropped { server } => self.change(server, |entry| entry.offer = Offer::Cold),
            CatalogEvent::Removed { server } => {
                self.servers.remove(server);
            }
            CatalogEvent::RetrySet { server, at } => self.change(server, |entry| match at {
                Some(_) => (entry.retry_at, entry.failures) = (*at, entry.failures.saturating_add(1)),
                None => entry.no_retry(),
            }),
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.servers.values().filter_map(Entry::due_at).min()
    }

    fn resume(&self) -> Vec<CatalogDirective> {
        Vec::new()
    }
}

impl Catalog {
    /// An event about an unknown server changes nothing: replay cannot fail.
    fn change(&mut self, server: &ServerId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.servers.get_mut(server) {
            change(entry);
        }
    }
}

#[cfg(test)]
mod tests;
