//! A program with an agent loop of its own: it takes a topic's surface for its own model, and calls tools through the
//! topic's gate. No turn of Pilothouse's ever runs.
//!
//! You will see: what its model would be shown, and how many tools it would find by search instead; a call that runs,
//! one that is denied because only a turn can ask a person, and one that the topic's list forbids.

use std::error::Error;

use pilothouse::model::scripted::ScriptedModel;
use pilothouse::prelude::*;
use pilothouse::tool::{Defer, ToolLists};
use serde_json::{Value, json};

/// A function of the harbour; those of the almanac are many, so they are found by search where that pays.
fn function(name: &str, description: &str, effect: Effect) -> Function {
    let said = format!("{name} did it");
    let schema = json!({"type": "object", "properties": {"ship": {"type": "string"}}});
    Function::new(name, description, &schema, move |_| {
        let said = said.clone();
        async move { Ok(said) }
    })
    .effect(effect)
}

/// What this program's own model asks for, one call after the other.
fn replies() -> [(&'static str, Value); 3] {
    let ship = json!({"ship": "Argo"});
    [("berth_of", ship.clone()), ("sound_horn", ship.clone()), ("open_lock", ship)]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Runtime::builder()
        // Only the name counts: this program has its own model.
        .model("own", ScriptedModel::new(Vec::new()))
        .function(function("berth_of", "Says where a ship lies", Effect::Reads))
        .function(function("sound_horn", "Sounds the horn", Effect::OpenWorld))
        .function(function("open_lock", "Opens the lock", Effect::Reads));
    for year in 1900..2000 {
        let description =
            format!("Tides, lights and notices to mariners of the year {year}, by port and by day");
        let almanac = function(&format!("almanac_{year}"), &description, Effect::Reads);
        builder = builder.function(almanac.namespace("almanac").defer(Defer::Auto));
    }
    let runtime = builder.start().await?;
    let mut config = TopicConfig::new("own");
    config.context_window = Some(16_000);
    config.tools = ToolLists { allow: None, deny: vec!["open_lock".into()] };
    let topic = runtime.open_topic("harbour", config).await?;

    let surface = topic.surface().ok_or("the topic is not open")?;
    for tool in &surface.tools {
        println!("shown: {}", tool.name);
    }
    for group in &surface.deferred {
        println!("found by search: {} of {}", group.count, group.label);
    }
    if let Some(report) = &surface.deferral {
        println!("a request is smaller by {} tokens", report.saved);
    }
    for (tool, arguments) in replies() {
        let result = topic.call(tool, &arguments).await?;
        println!("{tool}: {:?}: {}", result.outcome, result.text());
    }
    runtime.shutdown().await;
    Ok(())
}
