use pilothouse_messages::approval::CardOwner;
use pilothouse_messages::id::{QuestionId, ServerId};
use pilothouse_messages::question::{
    Answer, AnswerOutcome, PersonAsk, QuestionCard, QuestionEnd, QuestionWord, Reply,
};

use super::*;

fn name(n: u64) -> QuestionId {
    QuestionId::of(&topic("t"), call(0), Timestamp(1), n)
}

fn form(n: u64) -> QuestionCard {
    QuestionCard {
        question: name(n),
        tenant: TenantId::default(),
        topic: topic("t"),
        call: call(0),
        server: ServerId::new("a").unwrap(),
        label: "A".to_owned(),
        ask: PersonAsk::Form {
            message: "who?".to_owned(),
            schema: JsonText::from(json!({"type": "object"})),
        },
        expires_at: EXPIRY,
    }
}

fn ask(n: u64) -> ApprovalCommand {
    ApprovalCommand::Ask(Box::new(form(n)))
}

fn ada() -> Answer {
    Answer::accept("ada", JsonText::from(json!({"name": "Ada"})))
}

fn answer(n: u64, answer: Answer) -> ApprovalCommand {
    ApprovalCommand::Answer { question: name(n), answer: Box::new(answer) }
}

fn drops(n: u64) -> ApprovalCommand {
    ApprovalCommand::DropQuestions { questions: vec![name(n)], reason: "its call is gone".to_owned() }
}

fn told(outcome: AnswerOutcome) -> Result<Outcome, ApprovalRejection> {
    Ok(Decision::answer(ApprovalAnswer::Answer(outcome)))
}

fn end(word: QuestionWord, by: Option<&str>, at: u64) -> QuestionEnd {
    QuestionEnd { word, by: by.map(str::to_owned), at: Timestamp(at) }
}

fn over(word: QuestionWord, reason: &str, at: u64) -> ApprovalEvent {
    ApprovalEvent::QuestionOver { question: name(0), word, reason: reason.to_owned(), at: Timestamp(at) }
}

#[test]
fn a_question_is_asked_once_and_within_the_bound() {
    let opened = Ok(Decision::answer(ApprovalAnswer::Opened));
    let event = ApprovalEvent::Asked { card: form(0), at: Timestamp(50) };
    let new = Ok(Decision { events: vec![event], ..Decision::answer(ApprovalAnswer::Opened) });
    let settled = Ok(Decision::answer(ApprovalAnswer::Over(end(QuestionWord::Withdrawn, None, 2))));
    let full = ApprovalRejection::TooManyCards { open: 2, limit: 2 };
    for (history, command, expected) in [
        (vec![], ask(0), new),
        (vec![ask(0)], ask(0), opened),
        (vec![ask(0), drops(0)], ask(0), settled),
        (vec![ask(0), ask(1)], ask(2), Err(full)),
    ] {
        check(&history, 50, command, expected);
    }
}

#[test]
fn the_first_answer_to_a_question_is_its_last_word_and_only_the_asker_is_told_what_was_written() {
    let (_, content) = ada().word();
    let accepted = ApprovalEvent::Answered {
        question: name(0),
        word: QuestionWord::Accepted,
        by: "ada".to_owned(),
        content,
        at: Timestamp(50),
    };
    let reply = Reply::Accept(JsonText::from(json!({"name": "Ada"})));
    let applied = Decision {
        events: vec![accepted],
        directives: vec![ApprovalDirective::TellAsker { question: name(0), reply }],
        ..Decision::answer(ApprovalAnswer::Answer(AnswerOutcome::Applied))
    };
    let dismissed = vec![ApprovalDirective::TellAsker { question: name(0), reply: Reply::Dismiss }];
    let late = Decision {
        events: vec![over(QuestionWord::Expired, "nobody answered in time", 100)],
        directives: dismissed,
        ..Decision::answer(ApprovalAnswer::Answer(AnswerOutcome::Over(end(QuestionWord::Expired, None, 100))))
    };
    let again = |reply: Reply, by: &str, word| Decision {
        directives: vec![ApprovalDirective::TellAsker { question: name(0), reply }],
        ..Decision::answer(ApprovalAnswer::Answer(AnswerOutcome::Already(end(word, Some(by), 2))))
    };
    let by_ada = || end(QuestionWord::Accepted, Some("ada"), 2);
    let other = QuestionCard {
        label: "B".to_owned(),
        ask: PersonAsk::Url {
            message: String::new(),
            url: "https://x.example/".to_owned(),
            host: "x.example".to_owned(),
        },
        ..form(0)
    };
    let stranger = TenantId::new("other").unwrap();
    let unlike = Answer::accept("bob", JsonText::from(json!({"name": "Bob"})));
    let withdrawn = AnswerOutcome::Over(end(QuestionWord::Withdrawn, None, 2));
    for (history, now, command, expected) in [
        (vec![], 50, answer(0, ada()), told(AnswerOutcome::Unknown)),
        (vec![ask(0)], 50, answer(0, ada().of(&form(0))), Ok(applied)),
        (
            vec![ask(0)],
            50,
            answer(0, ada().of(&other)),
            told(AnswerOutcome::Changed { digest: form(0).digest() }),
        ),
        (vec![ask(0)], 50, answer(0, ada().for_tenant(stranger.clone())), told(AnswerOutcome::Unknown)),
        (vec![ask(0)], 100, answer(0, ada()), Ok(late)),
        (
            vec![ask(0), answer(0, ada())],
            50,
            answer(0, ada()),
            Ok(again(ada().reply, "ada", QuestionWord::Accepted)),
        ),
        (
            vec![ask(0), answer(0, Answer::decline("bob"))],
            50,
            answer(0, Answer::decline("ann")),
            Ok(again(Reply::Decline, "bob", QuestionWord::Declined)),
        ),
        (vec![ask(0), answer(0, ada())], 50, answer(0, unlike), told(AnswerOutcome::Conflict(by_ada()))),
        (
            vec![ask(0), answer(0, ada())],
            50,
            answer(0, Answer::decline("bob")),
            told(AnswerOutcome::Conflict(by_ada())),
        ),
        (
            vec![ask(0), answer(0, ada())],
            50,
            answer(0, ada().for_tenant(stranger)),
            told(AnswerOutcome::Unknown),
        ),
        (vec![ask(0), drops(0)], 50, answer(0, ada()), told(withdrawn)),
    ] {
        check(&history, now, command, expected);
    }
}

#[test]
fn a_question_has_an_owner_also_when_it_is_over() {
    let owner = Some(CardOwner { tenant: TenantId::default(), topic: topic("t") });
    for (history, expected) in [
        (vec![], None),
        (vec![ask(0)], owner.clone()),
        (vec![ask(0), answer(0, ada())], owner.clone()),
        (vec![ask(0), drops(0)], owner),
    ] {
        let find = ApprovalCommand::FindQuestion { question: name(0) };
        check(&history, 50, find, Ok(Decision::answer(ApprovalAnswer::Found(expected))));
    }
}

#[test]
fn a_question_ends_when_its_time_is_over_or_its_call_is_gone() {
    let tick = Decision {
        answer: ApprovalAnswer::Noted,
        events: vec![over(QuestionWord::Expired, "nobody answered in time", 100)],
        directives: vec![ApprovalDirective::TellAsker { question: name(0), reply: Reply::Dismiss }],
    };
    check(&[ask(0)], 100, ApprovalCommand::Tick, Ok(tick));
    check(&[ask(0)], 50, drops(0), noted(vec![over(QuestionWord::Withdrawn, "its call is gone", 50)]));
    check(&[ask(0), answer(0, ada())], 50, drops(0), noted(vec![]));
    check(&[], 50, drops(0), noted(vec![]));
    assert_eq!(ledger_after(&[ask(0)]).next_deadline(), Some(EXPIRY));
    assert_eq!(ledger_after(&[ask(0), drops(0)]).next_deadline(), None);
}
