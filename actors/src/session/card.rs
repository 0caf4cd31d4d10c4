//! A session's errands to the approval actor, each in a task that goes on until it is told.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand, Card, ToolFace};
use pilothouse_messages::error::AskError;
use pilothouse_messages::id::{ApprovalId, TopicId};
use pilothouse_messages::tool::ToolSource;
use pilothouse_messages::topic::command::Payment;
use pilothouse_messages::topic::{CardNews, TopicCommand};
use pilothouse_rules::approval::{Ledger, face};

use super::Report;
use crate::approval::ApprovalMsg;
use crate::durable::Told;
use crate::tasks::TaskSet;
use crate::wiring::Wiring;

/// How long an errand waits before it asks an actor again that is away or busy.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// What an errand needs; it ends with the session's life, and the next life sends it again.
pub(super) struct Errand {
    pub(super) wiring: Arc<Wiring>,
    pub(super) tasks: TaskSet,
    pub(super) report: Report,
}

async fn told(wiring: &Wiring, command: ApprovalCommand) -> Result<Told<Ledger>, AskError> {
    loop {
        let command = command.clone();
        let asked =
            wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
        match asked {
            Err(error) if error.is_retryable() => tokio::time::sleep(ASK_AGAIN).await,
            Ok(_) | Err(_) => return asked,
        }
    }
}

/// Opens a card, and tells the session what became of it.
pub(super) fn open(errand: Errand, card: Card) {
    let Errand { wiring, tasks, report } = errand;
    tasks.spawn(async move {
        let approval = card.approval;
        let showing = face_of(&wiring, &card);
        let shown = Box::new(card.clone());
        let command = match showing {
            Some(face) => ApprovalCommand::OpenShowing { card: shown, face: Box::new(face) },
            None => ApprovalCommand::Open(shown),
        };
        let news = match told(&wiring, command).await {
            Ok(Ok(ApprovalAnswer::Opened)) => CardNews::Opened(Box::new(card)),
            // Already decided: the ledger tells it by itself until it is paid.
            Ok(Ok(
                ApprovalAnswer::Settled(_)
                | ApprovalAnswer::Decide(_)
                | ApprovalAnswer::Found(_)
                | ApprovalAnswer::Revoke(_)
                | ApprovalAnswer::Noted
                | ApprovalAnswer::Answer(_)
                | ApprovalAnswer::Over(_),
            )) => return,
            Ok(Err(rejection)) => CardNews::Refused(rejection.to_string()),
            // The runtime shuts down: the next one opens it again.
            Err(AskError::ShutDown) => return,
            // Asking again would not help, and nobody else would answer the call.
            Err(error) => CardNews::Refused(error.to_string()),
        };
        report.tell(TopicCommand::Card { approval, news });
    });
}

/// What there is to see of the card's tool, if it still is the card's.
fn face_of(wiring: &Wiring, card: &Card) -> Option<ToolFace> {
    let table = wiring.registry.table.load();
    let entry = match &card.source {
        ToolSource::Mcp { server, tool } => table.by_source(server, tool),
        ToolSource::Builtin { .. } => table.entries().iter().find(|entry| entry.source == card.source),
    };
    let entry =
        entry.filter(|entry| (entry.fingerprint, entry.owner) == (card.fingerprint, card.definition))?;
    Some(face(&entry.definition, entry.owner, card.effect))
}

/// Takes cards back.
pub(super) fn withdraw(errand: Errand, topic: TopicId, approvals: Vec<ApprovalId>, reason: String) {
    let Errand { wiring, tasks, report: _ } = errand;
    tasks.spawn(async move {
        // A card that could not be taken back is void when somebody decides it.
        let _told = told(&wiring, ApprovalCommand::Withdraw { topic, approvals, reason }).await;
    });
}

/// Pays a debt. If that is lost the ledger tells the decision again, and it is paid again.
pub(super) fn pay(wiring: &Wiring, topic: TopicId, approval: ApprovalId, payment: Payment) {
    let command = ApprovalCommand::Pay { topic, approval, payment };
    wiring.approval.slot.inform(ApprovalMsg::Command { command, reply: None });
}
