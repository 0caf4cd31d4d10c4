use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_messages::call::{LateAnswer, LateWord};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::TopicId;
use rmcp::model::RequestId;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::advance;

use super::{FORGOTTEN_MAX, Flights};
use crate::asks::Origin;
use crate::server::{LateReply, Pulse};

const PATIENCE: Duration = Duration::from_secs(600);

fn of(topic: &str) -> Origin {
    Origin { topic: Some(TopicId::new(topic).unwrap()), call: None }
}

fn check(tokens: &[Value], progress: &[f64], expected: Option<f64>) {
    let flights = Arc::new(Flights::default());
    let pulse = watch::Sender::default();
    let _boarded = flights.board(&json!(7), pulse.clone(), Origin::default());
    for token in tokens {
        for progress in progress {
            flights.progress(&json!({"progressToken": token, "progress": progress}));
        }
    }
    assert_eq!(*pulse.borrow(), Pulse { progress: expected, questions: 0 }, "{tokens:?} {progress:?}");
}

#[test]
fn only_progress_that_grows_counts_and_only_for_its_own_call() {
    check(&[json!(7)], &[1.0, 3.0, 2.0], Some(3.0));
    check(&[json!("7")], &[0.5], Some(0.5));
    check(&[json!(8), json!(null)], &[1.0], None);
}

#[test]
fn a_question_is_for_the_only_call_or_for_nobody_in_particular() {
    let flights = Arc::new(Flights::default());
    let (first, second) = (watch::Sender::default(), watch::Sender::default());
    let questions = |pulse: &watch::Sender<Pulse>| pulse.borrow().questions;

    let one = flights.board(&json!(1), first.clone(), of("a"));
    let (origin, open) = flights.question(PATIENCE);
    assert_eq!((origin, questions(&first)), (of("a"), 1));
    let _two = flights.board(&json!(2), second.clone(), of("b"));
    let (origin, both) = flights.question(PATIENCE);
    assert_eq!((origin, questions(&first), questions(&second)), (Origin::default(), 2, 1));
    drop((open, both));
    assert_eq!((questions(&first), questions(&second)), (0, 0));
    drop(one);
    assert_eq!(flights.question(PATIENCE).0, of("b"));
}

/// What became of the calls that were given up, before the question comes.
enum Then {
    /// The first one's answer comes after all.
    Answer,
    /// So many others are given up, of nobody's calls.
    Forget(i64),
}

/// The origin of a question that comes while `live` is under way, once calls of these topics were given up.
fn asked_of(gone: &[&str], then: &[Then], live: &str) -> Origin {
    let flights = Arc::new(Flights::default());
    for (id, topic) in gone.iter().enumerate() {
        flights.forget(RequestId::Number(i64::try_from(id).unwrap()), Some(of(topic)));
    }
    for then in then {
        match then {
            Then::Answer => assert!(flights.is_late(&RequestId::Number(0), &Map::new())),
            Then::Forget(many) => {
                (0..*many).for_each(|n| flights.forget(RequestId::Number(100 + n), None));
            }
        }
    }
    let _live = flights.board(&json!(7), watch::Sender::default(), of(live));
    flights.question(PATIENCE).0
}

#[tokio::test(start_paused = true)]
async fn a_question_that_may_be_a_gone_calls_is_put_to_nobody_of_another_topic() {
    let flood = i64::try_from(FORGOTTEN_MAX).unwrap();
    let nobody = Origin::default;
    for (gone, then, live, expected) in [
        (vec!["a"], vec![], "b", nobody()),
        (vec!["a"], vec![], "a", of("a")),
        (vec!["b", "a"], vec![], "b", nobody()),
        (vec!["a"], vec![Then::Answer], "b", of("b")),
        (vec!["a"], vec![Then::Forget(1)], "b", nobody()),
        (vec!["a"], vec![Then::Forget(flood)], "b", nobody()),
        (vec![], vec![Then::Forget(flood + 1)], "b", of("b")),
    ] {
        assert_eq!(asked_of(&gone, &then, live), expected, "{gone:?} {live}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_long_ago_asks_nothing_more() {
    for flood in [0, i64::try_from(FORGOTTEN_MAX).unwrap()] {
        let flights = Arc::new(Flights::default());
        flights.forget(RequestId::Number(0), Some(of("a")));
        (0..flood).for_each(|n| flights.forget(RequestId::Number(1 + n), None));
        let _live = flights.board(&json!(7), watch::Sender::default(), of("b"));
        advance(PATIENCE - Duration::from_millis(1)).await;
        assert_eq!(flights.question(PATIENCE).0, Origin::default());
        advance(Duration::from_millis(1)).await;
        assert_eq!(flights.question(PATIENCE).0, of("b"));
    }
}

#[test]
fn an_answer_is_late_once_and_what_is_remembered_is_bounded() {
    let late = Arc::new(AtomicU64::new(0));
    let flights = Flights::new(late.clone(), None);
    let id = |number: usize| RequestId::Number(i64::try_from(number).unwrap());
    for number in 0..=FORGOTTEN_MAX {
        flights.forget(id(number), None);
    }
    let found =
        [0, 1, 1, FORGOTTEN_MAX, FORGOTTEN_MAX + 1].map(|number| flights.is_late(&id(number), &Map::new()));
    assert_eq!((found, late.load(Ordering::Relaxed)), ([false, true, false, true, false], 2));
}

#[tokio::test]
async fn what_a_late_answer_said_is_told_if_it_was_a_calls_and_there_is_room() {
    let (replies, mut told) = mpsc::channel(5);
    let flights = Flights::new(Arc::default(), Some(replies));
    let rows = [
        (json!({"result": {"content": []}}), LateWord::Succeeded),
        (json!({"result": {"content": [], "isError": true}}), LateWord::Failed),
        (json!({"error": {"code": -32603, "message": "no"}}), LateWord::Refused),
        (json!({"result": {"resultType": "input_required"}}), LateWord::Unfinished),
        (json!({"result": {"task": {"taskId": "1"}}}), LateWord::Unfinished),
    ];
    let answered = |n: i64, answer: &Value, origin: Option<Origin>| {
        flights.forget(RequestId::Number(n), origin);
        assert!(flights.is_late(&RequestId::Number(n), answer.as_object().unwrap()));
        assert!(!flights.is_late(&RequestId::Number(n), &Map::new()), "once");
    };
    answered(9, &rows[0].0, None);
    for (answer, _) in rows.iter().chain(&rows) {
        answered(1, answer, Some(of("t")));
    }
    for (answer, word) in &rows {
        let whole = answer.get("result").or(answer.get("error")).unwrap();
        let answer = LateAnswer { word: *word, digest: Digest::of_json("pilothouse/late/1", whole) };
        assert_eq!(told.try_recv(), Ok(LateReply { origin: of("t"), answer }));
    }
    assert!(told.try_recv().is_err(), "what did not fit is only counted");
}
