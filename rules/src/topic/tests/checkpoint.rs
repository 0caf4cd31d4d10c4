//! Checkpoints between two turns: what comes after one makes the same topic.

use std::sync::Arc;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{MessageId, TurnId};
use pilothouse_messages::limits::Limits;
use pilothouse_messages::topic::{
    ConfigPatch, Headless, HoldReason, Receipt, StopReason, TopicCommand, TopicEvent,
};

use super::words::{drops, open, replies, send, send_keyed, step_ref, stop};
use super::{NOW, after, topic};
use crate::decider::Decider;
use crate::topic::TopicState;
use crate::topic::checkpoint::sent_before;
use crate::topic::transcript::Transcript;

fn answers(turn: u64) -> TopicCommand {
    replies(turn, 1, "ok", Vec::new())
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.view_turns = 2;
    limits
}

/// Three turns, the last one stopped with a message behind it, so that it is held.
fn three_turns() -> (TopicState, Vec<TopicEvent>) {
    let patch = ConfigPatch { headless: Some(Headless::Deny), ..ConfigPatch::default() };
    let given = [
        open(),
        TopicCommand::Configure { patch },
        send_keyed("a", "ka"),
        answers(1),
        send_keyed("b", "kb"),
        answers(2),
        send("c"),
        send_keyed("d", "kd"),
        stop(),
    ];
    after(&limits(), given)
}

#[test]
fn what_comes_after_a_checkpoint_makes_the_same_topic() {
    let (state, _log) = three_turns();
    let checkpoint = state.checkpoint().expect("no turn is open");
    let next = [send("e"), TopicCommand::ModelText { at: step_ref(4, 1), delta: "x".to_owned() }, stop()];
    let (mut live, mut resumed) = (state, TopicState::resumed(topic(), Arc::new(limits()), &checkpoint));
    assert_eq!(resumed.config(), live.config(), "what events of their own record is in it, too");
    for command in next {
        let (decided, again) = (live.decide(NOW, &command), resumed.decide(NOW, &command));
        assert_eq!(again, decided, "{command:?}");
        for event in decided.expect("it is taken").events {
            assert_eq!(resumed.apply_told(&event), live.apply_told(&event));
        }
    }
    let mut shown = live.view();
    // Turns before the checkpoint are read from the records.
    shown.earlier_turns += (shown.turns.len() - 1) as u64;
    shown.turns = shown.turns.split_off(shown.turns.len() - 1);
    assert_eq!(resumed.view(), shown);
    assert_eq!(resumed.closed_turns(), live.closed_turns());
}

#[test]
fn a_checkpoint_holds_what_no_closed_turn_has_taken_and_nothing_else() {
    let (state, _log) = three_turns();
    let checkpoint = state.checkpoint().expect("no turn is open");
    let held: Vec<_> = checkpoint.held.iter().map(|(message, why)| (message.text.as_str(), *why)).collect();
    assert_eq!(held, [("d", HoldReason::Aborted)]);
    let keys: Vec<_> = checkpoint.keys.iter().map(|key| (key.message, key.receipt.clone())).collect();
    assert_eq!(keys, [(MessageId(4), Some(Receipt::Held { reason: HoldReason::Aborted }))]);
    assert_eq!(
        (checkpoint.turns, checkpoint.last_turn, checkpoint.stop),
        (3, TurnId(3), Some(StopReason::Aborted))
    );
}

#[test]
fn an_open_turn_and_a_topic_without_configuration_have_no_checkpoint() {
    let (unopened, _) = after(&limits(), []);
    assert_eq!(unopened.checkpoint(), None);
    let (running, _) = after(&limits(), [open(), send("a")]);
    assert_eq!(running.checkpoint(), None);
}

#[test]
fn keys_of_turns_that_the_view_does_not_show_are_left_to_the_store() {
    let (state, _log) = three_turns();
    // Two turns are shown; the first one's key is not known here any more.
    let digest = |key: &str| Digest::of_parts("pilothouse/client-key/1", &[key.as_bytes()]);
    let asked = ["ka", "kb", "kd", "new"].map(|key| state.may_be_stored(key));
    assert_eq!(asked, [Some(digest("ka")), None, None, Some(digest("new"))]);
    let (young, _) = after(&limits(), [open(), send_keyed("a", "ka")]);
    assert_eq!(young.may_be_stored("new"), None, "nothing was forgotten yet");
}

#[test]
fn a_stored_key_answers_as_one_that_is_known() {
    let (state, _log) = after(&limits(), [open(), send_keyed("a", "ka"), answers(1)]);
    let [stored] = state.keys_of(TurnId(1)).try_into().expect("the turn has one key");
    assert_eq!(state.keys_of(TurnId(2)), []);
    for text in ["a", "b"] {
        let known = state.decide(NOW, &send_keyed(text, "ka")).map(|decision| decision.answer);
        assert_eq!(sent_before(&stored, text), known, "{text}");
    }
}

#[test]
fn keys_of_dropped_messages_are_left_to_the_store_once_they_are_many() {
    let (mut state, _log) = after(&Limits::default(), [open(), send("a"), send_keyed("b", "k2")]);
    let mut decided = |command: &TopicCommand| {
        for event in state.decide(NOW, command).expect("it is taken").events {
            state.apply(&event);
        }
        state.clone()
    };
    // The oldest one is dropped last.
    let order = (3..=80).chain([2]);
    for (message, drops_so_far) in order.zip(1..) {
        let key = format!("k{message}");
        if message > 2 {
            decided(&send_keyed("b", &key));
        }
        let state = decided(&drops(message));
        let stored = state.key_of(MessageId(message)).expect("it is there to be stored");
        assert_eq!(stored.receipt, Some(Receipt::Dropped { by: "ann".to_owned() }));
        let known = state.decide(NOW, &send_keyed("b", &key)).map(|told| told.answer);
        assert_eq!(sent_before(&stored, "b"), known);
        assert_eq!(state.may_be_stored("new").is_some(), drops_so_far > 64, "after {drops_so_far} drops");
    }
    let state = decided(&stop());
    let checkpoint = state.checkpoint().expect("no turn is open");
    assert_eq!(checkpoint.keys.len(), 64);
    let asks_the_store = ["k3", "k80", "k2"].map(|key| state.may_be_stored(key).is_some());
    assert_eq!(asks_the_store, [true, false, false]);
}

#[test]
fn a_transcript_goes_on_from_a_checkpoint_and_keeps_the_turns_apart() {
    let (state, log) = three_turns();
    let mut whole = Transcript::default();
    log.iter().for_each(|event| whole.apply(event));
    let by_turn: Vec<_> = (1..=3).flat_map(|turn| whole.items_of(TurnId(turn))).collect();
    assert_eq!(by_turn, whole.items());
    assert!(!whole.model_spoke_last());

    let mut checkpoint = state.checkpoint().expect("no turn is open");
    checkpoint.model_spoke_last = true;
    let mut resumed = Transcript::resumed(&checkpoint);
    assert!(resumed.model_spoke_last() && resumed.items().is_empty());
    let decided = state.decide(NOW, &send("e")).expect("it is taken");
    for event in &decided.events {
        whole.apply(event);
        resumed.apply(event);
    }
    assert_eq!(resumed.items_of(TurnId(4)), whole.items_of(TurnId(4)));
    whole.forget_before(TurnId(4));
    assert_eq!(whole.items(), resumed.items());
    assert_eq!(whole.items_of(TurnId(3)), []);
}
