//! What a person sees: one short line for each thing that happens, colours only on a terminal.

use std::io::{IsTerminal, Write, stdout};
use std::time::Instant;

use pilothouse::id::MessageId;
use pilothouse::server::{ServerState, ServerView};
use pilothouse::topic::{Receipt, TopicUpdate, TopicView};
use pilothouse::tree::TreeNode;

pub(crate) struct Timeline {
    start: Instant,
    colour: bool,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), colour: stdout().is_terminal() }
    }

    /// One line: when, who, what.
    pub(crate) fn line(&self, who: &str, what: &str) {
        let (on, off) = if self.colour { (colour_of(who), "\x1b[0m") } else { ("", "") };
        let at = self.start.elapsed().as_secs_f32();
        // A reader that has gone (`| head`) has seen enough.
        let _gone = writeln!(stdout(), "{at:6.2}s  {on}{who:<9}{off} {what}");
    }

    pub(crate) fn server(&self, view: &ServerView) {
        let why = view.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.line("server", &format!("{} is {}{why}", view.server, state(view.state)));
    }

    pub(crate) fn update(&self, update: &TopicUpdate) {
        match update {
            TopicUpdate::TurnStarted { turn, .. } => self.line("turn", &format!("{turn} begins")),
            TopicUpdate::Text { delta, .. } => self.line("model", delta.trim_end()),
            TopicUpdate::ToolStarted { tool, .. } => self.line("tool", &format!("{} runs", short(tool))),
            TopicUpdate::ToolFinished { tool, result, .. } => {
                let outcome = format!("{:?}", result.outcome).to_lowercase();
                self.line("tool", &format!("{} {outcome}: {}", short(tool), result.text()));
            }
            TopicUpdate::ApprovalRequested(card) => {
                let (label, tool) = (&card.label, card.source.raw_name());
                self.line("card", &format!("{label} wants to run {tool} with {}", card.arguments));
            }
            TopicUpdate::TurnFinished { turn, stop } => {
                let why = stop.detail().map(|why| format!(" ({why})")).unwrap_or_default();
                self.line("turn", &format!("{turn} ended: {}{why}", stop.name()));
            }
            TopicUpdate::Receipt { message, receipt } => self.receipt(*message, receipt),
            TopicUpdate::Status(_)
            | TopicUpdate::StepFinished { .. }
            | TopicUpdate::ApprovalSettled { .. }
            | TopicUpdate::Reasoning { .. }
            | TopicUpdate::ToolInput { .. }
            | TopicUpdate::MessageChanged { .. }
            | TopicUpdate::HistoryShortened { .. }
            | TopicUpdate::NestedStarted { .. }
            | TopicUpdate::NestedFinished { .. } => {}
        }
    }

    fn receipt(&self, message: MessageId, receipt: &Receipt) {
        match receipt {
            Receipt::Accepted { .. } => {}
            Receipt::Queued { position } => {
                self.line("message", &format!("{message} is durable, and number {position} in the queue"));
            }
            Receipt::Answered { turn } => {
                self.line("message", &format!("{message} was answered by turn {turn}"))
            }
            Receipt::Held { reason } => self.line("message", &format!("{message} is held: {reason:?}")),
            Receipt::Injected { turn, .. } => self.line("message", &format!("{message} joined turn {turn}")),
            Receipt::Dropped { by } => self.line("message", &format!("{message} was dropped by {by}")),
        }
    }

    pub(crate) fn history(&self, view: &TopicView) {
        for turn in &view.turns {
            for message in &turn.messages {
                self.line("history", &format!("you: {}", message.text));
            }
            for step in turn.steps.iter().filter(|step| !step.text.is_empty()) {
                self.line("history", &format!("model: {}", step.text));
            }
            let stop = turn.stop.as_ref().map_or("open", |stop| stop.name());
            self.line("history", &format!("turn {} ended: {stop}", turn.turn));
        }
    }

    pub(crate) fn tree(&self, root: &TreeNode) {
        let _gone = writeln!(stdout(), "\n{}", root.name);
        branch(&root.children, "");
    }
}

/// A wire name without the digits that make it unique.
fn short(tool: &str) -> &str {
    tool.rsplit_once('_').map_or(tool, |(readable, _digits)| readable)
}

fn branch(children: &[TreeNode], indent: &str) {
    for (place, child) in children.iter().enumerate() {
        let last = place + 1 == children.len();
        let (twig, deeper) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let tools = child.server.as_ref().filter(|server| server.revision.is_some());
        let tools = tools
            .map(|server| format!(", {} tool{}", server.tools, if server.tools == 1 { "" } else { "s" }))
            .unwrap_or_default();
        let why = child.last_failure.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        let _gone = writeln!(stdout(), "{indent}{twig}{}  {}{tools}{why}", child.name, child.state);
        branch(&child.children, &format!("{indent}{deeper}"));
    }
}

fn state(state: ServerState) -> &'static str {
    match state {
        ServerState::Connecting => "connecting",
        ServerState::Ready => "ready",
        ServerState::Backoff => "down, tried again soon",
        ServerState::Stopped => "stopped",
        ServerState::Failed => "failed for good",
    }
}

fn colour_of(who: &str) -> &'static str {
    match who {
        "you" => "\x1b[36m",
        "model" => "\x1b[32m",
        "card" => "\x1b[33m",
        "server" => "\x1b[35m",
        _ => "\x1b[2m",
    }
}
