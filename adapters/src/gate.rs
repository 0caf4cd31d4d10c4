//! What an embedder may add to the gate: deny rules, guards, a classifier, and who may decide.
//!
//! All are asked at call time about the real tool and its arguments, also when the call came in another's name. None
//! of them can let anything run that the gate would not: a rule or guard that panics counts against the call.

use pilothouse_messages::approval::CardOwner;
use pilothouse_messages::id::{TenantId, TopicId};
use pilothouse_messages::topic::{Classified, ResolvedTool};
use serde_json::Value;

use crate::BoxFuture;

/// One call, as the layers of the gate see it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Subject {
    /// Whose it is.
    pub tenant: TenantId,
    /// The topic that calls; `None` outside all.
    pub topic: Option<TopicId>,
    /// The tool as it stands now.
    pub tool: ResolvedTool,
    /// The arguments, a JSON object.
    pub arguments: Value,
}

impl Subject {
    /// A call of this tool.
    pub fn new(tenant: TenantId, topic: Option<TopicId>, tool: ResolvedTool, arguments: Value) -> Self {
        Self { tenant, topic, tool, arguments }
    }
}

/// The first layer: what never runs, in no mode, with no grant and no person's approval.
///
/// It is asked when a call is planned, when a decision brings other arguments, and again just before a call is sent, so
/// that a rule which became stricter counts at once. One that panics denies.
///
/// For implementers: it runs on a task of the runtime's; it has to return at once.
pub trait DenyRule: Send + Sync + 'static {
    /// Why this call must not run; `None` if this rule has nothing against it.
    fn denies(&self, subject: &Subject) -> Option<String>;
}

impl<F> DenyRule for F
where
    F: Fn(&Subject) -> Option<String> + Send + Sync + 'static,
{
    fn denies(&self, subject: &Subject) -> Option<String> {
        self(subject)
    }
}

/// What a guard says about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardVerdict {
    /// Nothing against it.
    Pass,
    /// A person has to be asked, whatever mode and grants say; why.
    Ask(String),
    /// It must not run; why.
    Deny(String),
}

/// Looks at every call's real arguments, in every mode. One that panics has a person asked. It is asked when the call is
/// asked for, and once more when it is sent: then only a denial counts.
///
/// For implementers: as for [`DenyRule`].
pub trait Guard: Send + Sync + 'static {
    /// What it says about this call.
    fn judge(&self, subject: &Subject) -> GuardVerdict;
}

impl<F> Guard for F
where
    F: Fn(&Subject) -> GuardVerdict + Send + Sync + 'static,
{
    fn judge(&self, subject: &Subject) -> GuardVerdict {
        self(subject)
    }
}

/// Says in the mode `Auto` whether a call runs. It is awaited outside of every actor, within
/// `Limits::classifier`; one that fails, panics or takes longer has a person asked.
pub trait Classifier: Send + Sync + 'static {
    /// What it says about this call. `Err` says why it cannot tell.
    fn classify(&self, subject: Subject) -> BoxFuture<'static, Result<Classified, String>>;
}

impl<F, R> Classifier for F
where
    F: Fn(Subject) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Classified, String>> + Send + 'static,
{
    fn classify(&self, subject: Subject) -> BoxFuture<'static, Result<Classified, String>> {
        Box::pin(self(subject))
    }
}

/// Who decides, as a decision says it.
#[derive(Debug, Clone, Copy)]
pub struct Decider<'a> {
    /// By name.
    pub by: &'a str,
    /// For which tenant; `None` is the embedder itself.
    pub tenant: Option<&'a TenantId>,
}

/// Says who may decide a card. Beside it a decider of another tenant never may. One that panics says no.
///
/// For implementers: as for [`DenyRule`], on the task of who decides.
pub trait DecidePolicy: Send + Sync + 'static {
    /// Whether this decider may decide a card of this owner.
    fn may_decide(&self, card: &CardOwner, decider: Decider<'_>) -> bool;
}

impl<F> DecidePolicy for F
where
    F: Fn(&CardOwner, Decider<'_>) -> bool + Send + Sync + 'static,
{
    fn may_decide(&self, card: &CardOwner, decider: Decider<'_>) -> bool {
        self(card, decider)
    }
}
