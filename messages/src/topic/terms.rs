//! The terms on which a topic's turns run: how messages join them, what a restart means, what they may use up.

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// The terms of a topic's turns. Stored by an event of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnTerms {
    /// What becomes of a message that arrives while a turn runs.
    pub steering: Steering,
    /// How many of the messages that wait start one turn.
    pub claim: Claim,
    /// What becomes of a turn that a crash has cut off.
    pub after_crash: AfterCrash,
    /// What one turn may use up.
    pub budget: Budget,
}

/// What becomes of a message that arrives while a turn runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// The turn yields at its step boundary, and the next turn answers the message.
    #[default]
    Chain,
    /// The message joins the turn before its next model step.
    Inject,
}

/// How many of the messages that wait start one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The head of the queue.
    #[default]
    One,
    /// The head, and all behind it that steer like it: those for the next turn apart from the others.
    Batch,
}

/// What becomes of a turn that a crash or a restart of its session has cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterCrash {
    /// It ends as interrupted.
    #[default]
    Interrupt,
    /// It goes on at its last step, once; when it is cut off again it ends as interrupted.
    ResumeOnce,
}

/// What one turn may use up; `None` stands for no limit. Looked at where a further step would begin, but for the time,
/// which ends the turn when it is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Model steps; where `max_steps` allows fewer, the turn ends at that limit instead.
    pub steps: Option<u32>,
    /// Time from its start, waiting for people included, in milliseconds.
    pub wall_ms: Option<u64>,
    /// Money.
    pub cost: Option<CostLimit>,
}

/// What the model steps of one turn may cost, in millionths of any currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostLimit {
    /// The most that the turn may cost, in millionths.
    pub limit: u64,
    /// The price of a million tokens read, in millionths.
    pub input: u64,
    /// The price of a million tokens written, in millionths.
    pub output: u64,
}

impl CostLimit {
    /// What these tokens cost, rounded up; as much as a number holds if it is more.
    pub fn of(&self, usage: Usage) -> u64 {
        let tokens = |count: u64, price: u64| u128::from(count) * u128::from(price);
        let total = tokens(usage.input, self.input).saturating_add(tokens(usage.output, self.output));
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// One part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    /// [`Budget::tokens`].
    Tokens,
    /// [`Budget::steps`].
    Steps,
    /// [`Budget::wall_ms`].
    Time,
    /// [`Budget::cost`].
    Cost,
}

impl BudgetLimit {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Steps => "steps",
            Self::Time => "time",
            Self::Cost => "cost",
        }
    }
}

impl Budget {
    /// What leaves nothing for a further step of a turn that has used this much; its time is looked at elsewhere.
    pub fn spent(&self, usage: Usage, steps: u32) -> Option<BudgetLimit> {
        let tokens = usage.input.saturating_add(usage.output);
        if self.tokens.is_some_and(|limit| tokens >= limit) {
            Some(BudgetLimit::Tokens)
        } else if self.steps.is_some_and(|limit| steps >= limit) {
            Some(BudgetLimit::Steps)
        } else if self.cost.is_some_and(|cost| cost.of(usage) >= cost.limit) {
            Some(BudgetLimit::Cost)
        } else {
            None
        }
    }
}
