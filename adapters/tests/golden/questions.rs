//! Events of questions, each in every form.

use pilothouse_messages::approval::ApprovalEvent;
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{QuestionId, ServerId, TenantId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::question::{PersonAsk, QuestionCard, QuestionWord};
use pilothouse_messages::time::Timestamp;

use super::call;

pub(crate) fn events(at: Timestamp) -> Vec<ApprovalEvent> {
    let topic = TopicId::new("topic-7").unwrap();
    let question = QuestionId::of(&topic, call(1), at, 0);
    let asked = |ask| ApprovalEvent::Asked {
        card: QuestionCard {
            question,
            tenant: TenantId::new("acme").unwrap(),
            topic: topic.clone(),
            call: call(1),
            server: ServerId::new("files").unwrap(),
            label: "Files".into(),
            ask,
            expires_at: Timestamp(1_800_000_600_000),
        },
        at,
    };
    let schema = JsonText::parse(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#).unwrap();
    let url = PersonAsk::Url {
        message: "sign in".into(),
        url: "https://files.example/in".into(),
        host: "files.example".into(),
    };
    let answered = |word, content| ApprovalEvent::Answered { question, word, by: "ada".into(), content, at };
    let over = |word| ApprovalEvent::QuestionOver { question, word, reason: "too late".into(), at };
    vec![
        asked(PersonAsk::Form { message: "who?".into(), schema }),
        asked(url),
        answered(QuestionWord::Accepted, Some(Digest([0x55; 32]))),
        answered(QuestionWord::Declined, None),
        answered(QuestionWord::Dismissed, None),
        over(QuestionWord::Expired),
        over(QuestionWord::Withdrawn),
    ]
}
