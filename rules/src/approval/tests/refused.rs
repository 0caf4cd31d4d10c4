use super::*;

/// How many of these are recorded, told one after the other in these milliseconds.
#[track_caller]
fn check(history: &[ApprovalCommand], refused: &ApprovalCommand, at: impl Iterator<Item = u64>, kept: usize) {
    let mut ledger = ledger_after(history);
    let mut events = 0;
    for now in at {
        let decision = ledger.decide(Timestamp(now), refused).unwrap();
        assert_eq!(decision.directives, [], "a refusal does nothing");
        decision.events.iter().for_each(|event| ledger.apply(event));
        events += decision.events.len();
    }
    assert_eq!(events, kept, "{refused:?}");
}

#[test]
fn what_is_refused_is_recorded_within_a_bound() {
    let decided = [open("t", 0), allow("t", 0)];
    let foreign = ApprovalCommand::Foreign { approval: id("t", 0), by: "eve".to_owned() };
    let unfit =
        ApprovalCommand::Refuse { approval: id("t", 0), by: "ann".to_owned(), why: RefusedDecision::Unfit };
    let clock = ApprovalCommand::Clock { from: Timestamp(1), to: Timestamp(100_000) };
    check(&decided, &deny("t", 0), 3..300, 16);
    check(&decided, &foreign, 3..300, 16);
    check(&decided, &unfit, 3..300, 16);
    check(&[], &deny("t", 0), 3..400, 256);
    check(&[], &clock, 3..400, 256);
    // The next hour has room of its own.
    check(&[], &clock, (3..400).chain(3_600_000..3_600_400), 512);
}

#[test]
fn a_foreign_decider_of_no_card_is_recorded_as_that() {
    let foreign = ApprovalCommand::Foreign { approval: id("t", 0), by: "eve".to_owned() };
    super::check(&[], 50, foreign, refused(("eve", 50, RefusedDecision::Unknown), DecideAnswer::Unknown));
}

#[test]
fn a_card_made_by_a_clock_that_stands_far_behind_has_its_patience() {
    let limits = Limits::default();
    let late = EXPIRY.0 + 50;
    let ledger = Ledger::new(Arc::new(limits.clone()));
    let opened = ledger.decide(Timestamp(late), &open("t", 0)).unwrap();
    let shown = Card { expires_at: Timestamp(late).after(limits.approval), ..card("t", 0) };
    assert_eq!(opened.events, [ApprovalEvent::Opened { card: shown, at: Timestamp(late) }]);
}
