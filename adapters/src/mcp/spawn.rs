//! Starts a server's process, and says what to do if that fails.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pilothouse_messages::error::ConnectError;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::Proxies;
use tokio::process::Command;

use super::body::Leader;
use super::environment;

/// Characters of the searched path that an error shows.
const PATH_CHARS: usize = 1_024;

/// What a definition says about a process.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// The program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// What it gets besides the base list.
    pub(super) env: BTreeMap<String, Secret>,
    /// Where it runs.
    pub(super) cwd: Option<PathBuf>,
    /// Whether it hears of the proxies in our own environment.
    pub(super) proxies: Proxies,
}

impl Program {
    /// Starts the process as the leader of its own group, on a thread that may block: the file system decides how
    /// long that takes. A start that nobody waits for any more is killed as it is dropped.
    pub(super) async fn start(&self) -> Result<Leader, ConnectError> {
        let program = self.clone();
        let started = tokio::task::spawn_blocking(move || {
            program.command().spawn().map(Leader::new).map_err(|error| program.refusal(&error))
        });
        match started.await {
            Ok(started) => started,
            Err(_) => Err(ConnectError::Handshake { reason: "the runtime is shutting down".to_owned() }),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .env_clear()
            .envs(environment::base(self.proxies))
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    fn refusal(&self, error: &io::Error) -> ConnectError {
        let Some(cause) = self.permanent_cause(error) else {
            let reason = format!("\"{}\" could not be started now: {error}", self.command);
            return ConnectError::Handshake { reason };
        };
        let place = match &self.cwd {
            Some(cwd) => format!(" (in the working directory {})", cwd.display()),
            None => String::new(),
        };
        ConnectError::Spawn { command: self.command.clone(), reason: format!("{cause}{place}: {error}") }
    }

    /// Why it cannot start until something changes, and what to change; `None` if it may pass by itself.
    fn permanent_cause(&self, error: &io::Error) -> Option<String> {
        if let Some(cwd) = self.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            return Some(format!(
                "the working directory {} does not exist or is no directory; create it, or change the definition",
                cwd.display()
            ));
        }
        match error.kind() {
            io::ErrorKind::NotFound => Some(self.missing()),
            io::ErrorKind::PermissionDenied => Some(
                "it may not be run; make it executable for this user, and its directories readable"
                    .to_owned(),
            ),
            io::ErrorKind::NotADirectory => {
                Some("a part of its path is no directory; correct the path".to_owned())
            }
            io::ErrorKind::InvalidInput => {
                Some("its name, an argument or a variable holds a NUL byte; remove it".to_owned())
            }
            io::ErrorKind::ArgumentListTooLong => {
                Some("its arguments and variables are too long; shorten them".to_owned())
            }
            _ if is_bad_executable(error) => {
                Some("the system cannot execute this file; is it built for this machine?".to_owned())
            }
            _ => None,
        }
    }

    fn missing(&self) -> String {
        let path = Path::new(&self.command);
        let named_by_path = path.components().count() > 1;
        let place = self.cwd.as_deref().unwrap_or_else(|| Path::new(""));
        if self.command.is_empty() {
            return "the command is empty; name a program".to_owned();
        }
        match (named_by_path, named_by_path && place.join(path).exists()) {
            (false, _) => format!(
                "no such program in any directory of PATH ({}); install it, or name it by its full path",
                self.searched()
            ),
            (true, false) => "no such file; install it, or correct the path".to_owned(),
            (true, true) => {
                "the file exists, but what should run it does not; install the interpreter that its first line names"
                    .to_owned()
            }
        }
    }

    /// Where the program was looked for, as far as may be shown.
    fn searched(&self) -> String {
        if self.env.contains_key("PATH") {
            return "the one that its definition declares".to_owned();
        }
        let searched = std::env::var_os("PATH").unwrap_or_default();
        searched.to_string_lossy().chars().take(PATH_CHARS).collect()
    }
}

/// `ENOEXEC` has no kind of its own.
fn is_bad_executable(error: &io::Error) -> bool {
    const ENOEXEC: i32 = 8;
    cfg!(unix) && error.raw_os_error() == Some(ENOEXEC)
}
