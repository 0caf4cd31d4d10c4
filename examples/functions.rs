//! A model that calls functions of your own program: one that only reads and runs at once, one that asks first.
//!
//! You will see: the count of a text, a card for the function that sends something, a denial, and how the model is told.

use std::error::Error;

use pilothouse::model::scripted::{ScriptedModel, Step, ToolRef};
use pilothouse::prelude::*;
use pilothouse::tool::Caller;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The arguments of both functions; their schema follows from this type.
#[derive(Deserialize, JsonSchema)]
struct Report {
    /// The text.
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count =
        Function::typed("count_words", "Counts the words of a text", async |report: Report, _: Caller| {
            Ok::<_, String>(format!("{} words", report.text.split_whitespace().count()))
        });
    let send =
        Function::typed("send_mail", "Sends a text to the harbour master", async |_: Report, _: Caller| {
            Ok::<_, String>("sent")
        });
    let text = json!({"text": "all is well aboard"});
    let script = vec![
        Step::call(ToolRef::Name("count_words".into()), text.clone()),
        Step::call(ToolRef::Name("send_mail".into()), text),
        Step::text("I counted the words; the mail was not sent."),
    ];
    let runtime = Runtime::builder()
        .function(count.effect(Effect::Reads))
        .function(send.effect(Effect::OpenWorld))
        .model("demo", ScriptedModel::new(script))
        .start()
        .await?;
    let topic = runtime.open_topic("mail", TopicConfig::new("demo")).await?;
    let mut window = topic.attach().ok_or("the topic is not open")?;
    topic.send("Count the words of my report, and send it.").await?;
    while let Some(TopicEventOut::Update { update, .. }) = window.next().await {
        match update {
            TopicUpdate::ToolFinished { tool, result, .. } => {
                println!("{tool}: {:?}: {}", result.outcome, result.text())
            }
            TopicUpdate::ApprovalRequested(card) => {
                println!("{} asks, because {}; arguments {}", card.tool, card.reason, card.arguments);
                let answer =
                    runtime.decide(card.approval, Decision::deny("me", "not today").of(&card)).await?;
                println!("denied: {answer:?}");
            }
            TopicUpdate::Text { delta, .. } => println!("model: {delta}"),
            TopicUpdate::TurnFinished { stop, .. } => {
                println!("the turn {}", stop.name());
                break;
            }
            _ => {}
        }
    }
    runtime.shutdown().await;
    Ok(())
}
