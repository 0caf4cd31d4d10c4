//! Programs that models write: the port through which `tool_exec` runs them, and the one through which they call tools.
//!
//! A script is the body of an async function in JavaScript. It has no host but this:
//!
//! | in a script | is |
//! |---|---|
//! | `await tools.call(name, args)` | one tool's answer: its structured content, else its text; throws if it did not succeed |
//! | `console.log(…)` (also `info`, `warn`, `error`, `debug`) | lines that the model is shown |
//! | `return value` | the script's answer, as JSON |
//!
//! There is no `fetch`, `require`, `process`, timer or file, and nothing to import. What a script can do to the world it
//! does through [`ExecCaller`], whose implementer sends each call past the gate.
//!
//! It is defence in depth, not a security boundary: the engine is C code in this process. Its limits hold against
//! programs that loop, grow, recurse or flood; whoever has to run code that attacks the engine itself puts the whole
//! service into a sandbox of the operating system.

use std::sync::Arc;

use pilothouse_messages::call::CallResult;
use pilothouse_messages::scope::{Applies, Scope};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

#[cfg(feature = "exec")]
pub mod quickjs;

/// One call that a script makes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScriptCall {
    /// Which of the script's calls it is; counts from 1.
    pub number: u32,
    /// The name that the script wrote.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// Calls tools for a script.
pub trait ExecCaller: Send + Sync {
    /// Runs one call to its last word. Several run at the same time.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call: the script has ended.
    fn call(&self, call: ScriptCall) -> BoxFuture<'_, CallResult>;
}

/// Runs scripts.
///
/// For implementers: whatever the script does, the future is done within the bound of time, and the process lives.
pub trait ScriptEngine: Send + Sync + 'static {
    /// Runs one script to its last word; its calls go to `caller`.
    ///
    /// # Cancel safety
    /// Dropping the future, or cancelling it, ends the script and its calls.
    fn run<'a>(
        &'a self,
        script: String,
        caller: &'a dyn ExecCaller,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, CallResult>;
}

/// How `tool_exec` is switched on.
#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    applies: Option<Applies>,
}

impl ExecOptions {
    /// In every topic whose configuration admits the function `tool_exec`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only in topics for which this holds. It is asked whenever tools are read, so it has to be quick and may not wait;
    /// where it panics the tool is not there.
    #[must_use]
    pub fn applies(mut self, predicate: impl Fn(&Scope) -> bool + Send + Sync + 'static) -> Self {
        self.applies = Some(crate::tool::caught_predicate("tool_exec".to_owned(), predicate));
        self
    }

    /// The tool, run by this engine.
    pub fn with_engine(self, engine: impl ScriptEngine) -> ScriptTool {
        ScriptTool { engine: Arc::new(engine), applies: self.applies }
    }
}

/// `tool_exec` as a runtime has it.
#[derive(Clone)]
pub struct ScriptTool {
    /// What runs scripts.
    pub engine: Arc<dyn ScriptEngine>,
    /// In which topics it is active; `None` for all.
    pub applies: Option<Applies>,
}

impl std::fmt::Debug for ScriptTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptTool").finish_non_exhaustive()
    }
}
