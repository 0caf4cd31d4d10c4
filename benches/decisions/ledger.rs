//! An approval actor by itself on a real store, and what its callers do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::approval::{ApprovalActor, ApprovalArgs, ApprovalMsg};
use pilothouse_actors::wiring::{Materials, Wiring};
use pilothouse_adapters::clock::SystemClock;
use pilothouse_adapters::model::Model;
use pilothouse_adapters::store::log::LEDGER;
use pilothouse_adapters::store::sled::SledStore;
use pilothouse_messages::approval::{
    ApprovalAnswer, ApprovalCommand, ApprovalEvent, Card, DecideAnswer, Decision, Verdict,
};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, CallId, StepId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::{Effect, ToolSource};
use ractor::{Actor, ActorRef};

/// Who decides everything here.
pub(crate) const BY: &str = "bench";

pub(crate) struct Ledger {
    pub(crate) wiring: Arc<Wiring>,
    actor: ActorRef<pilothouse_actors::slot::Letter<ApprovalMsg>>,
}

/// The card of this number, of a tool and a topic of its own.
pub(crate) fn card(n: u64) -> Card {
    let topic = TopicId::new(format!("topic-{n}")).expect("an id");
    let call = CallId { turn: TurnId(1), step: StepId(1), index: 0 };
    Card {
        approval: ApprovalId::of(&topic, call),
        tenant: TenantId::default(),
        topic,
        call,
        tool: format!("write_{n}"),
        source: ToolSource::Builtin { name: format!("write_{n}") },
        label: "files".to_owned(),
        title: None,
        effect: Effect::Edits,
        arguments: JsonText::from(serde_json::json!({"path": "a"})),
        fingerprint: Digest([0; 32]),
        definition: Digest([1; 32]),
        reason: "it changes things".to_owned(),
        expires_at: Timestamp(u64::MAX),
    }
}

/// How many bytes a plain decision is on the disk.
pub(crate) fn decision_bytes() -> usize {
    let card = card(1);
    let (approval, digest) = (card.approval, card.digest());
    let (verdict, by, at) = (Verdict::Allow, BY.to_owned(), Timestamp(1));
    let event = ApprovalEvent::Decided { approval, verdict, by, reason: None, digest, at };
    LEDGER.encode(1, Digest([0; 32]), &event).expect("it can be written").len()
}

impl Ledger {
    pub(crate) async fn open(directory: &Path, callers: u64) -> Self {
        let mut limits = Limits::default();
        limits.mailbox = limits.mailbox.max(usize::try_from(callers).expect("a count"));
        let store = SledStore::open(directory).await.expect("the store opens");
        let wiring = Arc::new(Wiring::new(Materials {
            layers: Default::default(),
            repair: None,
            counter: Arc::new(pilothouse_rules::tokens::Bytes4),
            exec: None,
            limits,
            clock: Arc::new(SystemClock),
            store: Arc::new(store),
            models: Arc::new(|_: &str| None::<Arc<dyn Model>>),
            functions: BTreeMap::new(),
            table: Arc::default(),
            asks: None,
            history: Arc::new(pilothouse_rules::history::NewestTurns),
            servers: Vec::new(),
            heavy: Default::default(),
        }));
        let args = ApprovalArgs { wiring: wiring.clone() };
        let (actor, _join) = Actor::spawn(None, ApprovalActor, args).await.expect("the actor starts");
        wiring.approval.slot.fill(actor.clone());
        Self { wiring, actor }
    }

    /// Ends the actor and frees the directory.
    pub(crate) async fn close(self) {
        self.actor.stop_and_wait(None, None).await.expect("the actor stops");
        self.wiring.store.close().await.expect("the store closes");
    }

    pub(crate) async fn ask(&self, command: ApprovalCommand) -> ApprovalAnswer {
        loop {
            let command = command.clone();
            let slot = &self.wiring.approval.slot;
            match slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) }).await {
                Ok(answer) => return answer.expect("the ledger takes it"),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    pub(crate) async fn open_card(&self, n: u64) -> ApprovalId {
        let card = card(n);
        let approval = card.approval;
        assert_eq!(self.ask(ApprovalCommand::Open(Box::new(card))).await, ApprovalAnswer::Opened);
        approval
    }

    pub(crate) async fn decide(&self, approval: ApprovalId, decision: Decision) {
        let (decision, present) = (Box::new(decision), Vec::new());
        let answer = self.ask(ApprovalCommand::Decide { approval, decision, present }).await;
        assert_eq!(answer, ApprovalAnswer::Decide(DecideAnswer::Applied));
    }
}

/// Does this for each number, as many at once as there may be callers; what each gave, in no order.
pub(crate) async fn all<T, F>(
    ledger: &Arc<Ledger>,
    numbers: std::ops::Range<u64>,
    callers: u64,
    work: impl Fn(Arc<Ledger>, u64) -> F + Clone + Send + 'static,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send,
{
    let calling: Vec<_> = (0..callers)
        .map(|caller| {
            let (ledger, work) = (ledger.clone(), work.clone());
            let step = usize::try_from(callers).expect("a count");
            let mine = (numbers.start + caller..numbers.end).step_by(step);
            tokio::spawn(async move {
                let mut gave = Vec::new();
                for n in mine {
                    gave.push(work(ledger.clone(), n).await);
                }
                gave
            })
        })
        .collect();
    let mut gave = Vec::new();
    for caller in calling {
        gave.extend(caller.await.expect("no caller panics"));
    }
    gave
}
