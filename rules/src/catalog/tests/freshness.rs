//! How long a listing is fresh, and for whom it holds.

use super::*;

#[test]
fn a_listing_expires_when_its_server_said_so_but_not_while_nobody_is_connected() {
    let said = |ttl| {
        let listed = ListedTools { ttl: Some(Duration::from_secs(ttl)), ..listed(&["read"]) };
        CatalogCommand::Fetched { server: server(), ticket: RefreshTicket(1), listed }
    };
    let rested = CatalogCommand::Rested { server: server() };
    for (ttl, then, expected) in [
        (1, None, Some(NOW.after(Duration::from_secs(30)))),
        (60, None, Some(NOW.after(Duration::from_secs(60)))),
        (60, Some(rested), None),
        (60, Some(disconnected()), None),
        (60, Some(refresh(Asked)), None),
    ] {
        let mut catalog = Catalog::new();
        for command in listing_now().into_iter().chain([said(ttl)]).chain(then) {
            let outcome = catalog.decide(NOW, &command).unwrap();
            outcome.events.iter().for_each(|event| catalog.apply(event));
        }
        assert_eq!(catalog.next_deadline(), expected);
        let Some(due) = expected else { continue };
        assert!(catalog.decide(Timestamp(due.0 - 1), &CatalogCommand::Tick).unwrap().directives.is_empty());
        let fetch = CatalogDirective::Fetch { server: server(), ticket: RefreshTicket(2) };
        assert_eq!(catalog.decide(due, &CatalogCommand::Tick).unwrap().directives, [fetch]);
    }
}

#[test]
fn a_private_listing_goes_with_its_credential_and_a_public_one_stays() {
    let other = CatalogCommand::Recredentialed { server: server() };
    for (cache, expected) in [(CacheScope::Public, 1), (CacheScope::Private, 0)] {
        let listed = ListedTools { cache, ..listed(&["read"]) };
        let mut catalog = Catalog::new();
        let fetched = CatalogCommand::Fetched { server: server(), ticket: RefreshTicket(1), listed };
        for command in listing_now().into_iter().chain([fetched, other.clone()]) {
            let outcome = catalog.decide(NOW, &command).unwrap();
            outcome.events.iter().for_each(|event| catalog.apply(event));
        }
        assert_eq!(catalog.view(&server()).map(|view| view.tools().len()), Some(expected), "{cache:?}");
    }
}

#[test]
fn a_listing_has_a_new_revision_only_if_it_says_something_new() {
    let again = [refresh(Asked)];
    let bad = DroppedTool { name: None, reason: "bad".to_owned() };
    let with_bad = ListedTools { dropped: vec![bad.clone()], ..listed(&["read"]) };
    let bad_too = CatalogCommand::Fetched { server: server(), ticket: RefreshTicket(2), listed: with_bad };
    let bad_listing = Listing { dropped: vec![bad], ..listing(1, 2, NOW.0, &["read"]) };
    let bad_listed = now_is(bad_listing);
    for (history, command, events, directives) in [
        (
            &[&listing_now()[..]][..],
            fetched(1, &["read"]),
            vec![now_listed(1, 1, &["read"])],
            vec![changed(), answer(Ok(1))],
        ),
        (&[&listing_now()[..]], fetched(1, &[]), vec![now_listed(1, 1, &[])], vec![changed(), answer(Ok(1))]),
        (&[&warm()[..], &again[..]], fetched(2, &["read"]), vec![confirmed()], vec![answer(Ok(1))]),
        (
            &[&warm()[..], &again[..]],
            fetched(2, &["read", "write"]),
            vec![now_listed(1, 2, &["read", "write"])],
            vec![changed(), answer(Ok(2))],
        ),
        (&[&warm()[..], &again[..]], bad_too, vec![bad_listed], vec![changed(), answer(Ok(2))]),
        (
            &[&stale()[..], &again[..]],
            fetched(2, &["read"]),
            vec![confirmed()],
            vec![changed(), answer(Ok(1))],
        ),
    ] {
        check(history, command, so(events, directives));
    }
}

#[test]
fn a_server_that_is_connected_and_did_not_list_its_tools_is_asked_again_ever_later() {
    let mut catalog = Catalog::new();
    let mut does = |now: Timestamp, command: CatalogCommand| {
        let outcome = catalog.decide(now, &command).unwrap();
        outcome.events.iter().for_each(|event| catalog.apply(event));
        (outcome.directives, catalog.next_deadline())
    };
    let failed = |ticket, contact| {
        let (server, reason) = (server(), "no answer".to_owned());
        CatalogCommand::FetchFailed { server, ticket: RefreshTicket(ticket), reason, contact }
    };
    does(NOW, define(1));
    does(NOW, refresh(Connected));
    let mut now = NOW;
    for (ticket, seconds) in (1..).zip([5, 10, 20, 40, 80, 160, 300, 300]) {
        let due = now.after(Duration::from_secs(seconds));
        assert_eq!(does(now, failed(ticket, Contact::Made)).1, Some(due));
        let fetch = CatalogDirective::Fetch { server: server(), ticket: RefreshTicket(ticket + 1) };
        assert_eq!(does(due, CatalogCommand::Tick), (vec![fetch], None));
        now = due;
    }
    // A listing, the end of the connection, and a server that was not there at all, each end it.
    assert_eq!(does(now, fetched(9, &["read"])).1, None);
    does(now, refresh(Asked));
    assert_eq!(does(now, failed(10, Contact::Made)).1, Some(now.after(Duration::from_secs(5))));
    assert_eq!(does(now, disconnected()).1, None);
    does(now, refresh(Connected));
    assert_eq!(does(now, failed(11, Contact::None)).1, None);
}
