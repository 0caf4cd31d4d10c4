//! What has to become true once no more faults come.

use std::time::Duration;

use pilothouse::Topic;
use pilothouse::approval::{Decision, Verdict};
use pilothouse::id::MessageId;
use pilothouse::listing::ListingState;
use pilothouse::server::ServerState;
use pilothouse::topic::{Receipt, TopicStatus};
use tokio::time::{Instant, sleep};

use super::life::{ASKED, Life};
use super::mind::PING;
use super::people::bounded;
use super::promise::HEALS;

/// How long all may take to become well: a parked server is tried every five minutes, and a model may hang for two.
const WELL_WITHIN: Duration = Duration::from_secs(20 * 60);

/// Waits until all is well, and has every topic answer once more.
pub(super) async fn settle(life: &Life) {
    if !becomes_well(life).await {
        return;
    }
    for name in life.topics.keys() {
        answers(life, name).await;
    }
    becomes_well(life).await;
    for (name, topic) in &life.topics {
        if let Some(view) = topic.view() {
            life.play.world.saw_whole_view(name, &view);
        }
    }
}

async fn becomes_well(life: &Life) -> bool {
    let world = &life.play.world;
    let deadline = Instant::now() + WELL_WITHIN;
    loop {
        switch_on(life).await;
        allow_all(life).await;
        match wrong(life) {
            None => return true,
            Some(words) if Instant::now() > deadline => {
                world.violated(HEALS, words);
                return false;
            }
            Some(_not_yet) => sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Every card that is shown is allowed: nobody is to wait for a person.
async fn allow_all(life: &Life) {
    let world = &life.play.world;
    for card in life.runtime.approvals() {
        world.decides(&card, Verdict::Allow);
        let by = "whoever tidies up";
        let deciding = life.runtime.decide(card.approval, Decision::allow(by).of(&card));
        if let Some(Ok(told)) = bounded(world, "a decision", ASKED, deciding).await {
            world.decided(&card, Verdict::Allow, by, &told);
        }
    }
}

async fn switch_on(life: &Life) {
    for server in life.runtime.servers() {
        if !server.is_enabled() {
            // One that refuses is seen to be off, below.
            let _told = bounded(&life.play.world, "switching on", ASKED, server.enable()).await;
        }
    }
}

/// What is not well, if anything.
fn wrong(life: &Life) -> Option<String> {
    let tree = life.runtime.tree();
    if let Some(missing) = tree.children.iter().find(|child| child.state != "running") {
        return Some(format!("{} is {}: {:?}", missing.name, missing.state, missing.last_failure));
    }
    for server in life.runtime.servers() {
        let (view, listing) = (server.view(), server.list());
        if view.state != ServerState::Ready {
            return Some(format!("server {} is {:?}: {:?}", view.server, view.state, view.reason));
        }
        if listing.state != ListingState::Warm {
            return Some(format!("the listing of {} is {:?}", view.server, listing.state));
        }
    }
    for (name, topic) in &life.topics {
        let Some(view) = topic.view() else { return Some(format!("{name} is not loaded")) };
        let rests = match view.status {
            TopicStatus::Idle | TopicStatus::Done | TopicStatus::Error | TopicStatus::Aborted => true,
            TopicStatus::Pending | TopicStatus::Streaming | TopicStatus::AwaitingApproval => false,
        };
        if !rests || !view.queue.is_empty() || !view.cards.is_empty() {
            let (queue, cards) = (view.queue.len(), view.cards.len());
            return Some(format!(
                "{name} is {:?}, {queue} messages wait, {cards} cards are open",
                view.status
            ));
        }
    }
    let cards = life.runtime.approvals();
    if !cards.is_empty() {
        return Some(format!("{} cards are shown that no topic waits for", cards.len()));
    }
    None
}

/// A topic answers a message.
async fn answers(life: &Life, name: &str) {
    let world = &life.play.world;
    let Some(topic) = life.topics.get(name) else { return };
    let mut last = "nothing was tried".to_owned();
    // The first one may still meet the end of the storm: a disk that stands still does so for a while.
    for attempt in 0..3 {
        let text = format!("{PING} {attempt} {name}");
        match bounded(world, "a send", ASKED, topic.send_with_key(&text, &text)).await {
            Some(Ok(sent)) => {
                world.took(name, &text, sent.message);
                match answer(life, topic, sent.message).await {
                    Ok(()) => return,
                    Err(words) => last = words,
                }
            }
            Some(Err(error)) => last = error.to_string(),
            None => last = "it was not answered".to_owned(),
        }
        // A session that failed too often is parked until somebody opens it.
        let _opened = bounded(world, "opening a topic", ASKED * 3, life.runtime.topic(name)).await;
    }
    world.violated(HEALS, format!("{name} does not answer: {last}"));
}

/// Waits until a message is answered; what became of it if it is not.
async fn answer(life: &Life, topic: &Topic, message: MessageId) -> Result<(), String> {
    let mut last = "it was never seen".to_owned();
    for _second in 0..600 {
        // What was still under way when it was sent may ask.
        allow_all(life).await;
        let view = topic.view();
        let turns = view.iter().flat_map(|view| &view.turns);
        let found = turns.flat_map(|turn| turn.messages.iter().map(move |there| (there, turn)));
        let found = found.rev().find(|(there, _)| there.message == message);
        let held = view.iter().flat_map(|view| &view.held).any(|there| there.message == message);
        match found {
            Some((there, turn)) => match (&there.receipt, &turn.stop) {
                (Receipt::Answered { .. }, _) => return Ok(()),
                (receipt, Some(stop)) => return Err(format!("{receipt:?}, and its turn is {}", stop.name())),
                (receipt, None) => last = format!("{receipt:?}"),
            },
            None if held => return Err("it is held".to_owned()),
            None => {}
        }
        sleep(Duration::from_secs(1)).await;
    }
    Err(last)
}
