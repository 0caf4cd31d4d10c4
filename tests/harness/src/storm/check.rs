//! The reference model: what follows from what was seen, and holds at every moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse::approval::{ApprovalId, CardState, DecideAnswer, Settlement, Verdict};
use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::id::{MessageId, TurnId};
use pilothouse::model::HistoryItem;
use pilothouse::topic::{CallState, CallView, MessageView, Receipt, StopReason, TopicView, TurnView};

use super::promise::{ASKS, CRASH, DURABLE, FIRST, HELD, HISTORY, KEY, ONE_PLACE};
use super::world::{Ran, World, token_of};

impl World {
    /// A call reaches its server.
    pub(super) fn reached(&self, server: &str, tool: &str, token: &str) {
        if token.is_empty() {
            return;
        }
        let (times, allowed, denied) = {
            let mut facts = self.facts();
            let times = facts.reached.entry(token.to_owned()).or_default();
            *times += 1;
            let times = *times;
            let topic = token.split('-').next().unwrap_or_default();
            let allowed = facts.allowed.contains(token) || facts.granted.contains(topic);
            let (server, tool) = (server.to_owned(), tool.to_owned());
            facts.ran.push(Ran { server, tool, token: token.to_owned(), was_allowed: allowed });
            (times, allowed, facts.denied.contains(token))
        };
        if tool == "look" {
            return;
        }
        if times > 1 {
            self.violated(CRASH, format!("the call {token} of {tool} ran {times} times"));
        }
        if tool == "drop" && !allowed {
            self.violated(ASKS, format!("the call {token} of {tool} ran, and nobody had allowed it"));
        }
        if tool == "drop" && denied {
            self.violated(FIRST, format!("the call {token} of {tool} ran, and it was denied"));
        }
    }

    /// A message was taken, says the topic.
    pub(super) fn took(&self, topic: &str, key: &str, message: MessageId) {
        let before = self.facts().taken.insert((topic.to_owned(), key.to_owned()), message);
        if let Some(before) = before
            && before != message
        {
            self.violated(KEY, format!("\"{key}\" was message {before} of {topic} and is now {message}"));
        }
    }

    /// A view of a topic, at any moment.
    pub(super) fn saw_view(&self, topic: &str, view: &TopicView) {
        self.messages_have_one_place(topic, view);
        self.held_stays_held(topic, view);
        self.what_waits_at_a_bad_end_is_held(topic, view);
        for (place, turn) in view.turns.iter().enumerate() {
            if turn.stop.is_some() {
                self.saw_closed(topic, turn);
            } else if place + 1 != view.turns.len() {
                self.violated(ONE_PLACE, format!("turn {} of {topic} is open, and not the last", turn.turn));
            }
        }
        self.nothing_is_lost(topic, view);
    }

    fn messages_have_one_place(&self, topic: &str, view: &TopicView) {
        let mut texts = BTreeMap::new();
        for message in all_messages(view) {
            if let Some(other) = texts.insert(message.text.clone(), message.message) {
                let promise = if other == message.message { ONE_PLACE } else { KEY };
                let words =
                    format!("\"{}\" of {topic} is message {other} and {}", message.text, message.message);
                self.violated(promise, words);
            }
        }
        let taken: Vec<_> = {
            let facts = self.facts();
            let ours = facts.taken.iter().filter(|((of, _), _)| of == topic);
            ours.map(|((_, key), message)| (key.clone(), *message)).collect()
        };
        for (key, message) in taken {
            // A view that was taken before the message was is no proof.
            let Some(found) = texts.get(&key) else { continue };
            if *found != message {
                self.violated(KEY, format!("\"{key}\" was message {message} of {topic} and is now {found}"));
            }
        }
    }

    fn held_stays_held(&self, topic: &str, view: &TopicView) {
        let now: Vec<_> = view.held.iter().map(|message| message.message).collect();
        let of_turns = view.turns.iter().flat_map(|turn| &turn.messages);
        let runs: Vec<_> = of_turns.chain(&view.queue).map(|message| message.message).collect();
        let mut facts = self.facts();
        facts.held.extend(now.iter().map(|message| (topic.to_owned(), *message)));
        let freed = runs.into_iter().find(|message| facts.held.contains(&(topic.to_owned(), *message)));
        drop(facts);
        if let Some(message) = freed {
            self.violated(HELD, format!("message {message} of {topic} was held and runs"));
        }
    }

    /// What waited when a turn ended badly does not run in the next one. Whether an end is bad is judged here, and not
    /// asked of the runtime.
    fn what_waits_at_a_bad_end_is_held(&self, topic: &str, view: &TopicView) {
        for (ended, next) in view.turns.iter().zip(view.turns.iter().skip(1)) {
            let is_bad = match &ended.stop {
                None | Some(StopReason::Completed | StopReason::Yielded) => false,
                Some(
                    StopReason::Aborted
                    | StopReason::Failed(_)
                    | StopReason::StepLimit
                    | StopReason::OutputTruncated
                    | StopReason::Refused
                    | StopReason::BudgetExhausted
                    | StopReason::ApprovalExpired
                    | StopReason::Interrupted(_)
                    | StopReason::BudgetSpent(_),
                ) => true,
            };
            let Some(at) = ended.finished_at.filter(|_| is_bad) else { continue };
            if let Some(ran) = next.messages.iter().find(|message| message.at < at) {
                let (turn, stop) = (ended.turn, ended.stop.as_ref().map(StopReason::name));
                let words = format!(
                    "message {} of {topic} waited as turn {turn} ended ({stop:?}), and ran",
                    ran.message
                );
                self.violated(HELD, words);
            }
        }
    }

    /// What a closed turn says is final.
    fn saw_closed(&self, topic: &str, turn: &Arc<TurnView>) {
        let key = (topic.to_owned(), turn.turn);
        let before = self.facts().closed.insert(key, turn.clone());
        match before {
            // Views share what is closed, so most are told apart without a look inside.
            Some(before) if Arc::ptr_eq(&before, turn) => return,
            Some(before) => {
                let shown = |turn: &TurnView| serde_json::to_string(turn).unwrap_or_default();
                let (before, now) = (shown(&before), shown(turn));
                if before == now {
                    return;
                }
                self.violated(DURABLE, format!("turn {} of {topic} was {before} and is {now}", turn.turn));
            }
            None => {}
        }
        for call in turn.steps.iter().flat_map(|step| &step.calls) {
            match &call.state {
                CallState::Finished(result) => self.saw_result(topic, call, result),
                CallState::Awaiting { .. } | CallState::Running => {
                    let words =
                        format!("turn {} of {topic} is over, and its call {} is not", turn.turn, call.call);
                    self.violated(ONE_PLACE, words);
                }
            }
        }
    }

    fn saw_result(&self, topic: &str, call: &CallView, result: &CallResult) {
        let token = token_of(&call.arguments.value());
        let times = self.facts().reached.get(&token).copied().unwrap_or_default();
        let is_wrong = match result.outcome {
            CallOutcome::Succeeded => times == 0,
            CallOutcome::Denied | CallOutcome::Rejected => times > 0,
            CallOutcome::Failed
            | CallOutcome::Unavailable
            | CallOutcome::TimedOut
            | CallOutcome::Cancelled
            | CallOutcome::Unknown => false,
        };
        if is_wrong {
            let words = format!(
                "call {} of {topic} ({token}) ran {times} times, and its result is {result:?}",
                call.call
            );
            self.violated(CRASH, words);
        }
    }

    /// What was seen before is still there.
    fn nothing_is_lost(&self, topic: &str, view: &TopicView) {
        if view.earlier_turns > 0 {
            return;
        }
        let there: Vec<TurnId> = view.turns.iter().map(|turn| turn.turn).collect();
        let seen: Vec<TurnId> = {
            let facts = self.facts();
            facts.closed.keys().filter(|(of, _)| of == topic).map(|(_, turn)| *turn).collect()
        };
        // A view may be older than what was seen since, but never has a later turn without an earlier one.
        let last = there.last().copied().unwrap_or_default();
        for turn in seen.into_iter().filter(|turn| *turn <= last) {
            if !there.contains(&turn) {
                self.violated(DURABLE, format!("turn {turn} of {topic} was over, and is gone"));
            }
        }
    }

    /// A view of a topic that was just loaded, or rests: everything that was told before is in it.
    pub(super) fn saw_whole_view(&self, topic: &str, view: &TopicView) {
        self.saw_view(topic, view);
        let here: BTreeMap<MessageId, &str> =
            all_messages(view).map(|message| (message.message, message.text.as_str())).collect();
        let (taken, closed): (Vec<_>, Vec<_>) = {
            let facts = self.facts();
            let taken = facts.taken.iter().filter(|((of, _), _)| of == topic);
            let closed = facts.closed.keys().filter(|(of, _)| of == topic);
            (
                taken.map(|((_, key), message)| (key.clone(), *message)).collect(),
                closed.map(|(_, turn)| *turn).collect(),
            )
        };
        for (key, message) in taken {
            if here.get(&message) != Some(&key.as_str()) {
                let words = format!("message {message} of {topic} (\"{key}\") was taken, and is gone");
                self.violated(CRASH, words);
            }
        }
        for turn in closed {
            if !view.turns.iter().any(|there| there.turn == turn) {
                self.violated(DURABLE, format!("turn {turn} of {topic} was over, and is gone"));
            }
        }
    }

    /// A card has its last word, says a window.
    pub(super) fn saw_settled(&self, approval: ApprovalId, state: CardState) {
        let before = self.facts().settled.insert(approval, state);
        if let Some(before) = before
            && before != state
        {
            self.violated(FIRST, format!("card {approval} was {before:?} and is {state:?}"));
        }
    }

    /// Somebody decided, and was told this.
    pub(super) fn decided(
        &self,
        card: &pilothouse::approval::Card,
        verdict: Verdict,
        by: &str,
        told: &DecideAnswer,
    ) {
        let before = self.facts().applied.get(&card.approval).cloned();
        let stands = |settled: &Settlement, (verdict, by): &(Verdict, String)| {
            let state = match verdict {
                Verdict::Allow => CardState::Approved,
                Verdict::Deny => CardState::Denied,
            };
            settled.state == state && settled.by.as_deref() == Some(by.as_str())
        };
        let fits = match (told, &before) {
            (DecideAnswer::Applied, Some(_)) => false,
            (DecideAnswer::Already(settled) | DecideAnswer::Conflict(settled), Some(first)) => {
                stands(settled, first)
            }
            (DecideAnswer::Expired(_) | DecideAnswer::Withdrawn(_) | DecideAnswer::Unknown, Some(_)) => false,
            (_, None) | (DecideAnswer::Changed { .. }, Some(_)) => true,
        };
        if !fits {
            self.violated(FIRST, format!("card {} was decided {before:?}, and then {told:?}", card.approval));
        }
        if *told == DecideAnswer::Unknown && self.facts().shown.contains(&card.approval) {
            self.violated(DURABLE, format!("card {} was shown, and nobody knows it", card.approval));
        }
        if *told == DecideAnswer::Applied {
            let mut facts = self.facts();
            facts.applied.insert(card.approval, (verdict, by.to_owned()));
            if verdict == Verdict::Deny {
                facts.denied.insert(token_of(&card.arguments.value()));
            }
        }
    }

    /// Providers refuse a history in which a call has no result, two, or one out of its place.
    pub(super) fn saw_history(&self, topic: &str, history: &[HistoryItem]) {
        let mut owed = Vec::new();
        for item in history {
            match item {
                HistoryItem::User { .. } | HistoryItem::Assistant { .. } if !owed.is_empty() => {
                    self.violated(HISTORY, format!("{topic}: {item:?} comes before the results of {owed:?}"));
                    return;
                }
                HistoryItem::User { .. } => {}
                HistoryItem::Assistant { calls, .. } => owed.extend(calls.iter().map(|call| call.call)),
                HistoryItem::Tool { call, .. } => match owed.first() {
                    Some(next) if next == call => {
                        owed.remove(0);
                    }
                    Some(_) | None => {
                        self.violated(
                            HISTORY,
                            format!("{topic}: a result of {call} where {owed:?} are owed"),
                        );
                        return;
                    }
                },
            }
        }
        if !owed.is_empty() {
            self.violated(HISTORY, format!("{topic}: {owed:?} have no result"));
        }
    }
}

fn all_messages(view: &TopicView) -> impl Iterator<Item = &MessageView> {
    view.turns.iter().flat_map(|turn| &turn.messages).chain(&view.queue).chain(&view.held)
}

/// Where a message is, in one word.
pub(super) fn place(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Accepted { turn } => format!("accepted({turn})"),
        Receipt::Queued { position } => format!("queued({position})"),
        Receipt::Answered { turn } => format!("answered({turn})"),
        Receipt::Held { reason } => format!("held({reason:?})").to_lowercase(),
        Receipt::Injected { .. } => "injected".to_owned(),
        Receipt::Dropped { .. } => "dropped".to_owned(),
    }
}
