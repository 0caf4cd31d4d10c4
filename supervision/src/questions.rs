//! Answers to questions of servers, on their way to the ledger.

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::gate;
use pilothouse_actors::wiring::Wiring;
use pilothouse_adapters::gate::Decider;
use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand, ApprovalRejection, CardOwner};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::AnswerError;
use pilothouse_messages::id::QuestionId;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::question::{Answer, AnswerOutcome, PersonAsk, QuestionCard, Reply};
use pilothouse_rules::arguments::Verdict;

use crate::approvals::found;

pub(crate) async fn answer(
    wiring: &Wiring,
    question: QuestionId,
    answer: Answer,
) -> Result<AnswerOutcome, AnswerError> {
    let card = wiring.approval.questions.card(question);
    if wiring.layers.decide.is_some() {
        let Some(owner) = owner(wiring, question, card.as_deref()).await? else {
            return Ok(AnswerOutcome::Unknown);
        };
        let decider = Decider { by: &answer.by, tenant: answer.tenant.as_ref() };
        if !gate::may_decide(wiring, &owner, decider) {
            return Ok(AnswerOutcome::Unknown);
        }
    }
    if let Some(card) = card {
        if answer.tenant.as_ref().is_some_and(|tenant| *tenant != card.tenant) {
            return Ok(AnswerOutcome::Unknown);
        }
        if let Reply::Accept(content) = &answer.reply
            && let Some(reason) = fault(wiring, &card, content)
        {
            return Err(AnswerError::Refused { question, reason });
        }
    }
    let command = ApprovalCommand::Answer { question, answer: Box::new(answer) };
    match ask(wiring, question, command).await? {
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

async fn ask(
    wiring: &Wiring,
    question: QuestionId,
    command: ApprovalCommand,
) -> Result<Result<ApprovalAnswer, ApprovalRejection>, AnswerError> {
    let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
    asked.map_err(|source| AnswerError::Ask { question, source })
}

/// Whose question it is; one that has its last word is known to the ledger only, and says who answered.
async fn owner(
    wiring: &Wiring,
    question: QuestionId,
    open: Option<&QuestionCard>,
) -> Result<Option<CardOwner>, AnswerError> {
    if let Some(card) = open {
        return Ok(Some(CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() }));
    }
    Ok(found(ask(wiring, question, ApprovalCommand::FindQuestion { question }).await?))
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
