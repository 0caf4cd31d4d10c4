//! What servers ask people: shown once it is durable, answered by a person and by nothing else, and over with its call.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::{CardOwner, Decider};
use pilothouse::audit::AuditFact;
use pilothouse::error::AnswerError;
use pilothouse::json::JsonText;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::question::{Answer, AnswerOutcome, PersonAsk, QuestionCard, QuestionWord};
use pilothouse::store::memory::MemoryStore;
use pilothouse::topic::{Headless, PermissionMode, TopicStatus};
use pilothouse::tree::RuntimeEvent;
use pilothouse_harness::peer::Peer;
use serde_json::json;
use tokio::time::timeout;

use crate::stage::{Setup, Stage, call, holds, memory, peer, plays, said, settle};

fn asking(what: &str) -> Arc<Peer> {
    peer(json!({"tools": [{"name": "ask", "reply": "told"}],
        "faults": [{"ask": {"what": what, "on": {"tool": "ask"}}}]}))
}

/// A topic in which everything runs, so that nothing but the question waits.
fn setup(peer: &Arc<Peer>) -> Setup {
    plays([call("a", "ask", json!({})), Step::text("Done.")])
        .server(Server::in_memory("a", peer.clone()).effect("ask", Effect::Edits))
        .config(|config| config.mode = PermissionMode::Bypass)
}

async fn asked(stage: &Stage) -> QuestionCard {
    holds("a person is asked", || !stage.runtime.questions().is_empty()).await;
    stage.runtime.questions().remove(0)
}

fn ada() -> Answer {
    Answer::accept("ada", JsonText::from(json!({"name": "Ada"})))
}

async fn ends(stage: &mut Stage) -> String {
    holds("the turn is over", || stage.status() == TopicStatus::Done).await;
    stage.results().iter().map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn a_form_is_answered_by_a_person_and_by_no_mode_and_the_server_gets_what_fits_it() {
    let mut stage = setup(&asking("elicitation")).raise().await;
    let mut events = stage.runtime.events();
    stage.say("Go.").await;
    let card = asked(&stage).await;
    assert!(matches!(&card.ask, PersonAsk::Form { .. }), "{card:?}");
    assert_eq!(
        (card.topic.as_str(), card.server.as_str(), stage.status()),
        ("t", "a", TopicStatus::Streaming)
    );

    let bad = Answer::accept("ada", JsonText::from(json!({"name": 7})));
    let refused = stage.runtime.answer(card.question, bad).await;
    assert!(
        matches!(&refused, Err(AnswerError::Refused { reason, .. }) if reason.contains("name: expected a string")),
        "{refused:?}"
    );
    let stranger = ada().for_tenant(pilothouse::id::TenantId::new("other").expect("an id"));
    assert_eq!(stage.runtime.answer(card.question, stranger).await, Ok(AnswerOutcome::Unknown));
    assert_eq!(stage.runtime.answer(card.question, ada().of(&card)).await, Ok(AnswerOutcome::Applied));
    let late = stage.runtime.answer(card.question, Answer::decline("bob")).await;
    assert!(
        matches!(&late, Ok(AnswerOutcome::Conflict(end)) if end.by.as_deref() == Some("ada")),
        "{late:?}"
    );
    let words = "succeeded: told\n{\"action\":\"accept\",\"content\":{\"name\":\"ada\"}}";
    assert_eq!(ends(&mut stage).await, words);
    assert_eq!(stage.runtime.questions(), []);

    let mut told = Vec::new();
    while told.len() < 2 {
        match events.next().await.expect("the runtime is there") {
            RuntimeEvent::QuestionAsked(shown) => told.push((shown.question, None)),
            RuntimeEvent::QuestionOver { question, end, .. } => told.push((question, Some(end.word))),
            _ => {}
        }
    }
    assert_eq!(told, [(card.question, None), (card.question, Some(QuestionWord::Accepted))]);

    let report = stage.runtime.audit().await.expect("it is read");
    let written = report.json_lines();
    let facts: Vec<_> = report
        .rows
        .iter()
        .filter_map(|row| match &row.fact {
            AuditFact::QuestionAsked { card, .. } => Some(format!("asked by {}", card.server)),
            AuditFact::QuestionEnded { word, by, .. } => Some(format!("{word:?} by {by:?}")),
            _ => None,
        })
        .collect();
    assert_eq!(facts, ["asked by a", "Accepted by Some(\"ada\")"]);
    assert!(!written.contains("Ada"), "what a person wrote is the server's alone");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_declined_put_away_or_left_to_expire() {
    let rows: [(Option<Answer>, &str); 3] = [
        (Some(Answer::decline("bob")), "{\"action\":\"decline\"}"),
        (Some(Answer::dismiss("bob")), "{\"action\":\"cancel\"}"),
        (None, "{\"action\":\"cancel\"}"),
    ];
    for (answer, expected) in rows {
        let mut stage = setup(&asking("elicitation")).raise().await;
        stage.say("Go.").await;
        let card = asked(&stage).await;
        if let Some(answer) = answer {
            assert_eq!(stage.runtime.answer(card.question, answer).await, Ok(AnswerOutcome::Applied));
        } else {
            tokio::time::sleep(Duration::from_secs(545)).await;
            let late = stage.runtime.answer(card.question, ada()).await;
            assert!(
                matches!(&late, Ok(AnswerOutcome::Over(end)) if end.word == QuestionWord::Expired),
                "{late:?}"
            );
        }
        assert_eq!(ends(&mut stage).await, format!("succeeded: told\n{expected}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_shows_its_whole_url_and_host_and_is_agreed_to_without_fields() {
    let mut stage = setup(&asking("elicitation_url")).raise().await;
    stage.say("Go.").await;
    let card = asked(&stage).await;
    let PersonAsk::Url { url, host, .. } = &card.ask else { panic!("{card:?}") };
    assert!(url.starts_with(&format!("https://{host}")), "{url}");
    assert!(stage.runtime.answer(card.question, ada()).await.is_err(), "a page has no fields");
    let agrees = Answer::accept("ada", JsonText::from(json!({})));
    assert_eq!(stage.runtime.answer(card.question, agrees).await, Ok(AnswerOutcome::Applied));
    assert_eq!(ends(&mut stage).await, "succeeded: told\n{\"action\":\"accept\"}");
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_with_its_call_and_is_put_to_nobody_where_nobody_is() {
    let stage = setup(&asking("elicitation")).raise().await;
    stage.say("Go.").await;
    let card = asked(&stage).await;
    stage.topic.stop("ann").await.expect("the topic is there");
    holds("it is taken back", || stage.runtime.questions().is_empty()).await;
    let late = stage.runtime.answer(card.question, ada()).await;
    assert!(matches!(&late, Ok(AnswerOutcome::Over(end)) if end.word == QuestionWord::Withdrawn), "{late:?}");

    let headless = setup(&asking("elicitation")).config(|config| config.headless = Headless::Deny);
    let mut stage = headless.raise().await;
    stage.say("Go.").await;
    assert_eq!(ends(&mut stage).await, "succeeded: told\n{\"action\":\"decline\"}");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_an_earlier_process_is_over_and_says_so() {
    let (peer, store) = (asking("elicitation"), memory());
    let stage = setup(&peer).store(store.clone()).raise().await;
    stage.say("Go.").await;
    let card = asked(&stage).await;

    let next = setup(&peer).store(store.crash()).start().await;
    holds("it is over", || next.questions().is_empty()).await;
    let late = next.answer(card.question, ada()).await;
    assert!(matches!(&late, Ok(AnswerOutcome::Over(end)) if end.word == QuestionWord::Withdrawn), "{late:?}");
}

/// Answers, and kills the one who is to tell it while the answer is on its way to the disk.
async fn answers_as_its_teller_dies(store: &MemoryStore, stage: &Stage, card: &QuestionCard, answer: Answer) {
    store.hold();
    let (runtime, question) = (stage.runtime.clone(), card.question);
    let answering = tokio::spawn(async move { runtime.answer(question, answer).await });
    settle().await;
    assert!(stage.runtime.kill_actor("approval"));
    settle().await;
    store.release();
    let lost = answering.await.expect("it answers");
    assert!(matches!(lost, Err(AnswerError::Ask { .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_teller_died_is_told_by_the_next_one() {
    let rows = [
        (ada(), QuestionWord::Accepted, "{\"action\":\"accept\",\"content\":{\"name\":\"ada\"}}"),
        (Answer::decline("bob"), QuestionWord::Declined, "{\"action\":\"decline\"}"),
        (Answer::dismiss("bob"), QuestionWord::Dismissed, "{\"action\":\"cancel\"}"),
    ];
    for (answer, word, expected) in rows {
        let store = memory();
        let mut stage = setup(&asking("elicitation")).store(store.clone()).raise().await;
        let mut events = stage.runtime.events();
        stage.say("Go.").await;
        let card = asked(&stage).await;
        answers_as_its_teller_dies(&store, &stage, &card, answer.clone()).await;
        if word == QuestionWord::Accepted {
            // What was written died with the actor; who says it again brings it.
            let again = stage.runtime.answer(card.question, answer).await;
            assert!(matches!(&again, Ok(AnswerOutcome::Already(end)) if end.word == word), "{again:?}");
        }
        assert_eq!(ends(&mut stage).await, format!("succeeded: told\n{expected}"));
        let over = async {
            loop {
                let event = events.next().await.expect("the runtime tells");
                if let RuntimeEvent::QuestionOver { end, .. } = event {
                    return end.word;
                }
            }
        };
        assert_eq!(timeout(Duration::from_secs(60), over).await, Ok(word), "windows are told, too");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_only_so_often_in_one_call_and_the_next_call_has_room_again() {
    let ask = json!({"ask": {"what": "elicitation", "on": {"tool": "ask"}}});
    let insistent =
        peer(json!({"tools": [{"name": "ask", "reply": "told"}], "faults": [ask.clone(), ask.clone(), ask]}));
    let steps = [call("a", "ask", json!({})), call("a", "ask", json!({})), Step::text("Done.")];
    let setup = plays(steps)
        .server(Server::in_memory("a", insistent).effect("ask", Effect::Edits))
        .config(|config| config.mode = PermissionMode::Bypass)
        .limits(|limits| limits.questions_per_call = 2);
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    for _ in 0..4 {
        let card = asked(&stage).await;
        assert_eq!(stage.runtime.answer(card.question, ada()).await, Ok(AnswerOutcome::Applied));
        holds("it is over", || stage.runtime.questions().iter().all(|open| open.question != card.question))
            .await;
    }
    let accepted = "{\"action\":\"accept\",\"content\":{\"name\":\"ada\"}}";
    let each = format!("succeeded: told\n{accepted}\n{accepted}\n{{\"action\":\"decline\"}}");
    assert_eq!(ends(&mut stage).await, format!("{each}{each}"));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_decide_learns_nothing_of_a_question_also_when_it_is_over() {
    let policy = |_: &CardOwner, decider: Decider<'_>| decider.by == "ada";
    let setup = setup(&asking("elicitation")).build(|builder| builder.decide_policy(policy));
    let stage = setup.raise().await;
    stage.say("Go.").await;
    let card = asked(&stage).await;
    let mut told = Vec::new();
    for answer in [Answer::decline("bob"), ada(), Answer::decline("bob"), ada()] {
        told.push(stage.runtime.answer(card.question, answer).await.expect("the ledger answers"));
    }
    let expected = |outcomes: &[AnswerOutcome]| {
        matches!(
            outcomes,
            [
                AnswerOutcome::Unknown,
                AnswerOutcome::Applied,
                AnswerOutcome::Unknown,
                AnswerOutcome::Already(_)
            ]
        )
    };
    assert!(expected(&told), "{told:?}");
}
