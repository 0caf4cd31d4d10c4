use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_messages::id::TopicId;
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{FORGOTTEN_MAX, Flights};
use crate::asks::Origin;
use crate::server::Pulse;

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
    let of = |topic: &str| Origin { topic: Some(TopicId::new(topic).unwrap()), call: None };
    let questions = |pulse: &watch::Sender<Pulse>| pulse.borrow().questions;

    let one = flights.board(&json!(1), first.clone(), of("a"));
    let (origin, open) = flights.question();
    assert_eq!((origin, questions(&first)), (of("a"), 1));
    let _two = flights.board(&json!(2), second.clone(), of("b"));
    let (origin, both) = flights.question();
    assert_eq!((origin, questions(&first), questions(&second)), (Origin::default(), 2, 1));
    drop((open, both));
    assert_eq!((questions(&first), questions(&second)), (0, 0));
    drop(one);
    assert_eq!(flights.question().0, of("b"));
}

#[test]
fn an_answer_is_late_once_and_what_is_remembered_is_bounded() {
    let late = Arc::new(AtomicU64::new(0));
    let flights = Flights::new(late.clone());
    let id = |number: usize| RequestId::Number(i64::try_from(number).unwrap());
    for number in 0..=FORGOTTEN_MAX {
        flights.forget(id(number));
    }
    let found = [0, 1, 1, FORGOTTEN_MAX, FORGOTTEN_MAX + 1].map(|number| flights.is_late(&id(number)));
    assert_eq!((found, late.load(Ordering::Relaxed)), ([false, true, false, true, false], 2));
}
