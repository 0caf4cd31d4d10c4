//! What scripts may do, what becomes of hostile ones, and that their calls end with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse_messages::call::{CallOutcome, CallResult, Content};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::ExecLimits;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::QuickJs;
use crate::BoxFuture;
use crate::exec::{ExecCaller, ScriptCall, ScriptEngine};

/// `echo` gives its arguments back, `say` their text, `no` fails, `hang` hangs, `nap` takes 20 ms.
#[derive(Default)]
struct Tools {
    now: Arc<AtomicUsize>,
    most: AtomicUsize,
}

/// Counts a call as long as it lives.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ExecCaller for Tools {
    fn call(&self, call: ScriptCall) -> BoxFuture<'_, CallResult> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let alive = Alive(self.now.clone());
        Box::pin(async move {
            let _alive = alive;
            let arguments = Value::Object(call.arguments);
            match call.name.as_str() {
                "echo" => {
                    let content = vec![Content::Structured(JsonText::from(&arguments))];
                    CallResult { outcome: CallOutcome::Succeeded, content, retry_after_ms: None }
                }
                "say" => {
                    CallResult::said(CallOutcome::Succeeded, arguments["text"].as_str().unwrap_or_default())
                }
                "hang" => std::future::pending().await,
                "nap" => {
                    sleep(Duration::from_millis(20)).await;
                    CallResult::said(CallOutcome::Succeeded, "rested")
                }
                other => CallResult::said(CallOutcome::Failed, format!("{other} says no")),
            }
        })
    }
}

fn limits() -> ExecLimits {
    let mut limits = ExecLimits::default();
    limits.memory = 8 << 20;
    limits.time = Duration::from_millis(1_500);
    limits.output = 256;
    limits
}

fn engine(change: impl FnOnce(&mut ExecLimits)) -> QuickJs {
    let mut limits = limits();
    change(&mut limits);
    QuickJs::new(limits)
}

/// The result in a line, within twice the script's time.
async fn said(script: &str) -> String {
    let (bound, engine) = (limits().time * 2, QuickJs::new(limits()));
    let tools = Tools::default();
    let running = engine.run(script.to_owned(), &tools, CancellationToken::new());
    let result = timeout(bound, running).await.unwrap_or_else(|_| panic!("in time: {script}"));
    assert_eq!(tools.now.load(Ordering::SeqCst), 0, "no call outlives its script: {script}");
    format!("{:?}: {}", result.outcome, result.text())
}

async fn check(rows: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (script, expected) in rows {
        let found = said(script).await;
        if found != *expected {
            wrong.push(format!("{script}\n  is {found}\n not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_script_returns_json_and_what_it_logged() {
    let nothing = "Succeeded: [the script returned nothing: end it with `return value`]";
    check(&[
        ("return 6 * 7", "Succeeded: 42"),
        ("return {a: [1, 'two', null]}", r#"Succeeded: {"a":[1,"two",null]}"#),
        ("return await Promise.resolve('late')", r#"Succeeded: "late""#),
        ("return 1 // a comment to the end", "Succeeded: 1"),
        ("6 * 7", nothing),
        ("", nothing),
        ("return () => 1", nothing),
        (
            "console.log('a', 1, {b: 2}, [3], null, undefined); console.error(new Error('x')); return 1",
            "Succeeded: 1\n[console]\na 1 {\"b\":2} [3] null undefined\nError: x",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_script_calls_tools_and_gets_data_text_or_an_error() {
    check(&[
        (
            "const a = await tools.call('echo', {n: 2}); const b = await tools.call('say', {text: 'hi'}); return [a.n, b]",
            "Succeeded: [2,\"hi\"]\n[calls]\n1. echo: succeeded\n2. say: succeeded",
        ),
        (
            "return await Promise.all([1, 2].map(n => tools.call('echo', {n}))).then(all => all.map(a => a.n))",
            "Succeeded: [1,2]\n[calls]\n1. echo: succeeded\n2. echo: succeeded",
        ),
        (
            "try { await tools.call('no') } catch (e) { return [e instanceof Error, e.message, e.outcome] }",
            "Succeeded: [true,\"no says no\",\"Failed\"]\n[calls]\n1. no: failed",
        ),
        ("await tools.call('no')", "Failed: the script threw Error: no says no\n[calls]\n1. no: failed"),
        ("tools.call('nap'); return 1", "Succeeded: 1\n[calls]\n1. nap: succeeded"),
        (
            "tools.call('no'); return 1",
            "Failed: the script threw Error in a call it did not wait for: no says no\n[calls]\n1. no: failed",
        ),
        ("tools.call(7)", "Failed: the script threw Error: tools.call(name, args): the name is a tool's name (line 1)"),
        (
            "tools.call('echo', 'text')",
            "Failed: the script threw Error: tools.call(name, args): args is an object that JSON can hold (line 1)",
        ),
        (
            "tools.call('echo', {x: 'y'.repeat(300)})",
            "Failed: the script threw Error: the arguments have 308 bytes, and 256 are the most (line 1)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_a_script_throws_is_told_with_its_line() {
    check(&[
        ("const a = 1;\nthrow new RangeError('far')", "Failed: the script threw RangeError: far (line 2)"),
        ("let x = ;", "Failed: the script threw SyntaxError: unexpected token in expression: ';' (line 1)"),
        ("\n\nnothing()", "Failed: the script threw ReferenceError: nothing is not defined (line 3)"),
        ("throw 'a text'", "Failed: the script threw no Error, but a text"),
        ("return 10n", "Failed: what the script returned cannot be written as JSON: TypeError: BigInt are forbidden in JSON.stringify"),
        ("const a = {}; a.a = a; return a", "Failed: what the script returned cannot be written as JSON: TypeError: circular reference"),
    ])
    .await;
}

#[tokio::test]
async fn a_script_has_no_host_but_its_tools() {
    let names = "['fetch','require','process','setTimeout','setInterval','std','os','print','Deno','WebAssembly',\
                 'XMLHttpRequest','Atomics','SharedArrayBuffer','module','exports','scriptArgs']";
    let shared = "return (await Promise.allSettled(['fs', 'std', 'os', './x.js', 'https://example.org/x.js'].map(n => import(n)))).map(r => r.status)";
    check(&[
        (&format!("return {names}.filter(name => name in globalThis)"), "Succeeded: []"),
        (
            &format!("return new Function('return ' + \"{names}.filter(name => name in globalThis)\")()"),
            "Succeeded: []",
        ),
        ("return (0, eval)('typeof process + typeof tools')", r#"Succeeded: "undefinedobject""#),
        (shared, r#"Succeeded: ["rejected","rejected","rejected","rejected","rejected"]"#),
        ("return Object.keys(tools)", r#"Succeeded: ["call","search","inspect"]"#),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_script_ends_within_its_bounds() {
    let late = "TimedOut: the script took longer than 1500 ms";
    let memory = "Failed: the script ran out of its 8388608 bytes of memory";
    check(&[
        ("while (true) {}", late),
        ("while (true) { try { while (true) {} } catch {} }", late),
        ("while (true) await 0", late),
        ("const f = () => Promise.resolve().then(f); await f()", memory),
        ("return /(a+)+$/.test('a'.repeat(64) + 'b')", late),
        ("return {toJSON() { while (true) {} }}", late),
        ("throw {get message() { while (true) {} }, toString() { while (true) {} }}", late),
        ("const a = []; while (true) a.push(new Array(1000).fill(1))", memory),
        ("let s = 'x'; while (true) s += s", "Failed: the script threw InternalError: string too long (line 1)"),
        ("let s = 'x'; for (let i = 0; i < 29; i++) s += s; return s", memory),
        ("let s = 'x'; for (let i = 0; i < 29; i++) s += s; tools.call(s)", "Failed: the script threw Error: tools.call(name, args): the name is a tool's name (line 1)"),
        ("let s = 'x'; for (let i = 0; i < 29; i++) s += s; console.log(s)", memory),
        ("let s = []; for (let i = 0; i < 2e4; i++) s = [s]; return s", "Failed: what the script returned cannot be written as JSON: RangeError: Maximum call stack size exceeded"),
        ("return 2n ** 100000000n", "Failed: the script threw RangeError: BigInt is too large (line 1)"),
        ("return 'x'.repeat(2 ** 28)", memory),
        ("return new ArrayBuffer(2 ** 30).byteLength", memory),
        ("const f = () => f() + 1; return f()", "Failed: the script threw RangeError: Maximum call stack size exceeded (line 1)"),
        ("return 'x'.repeat(1000)", "Failed: the script returned 1002 bytes, and 256 are the most: return less"),
        ("await new Promise(() => {})", "Failed: the script waits for a promise that nothing will settle"),
        ("await {then() {}}", "Failed: the script waits for a promise that nothing will settle"),
        ("})(); while (true) {} (async () => {", late),
        ("return await tools.call('hang')", "TimedOut: the script took longer than 1500 ms\n[calls]\n1. hang: not finished: nobody knows whether it ran"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_stuck_in_the_engine_is_answered_in_time_and_keeps_only_its_own_place() {
    let engine = engine(|limits| (limits.scripts_at_once, limits.time) = (2, Duration::from_millis(200)));
    let tools = Tools::default();
    let run = |script: &str| engine.run(script.to_owned(), &tools, CancellationToken::new());
    let begun = Instant::now();
    let stuck = run("return [].indexOf.call({length: 2 ** 28}, 1)").await;
    assert_eq!(stuck.outcome, CallOutcome::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(run("return 1").await.text(), "1");
}

#[tokio::test]
async fn a_flood_is_cut_and_a_script_that_calls_too_often_is_stopped() {
    let flood = said("for (let i = 0; i < 100000; i++) console.log('line ' + i); return 1").await;
    assert!(flood.starts_with("Succeeded: 1\n[console]\nline 0\nline 1\n"), "{flood}");
    assert!(flood.ends_with("[cut: 99967 more lines were logged]"), "{flood}");
    let wide = said("const s = 'x'.repeat(2 ** 20); console.log(...new Array(1000).fill(s)); return 1").await;
    assert_eq!(
        wide.len(),
        "Succeeded: 1\n[console]\n".len() + 256 + "\n[cut: 1 more lines were logged]".len()
    );
    let often = said("for (let i = 0; i < 1e6; i++) await tools.call('say', {text: 'x'})").await;
    let (words, calls) = often.split_once("\n[calls]\n").expect("calls");
    assert_eq!(words, "Failed: the script threw Error: a script may call at most 32 times (line 1)");
    assert_eq!(calls.lines().count(), 32);
    let caught = said("for (let i = 0; i < 1e6; i++) try { tools.call('hang') } catch {} return 1").await;
    assert!(caught.starts_with("TimedOut: "), "{caught}");
}

#[tokio::test]
async fn prototypes_that_a_script_bends_bend_nothing_of_ours() {
    check(&[
        (
            "Promise.prototype.then = () => { throw 1 }; Array.prototype.map = null; JSON.stringify = () => 'x'; \
             Object.prototype.toJSON = () => 'bent'; const r = await tools.call('say', {text: 'hi'}); return r",
            "Failed: the script threw Error: tools.call(name, args): args is an object that JSON can hold (line 1)",
        ),
        (
            "Promise.prototype.then = () => { throw 1 }; JSON.stringify = JSON.parse = () => 'x'; \
             return (await tools.call('echo', {n: 1})).n",
            "Succeeded: 1\n[calls]\n1. echo: succeeded",
        ),
        (
            "Object.defineProperty(Error.prototype, 'message', {get() { throw 1 }, set() { throw 2 }}); \
             try { await tools.call('no') } catch (e) { return 'caught' }",
            // The error that its call would have thrown cannot be made any more.
            "Failed: the script threw no Error, but 2\n[calls]\n1. no: failed",
        ),
        (
            "Error.prepareStackTrace = () => { throw 3 }; throw new Proxy(new Error('x'), {get() { throw 4 }})",
            "Failed: the script threw no Error, but something",
        ),
        ("globalThis.tools = null; globalThis.console = null; return typeof tools", r#"Succeeded: "object""#),
    ])
    .await;
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_may() {
    let engine = engine(|limits| limits.calls_at_once = 3);
    let tools = Tools::default();
    let script = "await Promise.all(Array.from({length: 12}, () => tools.call('nap'))); return 'all'";
    let result = engine.run(script.to_owned(), &tools, CancellationToken::new()).await;
    assert!(result.text().starts_with("\"all\""), "{result:?}");
    assert_eq!(tools.most.load(Ordering::SeqCst), 3);
    let script = "await Promise.all(Array.from({length: 4}, () => tools.call('hang')))";
    let result = engine.run(script.to_owned(), &tools, CancellationToken::new()).await;
    let [running, waiting] = ["not finished: nobody knows whether it ran", "not begun"];
    assert_eq!(
        result.text(),
        format!(
            "the script took longer than 1500 ms\n[calls]\n1. hang: {running}\n2. hang: {running}\n\
             3. hang: {running}\n4. hang: {waiting}"
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_script_ends_at_once_with_its_calls() {
    for script in ["while (true) {}", "await tools.call('hang')"] {
        let engine = engine(|limits| (limits.scripts_at_once, limits.time) = (1, Duration::from_secs(30)));
        let tools = Tools::default();
        let cancel = CancellationToken::new();
        let (stopping, begun) = (cancel.clone(), Instant::now());
        tokio::spawn(async move {
            sleep(Duration::from_millis(50)).await;
            stopping.cancel();
        });
        let result = engine.run(script.to_owned(), &tools, cancel).await;
        assert_eq!(result.outcome, CallOutcome::Cancelled, "{script}");
        assert_eq!(tools.now.load(Ordering::SeqCst), 0, "{script}");
        // Its thread has ended, too: there is one place only.
        let next = engine.run("return 1".to_owned(), &tools, CancellationToken::new()).await;
        assert_eq!(next.text(), "1");
        assert!(begun.elapsed() < Duration::from_secs(5), "{script}");
    }
}
