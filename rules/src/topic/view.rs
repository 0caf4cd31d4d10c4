//! Pictures of a topic for readers.

use std::sync::Arc;

use pilothouse_messages::id::{MessageId, TopicId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    CallState, CallView, MessageView, Receipt, StepView, StopReason, TopicConfig, TopicView, TurnView,
};

use super::nested::Nested;
use super::open_turn::{Call, OpenTurn, Stage, Step};
use super::{Message, TopicState};

impl TopicState {
    /// The topic as it is: the last `limits.view_turns` closed turns and the open one. The sequence is left at its
    /// default; who publishes the view knows it. A topic that was never opened shows a configuration without a
    /// model.
    pub fn view(&self) -> TopicView {
        let config = self.config.clone().unwrap_or_else(|| TopicConfig::new(""));
        let mut view = TopicView::new(TopicId::clone(&self.topic), config);
        view.status = self.status();
        view.turns = self.closed.iter().map(|turn| turn.view.clone()).collect();
        view.turns.extend(self.open.as_ref().map(|turn| Arc::new(turn.view())));
        view.earlier_turns = self.earlier_turns;
        let queue = self.queue.iter().zip(1..);
        view.queue = queue.map(|(message, position)| message.view(Receipt::Queued { position })).collect();
        let held = self.held.iter();
        view.held = held.map(|held| held.message.view(Receipt::Held { reason: held.reason })).collect();
        view.cards = self.cards(Call::is_shown);
        view
    }
}

impl Message {
    fn view(&self, receipt: Receipt) -> MessageView {
        let mut view = MessageView::new(self.id, self.text.clone(), self.at, receipt);
        view.level = self.level;
        view
    }
}

impl OpenTurn {
    fn view(&self) -> TurnView {
        self.shown(|message| self.receipt_of(message))
    }

    /// Where a message of this turn is while it runs.
    pub(super) fn receipt_of(&self, message: MessageId) -> Receipt {
        let turn = self.turn;
        match self.injected.iter().find(|(injected, _)| *injected == message) {
            Some((_, step)) => Receipt::Injected { turn, step: *step },
            None => Receipt::Accepted { turn },
        }
    }

    /// The turn as it stays in the view after its end.
    pub(super) fn closed_view(&self, receipt: &Receipt, stop: StopReason, at: Timestamp) -> TurnView {
        TurnView { stop: Some(stop), finished_at: Some(at), ..self.shown(|_| receipt.clone()) }
    }

    fn shown(&self, receipt: impl Fn(MessageId) -> Receipt) -> TurnView {
        TurnView {
            turn: self.turn,
            messages: self.messages.iter().map(|message| message.view(receipt(message.id))).collect(),
            steps: self.steps.iter().map(Step::view).collect(),
            stop: None,
            started_at: self.started_at,
            finished_at: None,
            continues: self.continues,
            usage: self.usage,
        }
    }
}

impl Step {
    fn view(&self) -> StepView {
        let calls = self.calls.iter().flatten();
        StepView { step: self.at.step, text: self.text.clone(), calls: calls.map(Call::view).collect() }
    }
}

impl Call {
    fn view(&self) -> CallView {
        let state = match &self.stage {
            Stage::Awaiting { approval, .. } => CallState::Awaiting { approval: *approval },
            Stage::Planned | Stage::Running { .. } => CallState::Running,
            Stage::Finished(result) => CallState::Finished(result.clone()),
        };
        CallView {
            call: self.planned.call,
            tool: self.tool().to_owned(),
            arguments: self.planned.arguments.clone(),
            state,
            nested: self.nested.iter().map(Nested::view).collect(),
        }
    }
}
