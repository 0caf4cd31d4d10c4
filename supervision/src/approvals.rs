//! Decisions and revocations, on their way to the ledger.

use std::future::poll_fn;
use std::task::Poll;

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::gate;
use pilothouse_actors::wiring::Wiring;
use pilothouse_adapters::gate::{Decider, Subject};
use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalRejection, Card, CardOwner, DecideAnswer, Decision,
    RefusedDecision,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::{AskError, DecideError, RevokeError};
use pilothouse_messages::grant::RevokeAnswer;
use pilothouse_messages::id::{ApprovalId, GrantId, TenantId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::ToolSource;
use pilothouse_messages::topic::ResolvedTool;
use pilothouse_rules::arguments::Verdict;

pub(crate) async fn decide(
    wiring: &Wiring,
    approval: ApprovalId,
    decision: Decision,
) -> Result<DecideAnswer, DecideError> {
    let card = wiring.approval.open.card(approval);
    if wiring.layers.decide.is_some() {
        let decider = Decider { by: &decision.by, tenant: decision.tenant.as_ref() };
        let Some(owner) = owner(wiring, approval, card.as_deref()).await? else {
            return Ok(DecideAnswer::Unknown);
        };
        if !gate::may_decide(wiring, &owner, decider) {
            let command = ApprovalCommand::Foreign { approval, by: decision.by };
            // What it says, that the card keeps who it was, is not for a foreign decider to know.
            drop(ask(wiring, approval, command).await?);
            return Ok(DecideAnswer::Unknown);
        }
    }
    if let Some(reason) = misplaced(&decision, card.as_deref()) {
        return unfit(wiring, approval, decision.by, reason).await;
    }
    if let (Some(card), Some(arguments)) = (&card, &decision.arguments)
        && decision.tenant.as_ref().is_none_or(|tenant| *tenant == card.tenant)
        && let Some(reason) = edit_fault(wiring, card, arguments)
    {
        return unfit(wiring, approval, decision.by, reason).await;
    }
    let present = card.as_deref().map(|card| present(wiring, card)).unwrap_or_default();
    let by = decision.by.clone();
    let command = ApprovalCommand::Decide { approval, decision: Box::new(decision), present };
    match ask(wiring, approval, command).await? {
        Ok(ApprovalAnswer::Decide(answer)) => Ok(answer),
        Err(rejection) => unfit(wiring, approval, by, rejection.to_string()).await,
        // The ledger answers a decision with nothing else; a card that it cannot speak about is none.
        Ok(
            ApprovalAnswer::Opened
            | ApprovalAnswer::Settled(_)
            | ApprovalAnswer::Found(_)
            | ApprovalAnswer::Revoke(_)
            | ApprovalAnswer::Noted
            | ApprovalAnswer::Answer(_)
            | ApprovalAnswer::Over(_),
        ) => Ok(DecideAnswer::Unknown),
    }
}

/// Decides all of them at once; the answers come in their order.
pub(crate) async fn decide_each(
    wiring: &Wiring,
    decisions: impl IntoIterator<Item = (ApprovalId, Decision)>,
) -> Vec<(ApprovalId, Result<DecideAnswer, DecideError>)> {
    let deciding = decisions.into_iter().map(|(approval, decision)| {
        let deciding = Box::pin(async move { (approval, decide(wiring, approval, decision).await) });
        (deciding, None)
    });
    let mut deciding: Vec<_> = deciding.collect();
    poll_fn(|cx| {
        for (future, answer) in deciding.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *answer = Some(ready);
            }
        }
        if deciding.iter().all(|(_, answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    deciding.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Refuses a decision for what it brings, once the ledger has recorded that.
async fn unfit(
    wiring: &Wiring,
    approval: ApprovalId,
    by: String,
    reason: String,
) -> Result<DecideAnswer, DecideError> {
    let why = RefusedDecision::Unfit;
    drop(ask(wiring, approval, ApprovalCommand::Refuse { approval, by, why }).await?);
    Err(DecideError::Refused { approval, reason })
}

pub(crate) async fn revoke(
    wiring: &Wiring,
    grant: GrantId,
    by: String,
    tenant: Option<TenantId>,
) -> Result<RevokeAnswer, RevokeError> {
    let command = ApprovalCommand::Revoke { grant, by, tenant };
    let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
    match asked.map_err(|source| RevokeError { grant, source })? {
        Ok(ApprovalAnswer::Revoke(answer)) => Ok(answer),
        // The ledger answers a revocation with nothing else and rejects none.
        Ok(
            ApprovalAnswer::Opened
            | ApprovalAnswer::Settled(_)
            | ApprovalAnswer::Decide(_)
            | ApprovalAnswer::Found(_)
            | ApprovalAnswer::Noted
            | ApprovalAnswer::Answer(_)
            | ApprovalAnswer::Over(_),
        )
        | Err(_) => Ok(RevokeAnswer::Unknown),
    }
}

async fn ask(
    wiring: &Wiring,
    approval: ApprovalId,
    command: ApprovalCommand,
) -> Result<Result<ApprovalAnswer, ApprovalRejection>, DecideError> {
    let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
    asked.map_err(|source: AskError| DecideError::Ask { approval, source })
}

/// Whose card it is; one that has its last word is known to the ledger only.
async fn owner(
    wiring: &Wiring,
    approval: ApprovalId,
    open: Option<&Card>,
) -> Result<Option<CardOwner>, DecideError> {
    if let Some(card) = open {
        return Ok(Some(CardOwner { tenant: card.tenant.clone(), topic: card.topic.clone() }));
    }
    Ok(found(ask(wiring, approval, ApprovalCommand::Find { approval }).await?))
}

/// The owner that the ledger was asked for.
pub(crate) fn found(answer: Result<ApprovalAnswer, ApprovalRejection>) -> Option<CardOwner> {
    match answer {
        Ok(ApprovalAnswer::Found(owner)) => owner,
        // The ledger answers this with nothing else and rejects it never.
        Ok(
            ApprovalAnswer::Opened
            | ApprovalAnswer::Settled(_)
            | ApprovalAnswer::Decide(_)
            | ApprovalAnswer::Revoke(_)
            | ApprovalAnswer::Noted
            | ApprovalAnswer::Answer(_)
            | ApprovalAnswer::Over(_),
        )
        | Err(_) => None,
    }
}

/// Why a decision may not bring arguments, if it does: they are for an approval of a card that is open, which says what
/// they are checked against.
fn misplaced(decision: &Decision, card: Option<&Card>) -> Option<String> {
    decision.arguments.as_ref()?;
    match (decision.verdict, card) {
        (pilothouse_messages::approval::Verdict::Allow, Some(_)) => None,
        (pilothouse_messages::approval::Verdict::Allow, None) => {
            Some("there is no open card that the arguments could be checked against".into())
        }
        (pilothouse_messages::approval::Verdict::Deny, _) => {
            Some("a denial brings no arguments: leave them out".into())
        }
    }
}

/// Why arguments that a person wrote are not taken, if they are not. They pass the tool's schema, deny rules and guards
/// as if a model had written them. Always asking is answered: a person is there.
fn edit_fault(wiring: &Wiring, card: &Card, arguments: &JsonText) -> Option<String> {
    let limit = wiring.limits.reply_bytes;
    if arguments.as_str().len() > limit {
        return Some(format!("the arguments are longer than {limit} bytes"));
    }
    let table = wiring.registry.table.load();
    let entries = table.entries();
    let entry = entries.iter().find(|entry| entry.source == card.source);
    let Some(entry) = entry.filter(|entry| is_as_shown(entry, card)) else {
        return Some(
            "the tool is not as it was when the card was made: deny it, and have it called again".into(),
        );
    };
    let written = arguments.value();
    if !written.is_object() {
        return Some("the arguments must be a JSON object".into());
    }
    match wiring.validators.of(&entry.definition, entry.fingerprint).check(&written) {
        Verdict::Valid => {}
        Verdict::Invalid(faults) => return Some(format!("the arguments do not fit the tool:\n{faults}")),
        Verdict::Unchecked(why) => return Some(format!("the arguments cannot be checked: {why}")),
    }
    let tool = ResolvedTool {
        name: card.tool.clone(),
        source: card.source.clone(),
        label: card.label.clone(),
        title: card.title.clone(),
        effect: entry.effect,
        force_prompt: entry.force_prompt,
        interruptible: false,
        fingerprint: card.fingerprint,
        definition: card.definition,
    };
    let subject = Subject::new(card.tenant.clone(), Some(card.topic.clone()), tool, arguments.value());
    gate::refusal(wiring, &subject)
}

fn is_as_shown(entry: &Entry, card: &Card) -> bool {
    entry.fingerprint == card.fingerprint && entry.owner == card.definition
}

/// Fingerprints of what the card's server offers now, under the definition that the card shows.
fn present(wiring: &Wiring, card: &Card) -> Vec<Digest> {
    let ToolSource::Mcp { server, .. } = &card.source else { return Vec::new() };
    let table = wiring.registry.table.load();
    let theirs = table.entries().iter().filter(|entry| entry.source.server() == Some(server));
    theirs.filter(|entry| entry.owner == card.definition).map(|entry| entry.fingerprint).collect()
}
