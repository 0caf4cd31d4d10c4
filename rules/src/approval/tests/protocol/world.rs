//! The two writers, what is under way between them, and the laws that hold at every moment.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalDirective, ApprovalEvent, Card, DecideAnswer, Decision as Said,
    Verdict, card_digest,
};
use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Attempt, CallId, StepId, StepRef, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, Usage};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use pilothouse_messages::topic::{
    CardNews, Directive, Findings, ModelReply, Recovery, RequestedCall, Resolution, ResolvedTool,
    TopicCommand, TopicConfig, TopicEvent,
};
use serde_json::json;

use super::super::{call, id, topic};
use super::Second;
use crate::Decider;
use crate::approval::Ledger;
use crate::topic::TopicState;

const NOW: Timestamp = Timestamp(1_000);

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// The first window allows the card.
    First,
    /// The second window says something else.
    Second,
    /// Somebody stops the turn.
    Stop,
    /// The server offers another tool under the same name.
    Change,
    /// The session ends; letters that it has sent arrive, those to it are lost.
    TopicEnds,
    /// The session ends with all letters of its life.
    TopicForgets,
    /// The approval actor ends with its letters.
    LedgerEnds,
    /// Both end.
    ProcessEnds,
    /// The card's time is over.
    Expire,
    /// The ledger tells again what is owed, and which cards wait.
    Retell,
    /// The n-th letter to the topic arrives.
    ToTopic(usize),
    /// The n-th letter to the ledger arrives.
    ToLedger(usize),
    /// The call's task sends it.
    Send,
}

/// What the shells do, and one search does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// The tool is looked at once more when its call is sent.
    LastLook,
    /// A decision is decided on what all before it have left.
    OneWriter,
    /// A stop cancels what has not been sent.
    CancelAtStop,
    /// What is owed is told again.
    TellAgain,
    /// A batch is durable before its effects.
    DurableFirst,
    /// A fresh session asks for its cards again.
    Resume,
}

/// A log, and where its last batch begins. What it says is hashed as it grows, so that worlds are compared at once.
#[derive(Clone)]
struct Log<E> {
    events: Rc<Vec<E>>,
    before: usize,
    hash: u64,
}

impl<E: Clone + Debug> Log<E> {
    fn new() -> Self {
        Self { events: Rc::new(Vec::new()), before: 0, hash: 0 }
    }

    fn append(&mut self, events: &[E]) {
        if !events.is_empty() {
            self.before = self.events.len();
            Rc::make_mut(&mut self.events).extend_from_slice(events);
            self.hash = hash_of(&(self.hash, events));
        }
    }

    /// The last batch was never durable.
    fn lose_last(&mut self) {
        Rc::make_mut(&mut self.events).truncate(self.before);
        self.hash = hash_of(&self.events);
    }
}

/// Something under way.
#[derive(Clone)]
struct Letter<T> {
    body: Rc<T>,
    hash: u64,
}

impl<T: Debug> Letter<T> {
    fn new(body: T) -> Self {
        Self { hash: hash_of(&body), body: Rc::new(body) }
    }
}

fn hash_of(shown: &impl Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{shown:?}").hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone)]
pub(super) struct World {
    without: Option<Guard>,
    second: Second,
    left: Vec<Move>,
    now: Timestamp,
    fingerprint: Digest,
    topic: TopicState,
    topic_log: Log<TopicEvent>,
    ledger: Rc<Ledger>,
    ledger_log: Log<ApprovalEvent>,
    to_topic: Vec<Letter<TopicCommand>>,
    to_ledger: Vec<Letter<ApprovalCommand>>,
    /// The call that a task is about to send.
    sends: Option<Letter<Directive>>,
    ran: usize,
    applied: usize,
}

fn limits() -> Arc<Limits> {
    Arc::new(Limits::default())
}

fn tool() -> ResolvedTool {
    ResolvedTool {
        name: "write".to_owned(),
        source: ToolSource::Builtin { name: "write".to_owned() },
        label: "files".to_owned(),
        title: None,
        effect: Effect::Edits,
        force_prompt: false,
        interruptible: false,
        fingerprint: Digest([1; 32]),
        definition: Digest([2; 32]),
    }
}

fn planned() -> JsonText {
    JsonText::from(json!({"path": "a"}))
}

fn the_call() -> CallId {
    call(0)
}

impl World {
    /// A topic whose model has just asked for a call that needs a person.
    pub(super) fn new(left: &[Move], second: Second, without: Option<Guard>) -> Self {
        let mut world = Self {
            without,
            second,
            left: left.to_vec(),
            now: NOW,
            fingerprint: tool().fingerprint,
            topic: TopicState::new(topic("t"), limits()),
            topic_log: Log::new(),
            ledger: Rc::new(Ledger::new(limits())),
            ledger_log: Log::new(),
            to_topic: Vec::new(),
            to_ledger: Vec::new(),
            sends: None,
            ran: 0,
            applied: 0,
        };
        let at = StepRef { turn: TurnId(1), step: StepId(1), attempt: Attempt(1) };
        let asked = RequestedCall {
            provider_id: None,
            name: "write".to_owned(),
            arguments: planned(),
            resolution: Resolution::Tool(Box::new(tool())),
            findings: Findings::default(),
        };
        let reply = ModelReply {
            text: String::new(),
            calls: vec![asked],
            finish: FinishReason::Stop,
            usage: Usage::default(),
        };
        let config = TopicConfig { approval_ttl_ms: Some(60_000), ..TopicConfig::new("m") };
        world.tell_topic(&TopicCommand::Open { config });
        world.tell_topic(&TopicCommand::Send { text: "go".to_owned(), key: None, level: Default::default() });
        world.tell_topic(&TopicCommand::ModelReplied { at, reply });
        assert_eq!(world.to_ledger.len(), 1, "the card is asked for");
        world
    }

    fn has(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    /// What tells two worlds apart. Ledger and topic are what their logs say.
    pub(super) fn key(&self) -> u64 {
        let mut letters: Vec<u64> = self.to_topic.iter().map(|letter| letter.hash).collect();
        letters.sort_unstable();
        let mut errands: Vec<u64> = self.to_ledger.iter().map(|letter| letter.hash).collect();
        errands.sort_unstable();
        let mut hasher = DefaultHasher::new();
        (&self.left, self.now.0, self.fingerprint.0[0], self.topic_log.hash, self.ledger_log.hash)
            .hash(&mut hasher);
        let sends = self.sends.as_ref().map(|letter| letter.hash);
        (letters, errands, sends, self.ran, self.applied).hash(&mut hasher);
        hasher.finish()
    }

    /// Everything that can happen next, and what becomes of it.
    pub(super) fn moves(&self) -> Vec<(Move, Result<Self, String>)> {
        let letters = (0..self.to_topic.len()).map(Move::ToTopic);
        let errands = (0..self.to_ledger.len()).map(Move::ToLedger);
        let sends = self.sends.iter().map(|_| Move::Send);
        let chosen = self.left.iter().copied().filter(|step| self.can(*step));
        let all = letters.chain(errands).chain(sends).chain(chosen);
        all.map(|step| (step, self.clone().after(step))).collect()
    }

    /// A window decides about a card that it has been shown.
    fn can(&self, step: Move) -> bool {
        match step {
            Move::First | Move::Second => self.shown().is_some(),
            Move::Stop
            | Move::Change
            | Move::TopicEnds
            | Move::TopicForgets
            | Move::LedgerEnds
            | Move::ProcessEnds
            | Move::Expire
            | Move::Retell
            | Move::ToTopic(_)
            | Move::ToLedger(_)
            | Move::Send => true,
        }
    }

    fn shown(&self) -> Option<&Card> {
        self.ledger_log.events.iter().find_map(|event| match event {
            ApprovalEvent::Opened { card, .. } => Some(card),
            _ => None,
        })
    }

    fn after(mut self, step: Move) -> Result<Self, String> {
        self.left.retain(|left| *left != step);
        match step {
            Move::First => self.decides(Said::allow("ann")),
            Move::Second => match self.second {
                Second::Denies => self.decides(Said::deny("bob", "no")),
                Second::Edits => {
                    let other = JsonText::from(json!({"path": "b"}));
                    self.decides(Said::allow("bob").with_arguments(other));
                }
            },
            Move::Stop => {
                if self.has(Guard::CancelAtStop) {
                    self.sends = None;
                }
                self.tell_topic(&TopicCommand::Stop { by: "ann".to_owned() });
            }
            Move::Change => self.fingerprint = Digest([3; 32]),
            Move::TopicEnds => self.topic_ends(),
            Move::TopicForgets => {
                self.to_ledger.clear();
                self.topic_ends();
            }
            Move::LedgerEnds => self.ledger_ends(),
            Move::ProcessEnds => {
                self.to_ledger.clear();
                self.topic_ends();
                self.ledger_ends();
            }
            Move::Expire => {
                self.now = Timestamp(NOW.0 + 60_000);
                self.tell_ledger(&ApprovalCommand::Tick);
            }
            Move::Retell => self.retell(),
            Move::ToTopic(n) => {
                let letter = self.to_topic.remove(n);
                self.tell_topic(&letter.body);
            }
            Move::ToLedger(n) => {
                let letter = self.to_ledger.remove(n);
                self.tell_ledger(&letter.body);
            }
            Move::Send => self.send()?,
        }
        Ok(self)
    }

    fn decides(&mut self, said: Said) {
        let Some(card) = self.shown().cloned() else { return };
        let said = said.of(&card);
        let command =
            ApprovalCommand::Decide { approval: card.approval, decision: Box::new(said), present: vec![] };
        if self.has(Guard::OneWriter) {
            return self.tell_ledger(&command);
        }
        // Decided on the ledger as it was when the card was shown.
        let opened = ApprovalEvent::Opened { card, at: NOW };
        let stale = replayed(std::slice::from_ref(&opened));
        let Ok(decision) = stale.decide(self.now, &command) else { return };
        self.take(decision.answer, &decision.events, decision.directives);
    }

    fn tell_ledger(&mut self, command: &ApprovalCommand) {
        let Ok(decision) = self.ledger.decide(self.now, command) else { return };
        if let (ApprovalCommand::Open(card), ApprovalAnswer::Opened) = (command, &decision.answer) {
            let news = CardNews::Opened(card.clone());
            self.to_topic.push(Letter::new(TopicCommand::Card { approval: card.approval, news }));
        }
        self.take(decision.answer, &decision.events, decision.directives);
    }

    fn take(&mut self, answer: ApprovalAnswer, events: &[ApprovalEvent], directives: Vec<ApprovalDirective>) {
        self.applied += usize::from(answer == ApprovalAnswer::Decide(DecideAnswer::Applied));
        if !events.is_empty() {
            self.ledger_log.append(events);
            self.ledger = Rc::new(replayed(&self.ledger_log.events));
        }
        directives.into_iter().for_each(|directive| self.direct(directive));
    }

    fn direct(&mut self, directive: ApprovalDirective) {
        // No server of this world asks anything.
        let ApprovalDirective::TellTopic { approval, news, .. } = directive else { return };
        self.to_topic.push(Letter::new(TopicCommand::Card { approval, news }));
    }

    fn tell_topic(&mut self, command: &TopicCommand) {
        let Ok(decision) = self.topic.decide(self.now, command) else { return };
        decision.events.iter().for_each(|event| self.topic.apply(event));
        self.topic_log.append(&decision.events);
        decision.directives.into_iter().for_each(|directive| self.perform(directive));
    }

    fn perform(&mut self, directive: Directive) {
        let topic = topic("t");
        match directive {
            Directive::CallTool { .. } => self.sends = Some(Letter::new(directive)),
            Directive::OpenCard(card) => self.to_ledger.push(Letter::new(ApprovalCommand::Open(card))),
            Directive::WithdrawCards { approvals, reason } => {
                let command = ApprovalCommand::Withdraw { topic, approvals, reason };
                self.to_ledger.push(Letter::new(command));
            }
            Directive::PayDebt { approval, payment } => {
                self.to_ledger.push(Letter::new(ApprovalCommand::Pay { topic, approval, payment }));
            }
            // A stop has cancelled the call at once; models, windows and receipts of servers are not part of this.
            Directive::CancelTurn { .. }
            | Directive::RunModel { .. }
            | Directive::Announce(_)
            | Directive::TakeUpCall { .. }
            | Directive::CancelCalls { .. }
            | Directive::FallAsleep => {}
        }
    }

    fn topic_ends(&mut self) {
        self.to_topic.clear();
        self.sends = None;
        let mut topic = TopicState::new(topic("t"), limits());
        self.topic_log.events.iter().for_each(|event| topic.apply(event));
        self.topic = topic;
        if self.topic.needs_recovery() {
            self.tell_topic(&TopicCommand::Recover { cause: Recovery::SessionRestart });
        }
        if self.has(Guard::Resume) {
            self.topic.resume().into_iter().for_each(|directive| self.perform(directive));
        }
    }

    fn ledger_ends(&mut self) {
        if !self.has(Guard::DurableFirst) {
            // What it told was told before it was durable, and is not.
            self.ledger_log.lose_last();
        } else {
            self.to_ledger.clear();
            // A session's errand is asked again until it is answered.
            self.topic.resume().into_iter().for_each(|directive| self.perform(directive));
        }
        self.ledger = Rc::new(replayed(&self.ledger_log.events));
        self.retell();
    }

    fn retell(&mut self) {
        if !self.has(Guard::TellAgain) {
            return;
        }
        self.ledger.resume().into_iter().for_each(|directive| self.direct(directive));
        for card in self.ledger.open_cards() {
            let command = TopicCommand::Card { approval: card.approval, news: CardNews::Waits };
            self.to_topic.push(Letter::new(command));
        }
    }

    /// The task of the call looks once more, and sends.
    fn send(&mut self) -> Result<(), String> {
        let Some(letter) = self.sends.take() else { return Ok(()) };
        let Directive::CallTool { call, attempt, tool, arguments, .. } = &*letter.body else { return Ok(()) };
        let (call, attempt) = (*call, *attempt);
        let outcome = if self.has(Guard::LastLook) && tool.fingerprint != self.fingerprint {
            CallOutcome::Rejected
        } else {
            self.may_run(tool, arguments)?;
            self.ran += 1;
            CallOutcome::Succeeded
        };
        let result = CallResult::said(outcome, "done");
        self.to_topic.push(Letter::new(TopicCommand::CallReturned { call, attempt, result }));
        Ok(())
    }

    /// The law of every call that is sent: a live decision for this tool as it is and for these arguments.
    fn may_run(&self, tool: &ResolvedTool, sent: &JsonText) -> Result<(), String> {
        if tool.fingerprint != self.fingerprint {
            return Err("a call ran with another tool than was allowed".to_owned());
        }
        let digest = card_digest(&tool.name, tool.fingerprint, tool.definition, &planned());
        let decided = self.ledger_log.events.iter().any(|event| match event {
            ApprovalEvent::Decided { verdict: Verdict::Allow, digest: of, .. } => {
                *of == digest && *sent == planned()
            }
            ApprovalEvent::DecidedWith { verdict: Verdict::Allow, digest: of, arguments, .. } => {
                *of == digest && arguments.as_ref() == Some(sent)
            }
            _ => false,
        });
        if !decided {
            return Err("a call ran without a live decision".to_owned());
        }
        let recorded = |fits: fn(&TopicEvent) -> bool| self.topic_log.events.iter().any(fits);
        if !recorded(|event| matches!(event, TopicEvent::CallStarted { .. })) {
            return Err("a call ran whose intent is not recorded".to_owned());
        }
        if recorded(|event| matches!(event, TopicEvent::TurnFinished { .. })) {
            return Err("a call ran after its turn was over".to_owned());
        }
        Ok(())
    }

    /// The laws of every moment; and, where nothing is under way, that nothing owed is lost.
    pub(super) fn lawful(&self) -> Result<(), String> {
        let decided = |event: &&ApprovalEvent| {
            matches!(event, ApprovalEvent::Decided { .. } | ApprovalEvent::DecidedWith { .. })
        };
        let decisions = self.ledger_log.events.iter().filter(decided).count();
        if decisions > 1 || self.applied > 1 {
            return Err(format!("a card was decided twice: {decisions}, {}", self.applied));
        }
        if self.ran > 1 {
            return Err("a call ran twice".to_owned());
        }
        if self.to_topic.is_empty() && self.to_ledger.is_empty() && self.sends.is_none() {
            return self.clone().at_rest(decisions);
        }
        Ok(())
    }

    /// Once everything was told again and has arrived, nothing is owed, and whoever waits can be answered.
    fn at_rest(mut self, decisions: usize) -> Result<(), String> {
        for _ in 0..8 {
            self.retell();
            while let Some(letter) = self.to_topic.pop() {
                self.tell_topic(&letter.body);
            }
            while let Some(letter) = self.to_ledger.pop() {
                self.tell_ledger(&letter.body);
            }
            if self.sends.is_some() {
                self.send()?;
            }
        }
        if !self.ledger.resume().is_empty() {
            return Err("a decision is owed for ever".to_owned());
        }
        let awaited = self.topic.resume().len();
        let open = self.ledger.open_cards().len();
        if awaited != open {
            return Err(format!("{awaited} calls wait and {open} cards are open: nobody can decide"));
        }
        let recorded = self
            .topic_log
            .events
            .iter()
            .filter(|event| matches!(event, TopicEvent::CallDecided { .. }))
            .count();
        let void = self.ledger_log.events.iter().any(|event| {
            let payment = pilothouse_messages::topic::command::Payment::Void;
            matches!(event, ApprovalEvent::Paid { payment: paid, .. } if *paid == payment)
        });
        if decisions == 1 && recorded != 1 && !void {
            return Err("a decision is owed, and was lost".to_owned());
        }
        Ok(())
    }
}

fn replayed(events: &[ApprovalEvent]) -> Ledger {
    let mut ledger = Ledger::new(limits());
    events.iter().for_each(|event| ledger.apply(event));
    ledger
}

#[test]
fn the_card_of_this_world_is_named_for_its_call() {
    let world = World::new(&[], Second::Denies, None);
    let ApprovalCommand::Open(card) = &*world.to_ledger[0].body else { panic!("a card is asked for") };
    assert_eq!((card.approval, card.call), (id("t", 0), the_call()));
}
