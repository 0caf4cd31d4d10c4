//! What the machine has: installed servers, and the processes that were started here.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Where one server's program is; `None`, said aloud, if it is not installed and need not be.
///
/// # Panics
/// If it is not installed and `PILOTHOUSE_WORLD_REQUIRED=1` asks for it.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let chosen = std::env::var_os("PILOTHOUSE_WORLD").map(PathBuf::from);
    let installed =
        chosen.iter().flat_map(|world| ["node_modules/.bin", "venv/bin"].map(|bin| world.join(bin)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = installed.chain(std::env::split_paths(&path));
    let found = places.find_map(|place| Some(place.join(program)).filter(|file| file.is_file()));
    let required = std::env::var("PILOTHOUSE_WORLD_REQUIRED").is_ok_and(|required| required == "1");
    assert!(found.is_some() || !required, "{program} is required and is not installed");
    if found.is_none() {
        // Past the test harness, which keeps back what a passing test prints.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {program} is not installed. To run this test: \
             mkdir -p target/world && cp tests/world/*.json target/world/ && \
             (cd target/world && npm ci --ignore-scripts) && python3 -m venv target/world/venv && \
             target/world/venv/bin/pip install -r tests/world/requirements.txt && \
             PILOTHOUSE_WORLD=$PWD/target/world cargo test --test world"
        );
    }
    found
}

/// A process, as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Kills it, as a crash or the kernel's memory killer would.
    pub(crate) fn kill(self) {
        self.signal("KILL");
    }

    /// Stops it where it is, as a debugger or a frozen container would.
    pub(crate) fn freeze(self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(self) {
        self.signal("CONT");
    }

    fn signal(self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.0)]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{self:?} can be sent SIG{name}");
    }
}

/// The children of `parent` whose environment holds `mark`, zombies left out.
pub(crate) fn children(parent: u32, mark: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc can be read").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = pids.filter(|pid| is_child(*pid, parent) && has_variable(*pid, mark));
    ours.map(Process).collect()
}

fn is_child(pid: u32, parent: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name before the closing bracket may hold anything.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_whitespace();
    let (state, of) = (fields.next(), fields.next());
    state != Some("Z") && of.and_then(|of| of.parse::<u32>().ok()) == Some(parent)
}

fn has_variable(pid: u32, mark: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}
