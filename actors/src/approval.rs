//! The approval actor: the single writer of decisions.
//!
//! | Owns | Receives (what, from whom) | Asks of | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the ledger: cards, decisions, debts | `Open`, `Withdraw`, `Pay` from sessions; `Decide` from handles; ticks from itself | nobody: it tells topics, and tells them again | a record does not become durable: held askers get the store's error, a fresh one reads the ledger back | 256 letters; 64 open cards a topic |
//!
//! A card is shown only after it is stored, and a decision is durable before anybody sees it. A decision is owed to
//! its topic until the topic has recorded it: it is told at start and every 30 s. So is a card that waits, since the
//! topic's wish to withdraw it may have been lost with its session.

mod journal;
mod open;

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_messages::approval::{ApprovalCommand, ApprovalDirective, ApprovalEvent, Card};
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::TopicId;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{CardNews, TopicCommand};
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
use journal::{LedgerJournal, Loaded};
pub use open::{CardChange, OpenCards};

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
        let phase = Phase::loading();
        Ok(ApprovalShell { wiring: args.wiring, myself, tasks, phase, timer: CancellationToken::new() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut ApprovalShell,
    ) -> Result<(), ActorProcessingErr> {
        shell.take(letter)?;
        Ok(())
    }
}

fn own(message: OwnMsg) -> Letter<ApprovalMsg> {
    Letter::inside(ApprovalMsg::Own(Own(message)))
}

fn topic_of(directive: ApprovalDirective) -> TopicId {
    match directive {
        ApprovalDirective::TellTopic { topic, .. } => topic,
    }
}

impl Pictured for Ledger {
    type Picture = Vec<CardChange>;

    fn take(&mut self, events: &[Self::Event]) -> Vec<CardChange> {
        let mut changes = Vec::new();
        for event in events {
            self.apply(event);
            match event {
                ApprovalEvent::Opened { card, .. } => {
                    changes.extend(self.card(card.approval).cloned().map(CardChange::Shown));
                }
                ApprovalEvent::Decided { approval, .. }
                | ApprovalEvent::Expired { approval, .. }
                | ApprovalEvent::Withdrawn { approval, .. } => changes.push(CardChange::Gone(*approval)),
                ApprovalEvent::Paid { .. } => {}
            }
        }
        changes
    }
}

impl ApprovalShell {
    fn take(&mut self, letter: Letter<ApprovalMsg>) -> Result<(), StoreError> {
        if let (Phase::Loading(stash), ApprovalMsg::Command { .. }) = (&mut self.phase, &letter.body) {
            stash.push_back(letter);
            return Ok(());
        }
        match letter.body {
            ApprovalMsg::Command { command, reply } => self.commit(&command, reply),
            ApprovalMsg::Own(Own(OwnMsg::Loaded(loaded))) => self.loaded(loaded?),
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

    fn loaded(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        let mut ledger = Ledger::new(self.wiring.limits.clone());
        loaded.events.iter().for_each(|event| ledger.apply(event));
        let ground = Ground {
            lane: Some(self.wiring.store.lane()),
            clock: self.wiring.clock.clone(),
            within: self.wiring.limits.commit,
        };
        self.wiring.approval.open.replace(ledger.open_cards());
        let durable = Durable::new(ledger, loaded.journal, ground, loaded.newest);
        let early = self.phase.begin(durable);
        self.arm();
        self.wake_topics();
        early.into_iter().try_for_each(|letter| self.take(letter))
    }

    /// Wakes the topics that there is news for, then tells it: one whose turn was stopped has nothing else that
    /// wakes it.
    fn wake_topics(&self) {
        let topics: BTreeSet<_> = self.news().into_iter().map(topic_of).collect();
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
            if let Some(changes) = picture {
                self.wiring.approval.open.change(changes);
            }
            if let Some((reply, answer)) = reply {
                reply.send(Ok(answer));
            }
            directives.into_iter().for_each(|directive| self.direct(directive));
        }
    }

    fn direct(&self, directive: ApprovalDirective) {
        match directive {
            ApprovalDirective::TellTopic { topic, approval, news } => {
                // A topic that is not open now asks again when it is, and is told again besides.
                if let Some(place) = self.wiring.topics.place(&topic) {
                    let command = TopicCommand::Card { approval, news };
                    place.slot.inform(SessionMsg::Command { command, reply: None });
                }
            }
        }
    }
}
