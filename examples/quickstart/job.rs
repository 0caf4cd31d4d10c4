//! The job: two messages, one card, two turns.

use std::io::{BufRead, IsTerminal, stdin};
use std::time::Duration;

use pilothouse::approval::Card;
use pilothouse::id::ServerId;
use pilothouse::listing::ListingState;
use pilothouse::prelude::*;
use pilothouse::topic::Receipt;

use crate::Error;
use crate::timeline::Timeline;

/// How long the job waits for a listing, or for the next event.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn run(runtime: &Runtime, model: &str) -> Result<(), Error> {
    let line = Timeline::new();
    let topic = runtime.open_topic("harbour", TopicConfig::new(model)).await?;
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
    // A run that was killed may have left a card behind: it can be answered now.
    for card in &window.view.cards {
        line.update(&TopicUpdate::ApprovalRequested(Box::new(card.clone())));
        decide(runtime, &line, card).await?;
    }
    line.line("you", "Tidy up my notes.");
    let tidy = topic.send("Tidy up my notes.").await?.message;
    let mut last = tidy;
    loop {
        let event =
            tokio::time::timeout(PATIENCE, window.next()).await.map_err(|_| "nothing happened for 20 s")?;
        let Some(TopicEventOut::Update { update, .. }) = event else {
            return Err("the window was closed".into());
        };
        line.update(&update);
        match update {
            TopicUpdate::ApprovalRequested(card) if last == tidy => {
                line.line("you", "And when is high tide?  (sent while the turn works)");
                last = topic.send("And when is high tide?").await?.message;
                // The slow server answers while the card waits: the next turn can use its tools.
                let almanac = runtime.server(&ServerId::new("almanac")?)?;
                almanac.warm(PATIENCE).await;
                line.server(&almanac.view());
                decide(runtime, &line, &card).await?;
            }
            TopicUpdate::ApprovalRequested(card) => decide(runtime, &line, &card).await?,
            TopicUpdate::Receipt { message, receipt: Receipt::Answered { .. } } if message == last => break,
            TopicUpdate::TurnFinished { stop, .. } if !stop.chains() => break,
            _ => {}
        }
    }
    line.tree(&runtime.tree());
    Ok(())
}

async fn decide(runtime: &Runtime, line: &Timeline, card: &Card) -> Result<(), Error> {
    if !runtime.approvals().contains(card) {
        // A card is shown again after a restart; this one has its answer.
        return Ok(());
    }
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
    let answer = runtime.decide(card.approval, decision.of(card)).await?;
    line.line("card", &format!("{said} ({})", format!("{answer:?}").to_lowercase()));
    Ok(())
}
