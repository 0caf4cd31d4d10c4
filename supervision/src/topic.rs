//! A topic, as its embedder holds it.

use std::sync::Arc;

mod queue;

use pilothouse_actors::asking::{Asker, asked};
use pilothouse_actors::hub::Subscription;
use pilothouse_actors::session::{SessionMsg, export, history, surface_now};
use pilothouse_actors::wiring::TopicPlace;
use pilothouse_messages::call::{CallResult, KeptResult};
use pilothouse_messages::error::{AskError, StoreError, TopicError};
use pilothouse_messages::id::{CallId, MessageId, TopicId, TurnId};
use pilothouse_messages::tool::{SurfaceView, ToolLists};
use pilothouse_messages::topic::{
    ConfigPatch, Configured, ExportPage, HistoryCursor, HistoryPage, Level, Receipt, TopicAnswer,
    TopicCommand, TopicRejection, TopicView,
};
use pilothouse_rules::registry::policy::{PolicyReach, ToolPolicy};
use pilothouse_rules::registry::scope_of;
use serde_json::Value;
use tokio::time::timeout;

use crate::inner::{Inner, unread};
use crate::outside;

/// A handle on one topic. Cheap to clone; outlives every restart of its session.
#[derive(Clone)]
pub struct Topic {
    place: Arc<TopicPlace>,
    inner: Arc<Inner>,
}

/// A message that was taken: it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its id within the topic.
    pub message: MessageId,
    /// Where it is.
    pub receipt: Receipt,
}

impl std::fmt::Debug for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Topic").field(&self.place.topic).finish()
    }
}

impl Topic {
    pub(crate) fn new(place: Arc<TopicPlace>, inner: Arc<Inner>) -> Self {
        Self { place, inner }
    }

    /// Which topic.
    pub fn id(&self) -> &TopicId {
        &self.place.topic
    }

    /// Sends a message. It is durable when this returns: in the turn that it starts, or in the queue of the one that
    /// runs, which then yields at its next step boundary.
    ///
    /// # Errors
    /// A rejection (empty, queue full), or that the topic could not be asked. Nothing was accepted then, except perhaps
    /// after [`AskError::Interrupted`] and [`AskError::Unconfirmed`]: send with a key to be safe.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the answer; the message may have been taken.
    pub async fn send(&self, text: impl Into<String>) -> Result<Sent, TopicError> {
        self.sent(text.into(), None, Level::default()).await
    }

    /// Sends a message under the sender's own key: the same key and text again is the same message, so a send that was
    /// interrupted can be repeated.
    ///
    /// # Errors
    /// As [`send`](Self::send), and that the key was used for another text.
    pub async fn send_with_key(
        &self,
        text: impl Into<String>,
        key: impl Into<String>,
    ) -> Result<Sent, TopicError> {
        self.sent(text.into(), Some(key.into()), Level::default()).await
    }

    /// Sends a message that is to be seen so soon, under the sender's own key if there is one. [`Level::Now`] cancels the
    /// calls that run and may be interrupted, and thereby brings the step boundary near; [`Level::NextTurn`] lets the turn
    /// that runs end by itself, and waits behind everything else.
    ///
    /// # Errors
    /// As [`send_with_key`](Self::send_with_key).
    pub async fn send_at(
        &self,
        level: Level,
        text: impl Into<String>,
        key: Option<String>,
    ) -> Result<Sent, TopicError> {
        self.sent(text.into(), key, level).await
    }

    async fn sent(&self, text: String, key: Option<String>, level: Level) -> Result<Sent, TopicError> {
        self.placed(TopicCommand::Send { text, key, level }).await
    }

    /// Asks for something that is answered with where a message is then.
    async fn placed(&self, command: TopicCommand) -> Result<Sent, TopicError> {
        match self.command(command).await? {
            TopicAnswer::Sent { message, receipt } => Ok(Sent { message, receipt }),
            // Such a command has no other answer.
            TopicAnswer::Stopped { .. }
            | TopicAnswer::Configured(_)
            | TopicAnswer::Noted
            | TopicAnswer::Continued { .. } => Err(TopicError::Ask(AskError::Interrupted)),
        }
    }

    /// Ends the open turn as aborted and holds the queue; returns the turn, if one was open. Takes effect at once, with
    /// any effect hanging.
    ///
    /// # Errors
    /// That the topic could not be asked.
    pub async fn stop(&self, by: impl Into<String>) -> Result<Option<TurnId>, TopicError> {
        match self.command(TopicCommand::Stop { by: by.into() }).await? {
            TopicAnswer::Stopped { turn } => Ok(turn),
            TopicAnswer::Sent { .. }
            | TopicAnswer::Configured(_)
            | TopicAnswer::Noted
            | TopicAnswer::Continued { .. } => Ok(None),
        }
    }

    /// Changes the configuration, and says what of the change counts now and what waits for the next turn. While a turn
    /// is open, what becomes stricter about tools (mode, lists, servers, functions, headless) counts at once, also for
    /// cards that wait; what becomes looser, and all else, waits.
    ///
    /// # Errors
    /// [`TopicError::UnknownModel`], [`TopicError::Rule`], or that the topic could not be asked.
    pub async fn configure(&self, patch: ConfigPatch) -> Result<Configured, TopicError> {
        if let Some(model) = &patch.model
            && !self.inner.wiring.knows_model(model)
        {
            return Err(TopicError::UnknownModel { model: model.clone() });
        }
        patch.tools.as_ref().map_or(Ok(()), usable)?;
        match self.command(TopicCommand::Configure { patch }).await? {
            TopicAnswer::Configured(configured) => Ok(configured),
            // A change has no other answer.
            TopicAnswer::Sent { .. }
            | TopicAnswer::Stopped { .. }
            | TopicAnswer::Noted
            | TopicAnswer::Continued { .. } => Ok(Configured::default()),
        }
    }

    /// The topic as it is, from a snapshot; `None` until its session has loaded it for the first time.
    pub fn view(&self) -> Option<Arc<TopicView>> {
        self.place.hub.view()
    }

    /// Attaches a window: the view at one point of the events, and every event after it. `None` as in
    /// [`view`](Self::view).
    pub fn attach(&self) -> Option<Subscription> {
        self.attach_with(self.inner.wiring.limits.subscriber)
    }

    /// Attaches a window with room for `buffer` events; a slower one is cut off and told so.
    pub fn attach_with(&self, buffer: usize) -> Option<Subscription> {
        self.place.hub.attach(buffer)
    }

    /// A page of closed turns, oldest first: the newest ones, or those before a cursor. Read from the store, so that it
    /// costs nobody else anything and the topic's session is not asked. [`HistoryCursor::before`] goes on where a
    /// view ends.
    ///
    /// # Errors
    /// [`TopicError::Ask`] if the store could not be read.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn history(&self, cursor: Option<HistoryCursor>) -> Result<HistoryPage, TopicError> {
        let wiring = &self.inner.wiring;
        let page = history::page(wiring.store.as_ref(), self.id(), &wiring.limits, cursor);
        let page = timeout(wiring.limits.topic_load, page).await.unwrap_or(Err(StoreError::TimedOut));
        Ok(page.map_err(unread)?)
    }

    /// A page of the topic's records as JSON Lines, from this record on: everything that happened, in order, with who
    /// decided and why each call was allowed. Begin with 0.
    ///
    /// # Errors
    /// [`TopicError::Ask`] if the store could not be read.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn export(&self, from: u64) -> Result<ExportPage, TopicError> {
        let wiring = &self.inner.wiring;
        let page = export::page(wiring.store.as_ref(), self.id(), from);
        let page = timeout(wiring.limits.topic_load, page).await.unwrap_or(Err(StoreError::TimedOut));
        Ok(page.map_err(unread)?)
    }

    /// Calls a tool by its wire name, outside any turn, within what the topic may use; a meta tool too, if the topic
    /// shows it. The same checks and the same gate apply as in a turn: a tool that
    /// needs a person is `Denied`, since only a turn can ask one. A full server is `Unavailable` at once. `tool_exec` is
    /// `Rejected`: the calls of a script are recorded in the turn that it runs in, and there is none.
    ///
    /// # Errors
    /// [`TopicError::Rejected`] if the topic was never opened.
    ///
    /// # Cancel safety
    /// Dropping the future tells the server to cancel.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<CallResult, TopicError> {
        let view = self.view().ok_or(TopicRejection::NotOpen)?;
        let (wiring, place) = (&self.inner.wiring, &self.place);
        let now = || surface_now(wiring, &view.config, wiring.clock.now());
        let (block, deferred) = match place.surface.load_full() {
            Some(pinned) => (pinned, place.deferred.load_full()),
            None => {
                let surface = now();
                (surface.view().clone(), surface.deferred().clone())
            }
        };
        let scope = scope_of(&view.config);
        let asker = Asker {
            topic: self.id(),
            scope: &scope,
            block: &block,
            deferred: &deferred,
            inspected: &place.inspected,
        };
        let asked = asked(wiring, &asker, tool, &arguments.to_string());
        let caller = (view.config.tenant.clone(), Some(self.id().clone()));
        Ok(outside::call(wiring, asked, caller, view.config.mode).await)
    }

    /// The whole result of a call whose result was cut for the model. Kept within `Limits::kept_results_topic` and
    /// `Limits::kept_results`, the oldest go first; over restarts, too. Results of calls outside a turn, and of those
    /// within a script, are not kept.
    ///
    /// # Errors
    /// The store's own.
    pub async fn result(&self, call: CallId) -> Result<KeptResult, StoreError> {
        self.inner.wiring.asides.read(self.id(), call).await
    }

    /// What the topic shows its model: as pinned by its last turn, or as a first turn would pin it now.
    pub fn surface(&self) -> Option<Arc<SurfaceView>> {
        if let Some(pinned) = self.place.surface.load_full() {
            return Some(pinned);
        }
        let view = self.view()?;
        Some(surface_now(&self.inner.wiring, &view.config, self.inner.wiring.clock.now()).view().clone())
    }

    /// Has the next turn pin the surface anew, as it is then. The turn that runs goes on with its own.
    pub fn repin(&self) {
        self.place.ask_repin();
    }

    /// What an embedder should look at: rules of the topic's lists that mean no tool that there is now. They may be
    /// misspelt, or early. From snapshots; never waits.
    pub fn warnings(&self) -> Vec<String> {
        let Some(view) = self.view() else { return Vec::new() };
        let table = self.inner.wiring.registry.table.load();
        let policy = ToolPolicy::of(&view.config.tools, PolicyReach::Everywhere);
        policy.unmatched(table.entries()).iter().map(ToString::to_string).collect()
    }

    pub(crate) async fn command(&self, command: TopicCommand) -> Result<TopicAnswer, TopicError> {
        let ends_work = matches!(command, TopicCommand::Stop { .. });
        let command = Box::new(command);
        let letter = |reply| SessionMsg::Command { command, reply: Some(reply) };
        let told = match ends_work {
            true => self.place.slot.ask_urgently(letter).await?,
            false => self.place.slot.ask(letter).await?,
        };
        told.map_err(TopicError::Rejected)
    }
}

/// Refuses lists of which a rule can mean no tool.
pub(crate) fn usable(lists: &ToolLists) -> Result<(), TopicError> {
    ToolPolicy::faults(lists).map_err(|error| TopicError::Rule { reason: error.to_string() })
}
