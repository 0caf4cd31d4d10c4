//! Calls that are tasks: answered at once, fetched later (2026-07-28's extension, and 2025-11-25's experiment).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::answer::{INVALID_PARAMS, Said};
use super::modern::Generation;
use super::{State, lock};

/// Tasks that are remembered; the oldest go.
const TASKS_KEPT: usize = 256;
const POLL_MS: u64 = 50;

/// All tasks of a peer, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: VecDeque<Task>,
    made: u64,
}

#[derive(Debug, Clone)]
struct Task {
    id: String,
    created: String,
    standing: Arc<watch::Sender<Standing>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Standing {
    Working,
    Completed(Value),
    Cancelled,
}

impl Standing {
    fn name(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed(_) => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Whether a call becomes a task: before 2026-07-28 its client says so.
pub(super) fn is_wanted(params: &Value, generation: Generation) -> bool {
    match generation {
        Generation::Legacy => params.get("task").is_some_and(Value::is_object),
        Generation::Modern => true,
    }
}

/// Starts a task that takes so long; the answer to its call.
pub(super) fn create(state: &Arc<State>, generation: Generation, takes: Duration, result: Value) -> Said {
    let standing = Arc::new(watch::Sender::new(Standing::Working));
    let task = {
        let mut tasks = lock(&state.tasks);
        tasks.made += 1;
        let task = Task { id: format!("task-{}", tasks.made), created: now(), standing: standing.clone() };
        if tasks.known.len() == TASKS_KEPT {
            tasks.known.pop_front();
        }
        tasks.known.push_back(task.clone());
        task
    };
    // Ends by itself: its time is bounded by the script, and it holds nothing but its own standing.
    tokio::spawn(async move {
        tokio::time::sleep(takes).await;
        standing.send_if_modified(|standing| {
            let works = *standing == Standing::Working;
            if works {
                *standing = Standing::Completed(result);
            }
            works
        });
    });
    let shown = task.shown(generation);
    Said::value(&match generation {
        Generation::Legacy => json!({"task": shown}),
        Generation::Modern => with(shown, "resultType", json!("task")),
    })
}

/// How a task stands.
pub(super) fn get(state: &State, params: &Value, generation: Generation) -> Said {
    let Some(task) = find(state, params) else { return unknown() };
    let shown = task.shown(generation);
    let standing = task.standing.borrow().clone();
    Said::value(&match (generation, standing) {
        (Generation::Legacy, Standing::Working | Standing::Completed(_) | Standing::Cancelled) => shown,
        (Generation::Modern, Standing::Completed(result)) => {
            with(with(shown, "result", result), "resultType", json!("complete"))
        }
        (Generation::Modern, Standing::Working | Standing::Cancelled) => {
            with(shown, "resultType", json!("complete"))
        }
    })
}

/// A task's result, once it is there.
pub(super) async fn result(state: &State, params: &Value) -> Said {
    let Some(task) = find(state, params) else { return unknown() };
    let mut standing = task.standing.subscribe();
    let ended = standing.wait_for(|standing| *standing != Standing::Working).await;
    match ended.map(|standing| standing.clone()) {
        Ok(Standing::Completed(result)) => Said::value(&result),
        Ok(Standing::Cancelled | Standing::Working) | Err(_) => {
            Said::error(INVALID_PARAMS, "the task was cancelled")
        }
    }
}

/// Ends a task that still works.
pub(super) fn cancel(state: &State, params: &Value, generation: Generation) -> Said {
    let Some(task) = find(state, params) else { return unknown() };
    let ended = task.standing.send_if_modified(|standing| {
        let works = *standing == Standing::Working;
        if works {
            *standing = Standing::Cancelled;
        }
        works
    });
    match (generation, ended) {
        (Generation::Legacy, true) => Said::value(&task.shown(generation)),
        (Generation::Legacy, false) => Said::error(INVALID_PARAMS, "the task has ended"),
        (Generation::Modern, _) => Said::value(&json!({"resultType": "complete"})),
    }
}

fn find(state: &State, params: &Value) -> Option<Task> {
    let id = params.get("taskId").and_then(Value::as_str)?;
    lock(&state.tasks).known.iter().find(|task| task.id == id).cloned()
}

fn unknown() -> Said {
    Said::error(INVALID_PARAMS, "there is no such task")
}

impl Task {
    fn shown(&self, generation: Generation) -> Value {
        let (ttl, poll) = match generation {
            Generation::Legacy => ("ttl", "pollInterval"),
            Generation::Modern => ("ttlMs", "pollIntervalMs"),
        };
        json!({"taskId": self.id, "status": self.standing.borrow().name(), "createdAt": self.created,
            "lastUpdatedAt": now(), ttl: Value::Null, poll: POLL_MS})
    }
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
    object
}

/// The time as ISO 8601 writes it.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    stamp(seconds)
}

/// Days into a date by Howard Hinnant's `civil_from_days`, for days after 1970.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn a_stamp_is_a_date_of_the_calendar() {
        let rows = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_785_196_799, "2026-07-27T23:59:59Z"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(stamp(seconds), expected);
        }
    }
}
