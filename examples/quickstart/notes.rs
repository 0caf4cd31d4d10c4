//! Three MCP servers over stdio, built with rmcp: a good one, one that starts slowly, and one that never answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::{ServiceExt, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Error;

#[derive(Clone)]
struct Notes {
    notes: Arc<Mutex<Vec<String>>>,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to remember.
    text: String,
}

#[tool_router(server_handler)]
impl Notes {
    #[tool(description = "Reads all notes", annotations(read_only_hint = true))]
    fn read_notes(&self) -> String {
        self.notes.lock().map(|notes| notes.join("; ")).unwrap_or_default()
    }

    #[tool(description = "Adds a note", annotations(read_only_hint = false, destructive_hint = false))]
    fn add_note(&self, Parameters(Note { text }): Parameters<Note>) -> String {
        let Ok(mut notes) = self.notes.lock() else { return "the notes are lost".to_owned() };
        notes.push(text);
        format!("there are {} notes now", notes.len())
    }
}

#[derive(Clone)]
struct Almanac;

#[derive(Deserialize, JsonSchema)]
struct Harbour {
    /// Which harbour.
    harbour: String,
}

#[tool_router(server_handler)]
impl Almanac {
    #[tool(description = "Tells today's high tide", annotations(read_only_hint = true))]
    fn tide_today(&self, Parameters(Harbour { harbour }): Parameters<Harbour>) -> String {
        format!("high tide at {harbour}: 12:00")
    }
}

/// Serves until the other side closes.
pub(crate) async fn serve(which: &str) -> Result<(), Error> {
    match which {
        "notes" => {
            let notes = Arc::new(Mutex::new(vec!["mend the net".to_owned(), "call the pilot".to_owned()]));
            Notes { notes }.serve(stdio()).await?.waiting().await?;
        }
        "almanac" => {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            Almanac.serve(stdio()).await?.waiting().await?;
        }
        // Reads and never answers, as a server does whose backend is away.
        "silent" => drop(tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?),
        other => return Err(format!("there is no demo server \"{other}\"").into()),
    }
    Ok(())
}
