//! A provider that others wrote: fakellm, a mock of OpenAI's and Anthropic's APIs from PyPI.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pilothouse::models::{Account, Models};
use pilothouse::prelude::*;
use pilothouse::secret::Secret;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::machine;
use crate::remote::{Elsewhere, free_port};

const PATIENCE: Duration = Duration::from_secs(60);

/// What the mock says: two calls at once, then a sentence when their results have come.
const RULES: &str = r#"
version: 1
rules:
  - name: answers
    when:
      tool_result_contains: "high at noon"
    respond:
      content: "The tide is high at noon, and the wind is west."
  - name: asks
    when:
      messages_contain: "tide"
    respond:
      tool_calls:
        - name: tide
          arguments: {harbour: "Brest"}
        - name: wind
          arguments: {}
"#;

fn mock(program: &Path, directory: &Path, port: u16) -> Elsewhere {
    use std::os::unix::process::CommandExt as _;
    let rules = directory.join("fakellm.yaml");
    std::fs::write(&rules, RULES).expect("the rules are written");
    let mut command = Command::new(program);
    command.args(["serve", "--port", &port.to_string(), "--config"]).arg(&rules).current_dir(directory);
    command.env("FAKELLM_CONFIG", &rules).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Elsewhere(command.process_group(0).spawn().expect("the mock starts"))
}

#[tokio::test]
async fn a_mock_provider_that_others_wrote_takes_our_turns_in_both_apis() {
    let Some(program) = machine::installed("fakellm") else { return };
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let _mock = mock(&program, directory.path(), port);
    let up = async {
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, up).await.expect("the mock listens");
    let url = format!("http://127.0.0.1:{port}/v1");
    let key = || Secret::new("not-used");
    let models = Models::new()
        .account("openai", &Account::openai(key()).base_url(&url))
        .and_then(|models| models.account("anthropic", &Account::anthropic(key()).base_url(&url)))
        .expect("the accounts can be used");
    let says = |name: &str, schema, words: &'static str| {
        Function::new(name, "Tells it.", &schema, move |_| async move { Ok(words.to_owned()) })
            .effect(Effect::Reads)
    };
    let harbour = json!({"type": "object", "properties": {"harbour": {"type": "string"}}});
    let runtime = Runtime::builder()
        .function(says("tide", harbour, "high at noon"))
        .function(says("wind", json!({"type": "object"}), "west"))
        .models(models)
        .start()
        .await
        .expect("it starts");
    for model in ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"] {
        let topic = runtime.open_topic(model, TopicConfig::new(model)).await.expect("it opens");
        let mut window = topic.attach().expect("it is open");
        topic.send(format!("When is the tide high? ({model})")).await.expect("it is taken");
        let stop = loop {
            match timeout(PATIENCE, window.next()).await.expect("something happens") {
                Some(TopicEventOut::Update { update: TopicUpdate::TurnFinished { stop, .. }, .. }) => {
                    break stop;
                }
                Some(TopicEventOut::Update { .. }) => {}
                other => panic!("{model}: {other:?}"),
            }
        };
        let turn = topic.view().expect("it is open").turns[0].clone();
        let calls: Vec<_> = turn.steps[0].calls.iter().map(|call| call.tool.as_str()).collect();
        let text = turn.steps.last().map(|step| step.text.as_str());
        assert_eq!(
            (stop, calls, text),
            (
                StopReason::Completed,
                vec!["tide", "wind"],
                Some("The tide is high at noon, and the wind is west.")
            ),
            "{model}"
        );
    }
    runtime.shutdown().await;
}
