//! Lists one server, all pages, on the connection that it has or gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::RequestError;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::listing::{CacheScope, Contact, ListedTools};
use pilothouse_messages::server::ServerState;
use pilothouse_rules::listing::{PageStep, Pages};
use tokio::time::{Instant, timeout};

use crate::demand::awake;
use crate::tasks::caught;
use crate::traffic::Passage;
use crate::wiring::{Ready, ServerPlace, Wiring};

/// Lists the server and confirms its tools on the connection that told them.
///
/// # Errors
/// Why there is no listing, in plain words, and whether the server was there to be asked.
pub(super) async fn fetch(wiring: &Wiring, server: &ServerId) -> Result<ListedTools, (String, Contact)> {
    let Some(place) = wiring.servers.place(server) else {
        return Err((format!("there is no server \"{server}\""), Contact::None));
    };
    let (ready, _passage) = connection(wiring, &place).await.map_err(|reason| (reason, Contact::None))?;
    let listing = caught(pages(&ready, &wiring.limits));
    let listed = tokio::select! {
        biased;
        listed = timeout(wiring.limits.listing, listing) => listed,
        () = ready.ended.cancelled() => {
            let reason = "the connection ended while its tools were being listed".to_owned();
            return Err((reason, Contact::None));
        }
    };
    let within = wiring.limits.listing.as_millis();
    let listed = match listed {
        Err(_elapsed) => Err(format!("the server did not list its tools within {within} ms")),
        Ok(Err(panic)) => Err(format!("listing the tools panicked: {panic}")),
        Ok(Ok(listed)) => listed,
    };
    let listed = listed.map_err(|reason| (reason, Contact::Made))?;
    ready.confirmed.send_replace(Some(Arc::new(fingerprints(&listed))));
    Ok(listed)
}

/// The server's connection, or the one that it is about to have, in use.
async fn connection(wiring: &Wiring, place: &ServerPlace) -> Result<(Arc<Ready>, Passage), String> {
    awake(wiring, place, Instant::now() + patience(wiring, place)).await;
    let (state, reason) = {
        let phase = place.phase.borrow();
        (phase.state, phase.reason.clone())
    };
    let within = match state {
        ServerState::Failed => return Err(reason.unwrap_or_else(|| "the server has failed".to_owned())),
        // Either switched off, or its supervisor has not come to it yet.
        ServerState::Stopped => wiring.limits.actor_absent,
        ServerState::Connecting | ServerState::Ready | ServerState::Backoff => patience(wiring, place),
    };
    let mut ready = place.ready.subscribe();
    // One that was made by another definition's way says nothing about this one.
    let ours = |ready: &Option<Arc<Ready>>| ready.as_ref().is_some_and(|ready| place.made(ready));
    let found = match timeout(within, ready.wait_for(ours)).await {
        Ok(Ok(ready)) => ready.clone(),
        Ok(Err(_)) | Err(_) => None,
    };
    let entered = found.and_then(|ready| ready.traffic.enter().map(|passage| (ready, passage)));
    entered.ok_or_else(|| reason.unwrap_or_else(|| format!("not connected within {} ms", within.as_millis())))
}

/// How long the server may take to connect: all that are before it keep their places for a while, so many at a time.
fn patience(wiring: &Wiring, place: &ServerPlace) -> Duration {
    let limits = &wiring.limits;
    let connect = place.definition.connect_timeout.unwrap_or(limits.connect);
    let rounds = wiring.servers.places.load().len().div_ceil(limits.connects_at_once.max(1));
    let turn = limits.connect_place.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
    connect.saturating_add(turn)
}

async fn pages(ready: &Ready, limits: &Arc<Limits>) -> Result<ListedTools, String> {
    let mut pages = Pages::new(limits.clone());
    let (mut cursor, mut ttl, mut cache) = (None, None, CacheScope::Public);
    loop {
        let page = ready.connection.list_page(cursor).await;
        if !matches!(page, Err(RequestError::Ended { .. })) {
            ready.traffic.hear();
        }
        let page = page.map_err(|error| error.to_string())?;
        ttl = ttl.into_iter().chain(page.ttl).min();
        cache = match page.cache {
            CacheScope::Private => CacheScope::Private,
            CacheScope::Public => cache,
        };
        match pages.take(page.tools, page.next_cursor).map_err(|error| error.to_string())? {
            PageStep::More(next) => cursor = Some(next),
            PageStep::Done => return Ok(ListedTools { ttl, cache, ..pages.into_listed() }),
        }
    }
}

fn fingerprints(listed: &ListedTools) -> BTreeMap<String, Digest> {
    listed.tools.iter().map(|tool| (tool.name.clone(), tool.fingerprint())).collect()
}
