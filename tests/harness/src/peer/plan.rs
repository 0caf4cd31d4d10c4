//! Decides what of a script happens to one request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::fault::{
    AnswerId, AskFault, EchoFault, ErrorFault, Fault, HttpFault, On, ProgressFault, SayFault, StderrFault,
};
use super::script::{Script, ScriptTool};

/// A script that is being followed, with what it has come to.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) script: Script,
    /// How many requests each fault has seen, in the order of the script's faults.
    seen: Vec<AtomicU64>,
    /// The tools that were swapped in.
    swapped: Mutex<Option<Vec<ScriptTool>>>,
}

/// What happens to one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) silent: bool,
    pub(super) delay: Duration,
    pub(super) error: Option<ErrorFault>,
    pub(super) result: Option<Value>,
    pub(super) id: Option<AnswerId>,
    pub(super) huge_mib: Option<u64>,
    pub(super) say: Vec<SayFault>,
    pub(super) no_newline_mib: Option<u64>,
    pub(super) exit: Option<u8>,
    pub(super) late: Option<Duration>,
    pub(super) progress: Option<ProgressFault>,
    pub(super) asks: Vec<AskFault>,
    pub(super) echoes: Vec<EchoFault>,
    pub(super) stderr: Vec<StderrFault>,
    pub(super) swap: Option<Swap>,
    pub(super) http: Option<HttpFault>,
}

/// Tools that are there once the request was answered.
#[derive(Debug)]
pub(super) struct Swap {
    pub(super) tools: Vec<ScriptTool>,
    pub(super) announce: bool,
}

impl Live {
    pub(super) fn new(script: Script) -> Self {
        let seen = script.faults.iter().map(|_| AtomicU64::new(0)).collect();
        Self { script, seen, swapped: Mutex::default() }
    }

    /// What happens to a request that came now; it is counted.
    pub(super) fn plan(&self, method: &str, tool: Option<&str>) -> Plan {
        let mut plan = Plan::default();
        for (fault, seen) in self.script.faults.iter().zip(&self.seen) {
            let hit = |on: &On| {
                on.concerns(method, tool) && on.counts(seen.fetch_add(1, Ordering::AcqRel).saturating_add(1))
            };
            plan.take(fault, hit, method, tool);
        }
        plan
    }

    /// The tools of the script, or those that were swapped in.
    pub(super) fn tools(&self) -> Vec<ScriptTool> {
        self.swapped().clone().unwrap_or_else(|| self.script.tools.clone())
    }

    pub(super) fn swap(&self, tools: Vec<ScriptTool>) {
        *self.swapped() = Some(tools);
    }

    /// The last fault that `choose` takes: of faults that exclude each other, the last one holds.
    pub(super) fn last<'a, T>(&'a self, choose: impl Fn(&'a Fault) -> Option<T>) -> Option<T> {
        self.script.faults.iter().rev().find_map(choose)
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, choose: impl Fn(&Fault) -> Option<bool>) -> bool {
        self.last(choose).unwrap_or(false)
    }

    /// A poisoned lock here still holds a whole value: it is set in one step.
    fn swapped(&self) -> std::sync::MutexGuard<'_, Option<Vec<ScriptTool>>> {
        self.swapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn take(&mut self, fault: &Fault, hit: impl Fn(&On) -> bool, method: &str, tool: Option<&str>) {
        match fault {
            Fault::Silence(on) if hit(on) => self.silent = true,
            Fault::DelayMs(ms) => self.delay = Duration::from_millis(*ms),
            Fault::Delay(delay) if hit(&delay.on) => self.delay = Duration::from_millis(delay.ms),
            Fault::Error(error) if hit(&error.on) => self.error = Some(error.clone()),
            Fault::Result(result) if hit(&result.on) => self.result = Some(result.result.clone()),
            Fault::AnswerId(id) if hit(&id.on) => self.id = Some(id.id),
            Fault::Huge(size) if hit(&size.on) => self.huge_mib = Some(size.mib),
            Fault::Say(say) if hit(&say.on) => self.say.push(say.clone()),
            Fault::NoNewline(size) if hit(&size.on) => self.no_newline_mib = Some(size.mib),
            Fault::ExitOnCall(name) if method == "tools/call" && tool == Some(name) => self.exit = Some(0),
            Fault::Exit(exit) if hit(&exit.on) => self.exit = Some(exit.status),
            Fault::LateReply(delay) if hit(&delay.on) => self.late = Some(Duration::from_millis(delay.ms)),
            Fault::Progress(progress) if hit(&progress.on) => self.progress = Some(progress.clone()),
            Fault::Ask(ask) if ask.on.as_ref().is_some_and(&hit) => self.asks.push(ask.clone()),
            Fault::EchoSecret(echo) if hit(&echo.on) => self.echoes.push(echo.clone()),
            Fault::Stderr(words) if words.on.as_ref().is_some_and(&hit) => self.stderr.push(words.clone()),
            Fault::SwapTools(swap) if hit(&swap.on) => {
                self.swap = Some(Swap { tools: swap.tools.clone(), announce: swap.announce });
            }
            Fault::Http(http) if hit(&http.on) => self.http = Some((**http).clone()),
            // Another request, or a fault of the whole connection, listing or process.
            Fault::Silence(_)
            | Fault::Delay(_)
            | Fault::Error(_)
            | Fault::Result(_)
            | Fault::AnswerId(_)
            | Fault::Huge(_)
            | Fault::Say(_)
            | Fault::NoNewline(_)
            | Fault::ExitAfter(_)
            | Fault::ExitOnCall(_)
            | Fault::Exit(_)
            | Fault::LateReply(_)
            | Fault::Progress(_)
            | Fault::Ask(_)
            | Fault::EchoSecret(_)
            | Fault::BadTool(_)
            | Fault::RepeatCursor(_)
            | Fault::Cursor(_)
            | Fault::ManyTools(_)
            | Fault::SchemaBomb(_)
            | Fault::ListChangedAfterMs(_)
            | Fault::ListChangedStorm(_)
            | Fault::ListChangedOnList(_)
            | Fault::AddToolAfterList(_)
            | Fault::SwapTools(_)
            | Fault::Version(_)
            | Fault::JunkLine(_)
            | Fault::Bom(_)
            | Fault::Crlf(_)
            | Fault::Newline(_)
            | Fault::DripMs(_)
            | Fault::Stderr(_)
            | Fault::Grandchild(_)
            | Fault::IgnoreEof(_)
            | Fault::IgnoreSigterm(_)
            | Fault::CountFile(_)
            | Fault::Http(_)
            | Fault::CallLog(_) => {}
        }
    }
}
