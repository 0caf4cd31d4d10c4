//! The layers of the gate, asked about one call: deny rules, guards, grants, the classifier.
//!
//! What they say goes to the rules, which weigh it. Everything of the embedder's is caught here: a rule that panics
//! denies, a guard or a classifier that panics has a person asked.

use std::sync::Arc;

use pilothouse_adapters::gate::{Classifier, DecidePolicy, Decider, DenyRule, Guard, GuardVerdict, Subject};
use pilothouse_messages::approval::{ApprovalCommand, CardOwner};
use pilothouse_messages::id::{GrantId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::topic::{Classified, Findings, ResolvedTool};
use pilothouse_rules::gate::{Modes, Word};
use pilothouse_rules::grant::Asked;
use tokio::time::timeout;

use crate::approval::ApprovalMsg;
use crate::tasks::{caught, caught_now};
use crate::wiring::Wiring;

/// What the embedder adds to the gate.
#[derive(Clone, Default)]
pub struct Layers {
    /// What never runs.
    pub deny: Vec<Arc<dyn DenyRule>>,
    /// What looks at every call.
    pub guards: Vec<Arc<dyn Guard>>,
    /// What says in the mode `Auto` whether a call runs; without one a person is asked.
    pub classifier: Option<Arc<dyn Classifier>>,
    /// Who may decide; without one everybody of the card's tenant.
    pub decide: Option<Arc<dyn DecidePolicy>>,
}

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layers")
            .field("deny", &self.deny.len())
            .field("guards", &self.guards.len())
            .finish_non_exhaustive()
    }
}

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose call it is.
    pub tenant: TenantId,
    /// Of which topic; `None` outside all.
    pub topic: Option<TopicId>,
    /// In which turn; `None` outside all.
    pub turn: Option<TurnId>,
}

/// What every layer says about one call of this tool with these arguments, as both stand now. Returns within
/// `limits.classifier`; only the classifier is waited for.
///
/// # Cancel safety
/// Dropping the future drops the classifier's.
pub async fn findings(
    wiring: &Wiring,
    caller: &Caller,
    tool: &ResolvedTool,
    arguments: &JsonText,
    modes: Modes,
) -> Findings {
    let subject = Subject::new(caller.tenant.clone(), caller.topic.clone(), tool.clone(), arguments.value());
    let mut findings = Findings { denied: denial(wiring, &subject), ..Findings::default() };
    if findings.denied.is_some() {
        return findings;
    }
    ask_guards(wiring, &subject, &mut findings);
    if findings.denied.is_some() || findings.asked.is_some() || tool.force_prompt {
        return findings;
    }
    findings.grant = granted(wiring, caller, tool, arguments);
    if findings.grant.is_none() && modes.word_about(tool).0 == Word::Classify {
        findings.classified = Some(classified(wiring, subject).await);
    }
    findings
}

/// Why a deny rule says no, if one does.
pub fn denial(wiring: &Wiring, subject: &Subject) -> Option<String> {
    wiring.layers.deny.iter().find_map(|rule| {
        caught_now(|| rule.denies(subject)).unwrap_or_else(|_panic| {
            Some("a deny rule panicked, so this call is denied: mend the rule".to_owned())
        })
    })
}

/// Why a deny rule or a guard says no to arguments that a person has written, if one does. A guard that only asks is
/// content: a person is there.
pub fn refusal(wiring: &Wiring, subject: &Subject) -> Option<String> {
    let mut findings = Findings { denied: denial(wiring, subject), ..Findings::default() };
    if findings.denied.is_none() {
        ask_guards(wiring, subject, &mut findings);
    }
    findings.denied
}

/// Whether a grant still holds, as the reason for a call that has not been sent yet.
pub fn still_holds(wiring: &Wiring, grant: GrantId) -> bool {
    wiring.approval.stopped.load().is_none() && wiring.approval.grants.holds(grant, wiring.clock.now())
}

/// Whether the embedder's policy lets this decider decide a card of this owner.
pub fn may_decide(wiring: &Wiring, card: &CardOwner, decider: Decider<'_>) -> bool {
    let policy = wiring.layers.decide.as_ref();
    policy.is_none_or(|policy| caught_now(|| policy.may_decide(card, decider)).unwrap_or(false))
}

/// The first guard that denies counts, else the first that asks.
fn ask_guards(wiring: &Wiring, subject: &Subject, findings: &mut Findings) {
    for guard in &wiring.layers.guards {
        let verdict = caught_now(|| guard.judge(subject)).unwrap_or_else(|_panic| {
            GuardVerdict::Ask("a guard panicked over this call, so a person is asked".to_owned())
        });
        match verdict {
            GuardVerdict::Pass => {}
            GuardVerdict::Ask(reason) => drop(findings.asked.get_or_insert(reason)),
            GuardVerdict::Deny(reason) => {
                findings.denied = Some(reason);
                return;
            }
        }
    }
}

/// The grant that covers the call. Those that were given for the tool as it is no longer are told to the ledger.
fn granted(wiring: &Wiring, caller: &Caller, tool: &ResolvedTool, arguments: &JsonText) -> Option<GrantId> {
    if wiring.approval.stopped.load().is_some() {
        return None;
    }
    let coverage = wiring.approval.grants.covers(&Asked {
        tenant: &caller.tenant,
        topic: caller.topic.as_ref(),
        turn: caller.turn,
        tool,
        arguments,
        now: wiring.clock.now(),
    });
    if !coverage.void.is_empty() {
        let command = ApprovalCommand::Void { grants: coverage.void };
        // If this is lost the next call of the tool says it again; until then they cover nothing either way.
        wiring.approval.slot.inform(ApprovalMsg::Command { command, reply: None });
    }
    coverage.grant
}

async fn classified(wiring: &Wiring, subject: Subject) -> Classified {
    let Some(classifier) = wiring.layers.classifier.clone() else {
        return Classified::Ask("there is no classifier, so a person is asked".to_owned());
    };
    // The closure may panic before there is a future.
    let asked = caught(async move { classifier.classify(subject).await });
    match timeout(wiring.limits.classifier, asked).await {
        Ok(Ok(Ok(classified))) => classified,
        Ok(Ok(Err(reason))) => Classified::Ask(format!("the classifier could not tell: {reason}")),
        Ok(Err(_panic)) => Classified::Ask("the classifier panicked, so a person is asked".to_owned()),
        Err(_elapsed) => Classified::Ask("the classifier took too long, so a person is asked".to_owned()),
    }
}
