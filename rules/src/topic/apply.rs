//! The only way that a topic changes, and what its subscribers are told about each change.
//!
//! An event that does not fit the state (no log of ours holds one) changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_messages::approval::{CardState, Verdict};
use pilothouse_messages::call::{CallReceipt, CallResult};
use pilothouse_messages::id::{ApprovalId, Attempt, CallId, MessageId, StepRef, TurnId};
use pilothouse_messages::model::Usage;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{PlannedCall, Receipt, RunBasis, StopReason, TopicEvent, TopicUpdate};

use super::open_turn::{Call, CardStage, Delivery, OpenTurn, Stage, Step};
use super::progress::counted;
use super::{Closed, TopicState};

mod places;

pub(super) type Told = Vec<TopicUpdate>;

impl TopicState {
    /// Applies one event and says what subscribers are told about it, in order; a changed status comes last.
    ///
    /// In replay the updates are dropped: nobody is subscribed yet.
    pub fn apply_told(&mut self, event: &TopicEvent) -> Vec<TopicUpdate> {
        let before = self.status();
        let mut told = self.change(event);
        let after = self.status();
        if after != before {
            told.push(TopicUpdate::Status(after));
        }
        told
    }

    fn change(&mut self, event: &TopicEvent) -> Told {
        match event {
            TopicEvent::Configured { config, at: _ } => {
                self.config = Some(config.clone());
                Told::new()
            }
            TopicEvent::MessageAccepted { message, text, key, at } => {
                self.accept(*message, text, key.as_deref(), *at)
            }
            TopicEvent::TurnStarted { turn, messages, at } => self.begin_turn(*turn, messages, *at),
            TopicEvent::StepStarted { at } => self.begin_step(*at),
            TopicEvent::TextAppended { at, delta } => self.append(*at, delta),
            TopicEvent::StepReplied { at, text, calls, finish: _, usage } => {
                self.reply(*at, text, calls, *usage)
            }
            TopicEvent::CallStarted { call, attempt, basis } => self.begin_call(*call, *attempt, basis),
            TopicEvent::CallSent { call, attempt } => self.mark_sent(*call, *attempt),
            TopicEvent::CallFinished { call, attempt: _, result } => self.finish_call(*call, result),
            TopicEvent::CardOpened { call, approval } => self.open_card(*call, *approval),
            TopicEvent::CallDecided { call, approval, verdict, by, reason } => {
                let state = match verdict {
                    Verdict::Allow => CardState::Approved,
                    Verdict::Deny => CardState::Denied,
                };
                self.settle_card(*call, *approval, state);
                vec![settled(*approval, state, Some(by), reason.as_ref())]
            }
            TopicEvent::CallExpired { call, approval } => {
                self.settle_card(*call, *approval, CardState::Expired);
                vec![settled(*approval, CardState::Expired, None, None)]
            }
            TopicEvent::StepFinished { at } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.turn == at.turn) {
                    open.refusals = counted(&open.refusals, open.calls());
                }
                vec![TopicUpdate::StepFinished { turn: at.turn, step: at.step }]
            }
            TopicEvent::TurnFinished { turn, stop, at } => self.close_turn(*turn, stop, *at),
            TopicEvent::MessagesHeld { messages, reason } => self.hold(messages, *reason),
            // What was recovered is said by the events that follow it.
            TopicEvent::Recovered { cause: _, at: _ } => Told::new(),
            // A topic that sleeps is what it was.
            TopicEvent::Slept { at: _ } => Told::new(),
            TopicEvent::HeadlessSet { headless } => {
                if let Some(config) = &mut self.config {
                    config.headless = *headless;
                }
                Told::new()
            }
            TopicEvent::ToolTermsSet { tools, context_window } => {
                if let Some(config) = &mut self.config {
                    config.tools.clone_from(tools);
                    config.context_window = *context_window;
                }
                Told::new()
            }
            TopicEvent::CallEdited { call, arguments } => {
                if let Some(call) = self.call_mut(*call) {
                    call.planned.arguments = arguments.clone();
                }
                Told::new()
            }
            TopicEvent::CallReceipted { call, attempt, receipt } => {
                self.keep_receipt(*call, *attempt, receipt)
            }
            TopicEvent::MessageEdited { message, text } => self.edit(*message, text),
            TopicEvent::MessageDropped { message, by, at: _ } => self.drop_message(*message, by),
            TopicEvent::QueueReordered { messages } => self.reorder(messages),
            TopicEvent::MessageResent { message, at: _ } => self.resend(*message),
            TopicEvent::LevelSet { message, level } => self.set_level(*message, *level),
            TopicEvent::MessagesInjected { turn, step, messages } => self.inject((*turn, *step), messages),
            TopicEvent::TurnContinued { turn, of } => self.continue_turn(*turn, *of),
            TopicEvent::TurnResumed { turn: _, at: _ } => {
                if let Some(open) = &mut self.open {
                    open.resumed = true;
                }
                Told::new()
            }
            TopicEvent::TurnTermsSet { terms } => {
                if let Some(config) = &mut self.config {
                    config.turns.clone_from(terms);
                }
                Told::new()
            }
            TopicEvent::Nested { call, news } => self.note_nested(*call, news),
            TopicEvent::CallAnsweredLate { .. } => Told::new(),
        }
    }

    fn begin_turn(&mut self, turn: TurnId, messages: &[MessageId], at: Timestamp) -> Told {
        let Some(config) = self.config.clone() else { return Told::new() };
        let places = self.places();
        let claimed = self.take_queued(messages);
        self.last_turn = turn;
        let mut told = vec![TopicUpdate::TurnStarted { turn, messages: messages.to_vec() }];
        for message in &claimed {
            told.push(self.place(message, Receipt::Accepted { turn }));
        }
        told.extend(self.told_places(&places));
        self.open = Some(OpenTurn::new(turn, config, claimed, at));
        told
    }

    fn begin_step(&mut self, at: StepRef) -> Told {
        if let Some(open) = self.open.as_mut().filter(|open| open.turn == at.turn) {
            // A further attempt takes the place of the one before.
            open.steps.retain(|step| step.at.step != at.step);
            open.steps.push(Step { at, text: String::new(), calls: None });
        }
        Told::new()
    }

    fn append(&mut self, at: StepRef, delta: &str) -> Told {
        let Some(step) = self.step_mut(at) else { return Told::new() };
        step.text.push_str(delta);
        vec![TopicUpdate::Text { turn: at.turn, delta: delta.to_owned() }]
    }

    fn reply(&mut self, at: StepRef, text: &str, calls: &[PlannedCall], usage: Usage) -> Told {
        let Some(step) = self.step_mut(at) else { return Told::new() };
        // Text that was not streamed before is told now, so that the pieces add up to the reply.
        let rest = text.strip_prefix(&step.text).filter(|rest| !rest.is_empty()).map(str::to_owned);
        step.text = text.to_owned();
        step.calls = Some(calls.iter().cloned().map(Call::new).collect());
        if let Some(turn) = &mut self.open {
            turn.usage = turn.usage.plus(usage);
        }
        rest.map(|delta| TopicUpdate::Text { turn: at.turn, delta }).into_iter().collect()
    }

    fn begin_call(&mut self, id: CallId, attempt: Attempt, basis: &RunBasis) -> Told {
        let Some(call) = self.call_mut(id).filter(|call| !call.is_finished()) else { return Told::new() };
        let (basis, receipt) = (basis.clone(), call.receipt().cloned());
        call.stage = Stage::Running { attempt, basis, delivery: Delivery::Due, receipt };
        vec![TopicUpdate::ToolStarted { call: id, tool: call.tool().to_owned(), server: call.server() }]
    }

    fn mark_sent(&mut self, id: CallId, sent: Attempt) -> Told {
        if let Some(Call { stage: Stage::Running { attempt, delivery, .. }, .. }) = self.call_mut(id)
            && *attempt == sent
        {
            *delivery = Delivery::Sent;
        }
        Told::new()
    }

    fn keep_receipt(&mut self, id: CallId, of: Attempt, given: &CallReceipt) -> Told {
        if let Some(Call { stage: Stage::Running { attempt, receipt, .. }, .. }) = self.call_mut(id)
            && *attempt == of
        {
            *receipt = Some(given.clone());
        }
        Told::new()
    }

    fn finish_call(&mut self, id: CallId, result: &CallResult) -> Told {
        let Some(call) = self.call_mut(id).filter(|call| !call.is_finished()) else { return Told::new() };
        // A call that ends while its card is shown takes the card with it: nobody can decide it any more.
        let withdrawn = match &call.stage {
            Stage::Awaiting { approval, card: CardStage::Stored } => {
                Some(settled(*approval, CardState::Withdrawn, None, None))
            }
            Stage::Awaiting { card: CardStage::Asked, .. }
            | Stage::Planned
            | Stage::Running { .. }
            | Stage::Finished(_) => None,
        };
        call.stage = Stage::Finished(result.clone());
        let (tool, server) = (call.tool().to_owned(), call.server());
        let finished = TopicUpdate::ToolFinished { call: id, tool, server, result: result.clone() };
        std::iter::once(finished).chain(withdrawn).collect()
    }

    fn open_card(&mut self, id: CallId, opened: ApprovalId) -> Told {
        match self.call_mut(id) {
            Some(Call { stage: Stage::Awaiting { approval, card }, .. }) if *approval == opened => {
                *card = CardStage::Stored;
            }
            Some(_) | None => return Told::new(),
        }
        let cards = self.cards(|call| call.planned.call == id);
        cards.into_iter().map(|card| TopicUpdate::ApprovalRequested(Box::new(card))).collect()
    }

    fn settle_card(&mut self, id: CallId, approval: ApprovalId, state: CardState) {
        if let Some(call) = self.call_mut(id).filter(|call| call.is_awaiting()) {
            call.stage = Stage::Planned;
        }
        if let Some(open) = &mut self.open {
            open.settled.push(approval);
            open.expired |= state == CardState::Expired;
        }
    }

    fn continue_turn(&mut self, turn: TurnId, of: TurnId) -> Told {
        if let Some(open) = self.open.as_mut().filter(|open| open.turn == turn) {
            open.continues = Some(of);
        }
        self.carry_over(of, &Receipt::Accepted { turn })
    }

    fn close_turn(&mut self, turn: TurnId, stop: &StopReason, at: Timestamp) -> Told {
        let Some(open) = self.open.take_if(|open| open.turn == turn) else { return Told::new() };
        let mut told = vec![TopicUpdate::TurnFinished { turn, stop: stop.clone() }];
        let receipt = if stop.chains() { Receipt::Answered { turn } } else { Receipt::Accepted { turn } };
        for message in &open.messages {
            let update = self.place(message, receipt.clone());
            if stop.chains() {
                told.push(update);
            }
        }
        if stop.chains() {
            told.extend(self.carry_over(turn, &receipt));
        }
        self.last_stop = Some(stop.clone());
        let view = open.closed_view(&receipt, stop.clone(), at);
        self.closed.push_back(Closed { view: Arc::new(view), settled: open.settled });
        // The turn that has just ended stays, whatever the limit: its keys are stored from here.
        while self.closed.len() > self.limits.view_turns.max(1) {
            let left = self.closed.pop_front();
            self.earlier_turns += 1;
            let messages = left.iter().flat_map(|left| &left.view.messages).map(|message| message.message);
            let messages: BTreeSet<_> = messages.collect();
            self.keys.retain(|_, keyed| !messages.contains(&keyed.message));
        }
        told
    }

    fn step_mut(&mut self, at: StepRef) -> Option<&mut Step> {
        self.open.as_mut()?.step_mut(at)
    }

    pub(super) fn call_mut(&mut self, call: CallId) -> Option<&mut Call> {
        self.open.as_mut()?.call_mut(call)
    }
}

fn moved(message: MessageId, receipt: Receipt) -> TopicUpdate {
    TopicUpdate::Receipt { message, receipt }
}

fn settled(
    approval: ApprovalId,
    state: CardState,
    by: Option<&String>,
    reason: Option<&String>,
) -> TopicUpdate {
    TopicUpdate::ApprovalSettled { approval, state, by: by.cloned(), reason: reason.cloned() }
}
