//! A runtime with one topic and one window on it, and words for what the window shows.

use std::sync::Arc;
use std::time::Duration;

use pilothouse::Subscription;
use pilothouse::approval::{Card, DecideAnswer, Decision, Guard};
use pilothouse::call::CallResult;
use pilothouse::clock::TokioClock;
use pilothouse::id::ServerId;
use pilothouse::limits::Limits;
use pilothouse::model::scripted::{ScriptedCall, ScriptedModel, Step, ToolRef};
use pilothouse::model::{HistoryItem, Model};
use pilothouse::prelude::*;
use pilothouse::store::Store;
use pilothouse::store::memory::MemoryStore;
use pilothouse::time::Timestamp;
use pilothouse::topic::{HoldReason, Receipt, TopicStatus, TopicView};
use pilothouse::{Builder, ServerHandle};
use pilothouse_harness::peer::{Peer, Script};
use serde_json::Value;
use tokio::time::timeout;

use crate::stores::Slow;

/// Longer than any bound of the runtime but an approval's patience; virtual, so it costs nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// How long a batch takes unless a test brings its own store.
pub(crate) const LATENCY: Duration = Duration::from_millis(1);

/// A runtime that is being set up.
pub(crate) struct Setup {
    builder: Builder,
    store: Arc<dyn Store>,
    models: Vec<Arc<dyn Model>>,
    limits: Limits,
    config: TopicConfig,
    warm: bool,
}

/// A topic whose model plays these steps.
pub(crate) fn plays(steps: impl IntoIterator<Item = Step>) -> Setup {
    thinks(Arc::new(ScriptedModel::new(steps.into_iter().collect())))
}

/// A topic with this model, which the test keeps.
pub(crate) fn thinks(model: Arc<dyn Model>) -> Setup {
    let clock = TokioClock::starting_at(Timestamp(1_750_000_000_000));
    Setup {
        builder: Runtime::builder().clock(clock),
        store: Arc::new(Slow::over(MemoryStore::new(), LATENCY)),
        models: vec![model],
        limits: Limits::default(),
        config: TopicConfig::new("main"),
        warm: true,
    }
}

impl Setup {
    pub(crate) fn peer(self, id: &str, peer: &Arc<Peer>) -> Self {
        let definition = Server::in_memory(id, peer.clone()).effect("look", Effect::Reads);
        self.server(definition)
    }

    pub(crate) fn server(mut self, server: Server) -> Self {
        self.builder = self.builder.server(server);
        self
    }

    pub(crate) fn function(mut self, function: Function) -> Self {
        self.builder = self.builder.function(function);
        self
    }

    pub(crate) fn build(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    pub(crate) fn guard(mut self, guard: impl Guard) -> Self {
        self.builder = self.builder.guard(guard);
        self
    }

    pub(crate) fn store(mut self, store: impl Store) -> Self {
        self.store = Arc::new(store);
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut TopicConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Another model, under the name `other`.
    pub(crate) fn other(mut self, model: Arc<dyn Model>) -> Self {
        self.models.push(model);
        self
    }

    /// Does not wait for any server.
    pub(crate) fn cold(mut self) -> Self {
        self.warm = false;
        self
    }

    pub(crate) async fn start(self) -> Runtime {
        let models = self.models;
        let resolver = move |name: &str| match name {
            "main" => models.first().cloned(),
            "other" => models.get(1).cloned(),
            _ => None,
        };
        let runtime = self
            .builder
            .store(self.store)
            .models(resolver)
            .limits(self.limits)
            .start()
            .await
            .expect("it starts");
        if self.warm {
            runtime.warm(PATIENCE).await;
        }
        runtime
    }

    pub(crate) async fn raise(self) -> Stage {
        let config = self.config.clone();
        let runtime = self.start().await;
        Stage::on(runtime, "t", config).await
    }
}

/// A runtime, a topic and a window.
pub(crate) struct Stage {
    pub(crate) runtime: Runtime,
    pub(crate) topic: Topic,
    pub(crate) window: Subscription,
}

impl Stage {
    pub(crate) async fn on(runtime: Runtime, topic: &str, config: TopicConfig) -> Self {
        let topic = runtime.open_topic(topic, config).await.expect("the topic opens");
        let window = topic.attach().expect("it is open");
        Self { runtime, topic, window }
    }

    pub(crate) async fn say(&self, text: &str) -> Receipt {
        self.topic.send(text).await.expect("the message is taken").receipt
    }

    /// The window is told that it lags, as after a restart of the session, and attaches again.
    pub(crate) async fn attach_again(&mut self) {
        loop {
            match timeout(PATIENCE, self.window.next()).await {
                Ok(Some(TopicEventOut::Update { .. })) => {}
                Ok(Some(TopicEventOut::Lagged { .. })) => break,
                other => panic!("the window is not told that it lags, but {other:?}"),
            }
        }
        self.window = self.topic.attach().expect("it is open");
    }

    /// The next update.
    pub(crate) async fn next(&mut self) -> TopicUpdate {
        match timeout(PATIENCE, self.window.next()).await {
            Ok(Some(TopicEventOut::Update { update, .. })) => update,
            Ok(other) => panic!("the window shows no update, but {other:?}"),
            Err(_elapsed) => panic!("nothing more happens: {:?}, {:?}", self.status(), self.messages()),
        }
    }

    /// What is shown up to and with the first update that fits, in words.
    pub(crate) async fn until(&mut self, mut fits: impl FnMut(&TopicUpdate) -> bool) -> Vec<String> {
        let mut shown = Vec::new();
        loop {
            let update = self.next().await;
            shown.extend(told(&update));
            if fits(&update) {
                return shown;
            }
        }
    }

    /// What is shown until nothing runs any more: the topic rests, or waits for a person.
    pub(crate) async fn until_rest(&mut self) -> Vec<String> {
        let rests = |update: &TopicUpdate| match update {
            TopicUpdate::Status(status) => match status {
                TopicStatus::Pending | TopicStatus::Streaming => false,
                TopicStatus::Idle
                | TopicStatus::AwaitingApproval
                | TopicStatus::Done
                | TopicStatus::Error
                | TopicStatus::Aborted => true,
            },
            _ => false,
        };
        let mut shown = self.until(rests).await;
        shown.extend(self.shown_already());
        shown
    }

    /// What the window shows without waiting.
    pub(crate) fn shown_already(&mut self) -> Vec<String> {
        let mut shown = Vec::new();
        while let Some(TopicEventOut::Update { update, .. }) = self.window.try_next() {
            shown.extend(told(&update));
        }
        shown
    }

    pub(crate) async fn until_status(&mut self, wanted: TopicStatus) -> Vec<String> {
        self.until(|update| *update == TopicUpdate::Status(wanted)).await
    }

    pub(crate) async fn until_running(&mut self) -> Vec<String> {
        let mut shown = self.until(|update| matches!(update, TopicUpdate::ToolStarted { .. })).await;
        shown.extend(self.shown_already());
        shown
    }

    pub(crate) async fn until_card(&mut self) -> Card {
        loop {
            if let TopicUpdate::ApprovalRequested(card) = self.next().await {
                return *card;
            }
        }
    }

    /// How the next turn that ends ends.
    pub(crate) async fn until_end(&mut self) -> StopReason {
        loop {
            if let TopicUpdate::TurnFinished { stop, .. } = self.next().await {
                return stop;
            }
        }
    }

    pub(crate) async fn decide(&self, card: &Card, decision: Decision) -> DecideAnswer {
        self.runtime.decide(card.approval, decision).await.expect("the ledger answers")
    }

    pub(crate) fn view(&self) -> Arc<TopicView> {
        self.topic.view().expect("it is open")
    }

    pub(crate) fn status(&self) -> TopicStatus {
        self.view().status
    }

    /// Every message with its place, in the order of their ids.
    pub(crate) fn messages(&self) -> Vec<String> {
        messages(&self.view())
    }

    /// Every result of every call, in order.
    pub(crate) fn results(&self) -> Vec<CallResult> {
        let view = self.view();
        let calls = view.turns.iter().flat_map(|turn| &turn.steps).flat_map(|step| &step.calls);
        let results = calls.filter_map(|call| match &call.state {
            pilothouse::topic::CallState::Finished(result) => Some(result.clone()),
            pilothouse::topic::CallState::Awaiting { .. } | pilothouse::topic::CallState::Running => None,
        });
        results.collect()
    }

    pub(crate) fn server(&self, id: &str) -> ServerHandle {
        server(&self.runtime, id)
    }
}

pub(crate) fn server(runtime: &Runtime, id: &str) -> ServerHandle {
    runtime.server(&ServerId::new(id).expect("it is an id")).expect("the server is defined")
}

/// Every message of a view with its place, in the order of their ids.
pub(crate) fn messages(view: &TopicView) -> Vec<String> {
    let of_turns = view.turns.iter().flat_map(|turn| &turn.messages);
    let mut all: Vec<_> = of_turns.chain(&view.queue).chain(&view.held).collect();
    all.sort_by_key(|message| message.message);
    all.iter().map(|message| format!("{} {}", message.text, place(&message.receipt))).collect()
}

pub(crate) fn place(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Accepted { turn } => format!("accepted({turn})"),
        Receipt::Queued { position } => format!("queued({position})"),
        Receipt::Answered { turn } => format!("answered({turn})"),
        Receipt::Held { reason } => format!("held({})", why(*reason)),
        Receipt::Injected { turn, step } => format!("injected({turn}.{step})"),
        Receipt::Dropped { by } => format!("dropped({by})"),
    }
}

fn why(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Aborted => "aborted",
        HoldReason::TurnEnded => "turn_ended",
        HoldReason::ProcessRestart => "process_restart",
        HoldReason::SessionRestart => "session_restart",
        HoldReason::ShutDown => "shut_down",
    }
}

/// One update in a few words; what a model only shows while it writes has tests of its own.
fn told(update: &TopicUpdate) -> Option<String> {
    let passing = matches!(update, TopicUpdate::Reasoning { .. } | TopicUpdate::ToolInput { .. });
    (!passing).then(|| words(update))
}

/// One update in a few words.
pub(crate) fn words(update: &TopicUpdate) -> String {
    let on = |tool: &String, server: &Option<String>| server.clone().unwrap_or_else(|| tool.clone());
    match update {
        TopicUpdate::Status(status) => format!("{status:?}").to_lowercase(),
        TopicUpdate::Receipt { message, receipt } => format!("message {message} {}", place(receipt)),
        TopicUpdate::TurnStarted { turn, messages } => {
            let messages: Vec<_> = messages.iter().map(ToString::to_string).collect();
            format!("turn {turn} begins with {}", messages.join(","))
        }
        TopicUpdate::Text { turn: _, delta } => format!("\"{delta}\""),
        TopicUpdate::StepFinished { turn, step } => format!("step {turn}.{step} ends"),
        TopicUpdate::ToolStarted { call, tool, server } => format!("call {call} on {}", on(tool, server)),
        TopicUpdate::ToolFinished { call, result, .. } => format!("call {call} {}", said(result)),
        TopicUpdate::ApprovalRequested(card) => format!("card {}", card.call),
        TopicUpdate::ApprovalSettled { state, by, .. } => {
            format!("card {state:?} by {}", by.as_deref().unwrap_or("nobody")).to_lowercase()
        }
        TopicUpdate::TurnFinished { turn, stop } => format!("turn {turn} {}", stop.name()),
        TopicUpdate::Reasoning { delta, .. } => format!("thinks \"{delta}\""),
        TopicUpdate::ToolInput { index, tool, delta, .. } => format!("writes {index} {tool} {delta}"),
        TopicUpdate::MessageChanged { message, text, level } => {
            format!("message {message} is \"{text}\", {}", level.name())
        }
        TopicUpdate::HistoryShortened { left_out, .. } => format!("history without {left_out} turns"),
        TopicUpdate::NestedStarted { call, number, tool, server } => {
            format!("call {call}/{number} on {}", on(tool, server))
        }
        TopicUpdate::NestedFinished { call, number, result, .. } => {
            format!("call {call}/{number} {}", said(result))
        }
    }
}

/// A result in a few words.
pub(crate) fn said(result: &CallResult) -> String {
    format!("{:?}: {}", result.outcome, result.text()).to_lowercase()
}

/// A scripted server.
pub(crate) fn peer(script: Value) -> Arc<Peer> {
    Peer::new(Script::try_from(script).expect("the script is one"))
}

/// A step that calls one tool of a server.
pub(crate) fn call(server: &str, tool: &str, arguments: Value) -> Step {
    Step::call(ToolRef::of_server(server, tool), arguments)
}

/// A step that calls these tools of servers, at once.
pub(crate) fn calls<const N: usize>(tools: [(&str, &str, Value); N]) -> Step {
    let called = tools
        .map(|(server, tool, arguments)| ScriptedCall { tool: ToolRef::of_server(server, tool), arguments });
    Step { calls: called.into(), ..Step::default() }
}

/// A step that calls one function.
pub(crate) fn call_function(name: &str, arguments: Value) -> Step {
    Step::call(ToolRef::Name(name.to_owned()), arguments)
}

/// Goes to the end of the line, once: everything else that can run now runs one step. (`yield_now` comes back only
/// when nothing else can run.)
pub(crate) async fn step_back() {
    let mut stepped = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Lets everything that can run without time passing run.
pub(crate) async fn settle() {
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

/// Waits until this holds, looking every millisecond.
pub(crate) async fn holds(what: &str, mut fact: impl FnMut() -> bool) {
    let looking = async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(PATIENCE, looking).await.is_ok(), "not in {PATIENCE:?}: {what}");
}

/// Providers refuse a history in which a call has no result, two, or one out of its place.
pub(crate) fn assert_acceptable(history: &[HistoryItem]) {
    let mut owed = Vec::new();
    for item in history {
        match item {
            HistoryItem::User { text } => {
                assert!(owed.is_empty(), "\"{text}\" comes before the results of {owed:?}");
            }
            HistoryItem::Assistant { text, calls } => {
                assert!(owed.is_empty(), "\"{text}\" comes before the results of {owed:?}");
                owed.extend(calls.iter().map(|call| call.call));
            }
            HistoryItem::Tool { call, .. } => {
                let place = owed.iter().position(|asked| asked == call);
                let place = place.unwrap_or_else(|| panic!("a result of {call} that nobody waits for"));
                owed.remove(place);
            }
        }
    }
    assert!(owed.is_empty(), "{owed:?} have no result");
}

/// A store in memory, which the test keeps.
pub(crate) fn memory() -> MemoryStore {
    MemoryStore::new()
}
