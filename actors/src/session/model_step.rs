//! One model step as a task: reads the stream to its end, bounds every silence and the whole, tries again before the
//! first word, and reports to the session.

mod broke;
mod gathered;
mod recall;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_adapters::model::{Model, ModelError, ModelStream};
use pilothouse_messages::id::StepRef;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::model::{FinishReason, ModelEvent, ModelRequest};
use pilothouse_messages::topic::{
    Findings, ModelReply, RequestedCall, Resolution, Shown, TopicCommand, TopicConfig,
};
use pilothouse_rules::gate::Modes;
use pilothouse_rules::meta::{Asked, Mismatch};
use pilothouse_rules::registry::resolved;
use pilothouse_rules::retry::{FailedTry, next_try};
use pilothouse_rules::surface::Surface;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, timeout_at};

use super::deltas::FLUSH_AFTER;
use super::pin::{dialect_of, windowed};
use super::{Report, SessionShell, repair};
use crate::asking::{self, Asker};
use crate::gate::{self, Caller};
use crate::phase::Phase;
use crate::tasks::{caught, caught_now};
use crate::wiring::{TopicPlace, Wiring};
use broke::Broke;
use gathered::{DraftCall, Gathered};

impl SessionShell {
    /// Runs the model's step, or reads first what it needs of the past.
    pub(super) fn run_model(&mut self, at: StepRef) {
        let report = Report(self.myself.clone());
        let cancel = self.running.turn(at.turn, &self.tasks);
        let Some(history) = self.history(at) else { return self.read_earlier(at) };
        let Phase::Live(topic) = &mut self.phase else { return };
        let now = topic.now();
        let Some(config) = topic.state().turn_config() else { return };
        let model = match caught_now(|| self.wiring.models.resolve(&config.model)) {
            Ok(Some(model)) => model,
            Ok(None) => {
                let message = format!("no model is called \"{}\"", config.model);
                return report.tell(TopicCommand::ModelFailed { at, message });
            }
            Err(words) => {
                let message = format!("the resolver of models panicked: {words}");
                return report.tell(TopicCommand::ModelFailed { at, message });
            }
        };
        let (config, dialect) = (windowed(config, model.as_ref()), dialect_of(model.as_ref()));
        let (surface, late) = self.pin.for_step(&self.wiring, &self.place, (&config, dialect), at, now);
        self.place.surface.store(Some(surface.view().clone()));
        self.place.deferred.store(surface.deferred().clone());
        let mut request = ModelRequest::new(history, surface.view().clone());
        request.late_tools = late;
        let run = Run {
            wiring: self.wiring.clone(),
            place: self.place.clone(),
            config,
            surface,
            model,
            at,
            report,
            left_out: self.left_out.clone(),
        };
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = run.finish(request) => {}
            }
        });
    }
}

/// A model step to be run.
pub(super) struct Run {
    pub(super) wiring: Arc<Wiring>,
    pub(super) place: Arc<TopicPlace>,
    pub(super) config: TopicConfig,
    /// What the model is shown.
    pub(super) surface: Surface,
    pub(super) model: Arc<dyn Model>,
    pub(super) at: StepRef,
    pub(super) report: Report,
    /// How many turns the topic's last request left out.
    pub(super) left_out: Arc<AtomicU64>,
}

impl Run {
    /// Runs it and reports how it ended; a fault of the model is a report like any other.
    pub(super) async fn finish(self, mut request: ModelRequest) {
        let (at, report) = (self.at, self.report.clone());
        let left_out = recall::fit(&self.wiring, self.config.context_window, &mut request);
        if self.left_out.swap(left_out, Ordering::Relaxed) != left_out && left_out > 0 {
            report.tell(TopicCommand::ModelShowed { at, shown: vec![Shown::HistoryShortened { left_out }] });
        }
        let command = match caught(self.tried(request)).await {
            Ok(Ok(reply)) => TopicCommand::ModelReplied { at, reply },
            Ok(Err(message)) => TopicCommand::ModelFailed { at, message },
            Err(words) => TopicCommand::ModelFailed { at, message: format!("the model panicked: {words}") },
        };
        report.tell(command);
    }

    /// Tries until there is a reply, or a fault that does not pass; all tries share one deadline.
    async fn tried(&self, request: ModelRequest) -> Result<ModelReply, String> {
        let limits = &self.wiring.limits;
        let deadline = Instant::now() + limits.model_step;
        for number in 1.. {
            let mut gathered = Gathered::within(limits);
            let broke = match self.read(request.clone(), &mut gathered, deadline).await {
                Ok(finish) => return Ok(self.reply(gathered, finish).await),
                Err(broke) => broke,
            };
            self.flush(&mut gathered);
            let failed = FailedTry { number, said: gathered.said(), fault: broke.fault() };
            match next_try(&self.place.topic, self.at, failed, limits) {
                Some(wait) if Instant::now() + wait < deadline => {
                    let (topic, wait_ms) = (&self.place.topic, wait.as_millis());
                    tracing::debug!(target: "pilothouse", %topic, number, %wait_ms, reason = %broke, "a model is asked again");
                    sleep(wait).await;
                }
                Some(_) | None if number > 1 => return Err(format!("{broke} (the last of {number} tries)")),
                Some(_) | None => return Err(broke.to_string()),
            }
        }
        // A step is tried a bounded number of times.
        Err("the model was asked too often".to_owned())
    }

    /// Reads one stream to its end. Whatever the model sends, other tasks run in between and both deadlines hold.
    async fn read(
        &self,
        request: ModelRequest,
        gathered: &mut Gathered,
        deadline: Instant,
    ) -> Result<FinishReason, Broke> {
        let Limits { model_idle: idle, model_step: whole, .. } = *self.wiring.limits;
        let mut stream = self.model.run(request);
        let mut silent_at = Instant::now() + idle;
        let mut flush_at: Option<Instant> = None;
        loop {
            // A stream that is always ready would never let anybody else run.
            consume_budget().await;
            let until = flush_at.unwrap_or(deadline).min(silent_at).min(deadline);
            let came = timeout_at(until, next(&mut stream)).await;
            let now = Instant::now();
            match came {
                _ if now >= deadline => return Err(Broke::TooLong(whole)),
                Ok(Some(Ok(event))) => {
                    let heard = gathered.bytes();
                    if let Some(finish) = gathered.take(event).map_err(Broke::Senseless)? {
                        self.flush(gathered);
                        return Ok(finish);
                    }
                    if gathered.bytes() > heard {
                        silent_at = now + idle;
                    }
                }
                Ok(Some(Err(error))) => return Err(Broke::Model(error)),
                Ok(None) => {
                    return Err(Broke::Senseless(
                        "the model's stream ended before its reply was complete".to_owned(),
                    ));
                }
                Err(_elapsed) => {}
            }
            if now >= silent_at {
                return Err(Broke::Silent(idle));
            }
            if gathered.deltas().are_many() || flush_at.is_some_and(|at| now >= at) {
                self.flush(gathered);
                flush_at = None;
            } else if !gathered.deltas().are_none() && flush_at.is_none() {
                flush_at = Some(now + FLUSH_AFTER);
            }
        }
    }

    fn flush(&self, gathered: &mut Gathered) {
        gathered.deltas().take(self.at).into_iter().for_each(|command| self.report.tell(command));
    }

    async fn reply(&self, gathered: Gathered, finish: FinishReason) -> ModelReply {
        let (text, usage, drafts) = gathered.into_parts();
        let requested = self.requested(drafts).await;
        let calls = self.judged(requested).await;
        ModelReply { calls, text, finish, usage }
    }

    /// What each call comes to, in order: what one has inspected the next ones may invoke.
    async fn requested(&self, drafts: Vec<DraftCall>) -> Vec<RequestedCall> {
        let asker = Asker {
            topic: &self.place.topic,
            scope: self.surface.scope(),
            block: self.surface.view(),
            deferred: self.surface.deferred(),
            inspected: &self.place.inspected,
        };
        let mut drafted = Vec::with_capacity(drafts.len());
        for (place, draft) in drafts.into_iter().enumerate() {
            let asked = if place < self.wiring.limits.calls_per_reply {
                asking::asked_by_model(&self.wiring, &asker, &draft.name, &draft.arguments)
            } else {
                Asked::Refused("there are too many calls in this reply".to_owned())
            };
            drafted.push((draft, asked));
            // A search in a large catalog takes a while; others may run in between.
            tokio::task::yield_now().await;
        }
        repair::mended(&self.wiring, &mut drafted).await;
        drafted.into_iter().map(|(draft, asked)| requested(draft, asked)).collect()
    }

    /// Asks the layers of the gate about all calls side by side: only the classifier is waited for, once.
    async fn judged(&self, mut calls: Vec<RequestedCall>) -> Vec<RequestedCall> {
        let caller = Caller {
            tenant: self.config.tenant.clone(),
            topic: Some(self.place.topic.clone()),
            turn: Some(self.at.turn),
        };
        let modes = Modes::of(self.config.mode, self.wiring.limits.max_mode);
        let mut asked = JoinSet::new();
        for (place, call) in calls.iter().enumerate().take(self.wiring.limits.calls_per_reply) {
            if let Resolution::Tool(tool) = &call.resolution {
                let (wiring, caller) = (self.wiring.clone(), caller.clone());
                let (tool, arguments) = (tool.clone(), call.arguments.clone());
                asked.spawn(async move {
                    (place, gate::findings(&wiring, &caller, &tool, &arguments, modes).await)
                });
            }
        }
        // The embedder's panics are caught inside; a call whose task ended all the same stays unheard.
        while let Some(joined) = asked.join_next().await {
            if let Ok((place, findings)) = joined
                && let Some(call) = calls.get_mut(place)
            {
                call.findings = findings;
            }
        }
        calls
    }
}

fn requested(draft: DraftCall, asked: Asked) -> RequestedCall {
    let DraftCall { provider_id, name, arguments: written } = draft;
    let (resolution, arguments) = match asked {
        Asked::Run { entry, arguments, fixes: _ } => {
            (Resolution::Tool(Box::new(resolved(&entry))), Some(arguments))
        }
        Asked::Answered(result) => (Resolution::Answered(result), as_object(written)),
        Asked::Refused(words) | Asked::Mismatch(Mismatch { words, .. }) => {
            (Resolution::Refused(words), as_object(written))
        }
    };
    let arguments = arguments.unwrap_or_else(|| JsonText::from(serde_json::json!({})));
    // Stays where no layer is heard: a call of which nothing is known asks, in every mode.
    let unheard = Some("the gate could not look at this call".to_owned());
    let findings = Findings { asked: unheard, ..Findings::default() };
    RequestedCall { provider_id, name, arguments, resolution, findings }
}

/// The text as it is, if it is a JSON object: providers take no other arguments in a history.
fn as_object(written: String) -> Option<JsonText> {
    JsonText::parse(written).ok().filter(|json| json.as_str().trim_start().starts_with('{'))
}

async fn next(stream: &mut ModelStream) -> Option<Result<ModelEvent, ModelError>> {
    std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}
