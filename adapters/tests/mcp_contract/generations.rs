//! Both generations of the protocol, and every kind of answer to a call.

use super::*;
use crate::modern::STATE;

async fn spoken(connector: &dyn Connector, before: Remembered) -> Result<String, ConnectError> {
    let (notices, _noticed) = mpsc::channel(1);
    let connecting = connector.connect(terms_after(notices, before));
    let connected = timeout(Duration::from_secs(10), connecting).await.expect("in time");
    connected.map(|link| link.protocol())
}

#[tokio::test]
async fn each_server_is_spoken_to_as_it_speaks() {
    let legacy = Remembered::Legacy("2025-06-18".to_owned());
    let modern = Remembered::Modern("2026-07-28".to_owned());
    let rows = [
        ("plain", Remembered::Nothing, "2025-06-18"),
        ("plain", legacy.clone(), "2025-06-18"),
        ("answers nonsense", Remembered::Nothing, "2025-06-18"),
        ("mute when discovered", Remembered::Nothing, "2025-06-18"),
        ("ends when discovered", Remembered::EndedWhenDiscovered, "2025-06-18"),
        ("version 2024-11-05", Remembered::Nothing, "2024-11-05"),
        ("modern", Remembered::Nothing, "2026-07-28"),
        ("modern", modern, "2026-07-28"),
    ];
    for (script, before, version) in rows {
        for (over, connector) in both(script) {
            assert_eq!(spoken(&*connector, before.clone()).await, Ok(version.to_owned()), "{over}: {script}");
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_agreed_with_says_why() {
    let modern = Remembered::Modern("2026-07-28".to_owned());
    let known = "understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28";
    let before =
        "it spoke MCP 2026-07-28 before, and now: the server answered error -32601: method not found";
    let rows = [
        ("modern but picky", Remembered::Nothing, "the server answered error -32021: no".to_owned()),
        ("modern of another time", Remembered::Nothing, format!("it speaks MCP \"2030-01-01\", {known}")),
        ("plain", modern, format!("{before}; change its definition to start afresh")),
    ];
    for (script, before, reason) in rows {
        let refused = spoken(&inside(script), before).await;
        assert_eq!(refused, Err(ConnectError::Handshake { reason }), "{script}");
    }
}

#[tokio::test]
async fn a_modern_server_is_listed_called_and_probed() {
    for (over, connector) in both("modern") {
        let (link, _noticed) = open(&*connector).await;
        let tools = vec![json!({"name": "questions", "inputSchema": {"type": "object"}})];
        let ttl = Some(Duration::from_millis(1_500));
        let page = Page { tools, next_cursor: None, ttl, cache: CacheScope::Public };
        assert_eq!(link.list_page(None).await, Ok(page), "{over}");
        assert_eq!(link.probe().await, Ok(()), "{over}");
        let declared = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        assert_eq!(text(&*link, "meta").await, declared, "{over}");
    }
}

#[tokio::test]
async fn what_a_modern_server_asks_is_handed_over_and_its_state_comes_back_byte_for_byte() {
    for (over, connector) in both("modern") {
        let (link, _noticed) = open(&*connector).await;
        let given = arguments(json!({"a": 1}));
        let answer = link.call(request("questions", given.clone())).await;
        let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
        let requests = arguments(json!({"who": {"method": "elicitation/create", "params": form}}));
        let asked = InputRequired { requests, state: Some(STATE.to_owned()) };
        assert_eq!(answer, Ok(CallAnswer::InputRequired(asked)), "{over}");

        let mut again = request("questions", given.clone());
        let responses = arguments(json!({"who": {"action": "decline"}}));
        again.answers = Some(Answers { responses: responses.clone(), state: Some(STATE.to_owned()) });
        let whole = json!([responses, STATE, given]).to_string();
        assert_eq!(done(link.call(again)).await, said(CallOutcome::Succeeded, &whole), "{over}");
    }
}

#[tokio::test]
async fn a_task_of_a_modern_server_is_followed_to_its_result() {
    let ticket = |poll: u64, ttl: Option<u64>| TaskTicket {
        id: "t2".to_owned(),
        poll_after: Some(Duration::from_millis(poll)),
        ttl: ttl.map(Duration::from_millis),
    };
    for (over, connector) in both("modern") {
        let (link, _noticed) = open(&*connector).await;
        let started = link.call(request("task", Map::new())).await;
        assert_eq!(started, Ok(CallAnswer::Task(ticket(20, Some(5_000)))), "{over}");
        let id = || "t2".to_owned();
        assert_eq!(link.task(id()).await, Ok(TaskState::Working(ticket(1_000, None))), "{over}");
        let requests = arguments(json!({"dir": {"method": "roots/list"}}));
        let asked = InputRequired { requests, state: None };
        assert_eq!(link.task(id()).await, Ok(TaskState::InputRequired(ticket(1_000, None), asked)), "{over}");
        let responses = arguments(json!({"dir": {"roots": []}}));
        assert_eq!(link.answer_task(id(), responses).await, Ok(()), "{over}");
        assert_eq!(link.cancel_task(id()).await, Ok(()), "{over}");
        let told = r#"tasks/update "t2" {"dir":{"roots":[]}}; tasks/cancel "t2" null"#;
        let result = CallResult::said(CallOutcome::Succeeded, told);
        assert_eq!(link.task(id()).await, Ok(TaskState::Done(result)), "{over}");
    }
}

#[tokio::test]
async fn a_tool_that_runs_as_a_task_only_is_called_as_one_where_there_are_tasks() {
    for (over, connector) in both("tasking") {
        let (link, _noticed) = open(&*connector).await;
        assert!(link.list_page(None).await.is_ok(), "{over}");
        let ticket = TaskTicket {
            id: "t1".to_owned(),
            poll_after: Some(Duration::from_millis(50)),
            ttl: Some(Duration::from_secs(60)),
        };
        assert_eq!(link.call(request("slow", Map::new())).await, Ok(CallAnswer::Task(ticket)), "{over}");
        let result = CallResult::said(CallOutcome::Succeeded, "result of \"t1\"");
        assert_eq!(link.task("t1".to_owned()).await, Ok(TaskState::Done(result)), "{over}");
    }
    for (over, connector) in both("taskless") {
        let (link, _noticed) = open(&*connector).await;
        assert!(link.list_page(None).await.is_ok(), "{over}");
        let words = "the tool runs as a task only, and this server's protocol version has no tasks; it was not called";
        assert_eq!(call(&*link, "slow", json!({})).await, said(CallOutcome::Rejected, words), "{over}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_ends_is_opened_again_and_told_as_a_change() {
    for end in ["ends listening", "cancels listening"] {
        let connector = inside("modern");
        let (link, mut noticed) = open(&connector).await;
        assert_eq!(text(&*link, "changes").await, "changed");
        assert_eq!(noticed.recv().await, Some(Notice::ToolsChanged));
        assert_eq!(text(&*link, "listens").await, "1");
        text(&*link, end).await;
        assert!(noticed.try_recv().is_err(), "{end}");
        assert_eq!(noticed.recv().await, Some(Notice::ToolsChanged), "{end}");
        assert_eq!(text(&*link, "listens").await, "2", "{end}");
    }
}

#[tokio::test]
async fn progress_that_grows_is_told_while_a_call_runs() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let running = request("progresses", Map::new());
        let mut pulse = running.pulse.subscribe();
        let most = Pulse { progress: Some(3.0), questions: 0 };
        let told = pulse.wait_for(|pulse| *pulse == most);
        tokio::select! {
            answer = link.call(running) => panic!("{over}: {answer:?}"),
            told = timeout(Duration::from_secs(5), told) => drop(told.expect(over).expect(over)),
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_when_nobody_waits_any_more_is_counted() {
    for (over, connector) in both("plain") {
        let (link, _noticed) = open(&*connector).await;
        let calling = link.call(request("hangs", Map::new()));
        assert!(timeout(Duration::from_millis(20), calling).await.is_err(), "{over}");
        let start = Instant::now();
        while text(&*link, "cancelled").await != "[2]" {
            assert!(start.elapsed() < Duration::from_secs(2), "{over}: no cancel notice");
        }
        assert_eq!(text(&*link, "answers what was cancelled").await, "done", "{over}");
        assert_eq!(
            (connector.late_answers(), connector.junk_lines().min(1)),
            (1, u64::from(over != "pipe")),
            "{over}"
        );
    }
}
