//! Questions of servers, asked and answered line by line.

use serde_json::json;

use super::run::{event, held, listed, send, topic};

#[test]
fn a_question_is_printed_answered_once_and_over() {
    let script = json!({"tools": [{"name": "ask", "reply": "told"}],
        "faults": [{"ask": {"what": "elicitation", "on": {"tool": "ask"}}}]});
    let server = json!({"server": {"id": "a", "transport": {"peer": script}, "effects": {"ask": "reads"}}});
    let calls = json!({"calls": [{"tool": {"server": "a", "tool": "ask"}}]});
    let run = held(
        None,
        &[
            server,
            listed("a"),
            topic(&json!([calls, {"text": "Done."}])),
            send("Go."),
            event(&json!({"kind": "question_asked", "ask": "form", "server": "a", "call": "1.1.0"})),
            json!({"questions": {}}),
            json!({"answer": {"question": "last", "action": "accept", "content": {"name": 7}, "by": "ada"}}),
            json!({"answer": {"question": "last", "action": "accept", "content": {"name": "Ada"}, "by": "ada"}}),
            event(&json!({"kind": "question_over", "word": "accepted", "by": "ada"})),
            event(&json!({"kind": "turn_finished", "stop": "completed"})),
        ],
    );
    let asked = run.events("question_asked")[0];
    assert_eq!(run.reply(6)["questions"][0]["question"], asked["question"]);
    assert_eq!(run.errors(), [(7, "refused")], "{}", run.shown());
    assert_eq!((&run.reply(8)["answer"], &run.reply(8)["question"]), (&json!("applied"), &asked["question"]));
}
