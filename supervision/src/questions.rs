//! Answers to questions of servers, on their way to the ledger.

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::gate;
use pilothouse_actors::wiring::Wiring;
use pilothouse_adapters::gate::Decider;
use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand, CardOwner};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::AnswerError;
use pilothouse_messages::id::QuestionId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::question::{Answer, AnswerOutcome, PersonAsk, QuestionCard, Reply};
use pilothouse_rules::arguments::Verdict;

pub(crate) async fn answer(
    wiring: &Wiring,
    question: QuestionId,
    answer: Answer,
) -> Result<AnswerOutcome, AnswerError> {
    if let Some(card) = wiring.approval.questions.card(question) {
        let theirs = answer.tenant.as_ref().is_none_or(|tenant| *tenant == card.tenant);
        let owner = CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() };
        let decider = Decider { by: &answer.by, tenant: answer.tenant.as_ref() };
        if !theirs || !gate::may_decide(wiring, &owner, decider) {
            return Ok(AnswerOutcome::Unknown);
        }
        if let Reply::Accept(content) = &answer.reply
            && let Some(reason) = fault(wiring, &card, content)
        {
            return Err(AnswerError::Refused { question, reason });
        }
    }
    let command = ApprovalCommand::Answer { question, answer: Box::new(answer) };
    let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
    match asked.map_err(|source| AnswerError::Ask { question, source })? {
        Ok(ApprovalAnswer::Answer(outcome)) => Ok(outcome),
        // The ledger answers an answer with nothing else and rejects none.
        Ok(
            ApprovalAnswer::Opened
            | ApprovalAnswer::Settled(_)
            | ApprovalAnswer::Decide(_)
            | ApprovalAnswer::Found(_)
            | ApprovalAnswer::Revoke(_)
            | ApprovalAnswer::Over(_)
            | ApprovalAnswer::Noted,
        )
        | Err(_) => Ok(AnswerOutcome::Unknown),
    }
}

/// Why the server could not take what a person wrote, if it could not.
fn fault(wiring: &Wiring, card: &QuestionCard, content: &JsonText) -> Option<String> {
    let limit = wiring.limits.reply_bytes;
    if content.as_str().len() > limit {
        return Some(format!("it is longer than {limit} bytes"));
    }
    let written = content.value();
    let Some(fields) = written.as_object() else { return Some("it must be a JSON object".to_owned()) };
    match &card.ask {
        PersonAsk::Url { .. } if fields.is_empty() => None,
        PersonAsk::Url { .. } => Some("a page is agreed to with {}, without fields".to_owned()),
        PersonAsk::Form { schema, .. } => {
            let name = Digest::of_parts("pilothouse/form/1", &[schema.as_str().as_bytes()]);
            match wiring.validators.of_schema(schema, name).check(&written) {
                Verdict::Valid => None,
                Verdict::Invalid(faults) => Some(format!("it does not fit the form:\n{faults}")),
                Verdict::Unchecked(why) => {
                    Some(format!("the form cannot be checked, so it can only be declined: {why}"))
                }
            }
        }
    }
}
