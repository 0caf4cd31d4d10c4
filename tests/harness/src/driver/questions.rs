//! What servers ask people, and the answers.

use pilothouse::digest::Digest;
use pilothouse::json::JsonText;
use pilothouse::question::{Answer, AnswerOutcome, PersonAsk, QuestionCard, QuestionEnd, QuestionId, Reply};
use serde_json::{Value, json};

use super::out::Fields;
use super::refusal::Refusal;
use super::show;
use super::stage::Stage;
use crate::line::{Action, AnswerFields};

impl Stage {
    pub(super) async fn questions(&mut self) -> Result<Fields, Refusal> {
        let questions = self.runtime().await?.questions();
        let questions: Vec<Value> = questions.iter().map(|card| Value::Object(shown(card))).collect();
        Ok(show::fields(json!({"questions": questions})))
    }

    pub(super) async fn answer(&mut self, fields: AnswerFields) -> Result<Fields, Refusal> {
        let runtime = self.runtime().await?;
        let named = match fields.question.as_str() {
            "last" => {
                runtime.questions().into_iter().max_by_key(|card| card.expires_at).map(|card| card.question)
            }
            text => QuestionId::parse(text),
        };
        let Some(question) = named else {
            let words =
                format!("\"{}\" is no question: write its 64 hex digits, or \"last\"", fields.question);
            return Err(Refusal::new("malformed_id", words));
        };
        let reply = match fields.action {
            Action::Accept => Reply::Accept(JsonText::from(fields.content.unwrap_or_else(|| json!({})))),
            Action::Decline => Reply::Decline,
            Action::Cancel => Reply::Dismiss,
        };
        let digest = fields
            .digest
            .map(|text| Digest::parse(&text).unwrap_or_else(|| Digest::of_bytes(&[text.as_bytes()])));
        let answer = Answer { reply, by: fields.by, digest, tenant: fields.tenant };
        let outcome = runtime.answer(question, answer).await?;
        Ok(show::fields(told(question, &outcome)))
    }
}

/// A question as it is printed.
pub(super) fn shown(card: &QuestionCard) -> Fields {
    let ask = match &card.ask {
        PersonAsk::Form { message, schema } => {
            json!({"ask": "form", "message": message, "schema": schema})
        }
        PersonAsk::Url { message, url, host } => {
            json!({"ask": "url", "message": message, "url": url, "host": host})
        }
    };
    let mut fields = show::fields(json!({
        "question": card.question, "topic": card.topic, "tenant": card.tenant, "call": card.call.to_string(),
        "server": card.server, "label": card.label, "digest": card.digest(), "expires_at": card.expires_at,
    }));
    fields.extend(show::fields(ask));
    fields
}

fn told(question: QuestionId, outcome: &AnswerOutcome) -> Value {
    let ended = |name: &str, end: &QuestionEnd| json!({"question": question, "answer": name, "word": end.word, "by": end.by});
    match outcome {
        AnswerOutcome::Applied => json!({"question": question, "answer": "applied"}),
        AnswerOutcome::Already(end) => ended("already", end),
        AnswerOutcome::Conflict(end) => ended("conflict", end),
        AnswerOutcome::Over(end) => ended("over", end),
        AnswerOutcome::Changed { digest } => {
            json!({"question": question, "answer": "changed", "digest": digest})
        }
        AnswerOutcome::Unknown => json!({"question": question, "answer": "unknown"}),
    }
}
