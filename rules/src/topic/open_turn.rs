//! The turn that runs: its steps, and where each of their calls is.

use std::time::Duration;

use pilothouse_messages::approval::Card;
use pilothouse_messages::call::{CallReceipt, CallResult};
use pilothouse_messages::id::{
    ApprovalId, Attempt, CallId, MessageId, StepId, StepRef, TenantId, TopicId, TurnId,
};
use pilothouse_messages::limits::WAIT_MAX;
use pilothouse_messages::model::Usage;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{CallPlan, PlannedCall, RunBasis, TopicConfig, TopicStatus};

use super::Message;
use super::nested::Nested;
use super::progress::Refusals;

/// The open turn. Only its last step can have a running model or unfinished calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenTurn {
    pub(super) turn: TurnId,
    /// What it started with; later changes wait for the next turn.
    pub(super) config: TopicConfig,
    pub(super) messages: Vec<Message>,
    pub(super) steps: Vec<Step>,
    /// Cards whose decision or expiry is recorded.
    pub(super) settled: Vec<ApprovalId>,
    /// Whether one of those expired, which ends the turn at its step boundary.
    pub(super) expired: bool,
    pub(super) started_at: Timestamp,
    /// Messages that joined it, and the step that was the first to see each.
    pub(super) injected: Vec<(MessageId, StepId)>,
    /// The turn that it takes up.
    pub(super) continues: Option<TurnId>,
    /// Whether it has gone on after a crash.
    pub(super) resumed: bool,
    /// What its model steps have used.
    pub(super) usage: Usage,
    /// Calls of its last step that were refused, and how often in a row.
    pub(super) refusals: Refusals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: StepRef,
    pub(super) text: String,
    /// `None` while the model runs.
    pub(super) calls: Option<Vec<Call>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) planned: PlannedCall,
    pub(super) stage: Stage,
    /// What a script that runs in it has called, by number.
    pub(super) nested: Vec<Nested>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is decided; its start or its result follows in the same batch.
    Planned,
    /// It waits for a person.
    Awaiting { approval: ApprovalId, card: CardStage },
    /// It runs in this attempt; over its attempts, by what its server handed out last.
    Running { attempt: Attempt, basis: RunBasis, delivery: Delivery, receipt: Option<CallReceipt> },
    /// It has its one result.
    Finished(CallResult),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CardStage {
    /// The ledger was asked to open it.
    Asked,
    /// The ledger has stored it, so it may be shown.
    Stored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It is about to be handed to its tool or server.
    Due,
    /// It was handed over.
    Sent,
}

impl OpenTurn {
    pub(super) fn new(
        turn: TurnId,
        config: TopicConfig,
        messages: Vec<Message>,
        started_at: Timestamp,
    ) -> Self {
        Self {
            turn,
            config,
            messages,
            steps: Vec::new(),
            settled: Vec::new(),
            expired: false,
            started_at,
            injected: Vec::new(),
            continues: None,
            resumed: false,
            usage: Usage::default(),
            refusals: Refusals::new(),
        }
    }

    /// When its time is over.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let time = self.config.turns.budget.wall_ms.map(Duration::from_millis)?;
        Some(self.started_at.after(time.min(WAIT_MAX)))
    }

    pub(super) fn status(&self) -> TopicStatus {
        if self.waits_for_people_only() {
            return TopicStatus::AwaitingApproval;
        }
        match self.steps.as_slice() {
            [] => TopicStatus::Pending,
            [only] if only.text.is_empty() && only.calls.is_none() => TopicStatus::Pending,
            [_, ..] => TopicStatus::Streaming,
        }
    }

    /// `true` if at least one call waits for a person and every other call has its result.
    pub(super) fn waits_for_people_only(&self) -> bool {
        let mut unfinished = self.unfinished().peekable();
        unfinished.peek().is_some() && unfinished.all(Call::is_awaiting)
    }

    /// `true` if the model runs for this step in this attempt.
    pub(super) fn model_runs(&self, at: StepRef) -> bool {
        self.steps.last().is_some_and(|step| step.at == at && step.calls.is_none())
    }

    /// The last step, in the attempt that counts.
    pub(super) fn step_mut(&mut self, at: StepRef) -> Option<&mut Step> {
        self.steps.last_mut().filter(|step| step.at == at)
    }

    /// The calls of the last step.
    pub(super) fn calls(&self) -> &[Call] {
        self.steps.last().and_then(|step| step.calls.as_deref()).unwrap_or_default()
    }

    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Call> {
        self.calls().iter().filter(|call| !call.is_finished())
    }

    /// The last step, if this call is the only one in it without a result.
    pub(super) fn step_that_ends_with(&self, call: CallId) -> Option<StepRef> {
        let step = self.steps.last()?;
        let others = self.unfinished().any(|other| other.planned.call != call);
        (!others).then_some(step.at)
    }

    pub(super) fn call_mut(&mut self, call: CallId) -> Option<&mut Call> {
        let calls = self.steps.last_mut()?.calls.as_mut()?;
        calls.iter_mut().find(|held| held.planned.call == call)
    }

    /// The call that waits for this card.
    pub(super) fn awaiting(&self, approval: ApprovalId) -> Option<(&Call, CardStage)> {
        self.calls().iter().find_map(|call| match &call.stage {
            Stage::Awaiting { approval: awaited, card } if *awaited == approval => Some((call, *card)),
            Stage::Awaiting { .. } | Stage::Planned | Stage::Running { .. } | Stage::Finished(_) => None,
        })
    }
}

impl Call {
    /// A call as the reply's record says it.
    pub(super) fn new(planned: PlannedCall) -> Self {
        let stage = match &planned.plan {
            CallPlan::Run(_) | CallPlan::Reject(_) | CallPlan::Deny(_) | CallPlan::Answered => Stage::Planned,
            CallPlan::Ask { approval, .. } => Stage::Awaiting { approval: *approval, card: CardStage::Asked },
        };
        Self { planned, stage, nested: Vec::new() }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finished(_))
    }

    pub(super) fn is_awaiting(&self) -> bool {
        matches!(self.stage, Stage::Awaiting { .. })
    }

    /// `true` if it waits for a person who may be shown its card.
    pub(super) fn is_shown(&self) -> bool {
        matches!(self.stage, Stage::Awaiting { card: CardStage::Stored, .. })
    }

    /// `true` if it runs and a message that cannot wait may cancel it.
    pub(super) fn is_interruptible(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
            && self.planned.tool.as_ref().is_some_and(|tool| tool.interruptible)
    }

    /// The attempt that runs; 0 if none does.
    pub(super) fn attempt(&self) -> Attempt {
        match &self.stage {
            Stage::Running { attempt, .. } => *attempt,
            Stage::Planned | Stage::Awaiting { .. } | Stage::Finished(_) => Attempt::default(),
        }
    }

    /// What its server handed out last.
    pub(super) fn receipt(&self) -> Option<&CallReceipt> {
        match &self.stage {
            Stage::Running { receipt, .. } => receipt.as_ref(),
            Stage::Planned | Stage::Awaiting { .. } | Stage::Finished(_) => None,
        }
    }

    /// The wire name.
    pub(super) fn tool(&self) -> &str {
        self.planned.tool.as_ref().map_or(&self.planned.name, |tool| &tool.name)
    }

    /// The server, for a server's tool.
    pub(super) fn server(&self) -> Option<String> {
        let server = self.planned.tool.as_ref()?.source.server()?;
        Some(server.as_str().to_owned())
    }

    /// The card that its plan asks for, the same whenever it is made.
    pub(super) fn card(&self, topic: &TopicId, tenant: &TenantId) -> Option<Card> {
        card(&self.planned, topic, tenant)
    }
}

/// The card that a planned call asks for; `None` if its plan asks for none.
pub(super) fn card(planned: &PlannedCall, topic: &TopicId, tenant: &TenantId) -> Option<Card> {
    let (CallPlan::Ask { approval, reason, expires_at }, Some(tool)) = (&planned.plan, &planned.tool) else {
        return None;
    };
    Some(Card {
        approval: *approval,
        tenant: tenant.clone(),
        topic: topic.clone(),
        call: planned.call,
        tool: tool.name.clone(),
        source: tool.source.clone(),
        label: tool.label.clone(),
        title: tool.title.clone(),
        effect: tool.effect,
        arguments: planned.arguments.clone(),
        fingerprint: tool.fingerprint,
        definition: tool.definition,
        reason: reason.clone(),
        expires_at: *expires_at,
    })
}
