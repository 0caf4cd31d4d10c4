//! Those who look: at the runtime's events, and at each topic through a window that keeps up.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::CardState;
use pilothouse::call::CallOutcome;
use pilothouse::id::Sequence;
use pilothouse::server::ServerState;
use pilothouse::topic::{Receipt, StopReason, TopicEventOut, TopicUpdate};
use pilothouse::tree::RuntimeEvent;
use pilothouse::{Runtime, Subscription, Topic};
use tokio::time::sleep;

use super::check::place;
use super::promise::{LAST_GOOD, WINDOW};
use super::world::World;

/// Writes down what the runtime as a whole tells.
pub(super) async fn follow_events(world: Arc<World>, runtime: Runtime) {
    let mut events = runtime.events();
    while let Some(event) = events.next().await {
        match event {
            RuntimeEvent::Server(view) => {
                let why = view.reason.as_deref().unwrap_or("");
                world.trace(format!("server {} {:?} {} {why}", view.server, view.state, view.attempt));
                match view.state {
                    ServerState::Failed => world.count("a server was parked"),
                    ServerState::Backoff => world.count("a server backed off"),
                    ServerState::Connecting | ServerState::Ready | ServerState::Stopped => {}
                }
            }
            RuntimeEvent::Listing { server, revision, tools, fresh, .. } => {
                world.trace(format!("listing {server} {revision:?} {tools} {fresh}"));
                if !fresh {
                    world.count("a listing was stale");
                }
                let known = revision.is_some();
                let before = !known && world.facts().listed.contains(server.as_str());
                if known {
                    world.facts().listed.insert(server.to_string());
                }
                if before {
                    world.violated(LAST_GOOD, format!("{server} had a listing, and has none"));
                }
            }
            RuntimeEvent::Restarted { actor, reason } => {
                world.trace(format!("restarted {actor}: {reason}"));
                if let Some(topic) = actor.strip_prefix("session/") {
                    *world.facts().sessions.entry(topic.to_owned()).or_default() += 1;
                }
                match actor.split('/').next() {
                    Some("session") => world.count("a session was restarted"),
                    Some("approval") => world.count("the approval actor was restarted"),
                    Some("catalog") => world.count("the catalog was restarted"),
                    Some("registry") => world.count("the registry was restarted"),
                    Some("servers") => world.count("the servers' supervisor was restarted"),
                    Some("topics") => world.count("the topics' supervisor was restarted"),
                    Some(_) | None => {}
                }
            }
            RuntimeEvent::TopicOpened { topic } => world.trace(format!("opened {topic}")),
            RuntimeEvent::Lagged { missed } => world.trace(format!("{missed} events were missed")),
            // The enum may grow.
            _ => {}
        }
    }
}

/// Follows a topic over all its sessions, until its runtime ends.
pub(super) async fn follow_topic(world: Arc<World>, name: String, topic: Topic) {
    loop {
        let Some(mut window) = topic.attach() else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        world.saw_view(&name, &window.view);
        let mut last = window.view.sequence;
        loop {
            match window.next().await {
                Some(TopicEventOut::Update { sequence, update }) => {
                    follows(&world, &name, &mut last, sequence);
                    saw(&world, &name, &update);
                    if let (TopicUpdate::TurnFinished { .. }, Some(view)) = (&update, topic.view()) {
                        world.saw_view(&name, &view);
                    }
                }
                Some(TopicEventOut::Lagged { missed, .. }) => {
                    world.trace(format!("{name} lags: {missed}"));
                    break;
                }
                Some(TopicEventOut::Closed) | None => return,
            }
        }
    }
}

/// Looks through a window that does not keep up, for so many events.
pub(super) async fn dawdle(world: &World, name: &str, mut window: Subscription, pace: Duration) {
    let mut last = window.view.sequence;
    for _ in 0..40 {
        match window.next().await {
            Some(TopicEventOut::Update { sequence, .. }) => {
                follows(world, name, &mut last, sequence);
                sleep(pace).await;
            }
            Some(TopicEventOut::Lagged { missed, .. }) => {
                world.count("a window lagged");
                world.trace(format!("a window on {name} lags: {missed}"));
                return;
            }
            Some(TopicEventOut::Closed) | None => return,
        }
    }
}

/// Each event is the next one.
fn follows(world: &World, name: &str, last: &mut Sequence, now: Sequence) {
    if now.epoch != last.epoch || now.n != last.n + 1 {
        world.violated(WINDOW, format!("{name}: after {last:?} comes {now:?}"));
    }
    *last = now;
}

fn saw(world: &World, name: &str, update: &TopicUpdate) {
    match update {
        TopicUpdate::Status(status) => world.trace(format!("{name} {status:?}")),
        TopicUpdate::Receipt { message, receipt } => {
            world.trace(format!("{name} message {message} {}", place(receipt)));
            match receipt {
                Receipt::Queued { .. } => world.count("a message was queued behind a turn"),
                Receipt::Held { .. } => world.count("a message was held"),
                Receipt::Accepted { .. }
                | Receipt::Answered { .. }
                | Receipt::Injected { .. }
                | Receipt::Dropped { .. } => {}
            }
        }
        TopicUpdate::TurnStarted { turn, messages } => {
            world.trace(format!("{name} turn {turn} begins with {} messages", messages.len()));
        }
        TopicUpdate::Text { .. } => world.trace(format!("{name} text")),
        TopicUpdate::Reasoning { .. }
        | TopicUpdate::ToolInput { .. }
        | TopicUpdate::MessageChanged { .. }
        | TopicUpdate::HistoryShortened { .. }
        | TopicUpdate::NestedStarted { .. }
        | TopicUpdate::NestedFinished { .. } => {}
        TopicUpdate::StepFinished { turn, step } => world.trace(format!("{name} step {turn}.{step} ends")),
        TopicUpdate::ToolStarted { call, tool, .. } => world.trace(format!("{name} call {call} {tool}")),
        TopicUpdate::ToolFinished { call, result, .. } => {
            world.trace(format!("{name} call {call} {:?}", result.outcome));
            match result.outcome {
                CallOutcome::Unknown => world.count("nobody knew whether a call ran"),
                CallOutcome::TimedOut => world.count("a call timed out"),
                CallOutcome::Unavailable => world.count("a server was not there for a call"),
                CallOutcome::Cancelled => world.count("a call was cancelled"),
                CallOutcome::Denied => world.count("a call was denied"),
                CallOutcome::Succeeded | CallOutcome::Failed | CallOutcome::Rejected => {}
            }
        }
        TopicUpdate::ApprovalRequested(card) => {
            world.trace(format!("{name} card {}", card.call));
            world.facts().shown.insert(card.approval);
            world.count("a card was shown");
        }
        TopicUpdate::ApprovalSettled { approval, state, by, .. } => {
            world.trace(format!("{name} card {state:?} by {by:?}"));
            world.saw_settled(*approval, *state);
            match state {
                CardState::Expired => world.count("a card expired"),
                CardState::Withdrawn => world.count("a card was withdrawn"),
                CardState::Pending | CardState::Approved | CardState::Denied => {}
            }
        }
        TopicUpdate::TurnFinished { turn, stop } => {
            world.trace(format!("{name} turn {turn} {} {:?}", stop.name(), stop.detail()));
            match stop {
                StopReason::Yielded => world.count("a turn yielded"),
                StopReason::Aborted => world.count("a turn was stopped"),
                StopReason::StepLimit => world.count("a turn ran out of steps"),
                StopReason::ApprovalExpired => world.count("a turn ended at an expired card"),
                StopReason::Interrupted(_) => world.count("a turn was interrupted"),
                StopReason::Completed
                | StopReason::Failed(_)
                | StopReason::OutputTruncated
                | StopReason::Refused
                | StopReason::BudgetExhausted
                | StopReason::BudgetSpent(_) => {}
            }
        }
    }
}
