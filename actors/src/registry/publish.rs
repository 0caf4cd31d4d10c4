//! Makes of each table of the registry what a search reads, beside its mailbox: reading a server's tools takes
//! milliseconds, and their schemas longer.
//!
//! ```text
//! registry ─▶ table ─▶ editions, in order ─▶ index ─▶ what the servers offer ─▶ what is odd about it
//! ```
//!
//! So a search may lack for a moment what can be called already; whoever is told that a server offers it finds it. An
//! edition that a newer one has overtaken is not built; its news are told behind the newer index.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::listing::{ListingState, ListingView};
use pilothouse_messages::registry::{Entry, RegistryDirective, ServerTools};
use pilothouse_messages::server::ServerDefinition;
use pilothouse_messages::tool::ToolLists;
use pilothouse_messages::tree::RuntimeEvent;
use pilothouse_rules::arguments::Validator;
use pilothouse_rules::registry::policy::{Admission, PolicyReach, ToolPolicy};
use pilothouse_rules::registry::{NAMES_MAX, ToolTable, entries_of};
use tokio::sync::mpsc;

use crate::catalog::offer;
use crate::wiring::Wiring;

/// What one batch of the registry has made public.
pub(super) struct Edition {
    pub(super) table: Option<Arc<ToolTable>>,
    pub(super) directives: Vec<RegistryDirective>,
}

/// Publishes every edition, until the registry's life is over.
pub(super) async fn publish(wiring: Arc<Wiring>, mut editions: mpsc::UnboundedReceiver<Edition>) {
    let mut gaps = Gaps::default();
    while let Some(Edition { mut table, mut directives }) = editions.recv().await {
        while let Ok(later) = editions.try_recv() {
            table = later.table.or(table);
            directives.extend(later.directives);
        }
        if let Some(table) = table {
            show(&wiring, table).await;
        }
        let mut changed = Vec::new();
        for directive in directives {
            match directive {
                RegistryDirective::Publish { server, listing } => {
                    tell(&wiring, server.clone(), listing);
                    changed.push(server);
                }
            }
        }
        gaps = warn(&wiring, changed, gaps).await;
    }
}

async fn show(wiring: &Wiring, table: Arc<ToolTable>) {
    let before = wiring.registry.index.load_full();
    match wiring.heavy.start(move || before.updated(&table)).await {
        Ok(index) => wiring.registry.index.store(Arc::new(index)),
        // The tools can be called; the last index does not have what is new.
        Err(error) => {
            tracing::warn!(target: "pilothouse", %error, "tools could not be read for the search");
        }
    }
}

/// Says what a server offers now, after the index has it: whoever hears it can find and call its tools.
fn tell(wiring: &Wiring, server: ServerId, listing: Option<ListingView>) {
    let news = news(server.clone(), listing.as_ref());
    let changed = wiring.registry.offered.send_if_modified(|offered| {
        let before = offered.get(&server);
        // A cold listing is no news of a server that was never heard of.
        let silent = before == listing.as_ref()
            || before.is_none() && listing.as_ref().is_none_or(|view| view.listing.is_none());
        match listing {
            Some(view) => offered.insert(server, view),
            None => offered.remove(&server),
        };
        !silent
    });
    if changed {
        wiring.events.publish(news);
    }
}

fn news(server: ServerId, view: Option<&ListingView>) -> RuntimeEvent {
    let reason = view.and_then(|view| match &view.state {
        ListingState::Stale { reason } => Some(reason.clone()),
        ListingState::Cold | ListingState::Warm => None,
    });
    RuntimeEvent::Listing {
        server,
        revision: view.and_then(|view| view.listing.as_ref().map(|listing| listing.revision)),
        tools: view.map_or(0, |view| view.tools().len()),
        fresh: view.is_some_and(|view| matches!(view.state, ListingState::Warm)),
        reason,
    }
}

/// Why each tool's arguments cannot be checked, if they cannot, by server and fingerprint: a schema is read once.
type Gaps = BTreeMap<ServerId, BTreeMap<Digest, Option<String>>>;

/// Looks through what these servers offer for what their embedder should look at.
async fn warn(wiring: &Wiring, servers: Vec<ServerId>, mut gaps: Gaps) -> Gaps {
    // What the table shows: the catalog is ahead of it.
    let listings = wiring.registry.offered.borrow().clone();
    let table = wiring.registry.table.load_full();
    for server in servers {
        let known = gaps.remove(&server).unwrap_or_default();
        let listing = listings.get(&server).cloned();
        let (Some(place), Some(listing)) = (wiring.servers.place(&server), listing) else {
            set(wiring, server, Vec::new());
            continue;
        };
        let (definition, offered) = (place.definition.clone(), table.clone());
        let looked = wiring.heavy.start(move || {
            let entries: Vec<_> = offered.of_server(&definition.id).cloned().collect();
            let gaps = gaps_of(&entries, &known);
            let mut warnings = unmatched(&definition, &listing);
            warnings.extend(unnamed(&definition, &listing, entries.len()));
            warnings.extend(entries.iter().filter_map(|entry| {
                let why = gaps.get(&entry.fingerprint)?.as_ref()?;
                Some(format!("the arguments of \"{}\" are not checked: {why}", entry.source.raw_name()))
            }));
            (warnings, gaps)
        });
        // One that panicked says nothing about the server; the next listing is looked through again.
        if let Ok((warnings, of_server)) = looked.await {
            set(wiring, server.clone(), warnings);
            gaps.insert(server, of_server);
        }
    }
    gaps
}

fn gaps_of(
    entries: &[Arc<Entry>],
    known: &BTreeMap<Digest, Option<String>>,
) -> BTreeMap<Digest, Option<String>> {
    let gap = |entry: &Arc<Entry>| match known.get(&entry.fingerprint) {
        Some(gap) => gap.clone(),
        None => Validator::new(&entry.definition.input_schema).gap().map(str::to_owned),
    };
    entries.iter().map(|entry| (entry.fingerprint, gap(entry))).collect()
}

/// Rules of the server's lists that mean none of the tools that it has listed; none until it has.
fn unmatched(definition: &ServerDefinition, listing: &ListingView) -> Vec<String> {
    if definition.tools.is_open() || listing.listing.is_none() {
        return Vec::new();
    }
    // The registry leaves out what the lists do, so they are held against all that was listed, under their names.
    let everything = ServerTools { tools: ToolLists::default(), ..offer(definition, listing.clone()) };
    let entries = entries_of(&everything);
    let policy = ToolPolicy::of(&definition.tools, PolicyReach::Server(definition.id.clone()));
    policy.unmatched(&entries).iter().map(ToString::to_string).collect()
}

/// Whether tools were left out because their server has been given all the names that it gets.
fn unnamed(definition: &ServerDefinition, listing: &ListingView, named: usize) -> Option<String> {
    if listing.tools().len() <= named {
        return None;
    }
    let policy = ToolPolicy::of(&definition.tools, PolicyReach::Server(definition.id.clone()));
    let alone = entries_of(&offer(definition, listing.clone()));
    let admitted = alone.iter().filter(|entry| policy.admits(*entry) == Admission::Admitted).count();
    let missing = admitted.checked_sub(named).filter(|missing| *missing > 0)?;
    Some(format!("{missing} tools are left out: this server has used up its {NAMES_MAX} names"))
}

fn set(wiring: &Wiring, server: ServerId, warnings: Vec<String>) {
    let shown = &wiring.registry.warnings;
    let mut all = BTreeMap::clone(&shown.load());
    match warnings.is_empty() {
        true => drop(all.remove(&server)),
        false => drop(all.insert(server, warnings)),
    }
    // The registry's publisher alone writes here.
    shown.store(Arc::new(all));
}
