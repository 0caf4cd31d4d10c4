//! The harness as a program.

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pilothouse_harness::peer::{Peer, Script};

/// The input is wrong.
const WRONG_INPUT: u8 = 2;

#[derive(Parser)]
#[command(name = "pilothouse-harness", version, about = "Scripted MCP servers for tests")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves MCP as a script says, faults included.
    Peer {
        /// The script: JSON, or the path of a file that holds it.
        script: String,
        /// Serve on standard input and output (the default).
        #[arg(long, conflicts_with_all = ["http", "sse"])]
        stdio: bool,
        /// Serve Streamable HTTP at this address: not available in this version.
        #[arg(long, value_name = "ADDR", hide = true)]
        http: Option<String>,
        /// Serve HTTP+SSE at this address: not available in this version.
        #[arg(long, value_name = "ADDR", hide = true)]
        sse: Option<String>,
    },
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let ended = match command {
        Command::Peer { http: Some(_), .. } => {
            Err("--http is not available in this version: use --stdio".into())
        }
        Command::Peer { sse: Some(_), .. } => {
            Err("--sse is not available in this version: use --stdio".into())
        }
        Command::Peer { script, stdio: _, http: None, sse: None } => serve(&script),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("pilothouse-harness: {reason}");
            ExitCode::from(WRONG_INPUT)
        }
    }
}

fn serve(script: &str) -> Result<(), String> {
    let peer = Peer::new(read_script(script)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the runtime does not start: {error}"))?;
    runtime.block_on(peer.serve(tokio::io::stdin(), tokio::io::stdout()));
    // A thread may still wait in a read of standard input, and nothing can wake it: leave without it.
    runtime.shutdown_background();
    Ok(())
}

/// JSON begins with a brace, and no path that anybody uses does.
fn read_script(script: &str) -> Result<Script, String> {
    let text = if script.trim_start().starts_with('{') {
        script.to_owned()
    } else {
        std::fs::read_to_string(Path::new(script))
            .map_err(|error| format!("the script \"{script}\" cannot be read: {error}"))?
    };
    text.parse::<Script>().map_err(|error| error.to_string())
}
