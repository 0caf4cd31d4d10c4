//! The session actor: one topic while it is awake.
//!
//! | Owns | Receives (what, from whom) | Asks of (whom, with what deadline) | Fails when, and then | Bounded by |
//! |---|---|---|---|---|
//! | the topic's state, its pinned surface, its running effects | commands from handles; news of cards from the approval actor; reports from its own tasks | models, tools and the approval actor, all in tasks under the limits | a record does not become durable: held askers get the store's error, a fresh one reads the journal back and recovers | 256 letters; 32 queued messages; 16 calls in flight |
//!
//! Every fact is durable before its effect. An effect carries its turn, step and attempt, so a late result of an
//! earlier one changes nothing. `Stop` fires the turn's cancel token at once, before its record is durable.

mod card;
mod conversation;
mod deltas;
pub mod export;
pub mod history;
mod journal;
mod model_step;
mod nested;
mod past;
mod pin;
mod reading;
mod receipts;
pub mod removal;
mod repair;
mod rest;
mod retention;
mod running;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pilothouse_adapters::gate::Subject;
use pilothouse_messages::call::{CallOutcome, CallReceipt, CallResult};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{Attempt, CallId, StepRef};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::topic::{
    Directive, Recovery, ResolvedTool, RunBasis, StoredKey, TopicAnswer, TopicCommand,
};
use pilothouse_rules::Decider;
use pilothouse_rules::gate::is_exec;
use pilothouse_rules::registry::policy::out_of_reach;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::call::{self, CallOrder, Ran, WhenFull};
use crate::durable::{Committed, Durable, Ground, Released, Step, Told, after_earlier_life, follow};
use crate::gate;
use crate::hub::TopicPicture;
use crate::phase::Phase;
use crate::slot::{Letter, Reply};
use crate::tasks::{TaskSet, caught};
use crate::wiring::{TopicPlace, Wiring};
pub use conversation::Conversation;
use history::Earlier;
use journal::{Loaded, SAVE_TEXT_AFTER, TopicJournal};
pub use nested::NestedJournal;
use pin::Pin;
pub use pin::surface_now;
use receipts::Witness;
use rest::{Quiet, Rested};
use retention::Cut;
use running::Running;

/// What the actor is born with.
pub struct SessionArgs {
    /// The runtime's wiring.
    pub wiring: Arc<Wiring>,
    /// The topic's place: its hub is written here only.
    pub place: Arc<TopicPlace>,
    /// Why it would have to recover, if its records say so.
    pub cause: Recovery,
}

/// What changes during its life.
pub struct SessionShell {
    /// The runtime's wiring.
    wiring: Arc<Wiring>,
    /// The topic's place.
    place: Arc<TopicPlace>,
    /// Where its tasks report.
    myself: ActorRef<Letter<SessionMsg>>,
    /// Everything that it waits for; the slot cancels it when the actor is gone.
    tasks: TaskSet,
    /// Why it would have to recover.
    cause: Recovery,
    /// The topic, once it is read.
    phase: Phase<Conversation, TopicJournal, SessionMsg>,
    /// What the running turn shows its model.
    pin: Pin,
    /// Cancels what runs for the open turn.
    running: Running,
    /// Cancels the timer of the open turn.
    timer: CancellationToken,
    /// Calls of this topic in flight.
    calls: Arc<Semaphore>,
    /// Whether a task waits to have text saved.
    saving: Saving,
    /// How many turns the last request left out, so that it is told when that changes.
    left_out: Arc<AtomicU64>,
    /// What its model was told in closed turns, while that is needed.
    earlier: Option<Earlier>,
    /// How long nothing has happened.
    quiet: Quiet,
}

/// Whether a task waits to have text saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saving {
    Waits,
    No,
}

/// The whole mailbox.
#[derive(Debug)]
pub enum SessionMsg {
    /// Something to decide about.
    Command {
        /// What.
        command: Box<TopicCommand>,
        /// Whom to tell, if anybody waits.
        reply: Option<Reply<Told<Conversation>>>,
    },
    /// What the actor sends itself.
    Own(Own),
}

/// What the actor sends itself.
#[derive(Debug)]
pub struct Own(OwnMsg);

#[derive(Debug)]
enum OwnMsg {
    Loaded(Box<Result<Loaded, StoreError>>),
    Committed(Committed),
    SaveText,
    /// Nothing happened for a while, unless something did.
    Rested(Rested),
    /// Old turns are to go.
    Cut(Cut),
    /// What a model was told before the turn of this step, for that step.
    EarlierRead(StepRef, Result<Earlier, StoreError>),
    /// A message, and what its key stands for if that is stored.
    KeyRead(Box<Letter<SessionMsg>>, Result<Option<StoredKey>, StoreError>),
}

/// The session actor's behaviour.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionActor;

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for SessionActor {
    type Msg = Letter<SessionMsg>;
    type State = SessionShell;
    type Arguments = SessionArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: SessionArgs,
    ) -> Result<SessionShell, ActorProcessingErr> {
        let SessionArgs { wiring, place, cause } = args;
        let tasks = place.slot.tasks();
        let (wired, placed, actor) = (wiring.clone(), place.clone(), myself.clone());
        tasks.spawn(async move {
            let loaded = async {
                let store = wired.store.as_ref();
                after_earlier_life(&placed.slot, store).await?;
                let load = journal::load(store, placed.topic.clone(), wired.limits.clone());
                timeout(wired.limits.topic_load, load).await.unwrap_or(Err(StoreError::TimedOut))
            };
            let loaded = loaded.await;
            let _gone = actor.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::Loaded(Box::new(loaded))))));
        });
        let calls = Arc::new(Semaphore::new(wiring.limits.calls_per_topic.max(1)));
        let phase = Phase::loading();
        let (pin, running, timer) = (Pin::default(), Running::default(), tasks.token());
        let (saving, left_out) = (Saving::No, Arc::default());
        let (earlier, quiet) = (None, Quiet::default());
        Ok(SessionShell {
            wiring,
            place,
            myself,
            tasks,
            cause,
            phase,
            pin,
            running,
            timer,
            calls,
            saving,
            left_out,
            earlier,
            quiet,
        })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        letter: Self::Msg,
        shell: &mut SessionShell,
    ) -> Result<(), ActorProcessingErr> {
        shell.take(letter)?;
        Ok(())
    }
}

/// A way for a task to tell its session something.
#[derive(Clone)]
pub(crate) struct Report(ActorRef<Letter<SessionMsg>>);

impl Report {
    /// Tells it. A session that has ended recovers from its records instead.
    pub(crate) fn tell(&self, command: TopicCommand) {
        let command = Box::new(command);
        let _gone = self.0.cast(Letter::inside(SessionMsg::Command { command, reply: None }));
    }

    /// Tells it and waits until that is durable; `None` if the session has ended, or has refused it.
    pub(crate) async fn ask(&self, command: TopicCommand) -> Option<TopicAnswer> {
        let (reply, answer) = Reply::pair();
        let command = Box::new(command);
        self.0.cast(Letter::inside(SessionMsg::Command { command, reply: Some(reply) })).ok()?;
        answer.await.ok()?.ok()?.ok()
    }
}

/// A task runs already: nothing that became stricter stops it.
fn is_task(receipt: Option<&CallReceipt>) -> bool {
    matches!(receipt, Some(CallReceipt::Task { .. }))
}

impl SessionShell {
    fn take(&mut self, letter: Letter<SessionMsg>) -> Result<(), StoreError> {
        if let (Phase::Loading(stash), SessionMsg::Command { .. }) = (&mut self.phase, &letter.body) {
            stash.push_back(letter);
            return Ok(());
        }
        if let Some(key) = self.unknown_key(&letter.body) {
            self.read_key(key, letter);
            return Ok(());
        }
        match letter.body {
            SessionMsg::Command { command, reply } => self.commit(&command, reply),
            SessionMsg::Own(Own(OwnMsg::Loaded(loaded))) => self.loaded((*loaded)?),
            SessionMsg::Own(Own(OwnMsg::Committed(committed))) => self.acknowledged(committed),
            SessionMsg::Own(Own(OwnMsg::SaveText)) => self.save_text(),
            SessionMsg::Own(Own(OwnMsg::Rested(rested))) => self.rested(rested),
            SessionMsg::Own(Own(OwnMsg::Cut(cut))) => self.cut(cut),
            SessionMsg::Own(Own(OwnMsg::EarlierRead(at, earlier))) => {
                self.earlier_read(at, earlier);
                Ok(())
            }
            SessionMsg::Own(Own(OwnMsg::KeyRead(letter, key))) => self.key_read(*letter, key),
        }
    }

    fn loaded(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        let lane = self.wiring.store.lane();
        let epoch = loaded.journal.epoch();
        // Acknowledged before anything that follows in this lane.
        drop(lane.append(loaded.journal.begin()));
        let ground =
            Ground { lane: Some(lane), clock: self.wiring.clock.clone(), within: self.wiring.limits.commit };
        self.place.hub.open(epoch, loaded.conversation.view());
        let needs_recovery = loaded.conversation.needs_recovery();
        let durable = Durable::new(loaded.conversation, loaded.journal, ground, loaded.newest);
        let early = self.phase.begin(durable);
        self.arm();
        if needs_recovery {
            self.commit(&TopicCommand::Recover { cause: self.cause }, None)?;
        }
        if let Phase::Live(topic) = &self.phase {
            topic.state().resume().into_iter().for_each(|directive| self.perform(directive));
        }
        early.into_iter().try_for_each(|letter| self.take(letter))?;
        self.stir();
        Ok(())
    }

    fn acknowledged(&mut self, committed: Committed) -> Result<(), StoreError> {
        let released = self.phase.acknowledged(committed)?;
        self.release(released);
        Ok(())
    }

    fn commit(
        &mut self,
        command: &TopicCommand,
        reply: Option<Reply<Told<Conversation>>>,
    ) -> Result<(), StoreError> {
        let Phase::Live(topic) = &mut self.phase else { return Ok(()) };
        if let TopicCommand::Stop { .. } | TopicCommand::ShutDown = command {
            self.running.cancel();
        }
        let before = topic.state().next_deadline();
        let step = topic.commit(command, reply)?;
        let moved = before != topic.state().next_deadline();
        self.place.set_rests(false);
        let (unsaved, due) = (topic.journal().has_unsaved(), topic.state().due().is_some());
        self.follow(step);
        if due {
            self.look_back();
        }
        if moved || matches!(command, TopicCommand::Tick) {
            self.arm();
        }
        if unsaved && self.saving == Saving::No {
            self.saving = Saving::Waits;
            let myself = self.myself.clone();
            self.tasks.spawn(async move {
                tokio::time::sleep(SAVE_TEXT_AFTER).await;
                // One that has ended has nothing to save.
                let _gone = myself.cast(Letter::inside(SessionMsg::Own(Own(OwnMsg::SaveText))));
            });
        }
        self.stir();
        Ok(())
    }

    fn save_text(&mut self) -> Result<(), StoreError> {
        self.saving = Saving::No;
        let Phase::Live(topic) = &mut self.phase else { return Ok(()) };
        let step = topic.write(|journal, _topic| journal.save())?;
        self.follow(step);
        Ok(())
    }

    fn follow(&mut self, step: Step<Conversation>) {
        let report = |committed| SessionMsg::Own(Own(OwnMsg::Committed(committed)));
        let released = follow(step, &self.tasks, &self.myself, report);
        self.release(released);
    }

    /// Sets the timer for the end of the open turn's time.
    fn arm(&mut self) {
        let Phase::Live(topic) = &mut self.phase else { return };
        self.timer.cancel();
        let Some(deadline) = topic.state().next_deadline() else { return };
        let wait = deadline.since(topic.now());
        self.timer = self.tasks.token();
        let (report, timer) = (Report(self.myself.clone()), self.timer.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = timer.cancelled() => {}
                () = tokio::time::sleep(wait) => report.tell(TopicCommand::Tick),
            }
        });
    }

    fn release(&mut self, released: Vec<Released<Conversation>>) {
        for Released { reply, picture, directives } in released {
            if let Some(picture) = picture {
                self.place.hub.publish(picture);
            }
            if let Some((reply, answer)) = reply {
                reply.send(Ok(answer));
            }
            directives.into_iter().for_each(|directive| self.perform(directive));
        }
    }

    fn perform(&mut self, directive: Directive) {
        if let Phase::Live(topic) = &self.phase
            && !topic.state().wants(&directive)
        {
            return;
        }
        match directive {
            Directive::RunModel { at } => self.run_model(at),
            Directive::CallTool { call, attempt, tool, arguments, basis } => {
                self.call_tool((call, attempt), tool, arguments, (basis, None));
            }
            Directive::TakeUpCall { call, attempt, tool, arguments, basis, receipt } => {
                self.call_tool((call, attempt), tool, arguments, (basis, Some(receipt)));
            }
            Directive::OpenCard(card) => card::open(self.errand(), *card),
            Directive::WithdrawCards { approvals, reason } => {
                card::withdraw(self.errand(), self.place.topic.clone(), approvals, reason);
            }
            Directive::PayDebt { approval, payment } => {
                card::pay(&self.wiring, self.place.topic.clone(), approval, payment);
            }
            Directive::CancelTurn { turn } => self.running.cancel_turn(turn),
            Directive::CancelCalls { calls } => {
                calls.into_iter().for_each(|call| self.running.cancel_call(call));
            }
            Directive::FallAsleep => self.fall_asleep(),
            Directive::Announce(update) => {
                self.place.hub.publish(TopicPicture { updates: vec![update], view: None });
            }
        }
    }

    fn errand(&self) -> card::Errand {
        card::Errand {
            wiring: self.wiring.clone(),
            tasks: self.tasks.clone(),
            report: Report(self.myself.clone()),
        }
    }

    fn call_tool(
        &mut self,
        (call, attempt): (CallId, Attempt),
        tool: ResolvedTool,
        arguments: JsonText,
        (basis, receipt): (RunBasis, Option<CallReceipt>),
    ) {
        let report = Report(self.myself.clone());
        let cancel = self.running.call(call, &self.tasks);
        let (wiring, permits, place) = (self.wiring.clone(), self.calls.clone(), self.place.clone());
        let topic = self.place.topic.clone();
        let Phase::Live(state) = &self.phase else { return };
        let config = state.state().turn_config().map(Box::new);
        let tenant = config.as_ref().map(|config| config.tenant.clone()).unwrap_or_default();
        let subject = Subject::new(tenant, Some(topic.clone()), tool.clone(), arguments.value());
        let key = Digest::of_parts(
            "pilothouse/idempotency/1",
            &[&wiring.store.id().0, topic.as_str().as_bytes(), call.to_string().as_bytes()],
        );
        let nested = is_exec(&tool).then(|| NestedJournal {
            place: place.clone(),
            permits: permits.clone(),
            call,
            attempt,
        });
        let order = CallOrder {
            tool,
            arguments,
            topic: Some(topic),
            call: Some(call),
            config,
            idempotency_key: Some(key.to_string()),
            basis,
            receipt,
            when_full: WhenFull::Wait,
            cancel,
            nested,
        };
        self.tasks.spawn(async move {
            // The semaphore is never closed; a call without a permit would only be one too many.
            let _permit = match order.nested {
                Some(_) => None,
                None => permits.acquire_owned().await.ok(),
            };
            // A rule may have become stricter since the call was allowed, or while its card waited.
            let reach = || out_of_reach(&place.hub.view()?.config, &subject.tool);
            if !is_task(order.receipt.as_ref())
                && let Some(reason) = gate::denial(&wiring, &subject).or_else(reach)
            {
                let result = CallResult::said(CallOutcome::Denied, reason);
                return report.tell(TopicCommand::CallReturned { call, attempt, result });
            }
            let mut witness = Witness { report: report.clone(), call, attempt };
            let run = call::run_watched(&wiring, order, &mut witness);
            let _questions = call::QuestionsOf::run(&wiring, &place.topic, call);
            let ran = caught(run).await.unwrap_or_else(|words| {
                let words = format!("the call ended in a fault of ours: {words}");
                Ran { result: CallResult::said(CallOutcome::Unknown, words), whole: None }
            });
            if let Some(whole) = &ran.whole {
                wiring.asides.keep(&place.topic, call, whole).await;
            }
            let result = ran.result;
            report.tell(TopicCommand::CallReturned { call, attempt, result });
        });
    }
}
