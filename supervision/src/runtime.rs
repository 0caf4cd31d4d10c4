//! The runtime, as its embedder holds it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_actors::bus::RuntimeEvents;
use pilothouse_actors::servers::{Added, ServersMsg};
use pilothouse_actors::topics::TopicsMsg;
use pilothouse_actors::wiring::ServerPlace;
use pilothouse_adapters::store::head::{Head, Present};
use pilothouse_adapters::store::log::topic_prefix;
use pilothouse_messages::approval::{Card, DecideAnswer, Decision, ToolChange};
use pilothouse_messages::audit::AuditReport;
use pilothouse_messages::error::{
    AnswerError, DecideError, RevokeError, ServerError, StartError, StoreError, TopicError,
};
use pilothouse_messages::grant::{Grant, RevokeAnswer};
use pilothouse_messages::id::{ApprovalId, GrantId, QuestionId, ServerId, TenantId, TopicId};
use pilothouse_messages::question::{Answer, AnswerOutcome, QuestionCard};
use pilothouse_messages::topic::{TopicCommand, TopicConfig};
use pilothouse_messages::tree::TreeNode;

use crate::approvals;
use crate::audit::audit_store;
use crate::builder::{Builder, Server};
use crate::inner::{Inner, unread};
use crate::questions;
use crate::removal;
use crate::server::ServerHandle;
use crate::stop::Shutdown;
use crate::topic::{Topic, usable};
use crate::tree;

/// A running Pilothouse. Cheap to clone; when the last clone and the last handle are dropped it shuts down in the
/// background.
#[derive(Clone)]
pub struct Runtime(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    /// Begins a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a topic: creates it, or opens the stored one with this configuration. Open turns and queued messages of
    /// an earlier process have been recovered when this returns.
    ///
    /// # Errors
    /// [`TopicError::Id`], [`TopicError::UnknownModel`], [`TopicError::Rule`], a rejection (another tenant's topic), or that the topic could
    /// not be asked.
    pub async fn open_topic(
        &self,
        topic: impl Into<String>,
        config: TopicConfig,
    ) -> Result<Topic, TopicError> {
        let topic = topic_id(topic)?;
        if !self.0.wiring.knows_model(&config.model) {
            return Err(TopicError::UnknownModel { model: config.model });
        }
        usable(&config.tools)?;
        let topic = self.session(topic).await?;
        topic.command(TopicCommand::Open { config }).await?;
        Ok(topic)
    }

    /// A topic that was opened before, in this process or an earlier one.
    ///
    /// # Errors
    /// [`TopicError::Unknown`] if there is no such topic.
    pub async fn topic(&self, topic: impl Into<String>) -> Result<Topic, TopicError> {
        let topic = topic_id(topic)?;
        if self.0.wiring.topics.place(&topic).is_none() && !self.is_stored(&topic).await? {
            return Err(TopicError::Unknown { topic });
        }
        self.session(topic).await
    }

    /// Removes a topic: its turn is stopped, its cards are withdrawn, its grants are taken back, then its records are
    /// deleted; what the ledger says about it stays. Its windows are told that it is closed, and its old handles that it
    /// was removed. A topic that is opened under the same name is a new one, whose turns and messages are numbered on. A
    /// removal that is cut off goes on at the next start.
    ///
    /// # Errors
    /// [`TopicError::Unknown`] if there is no such topic; else that the topic or the ledger could not be asked:
    /// removing it again is harmless.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the topic stopped and not removed; removing it again is harmless.
    pub async fn delete_topic(&self, topic: impl Into<String>) -> Result<(), TopicError> {
        let topic = self.topic(topic).await?;
        removal::remove(&self.0.wiring, &topic).await
    }

    async fn is_stored(&self, topic: &TopicId) -> Result<bool, TopicError> {
        let head = Head::read(self.0.wiring.store.as_ref(), &topic_prefix(topic)).await;
        let head = head.map_err(unread)?;
        Ok(head.is_some_and(|head| head.presence == Present::Yes))
    }

    async fn session(&self, topic: TopicId) -> Result<Topic, TopicError> {
        let place = match self.0.wiring.topics.place(&topic) {
            Some(place) if !matches!(place.slot.presence(), pilothouse_actors::slot::Presence::Parked(_)) => {
                place
            }
            Some(_) | None => self.0.wiring.topics.slot.ask(|reply| TopicsMsg::Open { topic, reply }).await?,
        };
        Ok(Topic::new(place, self.0.clone()))
    }

    /// The cards that wait for a person, by topic and call, from a snapshot; never waits.
    pub fn approvals(&self) -> Vec<Card> {
        self.0.wiring.approval.open.cards().iter().map(|card| Card::clone(card)).collect()
    }

    /// What has changed about an open card's tool since a person last allowed a call of it, or was asked about it: the old
    /// definition and the new one, side by side, escaped and cut. `None` if it is what it was, or nobody of this tenant
    /// had seen it before. The same after a restart; from a snapshot, never waits.
    pub fn change_of(&self, approval: ApprovalId) -> Option<ToolChange> {
        self.0.wiring.approval.open.change_of(approval).map(|change| (*change).clone())
    }

    /// Decides about a card. The first decision wins; the answer is durable when it is given.
    ///
    /// # Errors
    /// [`DecideError::Refused`] if the arguments or the grant that it brings cannot be; else that the ledger could not be
    /// asked, or did not confirm it: deciding again tells what holds. After an I/O error of the store, and over a
    /// damaged ledger, nothing is approved until the runtime is started again.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the decision may have been recorded. Deciding again tells.
    pub async fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
    ) -> Result<DecideAnswer, DecideError> {
        approvals::decide(&self.0.wiring, approval, decision).await
    }

    /// The grants that hold, in the order of their names, from a snapshot; never waits.
    pub fn grants(&self) -> Vec<Grant> {
        self.0.wiring.approval.grants.all().iter().map(|grant| Grant::clone(grant)).collect()
    }

    /// Takes a grant back. Effective when this returns, also for calls that were allowed by it and have not been sent.
    ///
    /// # Errors
    /// That the ledger could not be asked, or did not confirm it: revoking again tells what holds.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the grant may be over.
    pub async fn revoke(&self, grant: GrantId, by: impl Into<String>) -> Result<RevokeAnswer, RevokeError> {
        approvals::revoke(&self.0.wiring, grant, by.into(), None).await
    }

    /// As [`revoke`](Self::revoke), for somebody of this tenant: another tenant's grant is unknown to it.
    ///
    /// # Errors
    /// As for [`revoke`](Self::revoke).
    pub async fn revoke_for(
        &self,
        tenant: TenantId,
        grant: GrantId,
        by: impl Into<String>,
    ) -> Result<RevokeAnswer, RevokeError> {
        approvals::revoke(&self.0.wiring, grant, by.into(), Some(tenant)).await
    }

    /// What servers ask people just now, by topic and call, from a snapshot; never waits. Questions reach people only if
    /// the embedder has not set [`Builder::asks`], belong to a topic's call, and are announced as
    /// [`RuntimeEvent::QuestionAsked`].
    ///
    /// [`RuntimeEvent::QuestionAsked`]: pilothouse_messages::tree::RuntimeEvent::QuestionAsked
    pub fn questions(&self) -> Vec<QuestionCard> {
        self.0.wiring.approval.questions.cards().iter().map(|card| QuestionCard::clone(card)).collect()
    }

    /// Answers a server's question. The first answer wins; it is durable when this returns, and the server is told.
    ///
    /// # Errors
    /// [`AnswerError::Refused`] if what was written does not fit the form; else that the ledger could not be asked, or
    /// did not confirm it: answering again tells what holds.
    ///
    /// # Cancel safety
    /// Dropping the future forgets what it would have said; the answer may have been recorded.
    pub async fn answer(&self, question: QuestionId, answer: Answer) -> Result<AnswerOutcome, AnswerError> {
        questions::answer(&self.0.wiring, question, answer).await
    }

    /// Decides about several cards, each with its own decision, at once: they become durable together where the store
    /// can. The answers come in the order of the decisions; one that fails takes no other with it.
    ///
    /// # Cancel safety
    /// As for [`decide`](Self::decide), for each of them.
    pub async fn decide_each(
        &self,
        decisions: impl IntoIterator<Item = (ApprovalId, Decision)>,
    ) -> Vec<(ApprovalId, Result<DecideAnswer, DecideError>)> {
        approvals::decide_each(&self.0.wiring, decisions).await
    }

    /// Everything that was asked, decided, granted and run, in one order, and what does not add up: the records of the
    /// ledger and of every topic, read from the store. It costs all of them, so it is for auditors. A runtime that
    /// approves nothing any more, because its ledger is damaged, answers it, too.
    ///
    /// # Errors
    /// What keeps the store from being read at all; damage is told in the report.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn audit(&self) -> Result<AuditReport, StoreError> {
        audit_store(self.0.wiring.store.as_ref()).await
    }

    /// One server.
    ///
    /// # Errors
    /// [`ServerError::Unknown`] if no server has this id.
    pub fn server(&self, server: &ServerId) -> Result<ServerHandle, ServerError> {
        match self.0.wiring.servers.place(server) {
            Some(place) => Ok(ServerHandle::new(place, self.0.clone())),
            None => Err(ServerError::Unknown { server: server.clone() }),
        }
    }

    /// Adds a server while the runtime runs; it connects in the background. Nothing else is touched, and a topic sees
    /// its tools from the turn on that begins after they were listed.
    ///
    /// # Errors
    /// [`ServerError::Id`], [`ServerError::Duplicate`], or that the servers' supervisor could not be asked.
    pub async fn add_server(&self, server: Server) -> Result<ServerHandle, ServerError> {
        let wiring = &self.0.wiring;
        let checked = server.checked(&wiring.limits, &self.0.policy);
        let (definition, connector) = checked.map_err(bad_definition)?;
        let server = definition.id.clone();
        let place = Arc::new(ServerPlace::new(definition, connector, &wiring.limits, wiring.clock.now()));
        let added = wiring.servers.slot.ask(|reply| ServersMsg::Add { place: place.clone(), reply }).await?;
        match added {
            Added::Yes => Ok(ServerHandle::new(place, self.0.clone())),
            Added::Duplicate => Err(ServerError::Duplicate { server }),
        }
    }

    /// Forgets a server: its connection ends, its listing is dropped, its tools leave the registry; the wire names of its
    /// tools stay reserved for it. Calls that are under way get their answer (`Unknown` if the server has none for them
    /// in time), further ones are rejected. Nothing else is touched. Returns when its process is gone.
    ///
    /// # Errors
    /// [`ServerError::Unknown`], or that the servers' supervisor could not be asked.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the server goes all the same.
    pub async fn remove_server(&self, server: &ServerId) -> Result<(), ServerError> {
        let slot = &self.0.wiring.servers.slot;
        let removed = slot.ask(|reply| ServersMsg::Remove { server: server.clone(), reply }).await?;
        removed.map_err(|_gone| ServerError::Unknown { server: server.clone() })
    }

    /// Defines a server anew, under its old id. If only the policy differs (name, tenant, effects, what is hidden or
    /// asks, trust, deadlines, idle stop) the connection stays (one over HTTP is made anew), and the registry shows the change at once. Otherwise the
    /// old connection ends before the new one starts; the old listing is dropped at once if the definition's fingerprint
    /// differs. Whether the server is switched on stays as it is, unless the definition says something else than before.
    ///
    /// # Errors
    /// [`ServerError::Id`], [`ServerError::Definition`], [`ServerError::Unknown`], or that the servers' supervisor could not be asked.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the server is changed all the same.
    pub async fn edit_server(&self, server: Server) -> Result<ServerHandle, ServerError> {
        let wiring = &self.0.wiring;
        let checked = server.checked(&wiring.limits, &self.0.policy);
        let (definition, connector) = checked.map_err(bad_definition)?;
        let server = definition.id.clone();
        let definition = Box::new(definition);
        let edited =
            wiring.servers.slot.ask(|reply| ServersMsg::Edit { definition, connector, reply }).await?;
        let place = edited.map_err(|_gone| ServerError::Unknown { server })?;
        Ok(ServerHandle::new(place, self.0.clone()))
    }

    /// Every server, in the order of their ids.
    pub fn servers(&self) -> Vec<ServerHandle> {
        let places = self.0.wiring.servers.places.load();
        places.values().map(|place| ServerHandle::new(place.clone(), self.0.clone())).collect()
    }

    /// Waits until every enabled server has answered in this process, at most `within`: for embedders who want first
    /// listings before the first turn. Nothing else ever waits for a server.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn warm(&self, within: Duration) {
        let all = async {
            for server in self.servers().into_iter().filter(ServerHandle::is_enabled) {
                server.warm(within).await;
            }
        };
        // Those that have not answered stay cold.
        let _elapsed = tokio::time::timeout(within, all).await;
    }

    /// The supervision tree as it is, from snapshots; never waits.
    pub fn tree(&self) -> TreeNode {
        tree::picture(&self.0.wiring, &self.0.life.borrow())
    }

    /// Listens to the runtime's own events from now on: servers, listings, restarts.
    pub fn events(&self) -> RuntimeEvents {
        self.0.wiring.events.subscribe()
    }

    /// Shuts down in order: turns record their end, processes end and are reaped, decisions are answered, the store is
    /// synced. Returns within `limits.stop`. Calling it again waits for the same end.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the shutdown.
    pub async fn shutdown(&self) -> Shutdown {
        self.0.shutdown().await
    }
}

fn bad_definition(error: StartError) -> ServerError {
    match error {
        StartError::Id { text, source } => ServerError::Id { text, source },
        other => ServerError::Definition { reason: other.reasons() },
    }
}

fn topic_id(topic: impl Into<String>) -> Result<TopicId, TopicError> {
    let text = topic.into();
    TopicId::new(text.clone()).map_err(|source| TopicError::Id { text, source })
}
