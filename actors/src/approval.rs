//! The approval actor: the single writer of decisions and grants.
//!
//! | Owns | Receives (what, from whom) | Asks of | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the ledger: cards, decisions, debts, grants, questions | `Open`, `Withdraw`, `Pay` from sessions; `Decide`, `Revoke` from handles; `Void` from the gate; ticks from itself | nobody: it tells topics, and tells them again | a record does not become durable: held askers get the store's error, a fresh one reads the ledger back; after an I/O error, or damage, nothing is approved any more | 256 letters; 64 open cards a topic; 10 000 grants |
//!
//! A card is shown only after it is stored, and a decision is durable before anybody sees it. A decision is owed to
//! its topic until the topic has recorded it: it is told at start and every 30 s. So is a card that waits, since the
//! topic's wish to withdraw it may have been lost with its session.

mod clock;
mod grants;
mod journal;
mod open;
mod questions;

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_messages::approval::{ApprovalCommand, ApprovalDirective, ApprovalEvent, Card};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::grant::Grant;
use pilothouse_messages::id::{GrantId, QuestionId, TopicId};
use pilothouse_messages::question::{QuestionCard, QuestionEnd};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{CardNews, TopicCommand};
use pilothouse_messages::tree::RuntimeEvent;
use pilothouse_rules::Decider;
use pilothouse_rules::approval::Ledger;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::CancellationToken;

use crate::durable::{Committed, Durable, Ground, Pictured, Released, Told, after_earlier_life, follow};
use crate::phase::Phase;
use crate::session::SessionMsg;
use crate::slot::{Letter, Reply};
use crate::tasks::TaskSet;
use crate::topics::TopicsMsg;
use crate::wiring::Wiring;
use clock::ClockWatch;
pub use grants::LiveGrants;
use journal::{LedgerJournal, Loaded};
pub use open::{CardChange, OpenCards};
pub use questions::OpenQuestions;
use questions::TakenOver;
pub(crate) use questions::Unasked;

/// What the actor is born with.
pub struct ApprovalArgs {
    /// The runtime's wiring.
    pub wiring: Arc<Wiring>,
}

/// What changes during its life.
pub struct ApprovalShell {
    /// The runtime's wiring; its `approval` port is written here only.
    wiring: Arc<Wiring>,
    /// Where its tasks report.
    myself: ActorRef<Letter<ApprovalMsg>>,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// The ledger, once it is read.
    phase: Phase<Ledger, LedgerJournal, ApprovalMsg>,
    /// Stops the timer that was set before.
    timer: CancellationToken,
    /// Whether the clock goes on as time does.
    clock: ClockWatch,
}

/// The whole mailbox.
#[derive(Debug)]
pub enum ApprovalMsg {
    /// Something to decide about.
    Command {
        /// What.
        command: ApprovalCommand,
        /// Whom to tell, if anybody waits.
        reply: Option<Reply<Told<Ledger>>>,
    },
    /// What the actor sends itself.
    Own(Own),
}

/// What the actor sends itself.
#[derive(Debug)]
pub struct Own(OwnMsg);

#[derive(Debug)]
enum OwnMsg {
    Loaded(Result<Loaded, StoreError>),
    Committed(Committed),
    Tick,
    TellNews,
}

/// The approval actor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApprovalActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for ApprovalActor {
    type Msg = Letter<ApprovalMsg>;
    type State = ApprovalShell;
    type Arguments = ApprovalArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: ApprovalArgs,
    ) -> Result<ApprovalShell, ActorProcessingErr> {
        let tasks = args.wiring.approval.slot.tasks();
        let (wiring, actor) = (args.wiring.clone(), myself.clone());
        tasks.spawn(async move {
            let loaded = async {
                let store = wiring.store.as_ref();
                after_earlier_life(&wiring.approval.slot, store).await?;
                journal::load(store).await
            };
            let loaded = loaded.await;
            let _gone = actor.cast(own(OwnMsg::Loaded(loaded)));
        });
        Ok(ApprovalShell {
            wiring: args.wiring,
            myself,
            tasks,
            phase: Phase::loading(),
            timer: CancellationToken::new(),
            clock: ClockWatch::default(),
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut ApprovalShell,
    ) -> Result<(), ActorProcessingErr> {
        shell.take(letter).inspect_err(|error| shell.stop_approving(error))?;
        Ok(())
    }
}

fn own(message: OwnMsg) -> Letter<ApprovalMsg> {
    Letter::inside(ApprovalMsg::Own(Own(message)))
}

fn topic_of(directive: ApprovalDirective) -> Option<TopicId> {
    match directive {
        ApprovalDirective::TellTopic { topic, .. } => Some(topic),
        ApprovalDirective::TellAsker { .. } => None,
    }
}

/// What readers see of one event.
#[derive(Debug)]
pub enum LedgerChange {
    /// Of a card.
    Card(CardChange),
    /// A grant holds.
    Given(Arc<Grant>),
    /// A grant is over.
    Over(GrantId),
    /// A question waits.
    Asked(Arc<QuestionCard>),
    /// A question has its last word.
    Answered(QuestionId, QuestionEnd),
}

impl Pictured for Ledger {
    type Picture = Vec<LedgerChange>;

    fn take(&mut self, events: &[Self::Event]) -> Vec<LedgerChange> {
        let mut changes = Vec::new();
        for event in events {
            self.apply(event);
            match event {
                ApprovalEvent::Opened { card, .. } | ApprovalEvent::OpenedShowing { card, .. } => {
                    let shown = self.card(card.approval).cloned();
                    let change = self.change_of(card.approval).cloned();
                    let shown = shown.map(|card| CardChange::Shown(card, change));
                    changes.extend(shown.map(LedgerChange::Card));
                }
                ApprovalEvent::Decided { approval, .. }
                | ApprovalEvent::DecidedWith { approval, .. }
                | ApprovalEvent::Expired { approval, .. }
                | ApprovalEvent::Withdrawn { approval, .. } => {
                    changes.push(LedgerChange::Card(CardChange::Gone(*approval)));
                }
                ApprovalEvent::Granted { grant } => {
                    changes.extend(self.grant(grant.grant).cloned().map(LedgerChange::Given));
                }
                ApprovalEvent::GrantEnded { grant, .. } => changes.push(LedgerChange::Over(*grant)),
                ApprovalEvent::Paid { .. }
                | ApprovalEvent::ForeignDecider { .. }
                | ApprovalEvent::DecisionRefused { .. }
                | ApprovalEvent::ClockJumped { .. } => {}
                ApprovalEvent::Asked { card, .. } => {
                    changes.extend(self.question(card.question).cloned().map(LedgerChange::Asked));
                }
                ApprovalEvent::Answered { question, word, by, content: _, at } => {
                    let end = QuestionEnd { word: *word, by: Some(by.clone()), at: *at };
                    changes.push(LedgerChange::Answered(*question, end));
                }
                ApprovalEvent::QuestionOver { question, word, reason: _, at } => {
                    let end = QuestionEnd { word: *word, by: None, at: *at };
                    changes.push(LedgerChange::Answered(*question, end));
                }
            }
        }
        changes
    }
}

impl ApprovalShell {
    /// After an I/O error nobody knows what the disk holds, and damage is no truth: until the runtime starts again every
    /// command is answered with the error, and no grant covers anything.
    fn stop_approving(&self, error: &StoreError) {
        let stops = match error {
            StoreError::Io { .. }
            | StoreError::Damaged { .. }
            | StoreError::NewerFormat { .. }
            | StoreError::Directory { .. }
            | StoreError::Locked { .. } => true,
            // A slow disk may have kept the record, a closed store is the end of the runtime, and what was too large
            // was never written: a fresh actor reads what holds.
            _ => false,
        };
        if stops && self.wiring.approval.stopped.load().is_none() {
            tracing::error!(target: "pilothouse", %error, "approvals stop until the runtime is started again");
            self.wiring.approval.stopped.store(Some(Arc::new(error.clone())));
        }
    }

    fn take(&mut self, letter: Letter<ApprovalMsg>) -> Result<(), StoreError> {
        if let Some(error) = self.wiring.approval.stopped.load_full() {
            if let ApprovalMsg::Command { reply: Some(reply), .. } = letter.body {
                reply.send(Err(StoreError::Stopped { reason: error.to_string() }));
            }
            return Ok(());
        }
        if let (Phase::Loading(stash), ApprovalMsg::Command { .. }) = (&mut self.phase, &letter.body) {
            stash.push_back(letter);
            return Ok(());
        }
        match letter.body {
            ApprovalMsg::Command { command, reply } => self.commit(&command, reply),
            ApprovalMsg::Own(Own(OwnMsg::Loaded(Ok(loaded)))) => self.loaded(loaded),
            ApprovalMsg::Own(Own(OwnMsg::Loaded(Err(error)))) => self.not_loaded(error),
            ApprovalMsg::Own(Own(OwnMsg::Committed(committed))) => self.acknowledged(committed),
            ApprovalMsg::Own(Own(OwnMsg::Tick)) => self.commit(&ApprovalCommand::Tick, None),
            ApprovalMsg::Own(Own(OwnMsg::TellNews)) => {
                self.tell_news();
                Ok(())
            }
        }
    }

    fn acknowledged(&mut self, committed: Committed) -> Result<(), StoreError> {
        let released = self.phase.acknowledged(committed)?;
        self.perform(released);
        Ok(())
    }

    /// What came early is told why; a ledger that cannot be trusted is not read again.
    fn not_loaded(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.stop_approving(&error);
        let Phase::Loading(stash) = &mut self.phase else { return Err(error) };
        for letter in std::mem::take(stash) {
            if let ApprovalMsg::Command { reply: Some(reply), .. } = letter.body {
                reply.send(Err(error.clone()));
            }
        }
        if self.wiring.approval.stopped.load().is_some() { Ok(()) } else { Err(error) }
    }

    fn loaded(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        let mut ledger = Ledger::new(self.wiring.limits.clone());
        loaded.events.iter().for_each(|event| ledger.apply(event));
        let ground = Ground {
            lane: Some(self.wiring.store.lane()),
            clock: self.wiring.clock.clone(),
            within: self.wiring.limits.commit,
        };
        self.wiring.approval.open.replace(&ledger);
        self.wiring.approval.grants.replace(ledger.grants().cloned());
        let TakenOver { orphans, over } = self.wiring.approval.questions.replace(&ledger);
        for (card, end) in over {
            let (question, topic) = (card.question, card.topic.clone());
            self.wiring.events.publish(RuntimeEvent::QuestionOver { question, topic, end });
        }
        self.clock.begin(loaded.newest);
        let durable = Durable::new(ledger, loaded.journal, ground, loaded.newest);
        let early = self.phase.begin(durable);
        self.arm();
        self.wake_topics();
        if !orphans.is_empty() {
            // The calls that asked ended with their process; a server that still wants to know asks again.
            let reason = "the runtime was started again, so its call is gone".to_owned();
            self.commit(&ApprovalCommand::DropQuestions { questions: orphans, reason }, None)?;
        }
        early.into_iter().try_for_each(|letter| self.take(letter))
    }

    /// Wakes the topics that there is news for, then tells it: one whose turn was stopped has nothing else that
    /// wakes it.
    fn wake_topics(&self) {
        let topics: BTreeSet<_> = self.news().into_iter().filter_map(topic_of).collect();
        let (actor, wiring) = (self.myself.clone(), self.wiring.clone());
        self.tasks.spawn(async move {
            for topic in topics {
                // One that is not woken now is told when somebody opens it.
                let _place = wiring.topics.slot.ask(|reply| TopicsMsg::Open { topic, reply }).await;
            }
            let _gone = actor.cast(own(OwnMsg::TellNews));
        });
    }

    /// What topics have to know: decisions that they have not recorded, and cards that wait.
    fn news(&self) -> Vec<ApprovalDirective> {
        let Phase::Live(ledger) = &self.phase else { return Vec::new() };
        let waits = |card: Arc<Card>| ApprovalDirective::TellTopic {
            topic: card.topic.clone(),
            approval: card.approval,
            news: CardNews::Waits,
        };
        let debts = ledger.state().resume();
        debts.into_iter().chain(ledger.state().open_cards().into_iter().map(waits)).collect()
    }

    /// Tells all news, and again after a while.
    fn tell_news(&self) {
        self.news().into_iter().for_each(|directive| self.direct(directive));
        let (actor, wait) = (self.myself.clone(), self.wiring.limits.debt_retry);
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            let _gone = actor.cast(own(OwnMsg::TellNews));
        });
    }

    /// Sets the timer for the next card that expires.
    fn arm(&mut self) {
        let Phase::Live(ledger) = &mut self.phase else { return };
        self.timer.cancel();
        let Some(deadline) = ledger.state().next_deadline() else { return };
        let wait = deadline.since(ledger.now());
        self.timer = self.tasks.token();
        let (actor, timer) = (self.myself.clone(), self.timer.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = timer.cancelled() => {}
                () = tokio::time::sleep(wait) => {
                    let _gone = actor.cast(own(OwnMsg::Tick));
                }
            }
        });
    }

    fn commit(
        &mut self,
        command: &ApprovalCommand,
        reply: Option<Reply<Told<Ledger>>>,
    ) -> Result<(), StoreError> {
        if let Some((from, to)) = self.clock.look(self.wiring.clock.now()) {
            self.commit_one(&ApprovalCommand::Clock { from, to }, None)?;
            // What is over by the new time ends now, for good: no timer knows of the jump, and the clock may go back.
            self.commit_one(&ApprovalCommand::Tick, None)?;
        }
        self.commit_one(command, reply)
    }

    fn commit_one(
        &mut self,
        command: &ApprovalCommand,
        reply: Option<Reply<Told<Ledger>>>,
    ) -> Result<(), StoreError> {
        let Phase::Live(ledger) = &mut self.phase else { return Ok(()) };
        let before = ledger.state().next_deadline();
        let step = ledger.commit(command, reply)?;
        let after: Option<Timestamp> = ledger.state().next_deadline();
        let report = |committed| ApprovalMsg::Own(Own(OwnMsg::Committed(committed)));
        let released = follow(step, &self.tasks, &self.myself, report);
        if before != after || matches!(command, ApprovalCommand::Tick) {
            self.arm();
        }
        self.perform(released);
        Ok(())
    }

    fn perform(&mut self, released: Vec<Released<Ledger>>) {
        for Released { reply, picture, directives } in released {
            self.publish(picture.unwrap_or_default());
            if let Some((reply, answer)) = reply {
                reply.send(Ok(answer));
            }
            directives.into_iter().for_each(|directive| self.direct(directive));
        }
    }

    fn publish(&self, changes: Vec<LedgerChange>) {
        let mut cards = Vec::new();
        for change in changes {
            match change {
                LedgerChange::Card(card) => cards.push(card),
                LedgerChange::Given(grant) => self.wiring.approval.grants.give(grant),
                LedgerChange::Over(grant) => self.wiring.approval.grants.end(grant),
                LedgerChange::Asked(card) => {
                    self.wiring.approval.questions.show(card.clone());
                    self.wiring.events.publish(RuntimeEvent::QuestionAsked(Box::new((*card).clone())));
                }
                LedgerChange::Answered(question, end) => {
                    if let Some(card) = self.wiring.approval.questions.end(question) {
                        let topic = card.topic.clone();
                        self.wiring.events.publish(RuntimeEvent::QuestionOver { question, topic, end });
                    }
                }
            }
        }
        self.wiring.approval.open.change(cards);
    }

    fn direct(&self, directive: ApprovalDirective) {
        match directive {
            ApprovalDirective::TellTopic { topic, approval, news } => {
                // A topic that is not open now asks again when it is, and is told again besides.
                if let Some(place) = self.wiring.topics.place(&topic) {
                    let command = Box::new(TopicCommand::Card { approval, news });
                    place.slot.inform(SessionMsg::Command { command, reply: None });
                }
            }
            ApprovalDirective::TellAsker { question, reply } => {
                self.wiring.approval.questions.tell(question, reply);
            }
        }
    }
}
