//! What a scripted server does as a process: words on standard error, a child of its own, signals that it ignores.
//! A peer inside another process does none of it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use super::State;
use super::fault::{Fault, GrandchildFault, StderrFault};

/// Bytes of a line on standard error.
const LINE_BYTES: usize = 64;
/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 10;

/// Says something on standard error.
pub(super) fn say(state: &State, words: &str) {
    if state.is_process.load(Ordering::Acquire) {
        // Nobody may read it any more.
        let _nobody_reads = std::io::stderr().write_all(words.as_bytes());
    }
}

/// Says much on standard error. It waits for whoever reads it, as a real server would.
pub(super) fn flood(state: &State, fault: &StderrFault) {
    let piece = if fault.no_newline {
        "e".repeat(PIECE_BYTES)
    } else {
        format!("{}\n", "e".repeat(LINE_BYTES - 1)).repeat(PIECE_BYTES / LINE_BYTES)
    };
    for _ in 0..fault.kib {
        say(state, &piece);
    }
}

/// Does what the script has for the start of a process.
pub(super) fn begin(state: &State) -> std::io::Result<()> {
    state.is_process.store(true, Ordering::Release);
    let live = state.live();
    if live.is_on(|fault| if let Fault::IgnoreSigterm(on) = fault { Some(*on) } else { None }) {
        ignore_sigterm()?;
    }
    for fault in &live.script.faults {
        if let Fault::Stderr(words) = fault
            && words.on.is_none()
        {
            flood(state, words);
        }
        if let Fault::Grandchild(child) = fault {
            spawn(child)?;
        }
    }
    Ok(())
}

/// Starts a child that inherits the pipes and so keeps them open.
fn spawn(fault: &GrandchildFault) -> std::io::Result<()> {
    let mut child = Command::new("sleep").arg(fault.seconds.to_string()).stdin(Stdio::inherit()).spawn()?;
    if let Some(path) = &fault.pid_file {
        std::fs::write(path, format!("{}\n", child.id()))?;
    }
    // Reaps it, so that a child that was ended is gone; the thread ends with it or with the process.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Takes the signal and does nothing with it.
#[cfg(unix)]
fn ignore_sigterm() -> std::io::Result<()> {
    let mut told = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::spawn(async move { while told.recv().await.is_some() {} });
    Ok(())
}

#[cfg(not(unix))]
fn ignore_sigterm() -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "there is no SIGTERM to ignore on this system"))
}
