//! Checkpoints of topics, and the keys of their senders.

use pilothouse_adapters::store::log::{CHECKPOINTS, KEYS};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{MessageId, TurnId};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    HoldReason, Level, Receipt, StopReason, StoredKey, TopicCheckpoint, TopicConfig, TopicEvent,
    WaitingMessage,
};

use super::{check, configured};

fn stored_key(receipt: Option<Receipt>) -> StoredKey {
    StoredKey { key: Digest([1; 32]), message: MessageId(4), text: Digest([2; 32]), receipt }
}

#[test]
fn keys_of_senders_keep_their_bytes() {
    let receipts = [
        None,
        Some(Receipt::Answered { turn: TurnId(3) }),
        Some(Receipt::Accepted { turn: TurnId(3) }),
        Some(Receipt::Held { reason: HoldReason::Aborted }),
        Some(Receipt::Queued { position: 2 }),
    ];
    check("stored_key.hex", KEYS, &receipts.map(stored_key));
}

#[test]
fn checkpoints_of_topics_keep_their_bytes() {
    let at = Timestamp(1_800_000_000_000);
    let bare = TopicCheckpoint {
        next: 9,
        previous: TurnId(0),
        at,
        config: vec![TopicEvent::Configured { config: TopicConfig::new("m"), at }],
        last_message: MessageId(4),
        last_turn: TurnId(3),
        turns: 3,
        stop: None,
        model_spoke_last: false,
        queue: Vec::new(),
        held: Vec::new(),
        keys: Vec::new(),
    };
    let waiting =
        |key, level| WaitingMessage { message: MessageId(5), text: "héllo".into(), key, at, level };
    let full = TopicCheckpoint {
        previous: TurnId(1),
        config: configured(),
        stop: Some(StopReason::Aborted),
        model_spoke_last: true,
        queue: vec![waiting(None, Level::NextStep)],
        held: vec![(waiting(Some(Digest([1; 32])), Level::NextTurn), HoldReason::ShutDown)],
        keys: vec![stored_key(None)],
        ..bare.clone()
    };
    check("topic_checkpoint.hex", CHECKPOINTS, &[bare, full]);
}
