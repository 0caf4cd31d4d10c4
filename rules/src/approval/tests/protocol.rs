//! Two writers, one truth: every order in which windows, a stop, a crash, a changed tool and the letters between the
//! topic and the ledger can meet, searched to the end over the deciders themselves.
//!
//! The shells' part is modelled as they do it: a batch is durable before its effects, letters are lost with the life
//! that sent or holds them, a fresh life replays its log and resumes, and what is owed is told again. Each of these is
//! a guard, and the search without it finds what it guards against.

mod world;

use std::collections::HashSet;

use world::{Guard, Move, World};

/// What may happen beside the letters, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    Denies,
    Edits,
}

/// Searches every order; answers how many states there are, or the moves that lead to a broken law.
fn search(first: &World) -> Result<usize, (String, Vec<Move>)> {
    let mut seen = HashSet::from([first.key()]);
    let mut open = vec![(first.clone(), Vec::new())];
    while let Some((world, path)) = open.pop() {
        for (step, next) in world.moves() {
            let mut path: Vec<Move> = path.clone();
            path.push(step);
            let next = match next.and_then(|next| next.lawful().map(|()| next)) {
                Ok(next) => next,
                Err(broken) => return Err((broken, path)),
            };
            if seen.insert(next.key()) {
                open.push((next, path));
            }
        }
    }
    Ok(seen.len())
}

#[track_caller]
fn check(allowed: &[Move], second: Second, without: Option<Guard>, broken: Option<&str>) {
    let found = search(&World::new(allowed, second, without));
    match (&found, broken) {
        (Ok(states), None) => {
            assert!(*states > 100, "{states} states are no search");
            println!("{states} states: {allowed:?}, {second:?}");
        }
        (Err((law, _)), Some(words)) => assert!(law.contains(words), "{without:?}: {found:?}"),
        (Ok(_) | Err(_), _) => panic!("{allowed:?}, {second:?}, without {without:?}: {found:?}"),
    }
}

const CRASHES: [Move; 4] = [Move::TopicEnds, Move::TopicForgets, Move::LedgerEnds, Move::ProcessEnds];

/// Every crash with every kind of second window; without `PILOTHOUSE_SEARCH=full` each crash with one of them.
#[test]
fn in_every_order_a_call_runs_once_on_a_live_decision_and_nothing_owed_is_lost() {
    let full = std::env::var_os("PILOTHOUSE_SEARCH").is_some_and(|size| size == "full");
    for (n, crash) in CRASHES.into_iter().enumerate() {
        let stop = [crash, Move::First, Move::Second, Move::Stop, Move::Change];
        let late = [crash, Move::First, Move::Second, Move::Expire];
        if full || n % 2 == 0 {
            check(&stop, Second::Edits, None, None);
            check(&late, Second::Denies, None, None);
        }
        if full || n % 2 == 1 {
            check(&stop, Second::Denies, None, None);
            check(&late, Second::Edits, None, None);
        }
        if full {
            check(&[late.as_slice(), &[Move::Retell]].concat(), Second::Edits, None, None);
        }
    }
}

#[test]
fn the_search_finds_what_each_guard_guards_against() {
    let all = [Move::First, Move::Second, Move::Stop, Move::Change, Move::LedgerEnds];
    let denies = Second::Denies;
    check(&all, denies, Some(Guard::LastLook), Some("another tool than was allowed"));
    check(&all, denies, Some(Guard::OneWriter), Some("decided twice"));
    check(&all, denies, Some(Guard::CancelAtStop), Some("after its turn was over"));
    check(&all, denies, Some(Guard::TellAgain), Some("owed"));
    check(&all, denies, Some(Guard::DurableFirst), Some("decided twice"));
    let crash = [Move::First, Move::TopicForgets];
    check(&crash, denies, Some(Guard::Resume), Some("nobody can decide"));
}
