//! Decisions, on their way to the ledger.

use pilothouse_actors::approval::ApprovalMsg;
use pilothouse_actors::wiring::Wiring;
use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand, DecideAnswer, Decision};
use pilothouse_messages::error::DecideError;
use pilothouse_messages::id::ApprovalId;

pub(crate) async fn decide(
    wiring: &Wiring,
    approval: ApprovalId,
    decision: Decision,
) -> Result<DecideAnswer, DecideError> {
    let command = ApprovalCommand::Decide { approval, decision };
    let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await;
    match asked.map_err(|source| DecideError::Ask { approval, source })? {
        Ok(ApprovalAnswer::Decide(answer)) => Ok(answer),
        // The ledger answers a decision with nothing else and rejects none; a card that it cannot speak about is none.
        Ok(ApprovalAnswer::Opened | ApprovalAnswer::Settled(_) | ApprovalAnswer::Noted) | Err(_) => {
            Ok(DecideAnswer::Unknown)
        }
    }
}
