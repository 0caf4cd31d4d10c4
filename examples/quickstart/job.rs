//! The job: two messages, one card, two turns.

use std::io::{BufRead, IsTerminal, stdin};
use std::time::Duration;

use pilothouse::approval::Card;
use pilothouse::id::{ServerId, TurnId};
use pilothouse::listing::ListingState;
use pilothouse::prelude::*;

use crate::Error;
use crate::timeline::Timeline;

/// How long the job waits for a listing, or for the next event.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn run(runtime: &Runtime) -> Result<(), Error> {
    let line = Timeline::new();
    let topic = runtime.open_topic("harbour", TopicConfig::new("demo")).await?;
    let mut window = topic.attach().ok_or("the topic is not open")?;
    line.history(&window.view);
    for server in runtime.servers() {
        let listing = server.list();
        if let ListingState::Stale { reason } = &listing.state {
            let names: Vec<_> = listing.tools().iter().map(|tool| tool.name.as_str()).collect();
            line.line("catalog", &format!("{} has {} ({reason})", server.id(), names.join(", ")));
        }
    }
    runtime.server(&ServerId::new("notes")?)?.warm(PATIENCE).await;
    for server in runtime.servers() {
        line.server(&server.view());
    }
    line.line("you", "Tidy up my notes.");
    topic.send("Tidy up my notes.").await?;
    let first = window.view.turns.last().map_or(TurnId(1), |turn| turn.turn.next());
    loop {
        let event = tokio::time::timeout(PATIENCE, window.next()).await?;
        let Some(TopicEventOut::Update { update, .. }) = event else {
            return Err("the window was closed".into());
        };
        line.update(&update);
        match update {
            TopicUpdate::ApprovalRequested(card) => {
                line.line("you", "And when is high tide?  (sent while the turn works)");
                topic.send("And when is high tide?").await?;
                // The slow server answers while the card waits: the next turn can use its tools.
                let almanac = runtime.server(&ServerId::new("almanac")?)?;
                almanac.warm(PATIENCE).await;
                line.server(&almanac.view());
                decide(runtime, &line, *card).await?;
            }
            TopicUpdate::TurnFinished { turn, .. } if turn > first => break,
            _ => {}
        }
    }
    line.tree(&runtime.tree());
    Ok(())
}

async fn decide(runtime: &Runtime, line: &Timeline, card: Card) -> Result<(), Error> {
    let (decision, said) = if stdin().is_terminal() {
        line.line("card", "allow it? [y/N] ");
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
    line.line("card", &format!("{said} ({})", format!("{answer:?}").to_lowercase()));
    Ok(())
}
