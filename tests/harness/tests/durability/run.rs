//! One process of the harness with work for a person, and the person who decides.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pilothouse::approval::Verdict;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::lines::heard_from;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pilothouse-harness");
/// Topics that work side by side.
const TOPICS: usize = 3;

/// The disk that a process finds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Disk {
    /// One with room.
    Roomy,
    /// No file grows beyond this many blocks of `ulimit`.
    Full(u64, OnFull),
}

/// What becomes of a write for which there is no room.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnFull {
    /// It fails.
    Fails,
    /// The process dies in it, as where a store aborts.
    Kills,
}

fn program(disk: Disk) -> Command {
    let Disk::Full(blocks, then) = disk else { return Command::new(PROGRAM) };
    let ignored = match then {
        OnFull::Fails => "trap '' XFSZ; ",
        OnFull::Kills => "",
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{ignored}ulimit -c 0; ulimit -f {blocks} && exec \"$0\" \"$@\""), PROGRAM]);
    shell
}

/// A process that reads lines and keeps its data here, on such a disk.
fn spawned(disk: Disk, data: &Path) -> Child {
    program(disk)
        .args(["run", "-", "--data"])
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

/// A process that runs, and what it has told so far.
pub(crate) struct Run {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Codes of errors that it told.
    codes: BTreeSet<String>,
    said: BTreeMap<String, Verdict>,
    acknowledged: BTreeMap<String, Verdict>,
}

impl Run {
    /// Starts it on this data: a server whose calls leave a mark each, and topics that call it.
    pub(crate) fn start(data: &Path, marks: &Path) -> Self {
        Self::start_on(Disk::Roomy, data, marks)
    }

    /// As [`start`](Self::start), on such a disk.
    pub(crate) fn start_on(disk: Disk, data: &Path, marks: &Path) -> Self {
        let mut child = spawned(disk, data);
        let lines = heard_from(&mut child);
        let stdin = child.stdin.take();
        let mut run = Self {
            child,
            stdin,
            lines,
            codes: BTreeSet::new(),
            said: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
        };
        let script =
            json!({"tools": [{"name": "add_note", "echo": true}], "faults": [{"count_file": marks}]});
        run.tell(&json!({"server": {"id": "notes", "transport": {"peer": script}, "effects": {"add_note": "edits"}}}));
        run.tell(&json!({"expect": {"event": {"kind": "listing", "server": "notes", "fresh": true}}}));
        // What fills a disk sooner.
        let text = match disk {
            Disk::Roomy => "go".to_owned(),
            Disk::Full(..) => format!("go {}", "x".repeat(2_000)),
        };
        for topic in 0..TOPICS {
            let call =
                |n: usize| json!({"tool": {"server": "notes", "tool": "add_note"}, "arguments": {"n": n}});
            let calls = json!({"calls": [call(0), call(1), call(2)]});
            let topic = format!("t{topic}");
            let script: Vec<Value> =
                (0..20).flat_map(|_| [calls.clone(), json!({"text": "Done."})]).collect();
            run.tell(&json!({"topic": {"topic": topic, "model": {"script": script}}}));
            for _ in 0..8 {
                run.tell(&json!({"send": {"topic": topic, "text": text}}));
            }
        }
        run
    }

    fn tell(&mut self, line: &Value) {
        if let Some(stdin) = &mut self.stdin {
            // A process that has just ended reads nothing.
            let _gone = writeln!(stdin, "{line}");
        }
    }

    /// Decides about every card that comes within this time, counted from the first one.
    pub(crate) fn works(&mut self, time: Duration, dice: &mut Dice) {
        self.works_until(usize::MAX, time, dice);
    }

    /// As [`works`](Self::works), and no longer than until so many decisions are acknowledged.
    pub(crate) fn works_until(&mut self, enough: usize, time: Duration, dice: &mut Dice) {
        let mut end = Instant::now() + Duration::from_secs(30);
        let (mut speaks, mut asks) = (false, false);
        while self.acknowledged.len() < enough {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if !asks && line["event"]["kind"] == "approval_requested" {
                        (speaks, asks) = (true, true);
                        end = Instant::now() + time;
                    } else if !speaks {
                        speaks = true;
                        // There may be nothing to decide.
                        end = Instant::now() + Duration::from_secs(2);
                    }
                    self.heard(&line, Some(dice));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Works until its output ends, or for two seconds more once it has told an error, and no longer than this.
    pub(crate) fn works_until_told(&mut self, time: Duration, dice: &mut Dice) {
        let mut end = Instant::now() + time;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let had_told = !self.codes.is_empty();
            self.heard(&line, Some(dice));
            if !had_told && !self.codes.is_empty() {
                end = Instant::now() + Duration::from_secs(2);
            }
        }
    }

    /// Only waits this long from its first line on: it may still be starting then.
    pub(crate) fn starts(&mut self, time: Duration) {
        if let Ok(line) = self.lines.recv_timeout(Duration::from_secs(30)) {
            self.heard(&line, None);
            std::thread::sleep(time);
        }
    }

    fn heard(&mut self, line: &Value, dice: Option<&mut Dice>) {
        let event = &line["event"];
        if event["kind"] == "error" {
            self.codes.extend(event["code"].as_str().map(str::to_owned));
        }
        if let (Some(card), Some(dice), "approval_requested") =
            (event["approval"].as_str(), dice, event["kind"].as_str().unwrap_or_default())
        {
            let verdict = if dice.below(3) == 0 { Verdict::Deny } else { Verdict::Allow };
            // One that was decided in vain before is decided the same way again.
            let verdict = *self.said.entry(card.to_owned()).or_insert(verdict);
            let line = json!({"decide": {"approval": card, "decision": verdict, "by": "ann", "digest": event["digest"]}});
            self.tell(&line);
        }
        for answer in line["reply"]["answers"].as_array().into_iter().flatten() {
            let card = answer["approval"].as_str().unwrap_or_default();
            if let ("applied", Some(verdict)) =
                (answer["answer"].as_str().unwrap_or_default(), self.said.get(card))
            {
                self.acknowledged.insert(card.to_owned(), *verdict);
            }
        }
    }

    /// Kills it, and answers what it had acknowledged until then.
    pub(crate) fn kill(mut self) -> BTreeMap<String, Verdict> {
        self.child.kill().expect("it can be killed");
        self.rest()
    }

    /// Lets it end by itself: how it ended, which errors it told, and what it had acknowledged.
    pub(crate) fn outcome(mut self) -> (ExitStatus, BTreeSet<String>, BTreeMap<String, Verdict>) {
        drop(self.stdin.take());
        let acknowledged = self.rest();
        let status = self.child.wait().expect("it has ended");
        (status, std::mem::take(&mut self.codes), acknowledged)
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) -> BTreeMap<String, Verdict> {
        drop(self.stdin.take());
        self.rest()
    }

    fn rest(&mut self) -> BTreeMap<String, Verdict> {
        // It has ended, or is about to; either way its output ends.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(30)) {
            self.heard(&line, None);
        }
        self.child.wait().expect("it ends");
        std::mem::take(&mut self.acknowledged)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It has ended already, unless a test has failed.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What a process says to these lines.
pub(crate) fn once(data: &Path, lines: &str) -> String {
    let mut child = spawned(Disk::Roomy, data);
    let _gone = child.stdin.take().map(|mut stdin| stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
