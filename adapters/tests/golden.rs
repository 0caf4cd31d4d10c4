//! The frozen bytes of everything that is stored.
//!
//! A difference means that stores of a released version are no longer readable: give the changed type a new version
//! and keep the old one. `UPDATE_GOLDEN=1` writes the files anew, for a type that was never released.

use std::fmt::Debug;
use std::path::PathBuf;

use pilothouse_adapters::store::log::{
    ASIDE, GENESIS, GRANTS, JOURNAL, LEDGER, LISTING, NAMES, PROCESS, SPOKEN,
};
use pilothouse_messages::approval::{ApprovalEvent, Card, RefusedDecision, Verdict};
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult, Content, LateAnswer, LateWord};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::grant::{ArgumentRule, Grant, GrantEnd, GrantPlace, GrantSubject, PathCase};
use pilothouse_messages::id::{
    ApprovalId, Attempt, CallId, GrantId, MessageId, Revision, ServerId, StepId, StepRef, TenantId, TopicId,
    TurnId,
};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::listing::{DroppedTool, Listing};
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::process::ProcessMark;
use pilothouse_messages::protocol::{Remembered, SpokenRecord};
use pilothouse_messages::record::{Chain, Format};
use pilothouse_messages::registry::NameRecord;
use pilothouse_messages::secret::Opaque;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolDefinition, ToolLists, ToolSource};
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{
    CallPlan, Headless, HoldReason, NestedCall, NestedNews, NestedPlan, PermissionMode, PlannedCall,
    Recovery, ResolvedTool, RunBasis, StopReason, TopicConfig, TopicEvent, TurnTerms,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "golden/checkpoints.rs"]
mod checkpoints;
#[path = "golden/faces.rs"]
mod faces;
#[path = "golden/questions.rs"]
mod questions;
#[path = "golden/steered.rs"]
mod steered;

/// One line of hex for each record, in sequence; compared both ways.
fn check<T>(file: &str, format: Format, payloads: &[T])
where
    T: Serialize + DeserializeOwned + Debug + PartialEq,
{
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let mut link = GENESIS;
    let encoded: Vec<Vec<u8>> = (1..)
        .zip(payloads)
        .map(|(sequence, payload)| {
            let record = format.encode(sequence, link, payload).unwrap();
            link = format.link(&record);
            record
        })
        .collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: String = encoded.iter().map(|record| hex(record) + "\n").collect();
        std::fs::write(&path, lines).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let golden: Vec<&str> = golden.lines().collect();
    assert_eq!(golden.len(), payloads.len(), "{file}: one line for each record");
    let mut link = GENESIS;
    for (((line, bytes), payload), sequence) in golden.iter().zip(&encoded).zip(payloads).zip(1..) {
        assert_eq!(hex(bytes), *line, "{file}, record {sequence}: {payload:?}");
        let record = format.decode::<T>(&unhex(line)).unwrap();
        let previous = match format.chain {
            Chain::None => None,
            Chain::Linked => Some(link),
        };
        assert_eq!((record.sequence, record.previous, &record.payload), (sequence, previous, payload));
        link = format.link(&unhex(line));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn call(index: u32) -> CallId {
    CallId { turn: TurnId(3), step: StepId(2), index }
}

fn step() -> StepRef {
    StepRef { turn: TurnId(3), step: StepId(2), attempt: Attempt(1) }
}

fn card_of(index: u32) -> ApprovalId {
    ApprovalId::of(&TopicId::new("topic-7").unwrap(), call(index))
}

fn tool(source: ToolSource, effect: Effect) -> ResolvedTool {
    ResolvedTool {
        name: "mcp__files__write_0123456789abcdef0123".into(),
        source,
        label: "Files".into(),
        title: Some("Write a file".into()),
        effect,
        force_prompt: true,
        interruptible: false,
        fingerprint: Digest([0x11; 32]),
        definition: Digest([0x22; 32]),
    }
}

fn mcp_source() -> ToolSource {
    ToolSource::Mcp { server: ServerId::new("files").unwrap(), tool: "write".into() }
}

fn planned(index: u32, tool: Option<ResolvedTool>, plan: CallPlan) -> PlannedCall {
    PlannedCall {
        call: call(index),
        provider_id: tool.is_some().then(|| "call_abc".into()),
        name: "write".into(),
        arguments: JsonText::parse(r#"{"path":"ä.txt","size":1.50}"#).unwrap(),
        tool,
        plan,
    }
}

fn result(outcome: CallOutcome) -> CallResult {
    let other = JsonText::parse(r#"{"type":"image","data":"AA=="}"#).unwrap();
    let content = vec![Content::Text("written".into()), Content::Other(other)];
    CallResult { outcome, content, retry_after_ms: Some(1_500) }
}

fn replied() -> Vec<TopicEvent> {
    let builtin = ToolSource::Builtin { name: "clock".into() };
    let ask = CallPlan::Ask {
        approval: card_of(1),
        reason: "it edits".into(),
        expires_at: Timestamp(1_800_086_400_000),
    };
    let approved = RunBasis::Approved { approval: card_of(2) };
    let calls = vec![
        planned(0, Some(tool(builtin, Effect::Reads)), CallPlan::Run(RunBasis::Mode)),
        planned(1, Some(tool(mcp_source(), Effect::Edits)), ask),
        planned(2, Some(tool(mcp_source(), Effect::Executes)), CallPlan::Run(approved)),
        planned(3, Some(tool(mcp_source(), Effect::OpenWorld)), CallPlan::Reject("not now".into())),
        planned(4, None, CallPlan::Reject("no such tool".into())),
    ];
    let usage = Usage { input: 1_200, output: 34 };
    let reply =
        |calls, finish| TopicEvent::StepReplied { at: step(), text: "Sure.".into(), calls, finish, usage };
    vec![
        reply(calls, FinishReason::Stop),
        reply(Vec::new(), FinishReason::Length),
        reply(Vec::new(), FinishReason::Refused),
    ]
}

fn configured() -> Vec<TopicEvent> {
    let full = TopicConfig {
        tenant: TenantId::new("acme").unwrap(),
        model: "large".into(),
        mode: PermissionMode::Default,
        max_steps: Some(12),
        servers: Some(vec![ServerId::new("files").unwrap()]),
        builtins: Some(vec!["clock".into()]),
        surface_ttl_ms: Some(300_000),
        approval_ttl_ms: Some(86_400_000),
        headless: Headless::Park,
        tools: ToolLists::default(),
        context_window: None,
        turns: TurnTerms::default(),
    };
    let at = Timestamp(1_800_000_000_000);
    [TopicConfig::new("small"), full].map(|config| TopicEvent::Configured { config, at }).into()
}

fn finished() -> Vec<TopicEvent> {
    let stops = [
        StopReason::Completed,
        StopReason::Yielded,
        StopReason::Aborted,
        StopReason::Failed("no answer".into()),
        StopReason::StepLimit,
        StopReason::OutputTruncated,
        StopReason::Refused,
        StopReason::BudgetExhausted,
        StopReason::ApprovalExpired,
        StopReason::Interrupted("shutdown".into()),
    ];
    let at = Timestamp(1_800_000_000_009);
    stops.map(|stop| TopicEvent::TurnFinished { turn: TurnId(3), stop, at }).into()
}

fn held() -> Vec<TopicEvent> {
    let reasons = [
        HoldReason::Aborted,
        HoldReason::TurnEnded,
        HoldReason::ProcessRestart,
        HoldReason::SessionRestart,
        HoldReason::ShutDown,
    ];
    let messages = vec![MessageId(4), MessageId(5)];
    reasons.map(|reason| TopicEvent::MessagesHeld { messages: messages.clone(), reason }).into()
}

fn call_events() -> Vec<TopicEvent> {
    let outcomes = [
        CallOutcome::Succeeded,
        CallOutcome::Failed,
        CallOutcome::Rejected,
        CallOutcome::Denied,
        CallOutcome::Unavailable,
        CallOutcome::TimedOut,
        CallOutcome::Cancelled,
        CallOutcome::Unknown,
    ];
    let (call, attempt, approval) = (call(1), Attempt(1), card_of(1));
    let mut events = vec![
        TopicEvent::CardOpened { call, approval },
        TopicEvent::CallDecided {
            call,
            approval,
            verdict: Verdict::Allow,
            by: "ada".into(),
            reason: Some("fine".into()),
        },
        TopicEvent::CallDecided { call, approval, verdict: Verdict::Deny, by: "ada".into(), reason: None },
        TopicEvent::CallExpired { call, approval },
        TopicEvent::CallStarted { call, attempt, basis: RunBasis::Mode },
        TopicEvent::CallSent { call, attempt },
    ];
    let finished = |outcome| TopicEvent::CallFinished { call, attempt, result: result(outcome) };
    events.extend(outcomes.map(finished));
    events
}

fn topic_events() -> Vec<TopicEvent> {
    let at = Timestamp(1_800_000_000_001);
    let accepted =
        |key| TopicEvent::MessageAccepted { message: MessageId(4), text: "héllo".into(), key, at };
    let mut events = configured();
    events.extend([
        accepted(None),
        accepted(Some("key-1".into())),
        TopicEvent::TurnStarted { turn: TurnId(3), messages: vec![MessageId(4), MessageId(5)], at },
        TopicEvent::StepStarted { at: step() },
        TopicEvent::TextAppended { at: step(), delta: "Su".into() },
    ]);
    events.extend(replied());
    events.extend(call_events());
    events.push(TopicEvent::StepFinished { at: step() });
    events.extend(finished());
    events.extend(held());
    let causes = [Recovery::ProcessRestart, Recovery::SessionRestart];
    events.extend(causes.map(|cause| TopicEvent::Recovered { cause, at }));
    events.extend(gated());
    let structured = Content::Structured(JsonText::parse(r#"{"n":1}"#).unwrap());
    let result =
        CallResult { outcome: CallOutcome::Succeeded, content: vec![structured], retry_after_ms: None };
    events.push(TopicEvent::CallFinished { call: call(1), attempt: Attempt(1), result });
    events.extend(tool_terms());
    // What came with meta tools.
    events.push(TopicEvent::StepReplied {
        at: step(),
        text: String::new(),
        calls: vec![planned(6, None, CallPlan::Answered)],
        finish: FinishReason::Stop,
        usage: Usage { input: 1, output: 2 },
    });
    events.extend(receipts());
    events.extend(steered::steered());
    events.push(TopicEvent::Slept { at });
    events.extend(nested());
    events.extend(steered::spent());
    let answer = LateAnswer { word: LateWord::Unfinished, digest: Digest([7; 32]) };
    events.push(TopicEvent::CallAnsweredLate { call: call(1), answer, at });
    events
}

/// What came with calls that go on after a restart, behind everything older.
fn receipts() -> [TopicEvent; 4] {
    let requests = JsonText::parse(r#"{"who":{"method":"elicitation/create"}}"#).unwrap();
    let task = |poll_after_ms, expires_at| CallReceipt::Task {
        id: Opaque::new("task-1"),
        poll_after_ms,
        expires_at,
    };
    [
        task(Some(50), Some(Timestamp(1_800_000_000_010))),
        task(None, None),
        CallReceipt::Asked { round: 2, requests, state: Some(Opaque::new("st\u{e4}te")) },
        CallReceipt::Answered { round: 2 },
    ]
    .map(|receipt| TopicEvent::CallReceipted { call: call(1), attempt: Attempt(1), receipt })
}

/// What came with the calls of scripts, behind everything older.
fn nested() -> [TopicEvent; 4] {
    let made = |number, tool, plan| {
        let arguments = JsonText::parse(r#"{"a":1.50}"#).unwrap();
        NestedNews::Called(Box::new(NestedCall { number, name: "write".into(), arguments, tool, plan }))
    };
    let run = NestedPlan::Run(RunBasis::Mode);
    let refused = NestedPlan::Answered(result(CallOutcome::Rejected));
    [
        made(1, Some(tool(mcp_source(), Effect::Edits)), run),
        NestedNews::Sent { number: 1 },
        NestedNews::Returned { number: 1, result: result(CallOutcome::Succeeded) },
        made(2, None, refused),
    ]
    .map(|news| TopicEvent::Nested { call: call(1), news })
}

/// What came with modes and grants, behind everything older.
fn gated() -> Vec<TopicEvent> {
    let at = Timestamp(1_800_000_000_000);
    let modes =
        [PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::Auto, PermissionMode::Bypass];
    let configured =
        |mode| TopicEvent::Configured { config: TopicConfig { mode, ..TopicConfig::new("m") }, at };
    let started = |basis| TopicEvent::CallStarted { call: call(1), attempt: Attempt(1), basis };
    let denied = planned(5, None, CallPlan::Deny("never".into()));
    let usage = Usage { input: 1, output: 2 };
    let mut events: Vec<_> = modes.map(configured).into();
    events.extend([
        started(RunBasis::Grant { grant: GrantId::of(card_of(1)) }),
        started(RunBasis::Classified),
        TopicEvent::StepReplied {
            at: step(),
            text: String::new(),
            calls: vec![denied],
            finish: FinishReason::Stop,
            usage,
        },
        TopicEvent::HeadlessSet { headless: Headless::Park },
        TopicEvent::HeadlessSet { headless: Headless::Deny },
        TopicEvent::CallEdited { call: call(1), arguments: JsonText::parse(r#"{"a":1.50}"#).unwrap() },
    ]);
    events
}

/// What came with lists of tools and context windows, behind everything older.
fn tool_terms() -> [TopicEvent; 2] {
    let lists = ToolLists { allow: Some(vec!["mcp:files".into(), "now".into()]), deny: vec!["write".into()] };
    [(lists, Some(200_000)), (ToolLists::default(), None)]
        .map(|(tools, context_window)| TopicEvent::ToolTermsSet { tools, context_window })
}

fn grant_events() -> Vec<ApprovalEvent> {
    let (approval, at) = (card_of(1), Timestamp(1_800_000_000_004));
    let (topic, server) = (TopicId::new("topic-7").unwrap(), ServerId::new("files").unwrap());
    let full = Grant {
        grant: GrantId::of(approval),
        approval,
        tenant: TenantId::default(),
        place: GrantPlace::Turn { topic: topic.clone(), turn: TurnId(3) },
        subject: GrantSubject::Tool(mcp_source()),
        fingerprints: vec![Digest([0x11; 32]), Digest([0x12; 32])],
        definition: Digest([0x22; 32]),
        arguments: vec![
            ArgumentRule::Exact { digest: Digest([0x33; 32]) },
            ArgumentRule::Equals { pointer: "/a".into(), value: JsonText::parse("1.50").unwrap() },
            ArgumentRule::Under { pointer: "/p".into(), path: "/w".into(), case: PathCase::Sensitive },
            ArgumentRule::Under { pointer: "/p".into(), path: "/w".into(), case: PathCase::Insensitive },
        ],
        by: "ada".into(),
        reason: Some("daily".into()),
        given_at: at,
        expires_at: Some(Timestamp(1_800_086_400_000)),
    };
    let bare = |place, subject| Grant {
        place,
        subject,
        arguments: vec![],
        reason: None,
        expires_at: None,
        ..full.clone()
    };
    let of_topic = bare(GrantPlace::Topic { topic }, GrantSubject::Server(server));
    let always = bare(GrantPlace::Always, GrantSubject::Tool(ToolSource::Builtin { name: "clock".into() }));
    let ends =
        [GrantEnd::Revoked { by: "ada".into() }, GrantEnd::Expired, GrantEnd::Void, GrantEnd::TurnOver];
    let grant = full.grant;
    let given = [full, of_topic, always].map(|grant| ApprovalEvent::Granted { grant });
    let ended = ends.map(|end| ApprovalEvent::GrantEnded { grant, end, at });
    given.into_iter().chain(ended).collect()
}

fn approval_events() -> Vec<ApprovalEvent> {
    let (approval, at) = (card_of(1), Timestamp(1_800_000_000_002));
    let card = Card {
        approval,
        tenant: TenantId::default(),
        topic: TopicId::new("topic-7").unwrap(),
        call: call(1),
        tool: "mcp__files__write_0123456789abcdef0123".into(),
        source: mcp_source(),
        label: "Files".into(),
        title: None,
        effect: Effect::Unknown,
        arguments: JsonText::parse(r#"{"path":"a.txt"}"#).unwrap(),
        fingerprint: Digest([0x11; 32]),
        definition: Digest([0x22; 32]),
        reason: "nobody said what it does".into(),
        expires_at: Timestamp(1_800_086_400_000),
    };
    let digest = card.digest();
    let decided =
        |verdict, reason| ApprovalEvent::Decided { approval, verdict, by: "ada".into(), reason, digest, at };
    let refused = |why| ApprovalEvent::DecisionRefused { approval, by: "bob".into(), why, at };
    vec![
        ApprovalEvent::Opened { card, at },
        decided(Verdict::Allow, None),
        decided(Verdict::Deny, Some("not that file".into())),
        ApprovalEvent::Expired { approval, at },
        ApprovalEvent::Withdrawn { approval, reason: "the turn was stopped".into(), at },
        ApprovalEvent::Paid { approval, payment: Payment::Paid, at },
        ApprovalEvent::Paid { approval, payment: Payment::Void, at },
        ApprovalEvent::DecidedWith {
            approval,
            verdict: Verdict::Allow,
            by: "ada".into(),
            reason: None,
            digest,
            arguments: Some(JsonText::parse(r#"{"path":"b.txt"}"#).unwrap()),
            terms: Digest([0x44; 32]),
            at,
        },
        ApprovalEvent::ForeignDecider { approval, by: "eve".into(), at },
        refused(RefusedDecision::Repeated),
        refused(RefusedDecision::Conflict),
        refused(RefusedDecision::Expired),
        refused(RefusedDecision::Withdrawn),
        refused(RefusedDecision::Changed),
        refused(RefusedDecision::Unknown),
        refused(RefusedDecision::Foreign),
        refused(RefusedDecision::Unfit),
        ApprovalEvent::ClockJumped { from: at, to: Timestamp(1_700_000_000_000), at },
    ]
    .into_iter()
    .chain(questions::events(at))
    .chain(faces::events(at))
    .collect()
}

fn listing() -> Listing {
    let object = JsonText::parse(r#"{"type":"object"}"#).unwrap();
    let bare = ToolDefinition {
        name: "read".into(),
        title: None,
        description: None,
        input_schema: object.clone(),
        output_schema: None,
        annotations: None,
    };
    let full = ToolDefinition {
        name: "write".into(),
        title: Some("Write a file".into()),
        description: Some("Writes.".into()),
        output_schema: Some(object),
        annotations: Some(JsonText::parse(r#"{"readOnlyHint":false}"#).unwrap()),
        ..bare.clone()
    };
    let dropped = |name: Option<&str>| DroppedTool {
        name: name.map(Into::into),
        reason: "its schema is no object schema".into(),
    };
    Listing {
        definition: Digest([0x22; 32]),
        revision: Revision(5),
        listed_at: Timestamp(1_800_000_000_003),
        tools: vec![bare, full],
        dropped: vec![dropped(Some("bad")), dropped(None)],
    }
}

#[test]
fn events_of_topics_keep_their_bytes() {
    check("topic_event.hex", JOURNAL, &topic_events());
}

#[test]
fn events_of_the_ledger_keep_their_bytes() {
    check("approval_event.hex", LEDGER, &approval_events());
}

#[test]
fn events_of_grants_keep_their_bytes() {
    check("grant_event.hex", GRANTS, &grant_events());
}

#[test]
fn listings_keep_their_bytes() {
    check("listing.hex", LISTING, &[listing()]);
}

#[test]
fn wire_names_keep_their_bytes() {
    let record = NameRecord {
        server: ServerId::new("files").unwrap(),
        tool: "write".into(),
        name: "mcp__files__write_0123456789abcdef0123".into(),
    };
    check("name_record.hex", NAMES, &[record]);
}

#[test]
fn marks_of_processes_keep_their_bytes() {
    let mark = ProcessMark {
        boot: "2b1c9b6e-2d3f-4a67-9a55-0d3c6f3c7f10".into(),
        pid: 4_711,
        started: 123_456_789,
        server: ServerId::new("files").unwrap(),
    };
    check("process_mark.hex", PROCESS, &[mark]);
}

#[test]
fn whole_results_keep_their_bytes() {
    check("aside.hex", ASIDE, &[result(CallOutcome::Succeeded), result(CallOutcome::Failed)]);
}

#[test]
fn what_servers_spoke_keeps_its_bytes() {
    let heard = [
        Remembered::Nothing,
        Remembered::Legacy("2025-11-25".into()),
        Remembered::Modern("2026-07-28".into()),
        Remembered::EndedWhenDiscovered,
    ];
    let server = ServerId::new("files").unwrap();
    let record = |spoken| SpokenRecord { server: server.clone(), definition: Digest([0x22; 32]), spoken };
    check("spoken.hex", SPOKEN, &heard.map(record));
}
