//! Mending the arguments of a call that its tool would refuse: one question to whoever knows better, and no second one.

use pilothouse_messages::tool::ToolDefinition;

use crate::BoxFuture;

/// A call whose arguments are not what its tool asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenCall {
    /// The wire name.
    pub name: String,
    /// The tool.
    pub definition: ToolDefinition,
    /// The arguments, as the model wrote them.
    pub written: String,
    /// What is wrong with them.
    pub reason: String,
}

impl BrokenCall {
    /// A call of this tool.
    pub fn new(
        name: impl Into<String>,
        definition: ToolDefinition,
        written: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), definition, written: written.into(), reason: reason.into() }
    }
}

/// Mends arguments that a tool would refuse, usually with a small model. Without one the model is told what is wrong.
///
/// It is asked at most once for a call and awaited outside of every actor, within 10 s. What it gives has to be what the
/// tool's schema asks for, and then passes the gate like arguments that the model wrote: a person is shown it. One that
/// gives nothing, fails to match, panics or takes longer changes nothing.
pub trait ArgumentRepair: Send + Sync + 'static {
    /// The arguments as they were meant, as the text of a JSON object; `None` if it cannot tell.
    fn repair(&self, broken: BrokenCall) -> BoxFuture<'static, Option<String>>;
}

impl<F, R> ArgumentRepair for F
where
    F: Fn(BrokenCall) -> R + Send + Sync + 'static,
    R: Future<Output = Option<String>> + Send + 'static,
{
    fn repair(&self, broken: BrokenCall) -> BoxFuture<'static, Option<String>> {
        Box::pin(self(broken))
    }
}
