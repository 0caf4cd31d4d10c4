//! `kill -9` at any moment: what was taken is kept once, and the next process goes on.
//!
//! A few rounds by default; `PILOTHOUSE_KILLS` says how many.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use super::run::{PROGRAM, listed, notes, topic};

/// Kills in a run of all tests.
const KILLS: usize = 8;

/// A round is killed after fewer lines than this.
const LINES: u64 = 120;

/// A process that says nothing for so long is killed all the same.
const SILENCE: Duration = Duration::from_secs(5);

fn kills() -> usize {
    std::env::var("PILOTHOUSE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A process under load.
struct Process {
    child: Child,
    lines: mpsc::Receiver<Value>,
}

impl Process {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["run", "-", "--data", &data.to_string_lossy()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let out = child.stdout.take().expect("the output is a pipe");
        Self { child, lines: read(out) }
    }

    fn write(&mut self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let stdin = self.child.stdin.as_mut().expect("the input is a pipe");
        stdin.write_all(text.as_bytes()).expect("the program reads");
    }

    /// Kills it after so many lines and returns every line that it wrote.
    fn kill_after(mut self, count: u64) -> Vec<Value> {
        let mut lines = Vec::new();
        while (lines.len() as u64) < count {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => lines.push(line),
                Err(_) => break,
            }
        }
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
        lines.extend(self.lines.iter());
        lines
    }
}

fn read(out: ChildStdout) -> mpsc::Receiver<Value> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // The last line may be torn by the kill.
            if let Ok(line) = serde_json::from_str(&line)
                && sender.send(line).is_err()
            {
                return;
            }
        }
    });
    lines
}

/// What one round asks for: messages under keys of their own, some of them steers; a stop now and then.
fn load(round: usize, dice: &mut Dice) -> (Vec<Value>, BTreeMap<u64, String>) {
    let call = json!({"tool": {"server": "notes", "tool": "add_note"}, "arguments": {"text": "ahoy"}});
    let steps: Vec<Value> = (0..40)
        .map(|step| match step % 4 {
            0 => json!({"text": "Let me write it down, word by word.", "chunk_ms": 1, "calls": [call]}),
            _ => json!({"text": format!("Answer {step} of round {round}."), "chunk_ms": 1}),
        })
        .collect();
    let mut lines = vec![topic(&json!(steps)), listed("notes")];
    let mut keys = BTreeMap::new();
    for number in 0..12 {
        let key = format!("{round}.{number}");
        // The server's line came before, in the same input.
        keys.insert(lines.len() as u64 + 2, key.clone());
        lines.push(json!({"send": {"topic": "t", "text": format!("Message {key}"), "key": key}}));
        lines.push(match dice.below(4) {
            0 => json!({"stop": {"topic": "t"}}),
            1 => json!({"decide": {"approval": "all", "decision": "allow", "by": "ann"}}),
            _ => json!({"sleep": {"ms": dice.below(12)}}),
        });
    }
    (lines, keys)
}

/// The message that each acknowledged key stands for.
fn taken(lines: &[Value], keys: &BTreeMap<u64, String>) -> BTreeMap<String, u64> {
    let replies = lines.iter().map(|line| &line["reply"]);
    let taken = replies.filter_map(|reply| {
        let key = keys.get(&reply["to"].as_u64()?)?;
        Some((key.clone(), reply["message"].as_u64()?))
    });
    taken.collect()
}

/// Every message that the topic shows, in its turns, waiting or held.
fn shown(data: &Path, marks: &Path) -> (Vec<u64>, Vec<Value>) {
    let quiet = json!([{"text": "Well."}]);
    let mut lines = vec![notes(marks), topic(&quiet), json!({"view": {"topic": "t"}})];
    let first = super::run::held(Some(data), &lines);
    let view = first.reply(3);
    let mut messages: Vec<u64> = numbers(&view["queue"]);
    messages.extend(numbers(&view["held"]));
    let mut turns = Vec::new();
    lines[2] = json!({"history": {"topic": "t"}});
    loop {
        let page = super::run::held(Some(data), &lines);
        let page = page.reply(3);
        turns.splice(0..0, page["turns"].as_array().into_iter().flatten().cloned());
        match &page["earlier"] {
            Value::Null => break,
            earlier => lines[2] = json!({"history": {"topic": "t", "cursor": earlier}}),
        }
    }
    let open = view["turns"].as_array().into_iter().flatten().filter(|turn| turn.get("stop").is_none());
    turns.extend(open.cloned());
    messages.extend(turns.iter().flat_map(|turn| numbers(&turn["messages"])));
    (messages, turns)
}

fn numbers(messages: &Value) -> Vec<u64> {
    messages.as_array().into_iter().flatten().filter_map(|message| message["message"].as_u64()).collect()
}

#[test]
fn a_process_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..kills() {
        let (lines, keys) = load(round, &mut dice);
        let mut process = Process::start(&data);
        process.write(&[notes(&marks)]);
        process.write(&lines);
        known.extend(taken(&process.kill_after(dice.below(LINES)), &keys));
    }
    let (messages, turns) = shown(&data, &marks);
    let distinct: BTreeSet<u64> = messages.iter().copied().collect();
    assert_eq!(distinct.len(), messages.len(), "a message is in two places: {messages:?}");
    for (key, message) in &known {
        assert!(distinct.contains(message), "message {message} of key {key} was taken and is gone");
    }
    let order: Vec<u64> = turns.iter().filter_map(|turn| turn["turn"].as_u64()).collect();
    assert_eq!(order, (1..=order.len() as u64).collect::<Vec<_>>(), "no turn is missing");
    assert!(kills() < 4 || !known.is_empty(), "nothing was taken before it was killed");

    // A sender that repeats itself is told the same, however long ago that was.
    let mut lines = vec![topic(&json!([{"text": "Well."}]))];
    let all: Vec<_> = known.iter().collect();
    for (key, _) in &all {
        lines.push(json!({"send": {"topic": "t", "text": format!("Message {key}"), "key": key}}));
    }
    let again = super::run::held(Some(&data), &lines);
    for (number, (key, message)) in (2..).zip(&all) {
        assert_eq!(again.reply(number)["message"], **message, "{key}: {}", again.reply(number));
    }
}
