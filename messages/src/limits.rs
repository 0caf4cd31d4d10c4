//! Every bound of the runtime, in one place.

use std::time::Duration;

use crate::topic::config::PermissionMode;

/// The bounds of a runtime. Each queue, wait and buffer ends at one of these.
///
/// ```
/// use pilothouse_messages::limits::Limits;
/// let limits = Limits::default();
/// assert_eq!(limits.steps_per_turn, 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// From starting a server to the end of its handshake (30 s).
    pub connect: Duration,
    /// Servers that connect at the same time (8); a further one waits for a place.
    pub connects_at_once: usize,
    /// How long one that connects keeps its place (1 s): silent servers do not keep healthy ones waiting.
    pub connect_place: Duration,
    /// A tool call without progress (60 s).
    pub call: Duration,
    /// A tool call that goes on telling its progress (10 min); never shorter than without.
    pub call_with_progress: Duration,
    /// Questions of one server that wait for the embedder's answer (4); a further one is declined.
    pub open_questions: usize,
    /// How long a question waits for an answer (10 min), and how long questions may stop one call's clock in all.
    pub question: Duration,
    /// Rounds of questions in one call (10).
    pub question_rounds: u32,
    /// How long a legacy or silent server may take to answer `server/discover` (10 s), at most a third of `connect`.
    pub discover: Duration,
    /// Calls in flight to one server (32); outside a turn a further one is refused as busy.
    pub calls_per_server: usize,
    /// Calls in flight of one topic (16); a further one waits.
    pub calls_per_topic: usize,
    /// Calls in one model reply (64); the turn fails on a reply that asks for more.
    pub calls_per_reply: usize,
    /// The first restart delay (0.5 s); doubles with each failure in a row.
    pub backoff_first: Duration,
    /// The longest restart delay (60 s).
    pub backoff_max: Duration,
    /// Failures in a row after which a child is parked as failed (64 for servers).
    pub restart_budget: u32,
    /// How often a server that was parked for its failures is tried once (5 min, a quarter more or less).
    pub half_open: Duration,
    /// The longest silence of a server before it is asked whether it still answers (30 s).
    pub probe_interval: Duration,
    /// How long it may take to answer that (10 s); then the connection ends.
    pub probe_deadline: Duration,
    /// Calls that time out in a row, with no answer in between, before the connection ends (3).
    pub timeouts_in_a_row: u32,
    /// One `tools/list`, all pages (30 s).
    pub listing: Duration,
    /// Pages in one listing (200).
    pub listing_pages: usize,
    /// Tools in one listing (5 000).
    pub listing_tools: usize,
    /// Bytes in one listing (16 MiB).
    pub listing_bytes: usize,
    /// Quiet time after a `list_changed` before the server is listed again (100 ms).
    pub list_changed_debounce: Duration,
    /// Result text shown to the model, in bytes (64 KiB).
    pub result_bytes: usize,
    /// Text and arguments in one model reply, in bytes (256 KiB).
    pub reply_bytes: usize,
    /// Steps in one turn (20).
    pub steps_per_turn: u32,
    /// Messages waiting in one topic (32).
    pub queued_messages: usize,
    /// Text of the messages waiting in one topic, in bytes (64 KiB).
    pub queued_bytes: usize,
    /// Messages of one topic that wait or are held (256): nothing waits beyond it, so that no hold is without a bound.
    pub held_messages: usize,
    /// Text of those, in bytes (1 MiB).
    pub held_bytes: usize,
    /// How long a card waits for a person (24 h).
    pub approval: Duration,
    /// Cards open in one topic (64).
    pub cards_per_topic: usize,
    /// Grants that hold in the whole runtime (10 000).
    pub grants: usize,
    /// Rules about arguments in one grant (16).
    pub grant_rules: usize,
    /// How long a classifier may take over one call (10 s); one that takes longer has a person asked.
    pub classifier: Duration,
    /// The loosest mode that a topic may choose (bypass).
    pub max_mode: PermissionMode,
    /// How often an unpaid decision is told again (30 s).
    pub debt_retry: Duration,
    /// The longest silence of a model while it runs (2 min); what says nothing does not break it.
    pub model_idle: Duration,
    /// One model step in all, however much it says (30 min).
    pub model_step: Duration,
    /// Reading everything stored back at a start (5 min); a start that takes longer fails.
    pub read_back: Duration,
    /// A commit of the store (5 s); a longer one ends the actor.
    pub commit: Duration,
    /// Stopping the whole runtime (10 s).
    pub stop: Duration,
    /// A child's end, before its process group is killed (2 s).
    pub stop_child: Duration,
    /// Messages in one actor's mailbox (256); a further one is refused as busy.
    pub mailbox: usize,
    /// Events kept for one subscriber (1 024); a slower one is told that it lags.
    pub subscriber: usize,
    /// How long a handle waits for an actor that is being restarted (5 s).
    pub actor_absent: Duration,
    /// How long a pinned surface lives in an idle topic (5 min).
    pub surface_ttl: Duration,
    /// Turns kept in a view (20).
    pub view_turns: usize,
    /// Bytes of a description that are shown (8 KiB).
    pub description_bytes: usize,
    /// Lines of a server's stderr kept for diagnostics (64).
    pub stderr_lines: usize,
    /// The scripts of `tool_exec`.
    pub exec: ExecLimits,
    /// Reasoning in one model reply, in bytes (1 MiB); it is shown, never stored.
    pub reasoning_bytes: usize,
    /// How often one model step is tried (3), as long as its model has said nothing.
    pub model_tries: u32,
    /// The wait before the second try (1 s); doubles with each, about half of it drawn.
    pub model_backoff: Duration,
    /// The longest wait that a provider may ask for (60 s); one that asks for more fails the turn.
    pub model_retry_after: Duration,
    /// Whole results kept of one topic, in bytes (64 MiB); the oldest go first.
    pub kept_results_topic: usize,
    /// Whole results kept in all, in bytes (1 GiB); the oldest go first.
    pub kept_results: usize,
    /// How long one that connects keeps its place while others wait for one (100 ms), instead of `connect_place`: so that
    /// no healthy server is behind a dead one. More of it spreads the start of many heavy programs.
    pub connect_place_wanted: Duration,
    /// Reading one topic back, or what was said in it before (30 s).
    pub topic_load: Duration,
    /// How long a topic rests before it is put to sleep (5 min); it wakes with the next command.
    pub topic_idle: Duration,
    /// Closed turns that a topic keeps at least, of which older ones go (all of them); what its view shows stays.
    pub keep_turns: Option<u64>,
    /// How long a topic keeps closed turns at least, of which older ones go (for ever); what its view shows stays.
    pub keep_for: Option<Duration>,
    /// Questions to a person that servers may ask in one call (16); a further one is declined at once.
    pub questions_per_call: usize,
    /// How long an actor of the house may take over one message (5 s); none waits for anything, so one that does is
    /// ended, and a fresh one takes its place.
    pub handler: Duration,
}

/// The bounds of the scripts that models run with `tool_exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecLimits {
    /// Memory of one script, in bytes (64 MiB).
    pub memory: usize,
    /// Stack of one script, in bytes (512 KiB).
    pub stack: usize,
    /// One script from its call to its last word, the calls that it makes included (30 s of the wall's clock).
    pub time: Duration,
    /// What one script may return, and what it may log, in bytes each (64 KiB).
    pub output: usize,
    /// Calls of one script (32); a further one throws.
    pub calls: u32,
    /// Calls of one script that run at the same time (8); a further one waits.
    pub calls_at_once: usize,
    /// Scripts of the runtime that run at the same time (4); a further one waits.
    pub scripts_at_once: usize,
}

impl Default for ExecLimits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            stack: 512 << 10,
            time: Duration::from_secs(30),
            output: 64 << 10,
            calls: 32,
            calls_at_once: 8,
            scripts_at_once: 4,
        }
    }
}

/// The longest wait that a limit can ask for: a year, so that no sum of two overflows a clock.
pub const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most text that one record can hold (512 KiB): a batch of the store takes twice as much.
pub const TEXT_MAX: usize = 512 << 10;

impl Limits {
    /// Cuts every wait to [`WAIT_MAX`], so that `Duration::MAX` may stand for "no limit", and every bound of a text that
    /// is recorded to [`TEXT_MAX`], so that no text within the limits is more than the store takes.
    #[must_use]
    pub fn clamped(mut self) -> Self {
        let waits = [
            &mut self.connect,
            &mut self.connect_place,
            &mut self.connect_place_wanted,
            &mut self.call,
            &mut self.call_with_progress,
            &mut self.question,
            &mut self.discover,
            &mut self.backoff_first,
            &mut self.backoff_max,
            &mut self.half_open,
            &mut self.probe_interval,
            &mut self.probe_deadline,
            &mut self.listing,
            &mut self.list_changed_debounce,
            &mut self.approval,
            &mut self.classifier,
            &mut self.debt_retry,
            &mut self.model_idle,
            &mut self.model_step,
            &mut self.read_back,
            &mut self.commit,
            &mut self.stop,
            &mut self.stop_child,
            &mut self.actor_absent,
            &mut self.surface_ttl,
            &mut self.exec.time,
            &mut self.model_backoff,
            &mut self.model_retry_after,
            &mut self.topic_load,
            &mut self.topic_idle,
            &mut self.handler,
        ];
        for wait in waits {
            *wait = (*wait).min(WAIT_MAX);
        }
        for text in
            [&mut self.result_bytes, &mut self.reply_bytes, &mut self.queued_bytes, &mut self.exec.output]
        {
            *text = (*text).min(TEXT_MAX);
        }
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            connects_at_once: 8,
            connect_place: Duration::from_secs(1),
            call: Duration::from_secs(60),
            call_with_progress: Duration::from_secs(600),
            open_questions: 4,
            question: Duration::from_secs(600),
            question_rounds: 10,
            discover: Duration::from_secs(10),
            calls_per_server: 32,
            calls_per_topic: 16,
            calls_per_reply: 64,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            restart_budget: 64,
            half_open: Duration::from_secs(300),
            probe_interval: Duration::from_secs(30),
            probe_deadline: Duration::from_secs(10),
            timeouts_in_a_row: 3,
            listing: Duration::from_secs(30),
            listing_pages: 200,
            listing_tools: 5_000,
            listing_bytes: 16 << 20,
            list_changed_debounce: Duration::from_millis(100),
            result_bytes: 64 << 10,
            reply_bytes: 256 << 10,
            steps_per_turn: 20,
            queued_messages: 32,
            queued_bytes: 64 << 10,
            held_messages: 256,
            held_bytes: 1 << 20,
            approval: Duration::from_secs(24 * 60 * 60),
            cards_per_topic: 64,
            grants: 10_000,
            grant_rules: 16,
            classifier: Duration::from_secs(10),
            max_mode: PermissionMode::Bypass,
            debt_retry: Duration::from_secs(30),
            model_idle: Duration::from_secs(120),
            model_step: Duration::from_secs(30 * 60),
            read_back: Duration::from_secs(300),
            commit: Duration::from_secs(5),
            stop: Duration::from_secs(10),
            stop_child: Duration::from_secs(2),
            mailbox: 256,
            subscriber: 1_024,
            actor_absent: Duration::from_secs(5),
            surface_ttl: Duration::from_secs(300),
            view_turns: 20,
            description_bytes: 8 << 10,
            stderr_lines: 64,
            exec: ExecLimits::default(),
            reasoning_bytes: 1 << 20,
            model_tries: 3,
            model_backoff: Duration::from_secs(1),
            model_retry_after: Duration::from_secs(60),
            kept_results_topic: 64 << 20,
            kept_results: 1 << 30,
            connect_place_wanted: Duration::from_millis(100),
            topic_load: Duration::from_secs(30),
            topic_idle: Duration::from_secs(300),
            keep_turns: None,
            keep_for: None,
            questions_per_call: 16,
            handler: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests;
