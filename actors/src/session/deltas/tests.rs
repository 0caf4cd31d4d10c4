use pilothouse_messages::id::{Attempt, StepId, TurnId};

use super::*;

const AT: StepRef = StepRef { turn: TurnId(1), step: StepId(2), attempt: Attempt(1) };

fn input(index: u32, tool: &str, delta: &str) -> Shown {
    Shown::ToolInput { index, tool: tool.to_owned(), delta: delta.to_owned() }
}

#[test]
fn what_came_in_turns_is_told_together_and_nothing_is_told_twice() {
    let mut deltas = Deltas::default();
    deltas.reasoning("Let ");
    deltas.text("On ");
    deltas.input(0, "look", "");
    deltas.input(1, "drop", "{");
    deltas.reasoning("me see.");
    deltas.input(0, "look", "{}");
    deltas.text("it.");
    let expected = vec![
        TopicCommand::ModelShowed { at: AT, shown: vec![Shown::Reasoning("Let me see.".to_owned())] },
        TopicCommand::ModelText { at: AT, delta: "On it.".to_owned() },
        TopicCommand::ModelShowed { at: AT, shown: vec![input(0, "look", "{}"), input(1, "drop", "{")] },
    ];
    assert_eq!(deltas.take(AT), expected);
    assert!(deltas.are_none() && !deltas.are_many());
    assert_eq!(deltas.take(AT), []);
    deltas.input(2, "", "");
    assert!(!deltas.are_none(), "a call without a name and arguments is one");
}

#[test]
fn two_kibibytes_are_many_whatever_they_are_made_of() {
    type Add = fn(&mut Deltas, &str);
    let ways: [Add; 3] = [
        |deltas, words| deltas.text(words),
        |deltas, words| deltas.reasoning(words),
        |deltas, words| deltas.input(0, "", words),
    ];
    for add in ways {
        let mut deltas = Deltas::default();
        add(&mut deltas, &"a".repeat(FLUSH_BYTES - 1));
        assert!(!deltas.are_many());
        add(&mut deltas, "a");
        assert!(deltas.are_many());
    }
}
