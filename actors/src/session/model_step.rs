//! One model step as a task: reads the stream to its end, bounds every silence, and reports to the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::model::{Model, ModelStream};
use pilothouse_messages::id::StepRef;
use pilothouse_messages::json::JsonText;
use pilothouse_messages::model::{FinishReason, ModelEvent, ModelRequest, Usage};
use pilothouse_messages::topic::{
    Findings, ModelReply, RequestedCall, Resolution, TopicCommand, TopicConfig,
};
use pilothouse_rules::gate::Modes;
use pilothouse_rules::meta::{Asked, Mismatch};
use pilothouse_rules::registry::resolved;
use pilothouse_rules::surface::Surface;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Report, repair};
use crate::asking::{self, Asker};
use crate::gate::{self, Caller};
use crate::tasks::caught;
use crate::wiring::{TopicPlace, Wiring};

/// Text is reported at least this often …
const FLUSH_AFTER: Duration = Duration::from_millis(16);
/// … or when this much has gathered.
const FLUSH_BYTES: usize = 2 << 10;

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
}

/// What has come in so far.
#[derive(Default)]
struct Gathered {
    text: String,
    unreported: String,
    calls: BTreeMap<u32, DraftCall>,
    usage: Usage,
    bytes: usize,
}

#[derive(Default)]
pub(super) struct DraftCall {
    provider_id: Option<String>,
    name: String,
    arguments: String,
}

impl Run {
    /// Runs it and reports how it ended; a fault of the model is a report like any other.
    pub(super) async fn finish(self, request: ModelRequest) {
        let (at, report) = (self.at, self.report.clone());
        let within = self.wiring.limits.model_step;
        let bounded = async {
            let too_long = |_elapsed| Err(format!("the model went on for {} s", within.as_secs()));
            timeout(within, self.read(request)).await.unwrap_or_else(too_long)
        };
        let command = match caught(bounded).await {
            Ok(Ok(reply)) => TopicCommand::ModelReplied { at, reply },
            Ok(Err(message)) => TopicCommand::ModelFailed { at, message },
            Err(words) => TopicCommand::ModelFailed { at, message: format!("the model panicked: {words}") },
        };
        report.tell(command);
    }

    async fn read(&self, request: ModelRequest) -> Result<ModelReply, String> {
        let mut stream = self.model.run(request);
        let mut gathered = Gathered::default();
        let mut flush_at: Option<Instant> = None;
        let idle = self.wiring.limits.model_idle;
        loop {
            // Waits for more, but no longer than text may stay unreported.
            let within = flush_at.map_or(idle, |at| at.saturating_duration_since(Instant::now()));
            let event = match timeout(within, next(&mut stream)).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => {
                    self.flush(&mut gathered);
                    return Err(error.to_string());
                }
                Ok(None) => {
                    self.flush(&mut gathered);
                    return Err("the model's stream ended before its reply was complete".to_owned());
                }
                Err(_elapsed) if flush_at.is_some() => {
                    self.flush(&mut gathered);
                    flush_at = None;
                    continue;
                }
                Err(_elapsed) => return Err(format!("the model was silent for {} s", idle.as_secs())),
            };
            if let Some(finish) = gathered.take(event, self.wiring.limits.reply_bytes)? {
                self.flush(&mut gathered);
                return Ok(self.reply(gathered, finish).await);
            }
            if gathered.unreported.len() >= FLUSH_BYTES {
                self.flush(&mut gathered);
                flush_at = None;
            } else if !gathered.unreported.is_empty() && flush_at.is_none() {
                flush_at = Some(Instant::now() + FLUSH_AFTER);
            }
        }
    }

    fn flush(&self, gathered: &mut Gathered) {
        if !gathered.unreported.is_empty() {
            let delta = std::mem::take(&mut gathered.unreported);
            self.report.tell(TopicCommand::ModelText { at: self.at, delta });
        }
    }

    async fn reply(&self, gathered: Gathered, finish: FinishReason) -> ModelReply {
        let requested = self.requested(gathered.calls.into_values().collect()).await;
        let calls = self.judged(requested).await;
        ModelReply { calls, text: gathered.text, finish, usage: gathered.usage }
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
                asking::asked(&self.wiring, &asker, &draft.name, &draft.arguments)
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

impl Gathered {
    fn take(&mut self, event: ModelEvent, limit: usize) -> Result<Option<FinishReason>, String> {
        match event {
            ModelEvent::Text(text) => {
                self.grow(text.len(), limit)?;
                self.text.push_str(&text);
                self.unreported.push_str(&text);
            }
            // Reasoning is neither stored nor sent back.
            ModelEvent::Reasoning(_) => {}
            ModelEvent::CallStart { index, provider_id, name } => {
                self.grow(name.len() + 1, limit)?;
                self.calls.insert(index, DraftCall { provider_id, name, arguments: String::new() });
            }
            ModelEvent::CallDelta { index, arguments } => {
                self.grow(arguments.len(), limit)?;
                let Some(call) = self.calls.get_mut(&index) else {
                    return Err(format!("the model sent arguments for call {index}, which it had not begun"));
                };
                call.arguments.push_str(&arguments);
            }
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Finish(finish) => return Ok(Some(finish)),
        }
        Ok(None)
    }

    fn grow(&mut self, bytes: usize, limit: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes > limit {
            Err(format!("the model's reply is larger than {limit} bytes"))
        } else {
            Ok(())
        }
    }
}

async fn next(
    stream: &mut ModelStream,
) -> Option<Result<ModelEvent, pilothouse_adapters::model::ModelError>> {
    std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}
