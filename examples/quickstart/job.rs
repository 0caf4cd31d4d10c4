//! The job: two messages, one card, two turns.

use std::io::{BufRead, IsTerminal, stdin};
use std::time::Duration;

use pilothouse::approval::Card;
use pilothouse::id::{ServerId, TurnId};
use pilothouse::prelude::*;
use pilothouse::tree::RuntimeEvent;

use crate::Error;
use crate::timeline::Timeline;

/// How long the job waits for the slow server, for a listing, or for the next event.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn run(runtime: &Runtime) -> Result<(), Error> {
    let line = Timeline::new();
    let topic = runtime.open_topic("harbour", TopicConfig::new("demo")).await?;
    let mut window = topic.attach().ok_or("the topic is not open")?;
    line.history(&window.view);
    for server in runtime.servers() {
        let listing = server.list();
        if listing.listing.is_some() {
            let names: Vec<_> = listing.tools().iter().map(|tool| tool.name.as_str()).collect();
            line.line("catalog", &format!("{} offered {} when last seen", server.id(), names.join(", ")));
        }
    }
    listed(runtime, "notes").await?;
    for server in runtime.servers() {
        line.server(&server.view());
    }
    line.line("you", "Tidy up my notes.");
    topic.send("Tidy up my notes.").await?;
    let mut steered = false;
    loop {
        let event = tokio::time::timeout(PATIENCE, window.next()).await?;
        let Some(TopicEventOut::Update { update, .. }) = event else {
            return Err("the window was closed".into());
        };
        match update {
            TopicUpdate::TurnStarted { turn, .. } => line.line("turn", &format!("{turn} begins")),
            TopicUpdate::Text { delta, .. } => line.line("model", delta.trim_end()),
            TopicUpdate::ToolStarted { tool, .. } => {
                line.line("tool", &format!("{tool} runs"));
                if !steered {
                    steered = true;
                    line.line("you", "And what does the almanac say?  (while the turn works)");
                    topic.send("And what does the almanac say?").await?;
                }
            }
            TopicUpdate::ToolFinished { tool, result, .. } => {
                line.line("tool", &format!("{tool}: {:?} — {}", result.outcome, result.text()));
            }
            TopicUpdate::ApprovalRequested(card) => {
                // The slow server answers while the card waits: the next turn can use its tools.
                listed(runtime, "almanac").await?;
                line.server(&runtime.server(&ServerId::new("almanac")?)?.view());
                decide(runtime, &line, *card).await?;
            }
            TopicUpdate::TurnFinished { turn, stop } => {
                line.line("turn", &format!("{turn} ended: {}", stop.name()));
                if turn > first(&window) {
                    break;
                }
            }
            TopicUpdate::Receipt { message, receipt } => {
                line.line("receipt", &format!("message {message}: {receipt:?}"))
            }
            TopicUpdate::Status(_)
            | TopicUpdate::StepFinished { .. }
            | TopicUpdate::ApprovalSettled { .. } => {}
        }
    }
    line.tree(&runtime.tree());
    Ok(())
}

/// The first turn of this run.
fn first(window: &pilothouse::Subscription) -> TurnId {
    window.view.turns.last().map_or(TurnId(1), |turn| turn.turn.next())
}

/// Waits for a server's first listing of this run.
async fn listed(runtime: &Runtime, server: &str) -> Result<(), Error> {
    let server = runtime.server(&ServerId::new(server)?)?;
    let mut events = runtime.events();
    let fresh = async {
        while server.list().state != pilothouse::listing::ListingState::Warm {
            match events.next().await {
                Some(RuntimeEvent::Listing { .. } | _) => {}
                None => break,
            }
        }
    };
    Ok(tokio::time::timeout(PATIENCE, fresh).await?)
}

async fn decide(runtime: &Runtime, line: &Timeline, card: Card) -> Result<(), Error> {
    line.line(
        "card",
        &format!("{} wants to run {} with {}", card.label, card.source.raw_name(), card.arguments),
    );
    let (decision, said) = if stdin().is_terminal() {
        line.line("card", "Allow it? [y/N] ");
        let answer = tokio::task::spawn_blocking(|| stdin().lock().lines().next()).await?;
        let yes = answer.transpose()?.is_some_and(|answer| answer.trim().eq_ignore_ascii_case("y"));
        let by = "you";
        if yes {
            (Decision::allow(by), "you allowed it")
        } else {
            (Decision::deny(by, "not now"), "you denied it")
        }
    } else {
        (Decision::allow("quickstart"), "nobody sits here, so it is allowed after it was shown")
    };
    let answer = runtime.decide(card.approval, decision.of(&card)).await?;
    line.line("card", &format!("{said}: {answer:?}"));
    Ok(())
}
