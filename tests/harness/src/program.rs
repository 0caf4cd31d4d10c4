//! The program: what it is asked for on its command line, and what it answers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::Runtime;

use crate::audit;
use crate::driver::{self, Ended, Options};
use crate::peer::{HttpKind, Peer, Script};
use crate::storm::paused;

mod soak;
mod storms;

use storms::{Asked, How};

/// An expectation did not hold.
const MISSED: u8 = 1;
/// Has glibc use so many heaps.
const ONE_HEAP: &str = "MALLOC_ARENA_MAX";
/// The input is wrong.
const WRONG_INPUT: u8 = 2;

#[derive(Parser)]
#[command(
    name = "pilothouse-harness",
    version,
    about = "Drives a Pilothouse runtime; serves scripted MCP servers; audits a store"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Does the lines of a file, and prints what happens. Exit 0: every expectation held; 1: one did not; 2: the input
    /// is wrong.
    Run {
        /// The file; `-` for standard input.
        #[arg(default_value = "-")]
        file: String,
        /// Where the data is kept; without it, in a directory that goes with the run.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Which clock; in virtual time waiting takes no time, and all is in memory: the data, and servers.
        #[arg(long, value_enum, default_value = "real")]
        clock: Clock,
        /// Seeds the jitter of restart delays.
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
    },
    /// Plays seeded storms in virtual time. Exit 0: every promise held; 1: one was broken, or something was never reached;
    /// 2: the input is wrong.
    Storm {
        /// The seeds, without the last one: FROM..TO.
        #[arg(long, value_name = "FROM..TO")]
        seeds: String,
        /// Which disasters there may be.
        #[arg(long, value_name = "NAME", default_value = "all")]
        plan: String,
        /// Lines that say who is on stage: `server` with a `peer`, and `topic`.
        #[arg(long, value_name = "FILE")]
        scene: Option<String>,
        /// Storms at the same time (default: as many as there are processors).
        #[arg(long, value_name = "N")]
        jobs: Option<usize>,
        /// Prints everything that happens.
        #[arg(long)]
        trace: bool,
        /// Plays each seed twice and compares what happened, byte for byte; prints a digest of each.
        #[arg(long)]
        guard: bool,
        /// Ends at the first seed that breaks a promise, and says how many it took.
        #[arg(long)]
        first: bool,
        /// Prints what broke a promise as it is, without making it small.
        #[arg(long)]
        no_shrink: bool,
    },
    /// Steady load with faults for a while; prints what the process holds meanwhile. Exit 0: nothing grew; 1: something
    /// did, or a topic hung; 2: the input is wrong.
    Soak {
        /// How long.
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
    },
    /// Serves MCP as a script says, faults included.
    Peer {
        /// The script: JSON, or the path of a file that holds it.
        script: String,
        /// Serve on standard input and output (the default).
        #[arg(long, conflicts_with_all = ["http", "sse"])]
        stdio: bool,
        /// Serve Streamable HTTP at this address (port 0: a free one); the URL is the first line of the output.
        #[arg(long, value_name = "ADDR", conflicts_with = "sse")]
        http: Option<String>,
        /// Serve HTTP+SSE at this address (port 0: a free one); the URL is the first line of the output.
        #[arg(long, value_name = "ADDR")]
        sse: Option<String>,
    },
    /// Reads the data of a runtime that does not run: who allowed what, on which basis each call ran, and whether the
    /// chain of the ledger holds. Reads a copy; nothing in DIR is changed. Exit 0: all adds up; 1: something does not;
    /// 2: the directory cannot be read.
    Audit {
        /// The data directory.
        directory: PathBuf,
        /// Print JSON Lines: a record a line, then a fault a line.
        #[arg(long)]
        json: bool,
    },
}

/// How an audit is printed.
#[derive(Clone, Copy)]
enum Form {
    Words,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum Clock {
    Real,
    Virtual,
}

impl From<Clock> for driver::Clock {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Real => Self::Real,
            Clock::Virtual => Self::Virtual,
        }
    }
}

/// Does what the command line asks for; what the process is to end with.
pub fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let ended = match command {
        Command::Run { data: Some(_), clock: Clock::Virtual, .. } => {
            Err("--clock virtual keeps its data in memory: leave --data out, or use --clock real".into())
        }
        Command::Run { file, data, clock, seed } => run(&file, Options { data, seed, clock: clock.into() }),
        Command::Audit { directory, json } => {
            audited(&directory, if json { Form::Json } else { Form::Words })
        }
        Command::Storm { seeds, plan, scene, jobs, trace, guard, first, no_shrink } => {
            let how = match (guard, first, trace) {
                (true, _, _) => How::Guard,
                (false, true, _) => How::First,
                (false, false, true) => How::Trace,
                (false, false, false) => How::Batch,
            };
            let asked = Asked { how, shrinks: !no_shrink, jobs };
            storms::run(&seeds, &plan, scene.as_deref(), &asked)
        }
        Command::Soak { seconds } => soak(seconds),
        Command::Peer { script, http: Some(address), .. } => listen(&script, &address, HttpKind::Streamable),
        Command::Peer { script, sse: Some(address), .. } => listen(&script, &address, HttpKind::Sse),
        Command::Peer { script, stdio: _, http: None, sse: None } => serve(&script),
    };
    match ended {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("pilothouse-harness: {reason}");
            ExitCode::from(WRONG_INPUT)
        }
    }
}

fn run(file: &str, options: Options) -> Result<ExitCode, String> {
    // Logs are asked for with RUST_LOG and go where no line is expected.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let tokio = started(match options.clock {
        driver::Clock::Real => {
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
        }
        driver::Clock::Virtual => paused(options.seed),
    })?;
    let out = Box::new(std::io::stdout());
    let ended = tokio.block_on(async {
        if file == "-" {
            return driver::run(tokio::io::stdin(), out, options).await.map_err(|error| error.to_string());
        }
        let input = tokio::fs::File::open(file).await;
        let input = input.map_err(|error| format!("\"{file}\" cannot be read: {error}"))?;
        driver::run(input, out, options).await.map_err(|error| error.to_string())
    });
    leave(tokio);
    Ok(match ended? {
        Ended::Held => ExitCode::SUCCESS,
        Ended::Missed => ExitCode::from(MISSED),
        Ended::WrongInput => ExitCode::from(WRONG_INPUT),
    })
}

fn audited(directory: &Path, form: Form) -> Result<ExitCode, String> {
    let tokio = started(tokio::runtime::Builder::new_current_thread().enable_all().build())?;
    let report = tokio.block_on(audit::of_directory(directory)).map_err(|error| error.to_string())?;
    let text = match form {
        Form::Json => report.json_lines(),
        Form::Words => audit::words(&report),
    };
    let mut out = std::io::stdout();
    let told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    told.map_err(|error| format!("the audit cannot be told: {error}"))?;
    Ok(if report.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

fn soak(seconds: u64) -> Result<ExitCode, String> {
    // glibc keeps a heap for each thread, which fill up one by one for minutes: that is no growth of ours. One heap, which
    // a process has from its start or never.
    if std::env::var_os(ONE_HEAP).is_none() {
        let program =
            std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
        let mut again = std::process::Command::new(program);
        let ended = again.args(std::env::args_os().skip(1)).env(ONE_HEAP, "1").status();
        let ended = ended.map_err(|error| format!("this program does not start: {error}"))?;
        let code = ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(MISSED);
        return Ok(ExitCode::from(code));
    }
    let data = tempfile::tempdir().map_err(|error| format!("there is no temporary directory: {error}"))?;
    let tokio = started(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build())?;
    tokio.block_on(soak::run(seconds, data.path()))
}

fn serve(script: &str) -> Result<ExitCode, String> {
    let peer = Peer::new(read_script(script)?);
    let tokio = started(tokio::runtime::Builder::new_current_thread().enable_all().build())?;
    let ended = tokio.block_on(peer.serve_process());
    leave(tokio);
    ended.map(ExitCode::from).map_err(|error| format!("the peer cannot do what its script says: {error}"))
}

fn listen(script: &str, address: &str, kind: HttpKind) -> Result<ExitCode, String> {
    let peer = Peer::new(read_script(script)?);
    let tokio = started(tokio::runtime::Builder::new_current_thread().enable_all().build())?;
    let ended = tokio.block_on(async {
        let listening = peer.listen(address, kind).await;
        let listening = listening.map_err(|error| format!("the peer cannot listen at {address}: {error}"))?;
        let mut out = std::io::stdout();
        writeln!(out, "{}", listening.url())
            .and_then(|()| out.flush())
            .map_err(|error| format!("the URL cannot be told: {error}"))?;
        peer.begin_process().map_err(|error| format!("the peer cannot do what its script says: {error}"))?;
        Ok(listening.ended().await)
    });
    leave(tokio);
    ended.map(ExitCode::from)
}

fn started(tokio: std::io::Result<Runtime>) -> Result<Runtime, String> {
    tokio.map_err(|error| format!("the runtime does not start: {error}"))
}

/// A thread may still wait in a read of standard input, and nothing can wake it: leaves without it.
fn leave(tokio: Runtime) {
    tokio.shutdown_background();
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
