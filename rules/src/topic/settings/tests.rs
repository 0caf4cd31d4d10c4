use pilothouse_messages::id::ServerId;
use pilothouse_messages::topic::{PermissionMode as Mode, Steering};

use super::*;

/// What counts now and what waits, of a change while a turn is open.
fn check(change: impl Fn(&mut TopicConfig, &mut TopicConfig), now: &[Setting], next_turn: &[Setting]) {
    let (mut from, mut to) = (TopicConfig::new("m"), TopicConfig::new("m"));
    change(&mut from, &mut to);
    let expected = Configured { now: now.to_vec(), next_turn: next_turn.to_vec() };
    assert_eq!(changed(&from, &to, Turn::Open), expected, "{from:?} to {to:?}");
    // While none is open there is nothing to wait for.
    let all: BTreeSet<_> = now.iter().chain(next_turn).copied().collect();
    let expected = Configured { now: all.into_iter().collect(), next_turn: Vec::new() };
    assert_eq!(changed(&from, &to, Turn::Closed), expected, "{from:?} to {to:?}");
}

fn servers(ids: &[&str]) -> Option<Vec<ServerId>> {
    Some(ids.iter().map(|id| ServerId::new(*id).expect("an id")).collect())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_mode_counts_now_as_far_as_it_is_stricter() {
    let modes =
        |from, to| move |old: &mut TopicConfig, new: &mut TopicConfig| (old.mode, new.mode) = (from, to);
    check(modes(Mode::Default, Mode::Default), &[], &[]);
    check(modes(Mode::Default, Mode::Plan), &[Setting::Mode], &[]);
    check(modes(Mode::Bypass, Mode::Default), &[Setting::Mode], &[]);
    check(modes(Mode::Plan, Mode::Default), &[], &[Setting::Mode]);
    check(modes(Mode::Default, Mode::AcceptEdits), &[], &[Setting::Mode]);
    check(modes(Mode::AcceptEdits, Mode::Auto), &[Setting::Mode], &[Setting::Mode]);
}

#[test]
fn choices_and_lists_count_now_as_far_as_they_are_narrower() {
    check(|_, to| to.servers = servers(&["a"]), &[Setting::Servers], &[]);
    check(|from, _| from.servers = servers(&["a"]), &[], &[Setting::Servers]);
    let swap = |from: &mut TopicConfig, to: &mut TopicConfig| {
        (from.servers, to.servers) = (servers(&["a", "b"]), servers(&["b", "c"]));
    };
    check(swap, &[Setting::Servers], &[Setting::Servers]);
    let same = |from: &mut TopicConfig, to: &mut TopicConfig| {
        (from.servers, to.servers) = (servers(&["a", "b"]), servers(&["b", "a"]));
    };
    check(same, &[], &[]);
    check(|_, to| to.builtins = Some(texts(&["f"])), &[Setting::Builtins], &[]);
    check(|_, to| to.tools.deny = texts(&["x"]), &[Setting::Tools], &[]);
    check(|from, _| from.tools.deny = texts(&["x"]), &[], &[Setting::Tools]);
    check(|_, to| to.tools.allow = Some(texts(&["x"])), &[Setting::Tools], &[]);
    check(|from, _| from.tools.allow = Some(texts(&["x"])), &[], &[Setting::Tools]);
    check(|_, to| to.headless = Headless::Deny, &[Setting::Headless], &[]);
    check(|from, _| from.headless = Headless::Deny, &[], &[Setting::Headless]);
}

#[test]
fn all_else_waits_for_the_next_turn() {
    check(|_, to| to.model = "n".to_owned(), &[], &[Setting::Model]);
    check(|_, to| to.max_steps = Some(1), &[], &[Setting::MaxSteps]);
    check(|_, to| to.approval_ttl_ms = Some(1), &[], &[Setting::ApprovalTtl]);
    check(|_, to| to.turns.steering = Steering::Inject, &[], &[Setting::Steering]);
    let budget = |_: &mut TopicConfig, to: &mut TopicConfig| to.turns.budget.tokens = Some(1);
    check(budget, &[], &[Setting::Budget]);
}
