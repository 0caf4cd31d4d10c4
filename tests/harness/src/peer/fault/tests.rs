use std::time::Duration;

use pilothouse_adapters::mcp::InMemoryServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::peer::{Input, Output, Peer, Script};

fn peer(script: &Value) -> std::sync::Arc<Peer> {
    Peer::new(Script::try_from(script.clone()).expect("the script of a row is good"))
}

fn rpc(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
}

fn note(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n"
}

async fn send(input: &mut Input, text: &str) {
    input.write_all(text.as_bytes()).await.expect("the peer reads");
}

/// Every byte until a minute of silence (paused: at once) or the end, which is told.
async fn heard(output: &mut Output) -> String {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match timeout(Duration::from_secs(60), output.read(&mut piece)).await {
            Ok(Ok(0) | Err(_)) => {
                bytes.extend_from_slice(b"<end>");
                break;
            }
            Ok(Ok(count)) => bytes.extend_from_slice(&piece[..count]),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const PONG: &str = "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}\n";

/// A ping under a fault: exactly these bytes.
#[tokio::test(start_paused = true)]
async fn each_fault_of_an_answer_shows_in_its_bytes() {
    let pong = |id: &str| format!("{{{id}\"jsonrpc\":\"2.0\",\"result\":{{}}}}\n");
    let rows: Vec<(Value, String)> = vec![
        (json!({"silence": "ping"}), String::new()),
        (json!({"silence": {"method": "ping", "after": 1}}), PONG.into()),
        (json!({"silence": {"method": "ping", "nth": 1}}), String::new()),
        (json!({"delay": {"on": "ping", "ms": 50}}), PONG.into()),
        (
            json!({"error": {"on": "ping", "code": -32603, "message": "no", "data": [1]}}),
            "{\"error\":{\"code\":-32603,\"data\":[1],\"message\":\"no\"},\"id\":1,\"jsonrpc\":\"2.0\"}\n"
                .into(),
        ),
        (json!({"result": {"on": "ping", "result": 7}}), PONG.replace("{}", "7")),
        (json!({"answer_id": {"as": "wrong"}}), pong("\"id\":1000001,")),
        (json!({"answer_id": {"as": "previous"}}), pong("\"id\":null,")),
        (json!({"answer_id": {"as": "repeated"}}), PONG.repeat(2)),
        (json!({"answer_id": {"as": "null"}}), pong("\"id\":null,")),
        (json!({"answer_id": {"as": "missing"}}), pong("")),
        (json!({"answer_id": {"as": "text"}}), pong("\"id\":\"1\",")),
        (json!({"say": {"on": "ping", "text": "Proceed? (y)"}}), format!("Proceed? (y){PONG}")),
        (json!({"say": {"on": "ping", "message": {"a": 1}}}), format!("{{\"a\":1}}\n{PONG}")),
        (json!({"no_newline": {"on": "ping", "mib": 1}}), format!("{}\n{PONG}", "x".repeat(1 << 20))),
        (json!({"exit": {"on": "ping"}}), "<end>".into()),
        (json!({"bom": "first"}), format!("\u{feff}{PONG}")),
        (json!({"crlf": true}), PONG.replace('\n', "\r\n")),
        (json!({"newline": "cr"}), PONG.replace('\n', "\r")),
        (json!({"drip_ms": 1}), PONG.into()),
        (json!({"junk_line": "oops"}), format!("oops\n{PONG}")),
        (
            json!({"echo_secret": {"on": "ping", "header": "x", "in": "error"}}),
            "{\"error\":{\"code\":-32603,\"message\":\"\"},\"id\":1,\"jsonrpc\":\"2.0\"}\n".into(),
        ),
        // Faults of a process do nothing inside another one.
        (json!({"stderr": {"kib": 1}}), PONG.into()),
        (json!({"grandchild": {"seconds": 1}}), PONG.into()),
        (json!({"ignore_eof": true}), PONG.into()),
        (json!({"ignore_sigterm": true}), PONG.into()),
        (json!({"http": {"status": 500}}), PONG.into()),
    ];
    for (fault, expected) in rows {
        let (mut output, mut input) = peer(&json!({"faults": [fault]})).open();
        send(&mut input, &rpc(1, "ping", json!({}))).await;
        let told = heard(&mut output).await;
        let (told_start, expected_start) = (told.get(..200), expected.get(..200));
        assert!(
            told == expected,
            "{fault}: {:?} is not {:?}",
            told_start.unwrap_or(&told),
            expected_start.unwrap_or(&expected)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_line_carries_its_mark_and_drips() {
    let start = tokio::time::Instant::now();
    let (mut output, mut input) = peer(&json!({"faults": [{"bom": "every"}, {"drip_ms": 10}]})).open();
    send(&mut input, &rpc(1, "ping", json!({})).repeat(2)).await;
    let expected = format!("\u{feff}{PONG}").repeat(2);
    let mut bytes = vec![0; expected.len()];
    output.read_exact(&mut bytes).await.expect("the peer speaks");
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
    assert_eq!(start.elapsed(), Duration::from_millis(10 * (expected.len() as u64 - 1)));
}

/// What a listing says under a fault.
#[tokio::test(start_paused = true)]
async fn hostile_listings_are_written_as_the_script_says() {
    let list = |cursor: Option<&str>| {
        rpc(1, "tools/list", cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor})))
    };
    let rows = [
        (json!({"cursor": "endless"}), None, "\"nextCursor\":\"1\",\"tools\":[{\"name\":\"page_0\""),
        (json!({"cursor": "endless"}), Some("41"), "\"nextCursor\":\"42\",\"tools\":[{\"name\":\"page_41\""),
        (
            json!({"cursor": "repeat"}),
            Some("0"),
            "\"nextCursor\":\"0\",\"tools\":[{\"inputSchema\":{\"type\":\"object\"},\"name\":\"a\"}]",
        ),
        (json!({"cursor": "empty"}), None, "\"nextCursor\":\"\",\"tools\":[{"),
        (
            json!({"many_tools": 2}),
            None,
            "{\"name\":\"tool_0\",\"inputSchema\":{\"type\":\"object\"}},{\"name\":\"tool_1\"",
        ),
        (
            json!({"schema_bomb": {"kind": "deep", "size": 2}}),
            None,
            "{\"name\":\"bomb\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\"}}}}}}",
        ),
        (
            json!({"schema_bomb": {"kind": "wide", "size": 2}}),
            None,
            "{\"p0\":{\"type\":\"string\"},\"p1\":{\"type\":\"string\"}}",
        ),
        (
            json!({"schema_bomb": {"kind": "refs", "size": 1}}),
            None,
            "\"$defs\":{\"d0\":{\"allOf\":[{\"$ref\":\"#/$defs/d1\"},{\"$ref\":\"#/$defs/d1\"}]},\"d1\":{\"type\":\"string\"}}",
        ),
    ];
    for (fault, cursor, part) in rows {
        let (mut output, mut input) = peer(&json!({"tools": [{"name": "a"}], "faults": [fault]})).open();
        send(&mut input, &list(cursor)).await;
        let told = heard(&mut output).await;
        assert!(told.contains(part), "{fault}: {part} is not in {told}");
    }
    let script =
        json!({"faults": [{"many_tools": 200_000}, {"schema_bomb": {"kind": "deep", "size": 100_000}}]});
    let (mut output, mut input) = peer(&script).open();
    send(&mut input, &list(None)).await;
    assert!(heard(&mut output).await.len() > 10 << 20, "a listing of any size can be made");
}

#[tokio::test(start_paused = true)]
async fn notices_come_as_often_and_as_late_as_the_script_says() {
    let changed = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    let ready = note("notifications/initialized", json!({}));
    let rows = [
        (json!({"list_changed_storm": {"count": 200}}), ready.clone(), changed.repeat(200)),
        (json!({"list_changed_after_ms": 5}), ready.clone(), changed.to_owned()),
        (
            json!({"ask": {"what": "ping"}}),
            ready.clone(),
            "{\"id\":\"peer-ask-1\",\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":{}}\n".to_owned(),
        ),
        (json!({"exit": {"on": "notifications/initialized"}}), ready, "<end>".to_owned()),
    ];
    for (fault, line, expected) in rows {
        let (mut output, mut input) = peer(&json!({"faults": [fault]})).open();
        send(&mut input, &line).await;
        assert_eq!(heard(&mut output).await, expected, "{fault}");
    }
    let script = json!({"faults": [{"list_changed_on_list": true},
        {"swap_tools": {"on": "list", "tools": [{"name": "b"}]}}]});
    let (mut output, mut input) = peer(&script).open();
    let told = format!("{}{}", note("notifications/initialized", json!({})), rpc(1, "tools/list", json!({})));
    send(&mut input, &told).await;
    let told = heard(&mut output).await;
    assert!(told.contains("\"tools\":[]") && told.contains(changed), "{told}");
    send(&mut input, &rpc(2, "tools/list", json!({}))).await;
    assert!(heard(&mut output).await.contains("\"name\":\"b\""), "the tools were swapped");
}

#[tokio::test(start_paused = true)]
async fn a_call_says_progress_until_its_answer_and_also_without_one() {
    let call = rpc(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": 9}}));
    let rows = [
        (json!([{"progress": {"every_ms": 100}}]), 3, true),
        (json!([{"progress": {"every_ms": 100, "times": 2}}]), 2, true),
        (json!([{"progress": {"on": {"tool": "b"}, "every_ms": 100}}]), 0, true),
    ];
    for (faults, times, is_answered) in rows {
        let script = json!({"tools": [{"name": "a", "delay_ms": 350}], "faults": faults});
        let (mut output, mut input) = peer(&script).open();
        send(&mut input, &call).await;
        let told = heard(&mut output).await;
        let progress = told.matches("\"progressToken\":9").count();
        assert_eq!((progress, told.contains("\"result\"")), (times, is_answered), "{faults}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_answered_late_when_the_script_says_so() {
    let script = json!({"tools": [{"name": "a", "delay_ms": 500}], "faults": [{"late_reply": {"ms": 100}}]});
    let (mut output, mut input) = peer(&script).open();
    send(&mut input, &rpc(7, "tools/call", json!({"name": "a"}))).await;
    send(&mut input, &note("notifications/cancelled", json!({"requestId": 7}))).await;
    assert!(heard(&mut output).await.starts_with("{\"id\":7,"), "it comes all the same");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_what_it_asks_and_tells_what_it_heard() {
    let kinds = [
        ("ping", "\"method\":\"ping\""),
        ("roots", "\"method\":\"roots/list\""),
        ("sampling", "\"method\":\"sampling/createMessage\""),
        ("elicitation", "\"requestedSchema\""),
        ("elicitation_url", "\"mode\":\"url\""),
        ("unknown", "\"method\":\"peer/unknown\""),
    ];
    for (what, part) in kinds {
        let script = json!({"tools": [{"name": "a"}], "faults": [{"ask": {"what": what, "on": "call"}}]});
        let peer = peer(&script);
        let (mut output, mut input) = peer.open();
        send(&mut input, &rpc(1, "tools/call", json!({"name": "a"}))).await;
        let asked = heard(&mut output).await;
        assert!(
            asked.contains(part) && !asked.contains("\"content\":[{\"text\":\"done\""),
            "{what}: {asked}"
        );
        let answer = json!({"jsonrpc": "2.0", "id": "peer-ask-1", "result": {"heard": what}});
        send(&mut input, &format!("{answer}\n")).await;
        let told = heard(&mut output).await;
        assert!(
            told.contains("\"id\":1,") && told.contains(&format!("heard\\\":\\\"{what}")),
            "{what}: {told}"
        );
        assert_eq!(peer.answers(), vec![answer]);
    }
}

fn modern(method: &str, mut params: Value, version: &str) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {}});
    rpc(1, method, params)
}

#[tokio::test(start_paused = true)]
async fn each_generation_answers_its_own_and_refuses_the_other() {
    let hello = rpc(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    let discover = |version: &str| modern("server/discover", json!({}), version);
    let rows = [
        ("legacy", hello.clone(), "\"protocolVersion\":\"2025-11-25\""),
        ("legacy", discover("2026-07-28"), "\"code\":-32601"),
        (
            "modern",
            hello.clone(),
            "\"code\":-32022,\"data\":{\"requested\":\"2025-11-25\",\"supported\":[\"2026-07-28\"]}",
        ),
        ("modern", discover("2026-07-28"), "\"supportedVersions\":[\"2026-07-28\"]"),
        ("modern", discover("2031-01-01"), "\"code\":-32022"),
        ("modern", rpc(1, "tools/list", json!({})), "\"code\":-32602"),
        ("modern", modern("ping", json!({}), "2026-07-28"), "\"code\":-32601"),
        (
            "modern",
            modern("tools/list", json!({}), "2026-07-28"),
            "\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"",
        ),
        ("both", hello, "\"protocolVersion\":\"2025-11-25\""),
        ("both", discover("2026-07-28"), "\"resultType\":\"complete\""),
        ("both", rpc(1, "tools/list", json!({})), "\"result\":{\"tools\":[]}"),
    ];
    for (protocol, line, part) in rows {
        let (mut output, mut input) = peer(&json!({"protocol": protocol})).open();
        send(&mut input, &line).await;
        let told = heard(&mut output).await;
        assert!(told.contains(part), "{protocol} {line}: {part} is not in {told}");
    }
    let rows = [
        (json!({"version": "2099-01-01"}), "\"protocolVersion\":\"2099-01-01\""),
        (json!({"version": null}), "{\"capabilities\":{\"tools\":{\"listChanged\":true}},\"serverInfo\""),
        (json!({"result": {"on": "server/discover", "result": {}}}), "\"result\":{\"capabilities\""),
    ];
    for (fault, part) in rows {
        let (mut output, mut input) = peer(&json!({"faults": [fault]})).open();
        send(&mut input, &rpc(1, "initialize", json!({"protocolVersion": "2025-11-25"}))).await;
        let told = heard(&mut output).await;
        assert!(told.contains(part), "{fault}: {part} is not in {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_asks_by_its_result_and_takes_its_state_back_once() {
    let script = json!({"protocol": "modern", "tools": [{"name": "a"}],
        "faults": [{"ask": {"what": "elicitation", "on": "call"}}, {"ask": {"what": "sampling", "on": "call"}}]});
    let peer = peer(&script);
    let (mut output, mut input) = peer.open();
    send(&mut input, &modern("tools/call", json!({"name": "a"}), "2026-07-28")).await;
    let asked = heard(&mut output).await;
    let parts =
        ["\"resultType\":\"input_required\"", "\"ask-1\":{", "\"ask-2\":{", "\"requestState\":\"state-1\""];
    assert!(parts.iter().all(|part| asked.contains(part)) && peer.executions("a") == 0, "{asked}");
    let retry = modern(
        "tools/call",
        json!({"name": "a", "requestState": "state-1", "inputResponses": {"ask-1": {"action": "decline"}}}),
        "2026-07-28",
    );
    send(&mut input, &retry).await;
    let told = heard(&mut output).await;
    assert!(told.contains("decline") && peer.executions("a") == 1, "{told}");
    send(&mut input, &retry).await;
    let refused = heard(&mut output).await;
    assert!(refused.contains("-32602") && peer.executions("a") == 1, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_answered_at_once_and_fetched_later() {
    let script = json!({"protocol": "both", "tools": [{"name": "a", "task": true, "delay_ms": 600_000, "reply": "late"}]});
    let version = "2026-07-28";
    let id = json!({"taskId": "task-1"});
    let rows = [
        (
            modern("tools/call", json!({"name": "a"}), version),
            "\"resultType\":\"task\",\"status\":\"working\",\"taskId\":\"task-1\"",
        ),
        (modern("tasks/get", id.clone(), version), "\"status\":\"working\""),
        (modern("tasks/cancel", id.clone(), version), "\"result\":{\"resultType\":\"complete\"}"),
        (modern("tasks/get", id.clone(), version), "\"status\":\"cancelled\""),
        (rpc(1, "tasks/result", id), "the task was cancelled"),
        (rpc(1, "tools/call", json!({"name": "a", "task": {}})), "\"task\":{\"createdAt\""),
        (rpc(1, "tasks/get", json!({"taskId": "task-9"})), "there is no such task"),
    ];
    let (mut output, mut input) = peer(&script).open();
    for (line, part) in rows {
        send(&mut input, &line).await;
        let told = heard(&mut output).await;
        assert!(told.contains(part), "{line}: {part} is not in {told}");
    }
    send(&mut input, &rpc(1, "tasks/result", json!({"taskId": "task-2"}))).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let told = heard(&mut output).await;
    assert!(told.contains("late"), "{told}");
}
