//! Whole turns with models of providers: a runtime, its tools and its journal, before a provider that refuses what the
//! real ones refuse.
#![cfg(feature = "models")]

use std::sync::Arc;
use std::time::Duration;

use pilothouse::model::ModelResolver;
use pilothouse::models::{Account, Models};
use pilothouse::prelude::*;
use pilothouse::secret::Secret;
use pilothouse::topic::{TopicStatus, TopicView};
use serde_json::{Value, json};
use tokio::time::timeout;

#[allow(dead_code, reason = "single bytes are for the wire's own tests")]
#[path = "../adapters/tests/models/provider.rs"]
mod provider;
#[path = "../adapters/tests/models/strict.rs"]
mod strict;
use provider::{Answer, Provider};

const PATIENCE: Duration = Duration::from_secs(30);
const APIS: [&str; 2] = ["openai", "anthropic"];

/// A reply in the words of an API: text, and calls of these names with these arguments.
fn reply(api: &str, text: &str, calls: &[(&str, Value)]) -> Answer {
    let mut events = String::new();
    let mut say = |event: Value| {
        let kind = event["type"].as_str().map(|kind| format!("event: {kind}\n")).unwrap_or_default();
        events.push_str(&format!("{kind}data: {event}\n\n"));
    };
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    if api == "openai" {
        say(chunk(json!({"role": "assistant", "content": text}), Value::Null));
        for (index, (name, arguments)) in calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"index": index, "id": "call_same", "type": "function", "function": function});
            say(chunk(json!({"tool_calls": [call]}), Value::Null));
        }
        say(chunk(json!({}), if calls.is_empty() { "stop" } else { "tool_calls" }.into()));
        say(json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}));
        events.push_str("data: [DONE]\n\n");
        return Answer::Events(events);
    }
    say(json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}));
    say(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}}));
    say(json!({"type": "content_block_stop", "index": 0}));
    for (index, (name, arguments)) in (1..).zip(calls) {
        let block = json!({"type": "tool_use", "id": "toolu_same", "name": name, "input": {}});
        say(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
        say(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        say(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    say(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}));
    say(json!({"type": "message_stop"}));
    Answer::Events(events)
}

struct Stage {
    runtime: Runtime,
    topic: Topic,
    window: pilothouse::Subscription,
}

impl Stage {
    async fn raise(api: &str, provider: &Provider) -> Self {
        let key = Secret::new("sk-canary-0123456789");
        let account = match api {
            "openai" => Account::openai(key),
            _ => Account::anthropic(key),
        };
        let account = account.base_url(provider.url()).system("You are a pilot.").context_window(100_000);
        let models = Models::new().account("acc", &account).expect("the account can be used");
        let look =
            |asked: pilothouse::tool::Invocation| async move { Ok(format!("at {}", asked.arguments["at"])) };
        let schema =
            json!({"type": "object", "properties": {"at": {"type": ["integer", "null"], "minimum": 0}}});
        let runtime = Runtime::builder()
            .function(Function::new("look", "Looks.", &schema, look).effect(Effect::Reads))
            .function(Function::new("act", "Acts.", &schema, look))
            .models(models)
            .start()
            .await
            .expect("it starts");
        let topic = runtime.open_topic("t", TopicConfig::new("acc/m-1")).await.expect("it opens");
        let window = topic.attach().expect("it is open");
        Self { runtime, topic, window }
    }

    async fn update(&mut self) -> TopicUpdate {
        match timeout(PATIENCE, self.window.next()).await {
            Ok(Some(TopicEventOut::Update { update, .. })) => update,
            other => panic!("no update, but {other:?}: {:?}", self.view().turns.last()),
        }
    }

    /// How the next turn ends; cards are denied.
    async fn until_end(&mut self) -> StopReason {
        loop {
            match self.update().await {
                TopicUpdate::TurnFinished { stop, .. } => return stop,
                TopicUpdate::ApprovalRequested(card) => {
                    let denied = Decision::deny("ann", "not today");
                    self.runtime.decide(card.approval, denied).await.expect("the ledger answers");
                }
                _ => {}
            }
        }
    }

    fn view(&self) -> Arc<TopicView> {
        self.topic.view().expect("it is open")
    }
}

#[tokio::test]
async fn a_conversation_with_parallel_unknown_and_denied_calls_is_always_taken_by_a_strict_provider() {
    for api in APIS {
        let odd = [
            ("look", json!({"at": 1})),
            ("no such tool!", json!({})),
            ("look", json!({"at": "nowhere"})),
            ("act", json!({"at": 2})),
            ("look", json!([1, 2])),
        ];
        let answers = [
            reply(api, "Let me see.", &odd),
            reply(api, "", &[("look", json!({"at": 3}))]),
            reply(api, "Done.", &[]),
            reply(api, "Again.", &[]),
        ];
        let provider = Provider::start(answers).await;
        let mut stage = Stage::raise(api, &provider).await;
        for text in ["Go.", "Go on."] {
            stage.topic.send(text).await.expect("it is taken");
            assert_eq!(stage.until_end().await, StopReason::Completed, "{api}");
        }
        assert_eq!(provider.seen().len(), 4, "{api}");
        let turn = stage.view().turns[0].clone();
        let states: Vec<_> = turn.steps[0].calls.iter().map(|call| format!("{:?}", call.state)).collect();
        let outcomes = ["Succeeded", "Rejected", "Rejected", "Denied", "Rejected"];
        for (state, outcome) in states.iter().zip(outcomes) {
            assert!(state.contains(outcome), "{api}: {state} instead of {outcome}");
        }
        assert_eq!((turn.usage.input, turn.usage.output), (30, 6), "{api}");
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_reply_closes_the_connection_and_the_next_turn_is_taken() {
    for api in APIS {
        let Answer::Events(whole) = reply(api, "Once upon", &[]) else { panic!("it is a stream") };
        let cut =
            whole.find("Once upon").map_or(0, |at| at + whole[at..].find("\n\n").unwrap_or_default() + 2);
        let provider =
            Provider::start([Answer::Hang(whole[..cut].to_owned()), reply(api, "Fine.", &[])]).await;
        let mut closed = provider.closed();
        let mut stage = Stage::raise(api, &provider).await;
        stage.topic.send("Go.").await.expect("it is taken");
        while !matches!(stage.update().await, TopicUpdate::Text { .. }) {}
        stage.topic.stop("ann").await.expect("it is there");
        assert_eq!(stage.until_end().await, StopReason::Aborted, "{api}");
        let seen = timeout(PATIENCE, closed.wait_for(|closed| *closed == 1)).await;
        seen.expect("the provider sees that nobody reads").expect("it runs");
        stage.topic.send("And now?").await.expect("it is taken");
        assert_eq!(stage.until_end().await, StopReason::Completed, "{api}");
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_when_it_wants_and_a_refusal_is_told_without_the_key() {
    for api in APIS {
        let busy = Answer::Refuse { status: 429, headers: "retry-after: 0\r\n", body: String::new() };
        let refused = json!({"error": {"message": "wrong key sk-canary-0123456789"}}).to_string();
        let refused = Answer::Refuse { status: 401, headers: "", body: refused };
        let provider = Provider::start([busy, reply(api, "Fine.", &[]), refused]).await;
        let mut stage = Stage::raise(api, &provider).await;
        stage.topic.send("Go.").await.expect("it is taken");
        assert_eq!((stage.until_end().await, provider.seen().len()), (StopReason::Completed, 2), "{api}");
        stage.topic.send("Go on.").await.expect("it is taken");
        let words = "the model's provider answered 401: wrong key <secret>";
        assert_eq!(stage.until_end().await, StopReason::Failed(words.to_owned()), "{api}");
        assert_eq!(stage.view().status, TopicStatus::Error);
    }
}

#[tokio::test]
async fn a_model_of_an_account_gives_its_topics_their_window() {
    let provider = Provider::start([]).await;
    let stage = Stage::raise("openai", &provider).await;
    let report = stage.topic.surface().and_then(|view| view.deferral.as_ref().map(|report| report.window));
    assert_eq!(report, Some(100_000));
    assert!(Models::new().resolve("acc/m-1").is_none());
}
