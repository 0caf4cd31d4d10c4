//! What a child process tells, line by line.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

/// The lines of its output, until that ends or one is none of ours.
pub(crate) fn heard_from(child: &mut Child) -> Receiver<Value> {
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            // The last line of a killed process may be half a line.
            let Ok(line) = serde_json::from_str::<Value>(&line) else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
