//! The end of a topic: nothing runs any more, nobody is asked any more, then its records go.

use std::time::Duration;

use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::error::{AskError, TopicError};
use pilothouse_messages::topic::{TopicCommand, TopicRejection};
use tokio::time::{sleep, timeout};

use crate::approvals;
use crate::topic::Topic;

/// Who stops it and takes its grants back, in the records.
const BY: &str = "the removal of the topic";

/// How often the open cards are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub(crate) async fn remove(wiring: &Wiring, topic: &Topic) -> Result<(), TopicError> {
    match topic.command(TopicCommand::Stop { by: BY.to_owned() }).await {
        Ok(_) | Err(TopicError::Rejected(TopicRejection::NotOpen)) => {}
        Err(error) => return Err(error),
    }
    let topic = topic.id();
    let withdrawn = async {
        while wiring.approval.open.cards().iter().any(|card| card.topic == *topic) {
            sleep(LOOK_AGAIN).await;
        }
    };
    let within = wiring.limits.commit + wiring.limits.actor_absent;
    timeout(within, withdrawn).await.map_err(|_elapsed| AskError::Interrupted)?;
    for grant in wiring.approval.grants.all().iter().filter(|grant| grant.place.topic() == Some(topic)) {
        approvals::revoke(wiring, grant.grant, BY.to_owned(), None).await.map_err(|error| error.source)?;
    }
    let topic = topic.clone();
    let gone =
        wiring.topics.slot.ask_within(wiring.limits.read_back, |reply| TopicsMsg::Remove { topic, reply });
    Ok(gone.await?)
}
