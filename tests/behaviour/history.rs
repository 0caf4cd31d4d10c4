//! What a model is given of a long conversation.

use std::sync::Arc;

use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::model::{HistoryItem, HistoryPolicy, HistoryRoom};
use pilothouse::prelude::*;
use serde_json::json;

use crate::stage::{Setup, Stage, assert_acceptable, call_function, thinks};

/// A model that looks, and then answers, in each of so many turns.
fn looks(turns: usize) -> Arc<ScriptedModel> {
    let turn = |_| [call_function("look", json!({})), Step::text("Seen.")];
    Arc::new(ScriptedModel::new((0..turns).flat_map(turn).collect()))
}

fn setup(model: &Arc<ScriptedModel>) -> Setup {
    let schema = json!({"type": "object"});
    let look = Function::new("look", "Looks.", &schema, async |_| Ok("x".repeat(4_000)));
    thinks(model.clone()).function(look.effect(Effect::Reads))
}

async fn turns(stage: &mut Stage, count: usize) -> Vec<String> {
    let mut shown = Vec::new();
    for number in 1..=count {
        stage.say(&format!("Go {number}.")).await;
        shown.extend(stage.until_rest().await);
    }
    shown.retain(|line| line.starts_with("history"));
    shown
}

fn first_message(history: &[HistoryItem]) -> String {
    match history.first() {
        Some(HistoryItem::User { text }) => text.clone(),
        other => panic!("it begins with {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_turns_are_left_out_whole_when_the_window_is_four_fifths_full_and_windows_are_told() {
    let model = looks(11);
    // A turn costs a little more than a thousand tokens, and a fifth of the window is two of them.
    let mut stage = setup(&model).config(|config| config.context_window = Some(10_000)).raise().await;
    let told = turns(&mut stage, 11).await;
    let requests = model.requests();
    assert_eq!(requests.len(), 22);
    for request in &requests {
        assert_acceptable(&request.history);
    }
    let firsts: Vec<String> = requests.iter().map(|request| first_message(&request.history)).collect();
    let mut distinct = firsts.clone();
    distinct.dedup();
    assert_eq!(distinct, ["Go 1.", "Go 3.", "Go 5."], "it moves rarely: {firsts:?}");
    assert_eq!(told, ["history without 2 turns", "history without 4 turns"]);
    assert_eq!(stage.view().turns.len(), 11, "what people see stays whole");
}

#[tokio::test(start_paused = true)]
async fn the_turn_that_runs_is_given_whole_however_small_the_window() {
    let model = looks(2);
    let mut stage = setup(&model).config(|config| config.context_window = Some(100)).raise().await;
    assert_eq!(turns(&mut stage, 2).await, ["history without 1 turns"]);
    let last = model.requests().pop().expect("there are some").history;
    assert_eq!((first_message(&last).as_str(), last.len()), ("Go 2.", 3));
}

/// What an embedder's own policy may do, good or bad.
enum Odd {
    CutsCalls,
    LosesAll,
    Panics,
}

impl HistoryPolicy for Odd {
    fn choose(&self, history: &[HistoryItem], room: &HistoryRoom<'_>) -> Option<Vec<HistoryItem>> {
        assert!(room.taken > 0 && room.window == 32_000, "it is told what else the request holds");
        match self {
            Self::CutsCalls => history.last().map(|last| vec![last.clone()]),
            Self::LosesAll => Some(Vec::new()),
            Self::Panics => panic!("no memory of it"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_embedders_policy_chooses_and_whatever_it_does_the_history_is_acceptable() {
    let rows = [(Odd::CutsCalls, 0), (Odd::LosesAll, 0), (Odd::Panics, 3)];
    for (policy, items) in rows {
        let model = looks(1);
        let mut stage = setup(&model).build(|builder| builder.history_policy(policy)).raise().await;
        stage.say("Go.").await;
        assert_eq!(stage.until_end().await, StopReason::Completed);
        let last = model.requests().pop().expect("there are some").history;
        assert_acceptable(&last);
        assert_eq!(last.len(), items);
    }
}
