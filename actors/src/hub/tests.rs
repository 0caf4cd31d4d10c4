use pilothouse_messages::id::{StepId, TopicId, TurnId};
use pilothouse_messages::model::Usage;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{StepView, TopicConfig, TopicStatus, TurnView};

use super::*;

fn view(status: TopicStatus) -> TopicView {
    let topic = TopicId::new("harbour").expect("an id");
    let mut view = TopicView::new(topic, TopicConfig::new("model"));
    view.status = status;
    let step = StepView { step: StepId(1), text: String::new(), calls: Vec::new() };
    view.turns = vec![Arc::new(TurnView {
        turn: TurnId(1),
        messages: Vec::new(),
        steps: vec![step],
        stop: None,
        started_at: Timestamp(0),
        finished_at: None,
        continues: None,
        usage: Usage::default(),
    })];
    view
}

fn open() -> Arc<TopicHub> {
    let hub = Arc::new(TopicHub::default());
    hub.open(7, view(TopicStatus::Idle));
    hub
}

fn is_now(status: TopicStatus) -> TopicPicture {
    TopicPicture { updates: vec![TopicUpdate::Status(status)], view: Some(view(status)) }
}

fn wrote(delta: &str) -> TopicPicture {
    TopicPicture { updates: vec![text(delta)], view: None }
}

fn text(delta: &str) -> TopicUpdate {
    TopicUpdate::Text { turn: TurnId(1), delta: delta.to_owned() }
}

fn update(n: u64, update: TopicUpdate) -> TopicEventOut {
    TopicEventOut::Update { sequence: Sequence { epoch: 7, n }, update }
}

fn shown(hub: &TopicHub) -> (u64, TopicStatus, String) {
    let view = hub.view().expect("open");
    (view.sequence.n, view.status, view.turns[0].steps[0].text.clone())
}

#[tokio::test]
async fn a_window_gets_the_view_and_everything_after_it() {
    let hub = open();
    hub.publish(is_now(TopicStatus::Pending));
    let mut window = hub.attach(8).expect("open");
    hub.publish(is_now(TopicStatus::Streaming));
    hub.publish(wrote("ahoy"));
    assert_eq!(
        (window.view.sequence, window.view.status),
        (Sequence { epoch: 7, n: 1 }, TopicStatus::Pending)
    );
    assert_eq!(window.next().await, Some(update(2, TopicUpdate::Status(TopicStatus::Streaming))));
    assert_eq!(window.next().await, Some(update(3, text("ahoy"))));
    assert_eq!(window.try_next(), None);
}

#[test]
fn a_topic_that_was_never_opened_has_no_window() {
    assert!(Arc::new(TopicHub::default()).attach(8).is_none());
}

#[test]
fn text_is_in_the_view_as_soon_as_it_is_told() {
    let hub = open();
    let before = hub.view().expect("open");
    hub.publish(is_now(TopicStatus::Streaming));
    hub.publish(wrote("ship "));
    hub.publish(wrote("ahoy"));
    assert_eq!(shown(&hub), (3, TopicStatus::Streaming, "ship ahoy".to_owned()));
    assert_eq!(
        (before.sequence.n, before.status),
        (0, TopicStatus::Idle),
        "a view that somebody holds stays"
    );
}

#[tokio::test]
async fn a_window_that_lags_is_cut_off_and_told_how_much_it_missed_and_nobody_else_notices() {
    let hub = open();
    let mut slow = hub.attach(2).expect("open");
    let mut quick = hub.attach(8).expect("open");
    ["a", "b", "c", "d"].iter().for_each(|delta| hub.publish(wrote(delta)));
    assert_eq!(hub.state().subscribers.len(), 1);

    let seen = [slow.next().await, slow.next().await, slow.next().await, slow.next().await];
    let lagged = TopicEventOut::Lagged { missed: 2, resume_from: Sequence { epoch: 7, n: 4 } };
    assert_eq!(seen, [Some(update(1, text("a"))), Some(update(2, text("b"))), Some(lagged), None]);

    for (n, delta) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        assert_eq!(quick.next().await, Some(update(n, text(delta))));
    }
    let again = hub.attach(2).expect("open");
    assert_eq!((again.view.sequence.n, shown(&hub).2), (4, "abcd".to_owned()));
}

#[tokio::test]
async fn a_closed_hub_tells_what_was_left_then_the_end() {
    let hub = open();
    let mut window = hub.attach(8).expect("open");
    hub.publish(wrote("last"));
    hub.close();
    let seen = [window.next().await, window.next().await, window.next().await];
    assert_eq!(seen, [Some(update(1, text("last"))), Some(TopicEventOut::Closed), None]);
    let mut late = hub.attach(8).expect("the view can still be read");
    assert_eq!((late.next().await, late.next().await), (Some(TopicEventOut::Closed), None));
}

#[test]
fn a_window_that_is_dropped_is_detached_and_the_others_stay() {
    let hub = open();
    let (one, mut other) = (hub.attach(8).expect("open"), hub.attach(8).expect("open"));
    assert_eq!(hub.state().subscribers.len(), 2);
    drop(one);
    assert_eq!(hub.state().subscribers.len(), 1);
    hub.publish(wrote("ahoy"));
    assert_eq!(other.try_next(), Some(update(1, text("ahoy"))));
}

fn thinks(step: u32, delta: &str) -> TopicPicture {
    let (turn, step, delta) = (TurnId(1), StepId(step), delta.to_owned());
    TopicPicture { updates: vec![TopicUpdate::Reasoning { turn, step, delta }], view: None }
}

fn writes(index: u32, tool: &str, delta: &str) -> TopicPicture {
    let (turn, step, tool, delta) = (TurnId(1), StepId(1), tool.to_owned(), delta.to_owned());
    TopicPicture { updates: vec![TopicUpdate::ToolInput { turn, step, index, tool, delta }], view: None }
}

#[test]
fn who_comes_while_a_model_writes_sees_what_it_showed_and_the_end_takes_it_away() {
    let hub = open();
    [
        thinks(1, "hm, "),
        writes(1, "look", ""),
        thinks(1, "so"),
        writes(0, "drop", "{}"),
        writes(1, "look", "{"),
    ]
    .into_iter()
    .for_each(|picture| hub.publish(picture));
    let mut expected = LiveStep::new(TurnId(1), StepId(1));
    expected.reasoning = "hm, so".to_owned();
    let input = |index, tool: &str, arguments: &str| LiveInput {
        index,
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    expected.inputs = vec![input(1, "look", "{"), input(0, "drop", "{}")];
    let seen = |hub: &Arc<TopicHub>| hub.attach(1).expect("open").view.live.clone();
    assert_eq!(seen(&hub), Some(expected.clone()));

    hub.publish(is_now(TopicStatus::Streaming));
    assert_eq!(seen(&hub), Some(expected), "a message that comes in between changes nothing about it");

    let mut ended = view(TopicStatus::Done);
    Arc::make_mut(&mut ended.turns[0]).stop = Some(pilothouse_messages::topic::StopReason::Completed);
    hub.publish(TopicPicture { updates: Vec::new(), view: Some(ended) });
    assert_eq!(seen(&hub), None);
}

#[test]
fn the_next_step_begins_with_nothing_shown_and_a_view_grows_no_further_than_its_bound() {
    let hub = open();
    hub.publish(thinks(1, "first"));
    hub.publish(thinks(2, "second"));
    let reasoning = |hub: &TopicHub| hub.view().expect("open").live.clone().expect("it thinks").reasoning;
    assert_eq!(reasoning(&hub), "second");
    let much = "a".repeat(LIVE_BYTES / 2);
    let mut window = hub.attach(8).expect("open");
    [&much, &much, "b"].into_iter().for_each(|words| hub.publish(thinks(2, words)));
    assert_eq!(reasoning(&hub).len(), "second".len() + much.len() + 1);
    let told = std::iter::from_fn(|| window.try_next()).count();
    assert_eq!(told, 3, "a window is told all of it");
}
