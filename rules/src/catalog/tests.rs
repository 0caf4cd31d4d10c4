use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{
    CacheScope, CatalogCommand, CatalogDirective, CatalogEvent, CatalogRejection, Contact, DroppedTool,
    ListedTools, Listing, ListingState, ListingView, RefreshCause, RefreshTicket,
};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::ToolDefinition;
use proptest::prelude::*;
use serde_json::json;

use super::{Catalog, FROM_STORE, Outcome, REDEFINED, REMOVED};
use crate::{Decider, Decision};

use RefreshCause::{Asked, Connected, ToolsChanged};

mod freshness;

const NOW: Timestamp = Timestamp(50);

fn named(server: &str) -> ServerId {
    ServerId::new(server).unwrap()
}

fn server() -> ServerId {
    named("files")
}

fn digest(version: u8) -> Digest {
    Digest([version; 32])
}

fn define(version: u8) -> CatalogCommand {
    CatalogCommand::Define { server: server(), definition: digest(version) }
}

fn refresh(cause: RefreshCause) -> CatalogCommand {
    CatalogCommand::Refresh { server: server(), cause }
}

fn fetched(ticket: u64, tools: &[&str]) -> CatalogCommand {
    CatalogCommand::Fetched { server: server(), ticket: RefreshTicket(ticket), listed: listed(tools) }
}

fn failed(ticket: u64, reason: &str) -> CatalogCommand {
    let reason = reason.to_owned();
    let contact = Contact::None;
    CatalogCommand::FetchFailed { server: server(), ticket: RefreshTicket(ticket), reason, contact }
}

fn disconnected() -> CatalogCommand {
    CatalogCommand::Disconnected { server: server(), reason: "gone".to_owned() }
}

fn remove() -> CatalogCommand {
    CatalogCommand::Remove { server: server() }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: None,
        input_schema: JsonText::from(json!({"type": "object"})),
        output_schema: None,
        annotations: None,
    }
}

fn listed(tools: &[&str]) -> ListedTools {
    ListedTools { tools: tools.iter().map(|name| tool(name)).collect(), ..ListedTools::default() }
}

fn listing(version: u8, revision: u64, at: u64, tools: &[&str]) -> Listing {
    let ListedTools { tools, dropped, .. } = listed(tools);
    let (definition, revision) = (digest(version), Revision(revision));
    Listing { definition, revision, listed_at: Timestamp(at), tools, dropped }
}

fn catalog_after(history: &[CatalogCommand]) -> Catalog {
    let mut catalog = Catalog::new();
    for (command, now) in history.iter().zip(1..) {
        let decision = catalog.decide(Timestamp(now), command).unwrap();
        decision.events.iter().for_each(|event| catalog.apply(event));
    }
    catalog
}

fn defined(version: u8) -> CatalogEvent {
    CatalogEvent::Defined { server: server(), definition: digest(version) }
}

fn went_stale(reason: &str) -> CatalogEvent {
    CatalogEvent::WentStale { server: server(), reason: reason.to_owned() }
}

fn refresh_started(ticket: u64) -> CatalogEvent {
    CatalogEvent::RefreshStarted { server: server(), ticket: RefreshTicket(ticket) }
}

fn refresh_ended() -> CatalogEvent {
    CatalogEvent::RefreshEnded { server: server() }
}

fn now_is(listing: Listing) -> CatalogEvent {
    CatalogEvent::Listed { server: server(), listing, cache: CacheScope::Public, expires: None }
}

fn confirmed() -> CatalogEvent {
    CatalogEvent::Confirmed { server: server(), at: NOW, expires: None }
}

fn now_listed(version: u8, revision: u64, tools: &[&str]) -> CatalogEvent {
    now_is(listing(version, revision, NOW.0, tools))
}

fn fetch(ticket: u64) -> CatalogDirective {
    CatalogDirective::Fetch { server: server(), ticket: RefreshTicket(ticket) }
}

fn changed() -> CatalogDirective {
    CatalogDirective::Changed { server: server() }
}

fn answer(result: Result<u64, &str>) -> CatalogDirective {
    CatalogDirective::Answer { server: server(), result: result.map(Revision).map_err(str::to_owned) }
}

fn so(events: Vec<CatalogEvent>, directives: Vec<CatalogDirective>) -> Result<Outcome, CatalogRejection> {
    Ok(Decision { answer: (), events, directives })
}

#[track_caller]
fn check(
    history: &[&[CatalogCommand]],
    command: CatalogCommand,
    expected: Result<Outcome, CatalogRejection>,
) {
    let decided = catalog_after(&history.concat()).decide(NOW, &command);
    assert_eq!(decided, expected, "{command:?} after {history:?}");
}

/// Histories that leave the catalog in each state; the last refresh has ticket 1.
fn cold() -> [CatalogCommand; 1] {
    [define(1)]
}

fn listing_now() -> [CatalogCommand; 2] {
    [define(1), refresh(Asked)]
}

fn warm() -> [CatalogCommand; 3] {
    [define(1), refresh(Asked), fetched(1, &["read"])]
}

fn stale() -> [CatalogCommand; 4] {
    [define(1), refresh(Asked), fetched(1, &["read"]), disconnected()]
}

#[test]
fn another_definition_drops_the_listing_and_overtakes_the_refresh() {
    let dropped = || CatalogEvent::Dropped { server: server() };
    for (history, command, expected) in [
        (&[][..], define(1), so(vec![defined(1)], vec![])),
        (&cold()[..], define(1), so(vec![], vec![])),
        (&cold()[..], define(2), so(vec![defined(2)], vec![])),
        (&listing_now()[..], define(1), so(vec![], vec![])),
        (&listing_now()[..], define(2), so(vec![defined(2)], vec![answer(Err(REDEFINED))])),
        (&warm()[..], define(1), so(vec![], vec![])),
        (&warm()[..], define(2), so(vec![dropped(), defined(2)], vec![changed()])),
        (&stale()[..], define(2), so(vec![dropped(), defined(2)], vec![changed()])),
    ] {
        check(&[history], command, expected);
    }
    check(&[&listing_now(), &[define(2)]], fetched(1, &["read"]), Err(CatalogRejection::Overtaken));
    // Revisions go on over a change of definition: a reader never sees two listings under one.
    let again = [define(2), refresh(Connected)];
    check(
        &[&warm(), &again],
        fetched(2, &["read"]),
        so(vec![now_listed(2, 2, &["read"])], vec![changed(), answer(Ok(2))]),
    );
}

#[test]
fn one_refresh_runs_at_a_time_and_each_cause_joins_queues_or_overtakes() {
    let queued = CatalogEvent::RefreshQueued { server: server() };
    let unknown = CatalogRejection::UnknownServer { server: server() };
    let start = |ticket| so(vec![refresh_started(ticket)], vec![fetch(ticket)]);
    let again = [refresh(ToolsChanged)];
    for (history, cause, expected) in [
        (&[&[][..]][..], Asked, Err(unknown)),
        (&[&cold()[..]], Asked, start(1)),
        (&[&cold()[..]], ToolsChanged, start(1)),
        (&[&cold()[..]], Connected, start(1)),
        (&[&warm()[..]], Asked, start(2)),
        (&[&listing_now()[..]], Asked, so(vec![], vec![])),
        (&[&listing_now()[..]], ToolsChanged, so(vec![queued], vec![])),
        (&[&listing_now()[..]], Connected, start(2)),
        (&[&listing_now()[..], &again[..]], Asked, so(vec![], vec![])),
        (&[&listing_now()[..], &again[..]], ToolsChanged, so(vec![], vec![])),
        (&[&listing_now()[..], &again[..]], Connected, start(2)),
    ] {
        check(history, refresh(cause), expected);
    }
    // Tickets grow over all servers, also over those that are gone.
    let other = CatalogCommand::Define { server: named("web"), definition: digest(1) };
    let ask_other = CatalogCommand::Refresh { server: named("web"), cause: Asked };
    let history = [other, ask_other, define(1)];
    check(&[&history], refresh(Asked), start(2));
    let gone = [remove(), define(1)];
    check(&[&listing_now(), &gone], refresh(Asked), start(2));
}

#[test]
fn an_answer_counts_under_the_current_ticket_only() {
    let overtaken = || Err(CatalogRejection::Overtaken);
    let unknown = || Err(CatalogRejection::UnknownServer { server: server() });
    for (history, command, expected) in [
        (&[&[][..]][..], fetched(1, &[]), unknown()),
        (&[&[][..]], failed(1, "x"), unknown()),
        (&[&cold()[..]], fetched(0, &[]), overtaken()),
        (&[&warm()[..]], fetched(1, &["write"]), overtaken()),
        (&[&warm()[..]], failed(1, "x"), overtaken()),
        (&[&listing_now()[..], &[refresh(Connected)]], fetched(1, &["read"]), overtaken()),
        (&[&listing_now()[..], &[refresh(Connected)]], failed(1, "x"), overtaken()),
        (&[&listing_now()[..], &[disconnected()]], fetched(1, &["read"]), overtaken()),
        (&[&listing_now()[..], &[remove(), define(1)]], fetched(1, &["read"]), overtaken()),
    ] {
        check(history, command, expected);
    }
}

#[test]
fn a_failed_refresh_keeps_the_last_known_good_listing() {
    let again = [refresh(Asked)];
    let sorry = answer(Err("no answer"));
    for (history, reason, events, directives) in [
        (&[&listing_now()[..]][..], "no answer", vec![refresh_ended()], vec![sorry.clone()]),
        (
            &[&warm()[..], &again[..]],
            "no answer",
            vec![refresh_ended(), went_stale("no answer")],
            vec![changed(), sorry.clone()],
        ),
        (
            &[&stale()[..], &again[..]],
            "no answer",
            vec![refresh_ended(), went_stale("no answer")],
            vec![changed(), sorry],
        ),
        (&[&stale()[..], &again[..]], "gone", vec![refresh_ended()], vec![answer(Err("gone"))]),
    ] {
        let ticket = if history.len() == 1 { 1 } else { 2 };
        check(history, failed(ticket, reason), so(events, directives));
    }
}

#[test]
fn a_queued_refresh_starts_in_the_batch_that_ends_the_one_before_it() {
    let history = [&listing_now()[..], &[refresh(ToolsChanged)][..]];
    check(
        &history,
        fetched(1, &["read"]),
        so(vec![now_listed(1, 1, &["read"]), refresh_started(2)], vec![changed(), answer(Ok(1)), fetch(2)]),
    );
    check(
        &history,
        failed(1, "no answer"),
        so(vec![refresh_ended(), refresh_started(2)], vec![answer(Err("no answer")), fetch(2)]),
    );
    // The second one is the last: a change that was announced once is not fetched for ever.
    check(
        &[history[0], history[1], &[fetched(1, &["read"])]],
        fetched(2, &["read"]),
        so(vec![confirmed()], vec![answer(Ok(1))]),
    );
}

#[test]
fn the_end_of_a_connection_makes_its_listing_stale_and_ends_its_refresh() {
    let unknown = CatalogRejection::UnknownServer { server: server() };
    let sorry = || answer(Err("gone"));
    for (history, expected) in [
        (&[&[][..]][..], Err(unknown)),
        (&[&cold()[..]], so(vec![], vec![])),
        (&[&listing_now()[..]], so(vec![refresh_ended()], vec![sorry()])),
        (&[&warm()[..]], so(vec![went_stale("gone")], vec![changed()])),
        (
            &[&warm()[..], &[refresh(Asked)]],
            so(vec![refresh_ended(), went_stale("gone")], vec![changed(), sorry()]),
        ),
        (&[&stale()[..]], so(vec![], vec![])),
    ] {
        check(history, disconnected(), expected);
    }
}

#[test]
fn a_removed_server_is_gone_and_starts_cold_if_it_comes_back() {
    let removed = || vec![CatalogEvent::Removed { server: server() }];
    let unknown = CatalogRejection::UnknownServer { server: server() };
    check(&[], remove(), Err(unknown));
    check(&[&warm()], remove(), so(removed(), vec![changed()]));
    check(&[&listing_now()], remove(), so(removed(), vec![changed(), answer(Err(REMOVED))]));

    let mut catalog = catalog_after(&[&warm()[..], &[remove()]].concat());
    assert_eq!(catalog.view(&server()), None);
    catalog.apply(&defined(1));
    assert_eq!(catalog.view(&server()), Some(ListingView::new(server(), ListingState::Cold, None)));
}

#[test]
fn readers_see_every_server_at_once() {
    let read = || Some(Arc::new(listing(1, 1, 3, &["read"])));
    let old = ListingState::Stale { reason: "gone".to_owned() };
    for (history, state, listing, under_way) in [
        (&cold()[..], ListingState::Cold, None, None),
        (&listing_now()[..], ListingState::Cold, None, Some(RefreshTicket(1))),
        (&warm()[..], ListingState::Warm, read(), None),
        (&stale()[..], old, read(), None),
    ] {
        let catalog = catalog_after(history);
        let view = ListingView::new(server(), state, listing);
        assert_eq!(catalog.view(&server()), Some(view.clone()));
        assert_eq!(catalog.views(), BTreeMap::from([(server(), view)]));
        assert_eq!(refreshing(&catalog, &server()), under_way);
    }
}

#[test]
fn a_stored_listing_is_offered_as_stale_until_its_server_has_answered() {
    let stored = listing(1, 7, 9, &["read"]);
    let mut catalog = Catalog::new();
    Catalog::restore(server(), stored.clone()).iter().for_each(|event| catalog.apply(event));
    let state = ListingState::Stale { reason: FROM_STORE.to_owned() };
    let view = ListingView::new(server(), state, Some(Arc::new(stored)));
    assert_eq!(catalog.view(&server()), Some(view));

    assert_eq!(catalog.decide(NOW, &define(1)), so(vec![], vec![]));
    for event in catalog.decide(NOW, &refresh(Connected)).unwrap().events {
        catalog.apply(&event);
    }
    let expected = so(vec![now_listed(1, 8, &["read", "write"])], vec![changed(), answer(Ok(8))]);
    assert_eq!(catalog.decide(NOW, &fetched(1, &["read", "write"])), expected);
}

/// Any command about two servers; tickets are given as how far they lie behind the newest one.
fn any_command() -> impl Strategy<Value = CatalogCommand> {
    let server = || prop::sample::select(vec![named("a"), named("b")]);
    let ticket = || (0..4u64).prop_map(RefreshTicket);
    let cause = prop::sample::select(vec![Asked, ToolsChanged, Connected]);
    let private = ListedTools { cache: CacheScope::Private, ..listed(&["x"]) };
    let short = ListedTools { ttl: Some(Duration::from_millis(1)), ..listed(&["x"]) };
    let tools = prop::sample::select(vec![listed(&[]), listed(&["x"]), listed(&["x", "y"]), private, short]);
    let contact = prop::sample::select(vec![Contact::Made, Contact::None]);
    let reason = || prop::sample::select(vec!["gone".to_owned(), "no answer".to_owned()]);
    prop_oneof![
        2 => (server(), 1..3u8).prop_map(|(server, version)| CatalogCommand::Define {
            server,
            definition: digest(version)
        }),
        4 => (server(), cause).prop_map(|(server, cause)| CatalogCommand::Refresh { server, cause }),
        4 => (server(), ticket(), tools)
            .prop_map(|(server, ticket, listed)| CatalogCommand::Fetched { server, ticket, listed }),
        2 => (server(), ticket(), reason(), contact).prop_map(|(server, ticket, reason, contact)| {
            CatalogCommand::FetchFailed { server, ticket, reason, contact }
        }),
        1 => (server(), reason())
            .prop_map(|(server, reason)| CatalogCommand::Disconnected { server, reason }),
        1 => server().prop_map(|server| CatalogCommand::Rested { server }),
        1 => server().prop_map(|server| CatalogCommand::Recredentialed { server }),
        1 => Just(CatalogCommand::Tick),
        1 => server().prop_map(|server| CatalogCommand::Remove { server }),
    ]
}

/// What a shell knows: the fetch of each server that it may still wait for.
#[derive(Default)]
struct Outstanding {
    fetches: BTreeMap<ServerId, RefreshTicket>,
    newest: u64,
}

impl Outstanding {
    /// Follows one decision that was not refused.
    fn follow(&mut self, command: &CatalogCommand, outcome: &Outcome) {
        for directive in &outcome.directives {
            match directive {
                CatalogDirective::Answer { server, .. } => {
                    assert!(self.fetches.remove(server).is_some(), "an answer without a refresh");
                }
                CatalogDirective::Fetch { server, ticket } => {
                    assert!(ticket.0 > self.newest, "a ticket was used twice");
                    self.newest = ticket.0;
                    let last = self.fetches.insert(server.clone(), *ticket);
                    let overtakes = matches!(command, CatalogCommand::Refresh { cause: Connected, .. });
                    assert!(last.is_none() || overtakes, "two fetches at once");
                }
                CatalogDirective::Changed { .. } => {}
            }
        }
    }
}

fn with_ticket(command: CatalogCommand, newest: u64) -> CatalogCommand {
    let behind = |ticket: RefreshTicket| RefreshTicket(newest.saturating_sub(ticket.0));
    match command {
        CatalogCommand::Fetched { server, ticket, listed } => {
            CatalogCommand::Fetched { server, ticket: behind(ticket), listed }
        }
        CatalogCommand::FetchFailed { server, ticket, reason, contact } => {
            CatalogCommand::FetchFailed { server, ticket: behind(ticket), reason, contact }
        }
        CatalogCommand::Define { .. }
        | CatalogCommand::Refresh { .. }
        | CatalogCommand::Disconnected { .. }
        | CatalogCommand::Rested { .. }
        | CatalogCommand::Recredentialed { .. }
        | CatalogCommand::Tick
        | CatalogCommand::Remove { .. } => command,
    }
}

proptest! {
    #[test]
    fn a_late_answer_changes_nothing_and_one_fetch_is_outstanding_a_server(
        script in prop::collection::vec((any_command(), 0..40_000u64), 0..80),
    ) {
        let mut live = Catalog::new();
        let (mut log, mut outstanding) = (Vec::new(), Outstanding::default());
        let mut now = 0;
        for (command, wait) in script {
            now += wait;
            let command = with_ticket(command, outstanding.newest);
            let decided = live.decide(Timestamp(now), &command);
            if let CatalogCommand::Fetched { server, ticket, .. }
            | CatalogCommand::FetchFailed { server, ticket, .. } = &command
            {
                let awaited = outstanding.fetches.get(server) == Some(ticket);
                prop_assert_eq!(decided.is_ok(), awaited, "{:?}", command);
            }
            let Ok(outcome) = decided else { continue };
            outstanding.follow(&command, &outcome);
            let before = live.views();
            outcome.events.iter().for_each(|event| live.apply(event));
            log.extend(outcome.events);

            for name in ["a", "b"].map(named) {
                prop_assert_eq!(refreshing(&live, &name), outstanding.fetches.get(&name).copied());
                let told = outcome.directives.contains(&CatalogDirective::Changed { server: name.clone() });
                let seen = |view: Option<ListingView>| {
                    view.map(|view| (view.state.clone(), view.listing.map(|last| last.revision)))
                };
                let differs = seen(before.get(&name).cloned()) != seen(live.view(&name));
                let newly_cold = !before.contains_key(&name) && live.view(&name).is_some();
                prop_assert_eq!(told, differs && !newly_cold, "{:?}", command);
            }
        }
        let mut replayed = Catalog::new();
        log.iter().for_each(|event| replayed.apply(event));
        prop_assert_eq!(replayed, live);
    }
}

/// The refresh of this server that is under way, if one is.
fn refreshing(catalog: &Catalog, server: &ServerId) -> Option<RefreshTicket> {
    let (ticket, _) = catalog.servers.get(server)?.under_way()?;
    Some(ticket)
}
