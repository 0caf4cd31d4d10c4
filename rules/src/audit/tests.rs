use pilothouse_messages::approval::{ApprovalEvent, Card, Decision, Verdict};
use pilothouse_messages::audit::{
    AuditBasis, AuditBooks, AuditFact, AuditFault, AuditGap, AuditLog, AuditReport, AuditTool,
    ScriptCallFact, TopicRecords,
};
use pilothouse_messages::call::{CallOutcome, CallResult, LateAnswer, LateWord};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::{Grant, GrantEnd, GrantPlace, GrantSubject};
use pilothouse_messages::id::{
    ApprovalId, Attempt, CallId, GrantId, MessageId, StepId, StepRef, TenantId, TopicId, TurnId,
};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::record::Record;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CallPlan, NestedCall, NestedNews, NestedPlan, PermissionMode, PlannedCall, ResolvedTool, RunBasis,
    TopicConfig, TopicEvent,
};
use serde_json::json;

use super::account;

fn topic() -> TopicId {
    TopicId::new("t").unwrap()
}

fn call() -> CallId {
    CallId { turn: TurnId(1), step: StepId(1), index: 0 }
}

fn approval() -> ApprovalId {
    ApprovalId::of(&topic(), call())
}

fn grant_id() -> GrantId {
    GrantId::of(approval())
}

fn tool(effect: Effect) -> ResolvedTool {
    ResolvedTool {
        name: "drop".to_owned(),
        source: ToolSource::Builtin { name: "drop".to_owned() },
        label: "drop".to_owned(),
        title: None,
        effect,
        force_prompt: false,
        interruptible: false,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

fn arguments(what: &str) -> JsonText {
    JsonText::from(json!({"what": what}))
}

fn card() -> Card {
    let tool = tool(Effect::Edits);
    Card {
        approval: approval(),
        tenant: TenantId::default(),
        topic: topic(),
        call: call(),
        tool: tool.name,
        source: tool.source,
        label: tool.label,
        title: None,
        effect: tool.effect,
        arguments: arguments("it"),
        fingerprint: tool.fingerprint,
        definition: tool.definition,
        reason: "this tool changes things".to_owned(),
        expires_at: Timestamp(1_000),
    }
}

fn opened() -> ApprovalEvent {
    ApprovalEvent::Opened { card: card(), at: Timestamp(20) }
}

fn decided(verdict: Verdict, at: u64) -> ApprovalEvent {
    let (approval, digest) = (approval(), card().digest());
    ApprovalEvent::Decided {
        approval,
        verdict,
        by: "ann".to_owned(),
        reason: None,
        digest,
        at: Timestamp(at),
    }
}

fn edited(to: &str) -> ApprovalEvent {
    let decision = Decision::allow("ann").with_arguments(arguments(to));
    ApprovalEvent::DecidedWith {
        approval: approval(),
        verdict: Verdict::Allow,
        by: "ann".to_owned(),
        reason: None,
        digest: card().digest(),
        terms: decision.terms(),
        arguments: decision.arguments,
        at: Timestamp(30),
    }
}

fn given(change: impl FnOnce(&mut Grant)) -> ApprovalEvent {
    let mut grant = Grant {
        grant: grant_id(),
        approval: approval(),
        tenant: TenantId::default(),
        place: GrantPlace::Topic { topic: topic() },
        subject: GrantSubject::Tool(tool(Effect::Edits).source),
        fingerprints: vec![Digest([1; 32])],
        definition: Digest([2; 32]),
        arguments: vec![],
        by: "ann".to_owned(),
        reason: None,
        given_at: Timestamp(2),
        expires_at: None,
    };
    change(&mut grant);
    ApprovalEvent::Granted { grant }
}

fn ended(at: u64) -> ApprovalEvent {
    let end = GrantEnd::Revoked { by: "bob".to_owned() };
    ApprovalEvent::GrantEnded { grant: grant_id(), end, at: Timestamp(at) }
}

fn configured(mode: PermissionMode, at: u64) -> TopicEvent {
    TopicEvent::Configured { config: TopicConfig { mode, ..TopicConfig::new("main") }, at: Timestamp(at) }
}

fn replied(plan: CallPlan, effect: Effect) -> TopicEvent {
    let planned = PlannedCall {
        call: call(),
        provider_id: None,
        name: "drop".to_owned(),
        arguments: arguments("it"),
        tool: Some(tool(effect)),
        plan,
    };
    TopicEvent::StepReplied {
        at: StepRef { turn: TurnId(1), step: StepId(1), attempt: Attempt(1) },
        text: String::new(),
        calls: vec![planned],
        finish: FinishReason::Stop,
        usage: Usage::default(),
    }
}

fn started(basis: RunBasis) -> TopicEvent {
    TopicEvent::CallStarted { call: call(), attempt: Attempt(1), basis }
}

/// A topic in this mode whose turn, begun at 10 ms, runs one call on this basis.
fn ran(mode: PermissionMode, effect: Effect, basis: RunBasis) -> Vec<TopicEvent> {
    let plan = match &basis {
        RunBasis::Approved { approval } => {
            CallPlan::Ask { approval: *approval, reason: String::new(), expires_at: Timestamp(1_000) }
        }
        RunBasis::Mode | RunBasis::Grant { .. } | RunBasis::Classified => CallPlan::Run(basis.clone()),
    };
    vec![
        configured(mode, 1),
        TopicEvent::TurnStarted { turn: TurnId(1), messages: vec![MessageId(1)], at: Timestamp(10) },
        replied(plan, effect),
        started(basis),
    ]
}

fn records<T>(events: Vec<T>) -> Vec<Record<T>> {
    (1..).zip(events).map(|(sequence, payload)| Record { sequence, previous: None, payload }).collect()
}

fn books(ledger: Vec<ApprovalEvent>, grants: Vec<ApprovalEvent>, topic: TopicRecords) -> AuditBooks {
    let (ledger, grants) = (records(ledger), records(grants));
    let durable = ledger.len() as u64;
    AuditBooks { ledger, grants, topics: vec![topic], durable, ..AuditBooks::default() }
}

fn drawn(ledger: Vec<ApprovalEvent>, grants: Vec<ApprovalEvent>, journal: Vec<TopicEvent>) -> AuditReport {
    account(&books(ledger, grants, TopicRecords::whole(topic(), records(journal))))
}

#[track_caller]
fn check(
    ledger: Vec<ApprovalEvent>,
    grants: Vec<ApprovalEvent>,
    journal: Vec<TopicEvent>,
    expected: &[AuditFault],
) {
    let faults = drawn(ledger.clone(), grants.clone(), journal.clone()).faults;
    assert_eq!(faults, expected, "{ledger:?}, {grants:?}, {journal:?}");
}

#[test]
fn a_call_that_ran_needs_a_decision_for_that_tool_and_those_arguments() {
    let basis = RunBasis::Approved { approval: approval() };
    let ran = || ran(PermissionMode::Default, Effect::Edits, basis.clone());
    let edit = |to: &str| {
        let mut journal = ran();
        journal.insert(3, TopicEvent::CallEdited { call: call(), arguments: arguments(to) });
        journal
    };
    let (topic, call, approval) = (topic(), call(), approval());
    let undecided = [AuditFault::RanUndecided { topic: topic.clone(), call, approval }];
    let otherwise = [AuditFault::RanOtherwise { topic: topic.clone(), call, approval }];
    let twice = [AuditFault::DecidedTwice { approval }];
    let allow = || decided(Verdict::Allow, 30);
    let deny = || decided(Verdict::Deny, 30);
    check(vec![opened(), allow()], vec![], ran(), &[]);
    check(vec![opened()], vec![], ran(), &undecided);
    check(vec![opened(), deny()], vec![], ran(), &undecided);
    check(vec![opened(), allow(), deny()], vec![], ran(), &twice);
    check(vec![opened(), edited("that")], vec![], edit("that"), &[]);
    check(vec![opened(), edited("that")], vec![], edit("something else"), &otherwise);
    check(vec![opened(), allow()], vec![], edit("that"), &otherwise);
    check(vec![opened(), edited("that")], vec![], ran(), &otherwise);
    // Another tool under the same name.
    let mut changed = ran();
    if let TopicEvent::StepReplied { calls, .. } = &mut changed[2] {
        calls[0].tool = Some(ResolvedTool { fingerprint: Digest([9; 32]), ..tool(Effect::Edits) });
    }
    check(vec![opened(), allow()], vec![], changed, &otherwise);
    let mut again = ran();
    again.push(again[3].clone());
    let attempt = Attempt(1);
    check(vec![opened(), allow()], vec![], again, &[AuditFault::RanUnplanned { topic, call, attempt }]);
}

#[test]
fn a_call_that_ran_on_a_grant_needs_one_that_held_and_fits() {
    let ran = || ran(PermissionMode::Default, Effect::Edits, RunBasis::Grant { grant: grant_id() });
    let fault = [AuditFault::RanUngranted { topic: topic(), call: call(), grant: grant_id() }];
    let elsewhere = GrantPlace::Topic { topic: TopicId::new("other").unwrap() };
    let back = ApprovalEvent::ClockJumped { from: Timestamp(9), to: Timestamp(1), at: Timestamp(9) };
    check(vec![], vec![given(|_| {})], ran(), &[]);
    check(vec![], vec![], ran(), &fault);
    check(vec![], vec![given(|grant| grant.place = elsewhere)], ran(), &fault);
    check(vec![], vec![given(|grant| grant.fingerprints = vec![Digest([7; 32])])], ran(), &fault);
    check(vec![], vec![given(|grant| grant.definition = Digest([7; 32]))], ran(), &fault);
    check(vec![], vec![given(|grant| grant.tenant = TenantId::new("other").unwrap())], ran(), &fault);
    check(vec![], vec![given(|grant| grant.expires_at = Some(Timestamp(5)))], ran(), &fault);
    check(vec![], vec![given(|_| {}), ended(5)], ran(), &fault);
    // It may have run before that.
    check(vec![], vec![given(|_| {}), ended(10)], ran(), &[]);
    check(vec![back], vec![given(|_| {}), ended(5)], ran(), &[]);
}

#[test]
fn a_call_that_ran_needs_a_mode_that_lets_it() {
    use PermissionMode::{AcceptEdits, Auto, Bypass, Default, Plan};
    let rows = [
        (Default, Effect::Reads, RunBasis::Mode, None),
        (Default, Effect::Edits, RunBasis::Mode, Some(Default)),
        (AcceptEdits, Effect::Edits, RunBasis::Mode, None),
        (AcceptEdits, Effect::Executes, RunBasis::Mode, Some(AcceptEdits)),
        (Bypass, Effect::Unknown, RunBasis::Mode, None),
        (Auto, Effect::Edits, RunBasis::Classified, None),
        (Default, Effect::Edits, RunBasis::Classified, Some(Default)),
        (Plan, Effect::Edits, RunBasis::Grant { grant: grant_id() }, Some(Plan)),
    ];
    for (mode, effect, basis, against) in rows {
        let fault = against.map(|mode| AuditFault::RanAgainstMode { topic: topic(), call: call(), mode });
        check(vec![], vec![given(|_| {})], ran(mode, effect, basis), fault.as_slice());
    }
    // What became stricter in the turn counts at once.
    let mut journal = ran(Bypass, Effect::Edits, RunBasis::Mode);
    journal.insert(2, configured(Plan, 11));
    let fault = AuditFault::RanAgainstMode { topic: topic(), call: call(), mode: Plan };
    check(vec![], vec![], journal, &[fault]);
}

fn told(payment: Payment) -> ApprovalEvent {
    ApprovalEvent::Paid { approval: approval(), payment, at: Timestamp(31) }
}

fn word(verdict: Verdict) -> TopicEvent {
    let (call, approval, by) = (call(), approval(), "ann".to_owned());
    TopicEvent::CallDecided { call, approval, verdict, by, reason: None }
}

#[test]
fn a_word_that_a_topic_had_recorded_has_to_be_found_there_unless_it_was_removed() {
    let ledger = |payment| vec![opened(), decided(Verdict::Deny, 30), told(payment)];
    let with = |after: u64, records: Vec<TopicEvent>| {
        let after_turn = TurnId(after);
        TopicRecords { after_turn, ..TopicRecords::whole(topic(), self::records(records)) }
    };
    let read = |ledger, topic| books(ledger, vec![], topic);
    let all = || read(ledger(Payment::Paid), with(0, vec![word(Verdict::Deny)]));
    let none = || read(ledger(Payment::Paid), with(0, vec![]));
    let gone = || AuditBooks { topics: vec![], ..none() };
    let fault = [AuditFault::WordLost { topic: topic(), call: call(), approval: approval() }];
    let expired = TopicEvent::CallExpired { call: call(), approval: approval() };
    let cases = [
        (all(), &[][..]),
        (read(ledger(Payment::Paid), with(0, vec![expired])), &[]),
        (none(), &fault),
        (gone(), &fault),
        (AuditBooks { removed: [topic()].into(), ..gone() }, &[]),
        (read(ledger(Payment::Paid), with(1, vec![])), &[]),
        (read(ledger(Payment::Void), with(0, vec![])), &[]),
        // What was recorded while the topics were read may be missing there.
        (AuditBooks { durable: 2, ..none() }, &[]),
    ];
    for (books, faults) in cases {
        assert_eq!(account(&books).faults, faults, "{books:?}");
    }
}

#[test]
fn a_topic_is_read_from_where_it_is_kept_and_what_is_gone_is_said() {
    let mut journal = ran(PermissionMode::AcceptEdits, Effect::Edits, RunBasis::Mode);
    let before = vec![journal.remove(0)];
    let whole = TopicRecords::whole(topic(), records(journal));
    let (at, after_turn) = (Timestamp(9), TurnId(4));
    let kept = TopicRecords { before, at, after_turn, ..whole.clone() };
    let removed = TopicId::new("gone").unwrap();
    let other = ApprovalEvent::Opened { card: Card { topic: removed.clone(), ..card() }, at: Timestamp(2) };
    let books = AuditBooks { removed: [removed.clone()].into(), ..books(vec![other], vec![], kept) };
    let report = account(&books);
    let tenant = || Some(TenantId::default());
    let gaps = [
        AuditGap::Trimmed { tenant: tenant(), topic: topic(), through: after_turn },
        AuditGap::Removed { tenant: tenant(), topic: removed },
    ];
    assert_eq!((&report.faults[..], &report.gaps[..]), (&[][..], &gaps[..]));
    assert_eq!(report.rows.last().map(|row| (row.at, row.sequence)), Some((Timestamp(10), 3)));
    let lines = report.json_lines();
    assert!(lines.contains(r#"{"gap":"trimmed","tenant":"default","topic":"t","through":4}"#), "{lines}");
    assert_eq!(report.of_topic(&topic()).gaps, gaps[..1]);

    // Without it nothing says that the mode lets the call run.
    let fault = AuditFault::RanAgainstMode { topic: topic(), call: call(), mode: PermissionMode::Default };
    let books = AuditBooks { topics: vec![whole], ..books };
    assert_eq!(account(&books).faults, [fault]);
}

#[test]
fn a_call_of_a_script_says_why_it_ran_and_needs_a_basis_that_holds() {
    let news = |news| TopicEvent::Nested { call: call(), news };
    let made = |number, tool, plan| {
        let (name, arguments) = ("drop".to_owned(), arguments("it"));
        news(NestedNews::Called(Box::new(NestedCall { number, name, arguments, tool, plan })))
    };
    let run = |number, basis| made(number, Some(tool(Effect::Edits)), NestedPlan::Run(basis));
    let back = |outcome| NestedNews::Returned { number: 1, result: CallResult::said(outcome, "it") };
    let within = |mode, nested: Vec<TopicEvent>| {
        let mut journal = ran(mode, Effect::Reads, RunBasis::Mode);
        journal.extend(nested);
        journal
    };
    let unfounded = |number| AuditFault::ScriptCallUnfounded { topic: topic(), call: call(), number };
    let unplanned = |number| AuditFault::ScriptCallUnplanned { topic: topic(), call: call(), number };
    let grant = RunBasis::Grant { grant: grant_id() };
    let card = RunBasis::Approved { approval: approval() };
    let edits = |nested| within(PermissionMode::AcceptEdits, nested);
    let asks = |nested| within(PermissionMode::Default, nested);
    check(vec![], vec![], edits(vec![run(1, RunBasis::Mode)]), &[]);
    check(vec![], vec![], asks(vec![run(1, RunBasis::Mode)]), &[unfounded(1)]);
    check(vec![], vec![given(|_| {})], asks(vec![run(1, grant.clone())]), &[]);
    check(vec![], vec![given(|_| {}), ended(5)], asks(vec![run(1, grant)]), &[unfounded(1)]);
    check(vec![opened(), decided(Verdict::Allow, 30)], vec![], asks(vec![run(1, card)]), &[unfounded(1)]);
    let twice = vec![run(1, RunBasis::Mode), run(1, RunBasis::Mode)];
    check(vec![], vec![], edits(twice), &[unplanned(1)]);
    let mut alone = edits(vec![run(1, RunBasis::Mode)]);
    alone.remove(3);
    check(vec![], vec![], alone, &[unplanned(1)]);

    let refused = NestedPlan::Answered(CallResult::said(CallOutcome::Denied, "no"));
    let nested = vec![run(1, RunBasis::Mode), news(back(CallOutcome::Succeeded)), made(2, None, refused)];
    let report = drawn(vec![], vec![], edits(nested));
    let facts: Vec<_> = report.rows.into_iter().skip(2).map(|row| row.fact).collect();
    let basis = AuditBasis::Mode { mode: PermissionMode::AcceptEdits };
    let (call, tool) = (call(), Box::new(AuditTool::from(&tool(Effect::Edits))));
    let (allowed, finished, answered) = (
        ScriptCallFact::Allowed { tool, arguments: arguments("it"), basis },
        ScriptCallFact::Finished { outcome: CallOutcome::Succeeded },
        ScriptCallFact::Answered { name: "drop".to_owned(), outcome: CallOutcome::Denied },
    );
    let expected = [(1, allowed), (1, finished), (2, answered)];
    let expected = expected.map(|(number, what)| AuditFact::ScriptCall { call, number, what });
    assert_eq!(facts, expected);
}

#[test]
fn a_late_answer_is_a_row_of_its_call_and_no_fault() {
    let answer = LateAnswer { word: LateWord::Failed, digest: Digest([3; 32]) };
    let mut journal = ran(PermissionMode::AcceptEdits, Effect::Edits, RunBasis::Mode);
    journal.push(TopicEvent::CallAnsweredLate { call: call(), answer, at: Timestamp(99) });
    let report = drawn(vec![], vec![], journal);
    let last = report.rows.last().map(|row| (row.at, row.fact.clone()));
    assert_eq!(last, Some((Timestamp(99), AuditFact::AnsweredLate { call: call(), answer })));
    assert_eq!(report.faults, []);
}

#[test]
fn an_account_is_in_order_and_says_who_allowed_each_call() {
    let basis = RunBasis::Approved { approval: approval() };
    let journal = ran(PermissionMode::Default, Effect::Edits, basis);
    let report = drawn(vec![opened(), decided(Verdict::Allow, 30)], vec![given(|_| {})], journal);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| {
            let word = match &row.fact {
                AuditFact::Configured { .. } => "configured",
                AuditFact::Granted { .. } => "granted",
                AuditFact::CardOpened { .. } => "opened",
                AuditFact::Decided { .. } => "decided",
                AuditFact::Allowed { .. } => "allowed",
                other => panic!("{other:?} was not expected"),
            };
            (row.at.0, row.log, row.sequence, word)
        })
        .collect();
    let expected = [
        (1, AuditLog::Topic, 1, "configured"),
        (2, AuditLog::Grants, 1, "granted"),
        (20, AuditLog::Ledger, 1, "opened"),
        (30, AuditLog::Ledger, 2, "decided"),
        (30, AuditLog::Topic, 4, "allowed"),
    ];
    assert_eq!(rows, expected);
    assert!(report.rows.iter().all(|row| row.topic == Some(topic())));
    let AuditFact::Allowed { basis, arguments: sent, .. } = &report.rows[4].fact else { unreachable!() };
    let (by, decided_at) = (Some("ann".to_owned()), Some(Timestamp(30)));
    let expected = AuditBasis::Approved { approval: approval(), by, decided_at };
    assert_eq!((basis, sent.as_ref()), (&expected, Some(&arguments("it"))));
    assert_eq!((report.ledger, report.grants, report.topics), (2, 1, 1));

    let lines = report.json_lines();
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let of = |key: &str| last[key].clone();
    let told = ["fact", "log", "tenant", "topic", "basis", "by", "decided_at"].map(of);
    let expected = ["allowed", "topic", "default", "t", "approved", "ann"].map(|text| json!(text));
    assert_eq!((lines.lines().count(), &told[..6], &told[6]), (5, &expected[..], &json!(30)));

    let other = TenantId::new("other").unwrap();
    assert_eq!(report.clone().of_tenant(&other).rows.len(), 0);
    assert_eq!(report.of_tenant(&TenantId::default()).of_topic(&topic()).rows.len(), 5);
}
