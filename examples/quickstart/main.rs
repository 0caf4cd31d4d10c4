//! The main job from end to end: no network, no key, no other install.
//!
//! You will see: a runtime with four servers (one good, one slow to start, one that never answers, one that does not
//! exist); a first turn that does not wait for the bad ones; a tool that only reads and runs at once; a tool that
//! changes something and asks you; a second message that makes the first turn yield and is answered by a chained turn,
//! with a tool that was cold before; and at the end the supervision tree. Run it with `--data DIR` twice to see the
//! history, and the tools, before any server has answered.
//!
//! With `--model NAME` a real model does the job: `openai/…` and `anthropic/…` with the key in `OPENAI_API_KEY` or
//! `ANTHROPIC_API_KEY` (add `--features rustls`), `local/…` with whatever speaks OpenAI's chat completions at
//! `OPENAI_BASE_URL` (by default an Ollama on this machine). What it says and calls is then its own.

mod job;
mod models;
mod notes;
mod timeline;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use pilothouse::model::scripted::{ScriptedModel, Step, ToolRef};
use pilothouse::models::Models;
use pilothouse::prelude::*;
use serde_json::json;

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        // The example's own binary, executed again, is also the MCP servers.
        ["--serve", which] => notes::serve(which).await,
        [] => quickstart(None, DEMO).await,
        ["--data", directory] => quickstart(Some(PathBuf::from(directory)), DEMO).await,
        ["--model", name] => quickstart(None, name).await,
        ["--data", directory, "--model", name] | ["--model", name, "--data", directory] => {
            quickstart(Some(PathBuf::from(directory)), name).await
        }
        _ => Err("usage: quickstart [--data DIR] [--model NAME]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error's source says why; its own words say what was being done.
            eprintln!("quickstart: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// The name of the scripted model.
const DEMO: &str = "demo";

async fn quickstart(keep: Option<PathBuf>, model: &str) -> Result<(), Error> {
    let accounts = if model == DEMO { Models::new() } else { models::of(model)? };
    let scratch = tempfile::tempdir()?;
    let data = keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    let me = std::env::current_exe()?;
    let own = |id: &str| Server::stdio(id, me.to_string_lossy()).arg("--serve").arg(id).trust_annotations();
    let runtime = Runtime::builder()
        .data_dir(&data)
        .server(own("notes"))
        .server(own("almanac"))
        .server(own("silent"))
        .server(Server::stdio("missing", "no-such-mcp-server"))
        .model(DEMO, ScriptedModel::new(script()))
        .models(accounts)
        .start()
        .await?;
    job::run(&runtime, model).await?;
    match keep {
        Some(directory) => {
            say(&format!("\nData is kept in {}. Run it again to see it.", directory.display()))
        }
        None => {
            say(&format!("\nData was kept in {} and goes with it; `--data DIR` keeps it.", data.display()))
        }
    }
    let ended = runtime.shutdown().await;
    say(if ended.is_clean() { "Shut down in order." } else { "Shut down, with force." });
    Ok(())
}

fn say(words: &str) {
    // A reader that has gone (`| head`) has seen enough.
    let _gone = writeln!(std::io::stdout(), "{words}");
}

/// What the demo's model says and calls, in order; every fact comes from the tools.
fn script() -> Vec<Step> {
    let tool = |server: &str, tool: &str| ToolRef::of_server(server, tool);
    let say = |text: &str, step: Step| Step { text: Some(text.to_owned()), ..step };
    vec![
        say("Let me look at your notes.", Step::call(tool("notes", "read_notes"), json!({}))),
        say("I would add one.", Step::call(tool("notes", "add_note"), json!({"text": "buy lamp oil"}))),
        say("Now the almanac.", Step::call(tool("almanac", "tide_today"), json!({"harbour": "Whitby"}))),
        Step::text("Lamp oil is on the list, and the tide is high at noon."),
    ]
}
