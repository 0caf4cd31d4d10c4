//! The calls that a script makes: children of the call that it runs in.

use serde::{Deserialize, Serialize};

use crate::call::CallResult;
use crate::json::JsonText;
use crate::topic::command::ResolvedTool;
use crate::topic::event::RunBasis;

/// One call of a script, with what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedCall {
    /// Which of its script's calls, from 1 on.
    pub number: u32,
    /// The name that the script wrote.
    pub name: String,
    /// The arguments of the tool that is called; of a call that is not made, what the script gave.
    pub arguments: JsonText,
    /// The tool that is called, if there is one.
    pub tool: Option<ResolvedTool>,
    /// What happens with it.
    pub plan: NestedPlan,
}

impl NestedCall {
    /// The wire name.
    pub fn tool_name(&self) -> &str {
        self.tool.as_ref().map_or(&self.name, |tool| &tool.name)
    }
}

/// What happens with a call of a script. Nobody is asked: a script cannot wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NestedPlan {
    /// It runs now; why it may.
    Run(RunBasis),
    /// Nothing runs: it was refused, or answered from what is known here.
    Answered(CallResult),
}

/// What happened with one call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NestedNews {
    /// The script made it. If it runs, this is its intent, recorded before it is sent.
    Called(Box<NestedCall>),
    /// It was handed over.
    Sent {
        /// Which.
        number: u32,
    },
    /// It has its one result.
    Returned {
        /// Which.
        number: u32,
        /// The result.
        result: CallResult,
    },
}
