//! One life of an embedding process with real servers, and the people and faults around it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse::approval::Verdict;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::lines::heard_from;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");
/// Topics that work side by side.
pub(crate) const TOPICS: u64 = 4;
/// Messages that each of them gets at the start of a life, and later.
const MESSAGES: u64 = 3;
/// What a loaded machine may need to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// The variable by which a server's processes are told from those of other lives.
const MARK: &str = "PILOTHOUSE_RING_LIFE";

/// Where everything is kept over all lives.
pub(crate) struct Ground {
    pub(crate) data: PathBuf,
    /// Every call that a server has begun to run, as it was asked for.
    pub(crate) calls: PathBuf,
}

/// What a process has told, and what therefore has to hold for ever.
#[derive(Default)]
pub(crate) struct Told {
    /// Decisions that it has acknowledged.
    pub(crate) decided: BTreeMap<String, Verdict>,
    /// Messages that it has taken, with their topics.
    pub(crate) taken: BTreeSet<(String, String)>,
    /// Calls that it has shown as succeeded: their tokens.
    pub(crate) succeeded: BTreeSet<String>,
}

impl Told {
    pub(crate) fn also(&mut self, other: Self) {
        self.decided.extend(other.decided);
        self.taken.extend(other.taken);
        self.succeeded.extend(other.succeeded);
    }
}

/// A process that runs.
pub(crate) struct Embedder {
    life: u64,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Lines told so far.
    written: u64,
    /// What was sent with which line.
    sent: BTreeMap<u64, (String, String)>,
    /// What was said about each card.
    said: BTreeMap<String, Verdict>,
    told: Told,
    /// Processes that were stopped and are to go on.
    stopped: Vec<(i32, Instant)>,
}

impl Embedder {
    /// Starts it: two servers that are processes, one of which dies of itself now and then, and topics that call them.
    pub(crate) fn start(ground: &Ground, life: u64) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["run", "-", "--data"])
            .arg(&ground.data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let lines = heard_from(&mut child);
        let stdin = child.stdin.take();
        let (sent, said, told, stopped) = (BTreeMap::new(), BTreeMap::new(), Told::default(), Vec::new());
        let mut embedder = Self { life, child, stdin, lines, written: 0, sent, said, told, stopped };
        let log = json!({"call_log": ground.calls});
        embedder.server("notes", std::slice::from_ref(&log));
        embedder.server("frail", &[log, json!({"exit_after": 12})]);
        for topic in 0..TOPICS {
            embedder.topic(topic);
        }
        for n in 0..MESSAGES {
            (0..TOPICS).for_each(|topic| embedder.send(topic, n, "next_step"));
        }
        embedder
    }

    fn server(&mut self, id: &str, faults: &[Value]) {
        let tools = json!([{"name": "look", "echo": true}, {"name": "add_note", "echo": true}]);
        let script = json!({"tools": tools, "faults": faults}).to_string();
        let stdio =
            json!({"command": PROGRAM, "args": ["peer", script], "env": {MARK: self.life.to_string()}});
        self.tell(&json!({"server": {"id": id, "transport": {"stdio": stdio}, "effects": {"look": "reads", "add_note": "edits"}}}));
        let fresh = json!({"kind": "listing", "server": id, "fresh": true});
        self.tell(&json!({"expect": {"event": fresh, "within_ms": 60_000}}));
    }

    fn topic(&mut self, topic: u64) {
        let mut script = Vec::new();
        for round in 0..24 {
            let token = |what: &str| json!({"token": format!("{}.{topic}.{round}.{what}", self.life)});
            let call = |server: &str, tool: &str, what: &str| json!({"tool": {"server": server, "tool": tool}, "arguments": token(what)});
            let calls = [
                call("notes", "look", "read"),
                call("notes", "add_note", "note"),
                call("frail", "add_note", "frail"),
            ];
            let some = &calls[..=(round + usize::try_from(topic).unwrap_or_default()) % 3];
            script.push(json!({"calls": some, "delay_ms": 3}));
            script.push(json!({"text": "Done."}));
        }
        self.tell(&json!({"topic": {"topic": format!("t{topic}"), "model": {"script": script}}}));
    }

    fn send(&mut self, topic: u64, n: u64, level: &str) {
        let (topic, text) = (format!("t{topic}"), format!("{}.{n}", self.life));
        self.tell(&json!({"send": {"topic": topic, "text": text, "key": text, "level": level}}));
        self.sent.insert(self.written, (topic, text));
    }

    fn tell(&mut self, line: &Value) {
        if let Some(stdin) = &mut self.stdin {
            // A process that has just ended reads nothing.
            let _gone = writeln!(stdin, "{line}");
        }
        self.written += 1;
    }

    /// Lives for so long from the first sign of its topics on: cards are decided, messages steer, servers are killed and
    /// stopped.
    pub(crate) fn lives(&mut self, time: Duration, dice: &mut Dice) {
        let (mut end, mut works, mut n) = (Instant::now() + PATIENCE, false, MESSAGES);
        let mut next = Instant::now();
        while Instant::now() < end {
            self.let_go_on(false);
            match self.lines.recv_timeout(Duration::from_millis(5)) {
                Ok(line) => {
                    if !works && line["event"]["kind"] == "turn_started" {
                        (works, end) = (true, Instant::now() + time);
                    }
                    self.heard(&line, Some(dice));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if works && Instant::now() >= next {
                next = Instant::now() + Duration::from_millis(10 + dice.below(60));
                self.strike(dice, &mut n);
            }
        }
    }

    /// Only begins: it is killed wherever it has come to by then.
    pub(crate) fn begins(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Works undisturbed until all is done, or for so long.
    pub(crate) fn rests(&mut self, time: Duration, dice: &mut Dice) {
        let end = Instant::now() + time;
        self.let_go_on(true);
        // It is quiet while it starts, too.
        let mut heard = None;
        while Instant::now() < end
            && heard.is_none_or(|last: Instant| last.elapsed() < Duration::from_secs(4))
        {
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    heard = Some(Instant::now());
                    self.heard(&line, Some(dice));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn strike(&mut self, dice: &mut Dice, n: &mut u64) {
        let topic = dice.below(TOPICS);
        let servers = self.processes();
        let victim =
            servers.get(usize::try_from(dice.below(servers.len().max(1) as u64)).unwrap_or_default());
        match (dice.below(10), victim) {
            (0..=3, _) => {
                let level =
                    ["next_step", "now", "next_turn"][usize::try_from(dice.below(3)).unwrap_or_default()];
                self.send(topic, *n, level);
                *n += 1;
            }
            (4, _) => self.tell(&json!({"stop": {"topic": format!("t{topic}")}})),
            (5, _) => self.tell(&json!({"server_restart": {"id": "notes"}})),
            (6, Some(pid)) => signal(*pid, Signal::SIGKILL),
            (7, Some(pid)) => {
                signal(*pid, Signal::SIGSTOP);
                // Some go on before their embedder is killed, some never do.
                let until = Instant::now() + Duration::from_millis(dice.below(1_500));
                self.stopped.push((*pid, until));
            }
            _ => {}
        }
    }

    fn let_go_on(&mut self, all: bool) {
        self.stopped.retain(|(pid, until)| {
            let due = all || Instant::now() >= *until;
            if due {
                signal(*pid, Signal::SIGCONT);
            }
            !due
        });
    }

    fn heard(&mut self, line: &Value, dice: Option<&mut Dice>) {
        let event = &line["event"];
        let kind = event["kind"].as_str().unwrap_or_default();
        if let (Some(card), Some(dice), "approval_requested") = (event["approval"].as_str(), dice, kind) {
            let verdict = if dice.below(4) == 0 { Verdict::Deny } else { Verdict::Allow };
            // One that was decided in vain before is decided the same way again.
            let verdict = *self.said.entry(card.to_owned()).or_insert(verdict);
            let line = json!({"decide": {"approval": card, "decision": verdict, "by": "ann", "digest": event["digest"]}});
            self.tell(&line);
        }
        if kind == "tool_finished" && event["outcome"] == "succeeded" {
            self.told.succeeded.extend(token_in(&event["content"]));
        }
        let reply = &line["reply"];
        if reply["message"].is_u64()
            && let Some(sent) = reply["to"].as_u64().and_then(|to| self.sent.get(&to))
        {
            self.told.taken.insert(sent.clone());
        }
        for answer in reply["answers"].as_array().into_iter().flatten() {
            let card = answer["approval"].as_str().unwrap_or_default();
            if let ("applied", Some(verdict)) =
                (answer["answer"].as_str().unwrap_or_default(), self.said.get(card))
            {
                self.told.decided.insert(card.to_owned(), *verdict);
            }
        }
    }

    /// The processes of its servers.
    fn processes(&self) -> Vec<i32> {
        marked().into_iter().filter(|(_, life)| *life == self.life).map(|(pid, _)| pid).collect()
    }

    /// Kills it, and answers what it had told until then.
    pub(crate) fn kill(mut self) -> Told {
        self.child.kill().expect("it can be killed");
        self.ended()
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) -> Told {
        drop(self.stdin.take());
        self.ended()
    }

    fn ended(&mut self) -> Told {
        // It has ended, or is about to; either way its output ends.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard(&line, None);
        }
        self.child.wait().expect("it ends");
        std::mem::take(&mut self.told)
    }
}

impl Drop for Embedder {
    fn drop(&mut self) {
        // It has ended already, unless a test has failed.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What the tools of this test echo.
pub(crate) fn token_in(content: &Value) -> Option<String> {
    let text = content.to_string();
    let (_, rest) = text.split_once("token")?;
    let begin = rest.find(|letter: char| letter.is_ascii_digit())?;
    let rest = &rest[begin..];
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.')?;
    Some(rest[..end].to_owned())
}

/// Ends the processes of servers of these lives: one that was stopped hears nothing of its embedder's end, and after a
/// failed test there is no next life that ends it.
pub(crate) fn sweep(is_ours: impl Fn(u64) -> bool) {
    marked().into_iter().filter(|(_, life)| is_ours(*life)).for_each(|(pid, _)| signal(pid, Signal::SIGKILL));
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended a moment ago.
    let _gone = kill(Pid::from_raw(pid), signal);
}

/// The processes of servers of this test that run, with the lives that they belong to; zombies are no more.
pub(crate) fn marked() -> Vec<(i32, u64)> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, life_of(Path::new("/proc").join(pid.to_string()).as_path())?))).collect()
}

fn life_of(process: &Path) -> Option<u64> {
    let environment = std::fs::read(process.join("environ")).ok()?;
    let marked = environment.split(|byte| *byte == 0).find_map(|variable| {
        std::str::from_utf8(variable).ok()?.strip_prefix(MARK)?.strip_prefix('=')?.parse().ok()
    });
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let is_zombie = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
    marked.filter(|_| !is_zombie)
}
