//! Models that fail, fall silent, talk nonsense or never stop: each turn ends for its own reason, and the topic goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pilothouse::exec::ExecOptions;
use pilothouse::model::scripted::{ScriptedError, ScriptedModel, Step};
use pilothouse::model::{
    Dialect, FinishReason, HistoryItem, Model, ModelError, ModelEvent, ModelLimits, ModelRequest,
    ModelStream, Usage,
};
use pilothouse::prelude::*;
use pilothouse::schema::{Provider, check as check_rules, provider_ready};
use pilothouse::tool::Invocation;
use pilothouse::topic::{Budget, BudgetLimit, CostLimit, TopicStatus};
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep};

use crate::stage::{LATENCY, Stage, assert_acceptable, call_function, memory, plays, said, thinks};

type Event = Result<ModelEvent, ModelError>;
/// What a run sends, each after a wait.
type Beats = Box<dyn Iterator<Item = (Duration, Event)> + Send>;

/// A model that sends these, a run after the other; then it says "Fine.".
struct Rogue {
    runs: Mutex<VecDeque<Beats>>,
    count: AtomicUsize,
    last: Mutex<Vec<HistoryItem>>,
}

impl Rogue {
    fn new(runs: impl IntoIterator<Item = Beats>) -> Arc<Self> {
        let runs = Mutex::new(runs.into_iter().collect());
        Arc::new(Self { runs, count: AtomicUsize::new(0), last: Mutex::default() })
    }

    fn runs(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Model for Rogue {
    fn run(&self, request: ModelRequest) -> ModelStream {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().expect("nothing panics") = request.history;
        let next = self.runs.lock().expect("nothing panics").pop_front();
        let beats = next.unwrap_or_else(|| now([text("Fine."), finish()]));
        Box::pin(Playing { beats, waiting: None })
    }
}

/// The stream of one run; it ends with its last beat.
struct Playing {
    beats: Beats,
    waiting: Option<(Pin<Box<Sleep>>, Event)>,
}

impl futures_core::Stream for Playing {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.waiting.is_none() {
            match self.beats.next() {
                Some((after, event)) if after.is_zero() => return Poll::Ready(Some(event)),
                Some((after, event)) => self.waiting = Some((Box::pin(sleep(after)), event)),
                None => return Poll::Ready(None),
            }
        }
        if let Some((sleep, _)) = &mut self.waiting {
            ready!(sleep.as_mut().poll(cx));
        }
        Poll::Ready(self.waiting.take().map(|(_, event)| event))
    }
}

fn now(events: impl IntoIterator<Item = ModelEvent> + 'static) -> Beats {
    let events: Vec<_> = events.into_iter().collect();
    Box::new(events.into_iter().map(|event| (Duration::ZERO, Ok(event))))
}

/// The same for ever, with this pause in between.
fn ever(pause: Duration, event: ModelEvent) -> Beats {
    Box::new(std::iter::repeat_with(move || (pause, Ok(event.clone()))))
}

fn fails(error: ModelError) -> Beats {
    Box::new([(Duration::ZERO, Err(error))].into_iter())
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn start(index: u32, provider_id: &str, name: &str) -> ModelEvent {
    ModelEvent::CallStart { index, provider_id: Some(provider_id.to_owned()), name: name.to_owned() }
}

fn delta(index: u32, arguments: &str) -> ModelEvent {
    ModelEvent::CallDelta { index, arguments: arguments.to_owned() }
}

fn finish() -> ModelEvent {
    ModelEvent::Finish(FinishReason::Stop)
}

fn failed(words: &str) -> StopReason {
    StopReason::Failed(words.to_owned())
}

const SECOND: Duration = Duration::from_secs(1);
const AT_ONCE: Duration = Duration::ZERO;

/// How the first turn ends, after so many runs; the second one has to be answered.
async fn check(mut stage: Stage, model: &Rogue, expected: StopReason, runs: usize) {
    stage.say("Go.").await;
    let ended = stage.until_end().await;
    assert_eq!((&ended, model.runs()), (&expected, runs));
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed, "after {expected:?}");
    assert_acceptable(&model.last.lock().expect("nothing panics"));
}

#[tokio::test(start_paused = true)]
async fn nonsense_silence_and_endless_talk_end_the_turn_and_leave_the_topic_usable() {
    let reasoning = |text: &str| ModelEvent::Reasoning(text.to_owned());
    let usage = ModelEvent::Usage(Usage { input: 1, output: 1 });
    let rows = [
        (now([delta(3, "{}")]), "the model sent arguments for call 3, which it had not begun"),
        (now([start(0, "a", "look"), start(0, "b", "look")]), "the model began call 0 twice"),
        (now([text("Well")]), "the model's stream ended before its reply was complete"),
        (now([]), "the model's stream ended before its reply was complete"),
        (ever(AT_ONCE, text("and on ")), "the model's reply is larger than 262144 bytes"),
        (ever(AT_ONCE, reasoning("hm ")), "the model's reasoning is larger than 1048576 bytes"),
        (ever(AT_ONCE, text("")), "the model sent more than 65536 events that say nothing"),
        (ever(AT_ONCE, usage.clone()), "the model sent more than 65536 events that say nothing"),
        (
            Box::new((0..).map(|index| (AT_ONCE, Ok(start(index, "x", "look"))))),
            "the model's reply is larger than 262144 bytes",
        ),
        (ever(SECOND, text("x")), "the model went on for 300 s"),
        (ever(SECOND, reasoning("x")), "the model went on for 300 s"),
        (ever(SECOND, text("")), "the model was silent for 120 s"),
        (ever(SECOND, usage), "the model was silent for 120 s"),
    ];
    for (beats, words) in rows {
        let model = Rogue::new([beats]);
        let setup = thinks(model.clone()).limits(|limits| limits.model_step = 300 * SECOND);
        check(setup.raise().await, &model, failed(words), 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_with_one_id_of_the_provider_are_two_calls_to_us() {
    let calls = [start(0, "same", "look"), start(1, "same", "look"), delta(1, "{\"b\":2}"), finish()];
    let model = Rogue::new([now(calls)]);
    let look = Function::new("look", "Looks.", &json!({"type": "object"}), async |asked: Invocation| {
        Ok(asked.arguments.to_string())
    });
    let mut stage = thinks(model.clone()).function(look.effect(Effect::Reads)).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let said: Vec<_> = stage.results().iter().map(|result| result.text()).collect();
    assert_eq!(said, ["{}", "{\"b\":2}"]);
    assert_acceptable(&model.last.lock().expect("nothing panics"));
}

fn busy(retry_after: Option<u64>) -> Beats {
    let retry_after = retry_after.map(Duration::from_secs);
    fails(ModelError::Busy { status: 529, message: "overloaded".to_owned(), retry_after })
}

#[tokio::test(start_paused = true)]
async fn a_step_is_tried_again_only_while_its_model_has_said_nothing() {
    let gone = || fails(ModelError::Connection("reset".to_owned()));
    let words = "the model's provider cannot answer now, with status 529: overloaded";
    let after = |first: ModelEvent| -> Beats {
        let broke = ModelError::Connection("reset".to_owned());
        Box::new([(AT_ONCE, Ok(first)), (AT_ONCE, Err(broke))].into_iter())
    };
    let reset = "the connection to the model's provider failed: reset";
    let completed = StopReason::Completed;
    let rows: [(Vec<Beats>, StopReason, usize, std::ops::Range<u64>); 9] = [
        (vec![busy(None)], completed.clone(), 2, 500..1_100),
        (vec![busy(None), gone()], completed.clone(), 3, 1_500..3_100),
        (vec![busy(Some(7))], completed.clone(), 2, 7_000..7_600),
        (
            vec![busy(None), gone(), busy(None)],
            failed(&format!("{words} (the last of 3 tries)")),
            3,
            1_500..3_100,
        ),
        (vec![busy(Some(61))], failed(words), 1, 0..100),
        (
            vec![fails(ModelError::Broken("no JSON".to_owned()))],
            failed("the model's stream broke: no JSON"),
            1,
            0..100,
        ),
        (vec![after(text("We"))], failed(reset), 1, 0..100),
        (vec![after(ModelEvent::Reasoning("hm".to_owned()))], failed(reset), 1, 0..100),
        (vec![after(text(""))], completed, 2, 500..1_100),
    ];
    for (row, (beats, stop, runs, within)) in rows.into_iter().enumerate() {
        let model = Rogue::new(beats);
        let mut stage = thinks(model.clone()).raise().await;
        let begun = Instant::now();
        stage.say("Go.").await;
        assert_eq!((stage.until_end().await, model.runs()), (stop, runs), "row {row}");
        let took = u64::try_from(begun.elapsed().as_millis()).expect("it is short");
        assert!(within.contains(&took), "row {row} took {took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_model_wrote_before_it_broke_stays_and_is_told_once() {
    let broke = ModelError::Connection("reset".to_owned());
    let beats: Beats = Box::new([(AT_ONCE, Ok(text("Well"))), (AT_ONCE, Err(broke))].into_iter());
    let mut stage = thinks(Rogue::new([beats])).raise().await;
    stage.say("Go.").await;
    let shown = stage.until_rest().await;
    assert_eq!(shown.iter().filter(|line| *line == "\"Well\"").count(), 1, "{shown:?}");
    assert_eq!(stage.view().turns[0].steps[0].text, "Well");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_the_next_try() {
    let model = Rogue::new([busy(Some(50))]);
    let mut stage = thinks(model.clone()).raise().await;
    stage.say("Go.").await;
    sleep(SECOND).await;
    let asked = Instant::now();
    stage.topic.stop("ann").await.expect("the topic is there");
    assert_eq!((asked.elapsed(), stage.until_end().await), (LATENCY, StopReason::Aborted));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(model.runs(), 1, "nothing is tried for a turn that is over");
}

/// On real time: a paused clock stands still while a task can run.
#[tokio::test]
async fn a_stop_ends_a_model_that_never_lets_go() {
    let endless = ever(AT_ONCE, ModelEvent::Reasoning("hm ".to_owned()));
    let model = Rogue::new([endless]);
    let setup = thinks(model.clone()).store(memory()).limits(|limits| limits.reasoning_bytes = usize::MAX);
    let mut stage = setup.raise().await;
    stage.say("Go.").await;
    while model.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let stopping = tokio::time::timeout(Duration::from_secs(10), stage.topic.stop("ann"));
    assert_eq!(stopping.await.expect("others run, too").map(|turn| turn.map(|turn| turn.0)), Ok(Some(1)));
    assert_eq!(stage.until_end().await, StopReason::Aborted);
    stage.say("And now?").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_script_says_when_its_provider_may_be_asked_again() {
    let error = ScriptedError { status: 429, message: "slow down".to_owned(), retry_after_ms: Some(3_000) };
    let refused = Step { error: Some(error), ..Step::default() };
    let mut stage = plays([refused, Step::text("Fine.")]).raise().await;
    let begun = Instant::now();
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert!((3_000..3_600).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(stage.status(), TopicStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_turn_shows_the_tokens_of_its_steps_together() {
    let usage = |input, output| ModelEvent::Usage(Usage { input, output });
    let first = now([usage(10, 1), start(0, "a", "look"), usage(10, 5), finish()]);
    let second = now([text("Seen."), usage(20, 2), finish()]);
    let mut stage = thinks(Rogue::new([first, second])).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(stage.view().turns[0].usage, Usage { input: 30, output: 7 });
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_the_tokens_or_the_money_that_its_model_has_used_up_and_says_which() {
    // A step costs 300 × 2 + 20 × 10 millionths.
    let price = |limit| Some(CostLimit { limit, input: 2_000_000, output: 10_000_000 });
    let none = Budget::default();
    let (tokens, cost) = (StopReason::BudgetSpent(BudgetLimit::Tokens), BudgetLimit::Cost);
    let rows = [
        (Budget { tokens: Some(640), ..none }, tokens.clone(), "tokens", 2),
        (Budget { tokens: Some(641), ..none }, tokens, "tokens", 3),
        (Budget { cost: price(1_600), ..none }, StopReason::BudgetSpent(cost), "cost", 2),
        (Budget { cost: price(1_601), ..none }, StopReason::BudgetSpent(cost), "cost", 3),
    ];
    for (budget, expected, words, runs) in rows {
        assert_eq!((expected.name(), expected.detail()), ("budget_exhausted", Some(words)));
        // Each looks for something else, so that it is not stopped for asking the same again.
        let looks = |step| {
            let usage = ModelEvent::Usage(Usage { input: 300, output: 20 });
            now([usage, start(0, "a", "look"), delta(0, &format!("{{\"for\":{step}}}")), finish()])
        };
        let model = Rogue::new((0..runs).map(looks));
        let setup = thinks(model.clone()).config(|config| config.turns.budget = budget);
        check(setup.raise().await, &model, expected, runs).await;
    }
}

/// A model with a window of its own.
struct Windowed(ScriptedModel, Option<u64>);

impl Model for Windowed {
    fn run(&self, request: ModelRequest) -> ModelStream {
        self.0.run(request)
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(self.1, None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_a_window_takes_its_models() {
    let rows = [(None, None, 32_000), (Some(200_000), None, 200_000), (Some(200_000), Some(8_000), 8_000)];
    for (models, configs, expected) in rows {
        let model = Arc::new(Windowed(ScriptedModel::new(vec![call_function("no", json!({}))]), models));
        let setup = thinks(model).config(|config| config.context_window = configs);
        let mut stage = setup.raise().await;
        let window =
            |stage: &Stage| stage.topic.surface().and_then(|view| view.deferral.as_ref().map(|r| r.window));
        assert_eq!(window(&stage), Some(expected), "before its first turn");
        stage.say("Go.").await;
        stage.until_end().await;
        assert_eq!(window(&stage), Some(expected), "and as its turn pinned it");
    }
}

/// A model whose provider has rules of its own.
struct Speaks(ScriptedModel, Dialect);

impl Model for Speaks {
    fn run(&self, request: ModelRequest) -> ModelStream {
        self.0.run(request)
    }

    fn dialect(&self) -> Dialect {
        self.1
    }
}

/// On the real clock: a script has a thread of its own.
#[tokio::test]
async fn nulls_that_a_script_writes_are_its_own_also_where_its_tool_is_shown_strictly() {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "head": {"type": ["integer", "null"]}},
        "required": ["path"],
    });
    let clears = json!({"script": "return await tools.call('look', {path: 'a', head: null})"});
    let script = ScriptedModel::new(vec![call_function("tool_exec", clears), Step::text("Done.")]);
    let look =
        Function::new("look", "Looks.", &schema, async |asked: Invocation| Ok(asked.arguments.to_string()));
    let setup = thinks(Arc::new(Speaks(script, Dialect::OpenAiStrict))).function(look.effect(Effect::Reads));
    let mut stage = setup.build(|builder| builder.exec(ExecOptions::new())).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let told = said(&stage.results()[0]);
    assert!(told.contains(r#""head":null"#) || told.contains(r#"\"head\":null"#), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_models_tools_keep_its_providers_rules_and_the_nulls_of_strict_mode_reach_no_tool() {
    let head = json!({"type": ["integer", "null"], "exclusiveMinimum": 0});
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "head": head, "tail": {"type": "integer"}},
        "required": ["path"],
    });
    let free = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let rows = [
        (Dialect::Common, Provider::Gemini),
        (Dialect::OpenAi, Provider::OpenAi),
        (Dialect::OpenAiStrict, Provider::OpenAiStrict),
        (Dialect::Anthropic, Provider::Anthropic),
        (Dialect::Gemini, Provider::Gemini),
    ];
    for (dialect, provider) in rows {
        let is_strict = dialect == Dialect::OpenAiStrict;
        let written =
            if is_strict { json!({"path": "a", "head": null, "tail": null}) } else { json!({"path": "a"}) };
        let script = ScriptedModel::new(vec![call_function("look", written), Step::text("Seen.")]);
        let model = Arc::new(Speaks(script, dialect));
        let echo = async |asked: Invocation| Ok(asked.arguments.to_string());
        let look = Function::new("look", "Looks.", &schema, echo).effect(Effect::Reads);
        let tell = Function::new("tell", "Tells.", &free, echo).effect(Effect::Reads);
        let mut stage = thinks(model.clone()).function(look).function(tell).raise().await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        assert_eq!(said(&stage.results()[0]), r#"succeeded: {"path":"a"}"#, "{dialect:?}");

        let shown = model.0.requests()[0].surface.clone();
        assert_eq!(stage.topic.surface(), Some(shown.clone()), "people see what the model saw");
        let ready = [&schema, &free].map(|schema| provider_ready(schema, dialect).schema);
        let block: Vec<_> = shown.tools.iter().map(|tool| tool.input_schema.value()).collect();
        assert_eq!((block.as_slice(), shown.dialect), (ready.as_slice(), dialect));
        assert_eq!((shown.is_strict("look"), shown.is_strict("tell")), (is_strict, false), "{dialect:?}");
        assert_eq!(check_rules(&shown.tools[0], provider), [], "{dialect:?}");
    }
}
