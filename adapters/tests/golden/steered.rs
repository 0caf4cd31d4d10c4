use pilothouse_messages::id::{MessageId, StepId, TurnId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    AfterCrash, Budget, BudgetLimit, Claim, CostLimit, Level, Steering, StopReason, TopicEvent, TurnTerms,
};

/// What came with steering by level, and with turns that go on, behind everything older.
pub(super) fn steered() -> Vec<TopicEvent> {
    let (message, turn, at) = (MessageId(7), TurnId(4), Timestamp(1_800_000_000_009));
    let messages = vec![MessageId(8), message];
    let level = |level| TopicEvent::LevelSet { message, level };
    let cost = Some(CostLimit { limit: 5_000_000, input: 3_000_000, output: 15_000_000 });
    let budget = Budget { tokens: Some(9_000), steps: Some(5), wall_ms: Some(60_000), cost };
    let bound = TurnTerms {
        steering: Steering::Inject,
        claim: Claim::Batch,
        after_crash: AfterCrash::ResumeOnce,
        budget,
    };
    let terms = [TurnTerms::default(), bound].map(|terms| TopicEvent::TurnTermsSet { terms });
    let mut events = vec![
        TopicEvent::MessageEdited { message, text: "sooner".into() },
        TopicEvent::MessageDropped { message, by: "ada".into(), at },
        TopicEvent::QueueReordered { messages: messages.clone() },
        TopicEvent::MessageResent { message, at },
        level(Level::NextStep),
        level(Level::Now),
        level(Level::NextTurn),
        TopicEvent::MessagesInjected { turn, step: StepId(2), messages },
        TopicEvent::TurnContinued { turn, of: TurnId(3) },
        TopicEvent::TurnResumed { turn, at },
    ];
    events.extend(terms);
    events
}

/// What came with budgets that say what of them was used up, behind everything older.
pub(super) fn spent() -> [TopicEvent; 4] {
    let at = Timestamp(1_800_000_000_009);
    [BudgetLimit::Tokens, BudgetLimit::Steps, BudgetLimit::Time, BudgetLimit::Cost]
        .map(|limit| TopicEvent::TurnFinished { turn: TurnId(4), stop: StopReason::BudgetSpent(limit), at })
}
