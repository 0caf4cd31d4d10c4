//! All that a script can reach outside its engine: `tools` and `console`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::limits::ExecLimits;
use rquickjs::function::{Func, Opt, Rest};
use rquickjs::{Coerced, Ctx, Exception, Function, IntoJs, Object, Promise, Value};
use serde_json::Map;
use tokio::sync::mpsc;

use super::console::Console;
use super::thread::{Answer, Fault};
use crate::exec::ScriptCall;

/// The longest name that a script may call, in bytes.
const NAME_MAX: usize = 256;
/// Globals of the engine that share memory between threads; there is one thread.
const REMOVED: [&str; 2] = ["Atomics", "SharedArrayBuffer"];
/// The functions about tools: what a script writes, the tool that is called, and what the first argument is to it.
const ASKED: [(&str, (&str, &str)); 2] =
    [("search", ("tool_search", "query")), ("inspect", ("tool_inspect", "name"))];
/// What scripts are used to log with.
const LOGS: [&str; 5] = ["log", "info", "warn", "error", "debug"];

/// The functions of the host, and the calls that have no answer yet.
#[derive(Clone)]
pub(super) struct Host<'js> {
    waiting: Waiting<'js>,
}

type Waiting<'js> = Rc<RefCell<BTreeMap<u32, Settle<'js>>>>;

/// The two ends of a call's promise.
struct Settle<'js> {
    resolve: Function<'js>,
    reject: Function<'js>,
}

impl<'js> Host<'js> {
    /// Gives the script its globals.
    pub(super) fn new(
        ctx: &Ctx<'js>,
        limits: &ExecLimits,
        console: Console,
        made: mpsc::UnboundedSender<ScriptCall>,
    ) -> Result<Self, Fault> {
        let host = Self { waiting: Waiting::default() };
        // Nothing of the script has run, so only memory can be short.
        host.give(ctx, limits, console, made).map_err(|_short| Fault::Memory)?;
        Ok(host)
    }

    fn give(
        &self,
        ctx: &Ctx<'js>,
        limits: &ExecLimits,
        console: Console,
        made: mpsc::UnboundedSender<ScriptCall>,
    ) -> rquickjs::Result<()> {
        let globals = ctx.globals();
        for name in REMOVED {
            globals.remove(name)?;
        }
        let caller = Rc::new(Caller {
            waiting: self.waiting.clone(),
            made,
            count: Cell::new(0),
            most: limits.calls,
            bytes: limits.output,
        });
        let called = caller.clone();
        let tools = Object::new(ctx.clone())?;
        let call = move |ctx: Ctx<'js>, name: Value<'js>, arguments: Opt<Value<'js>>| {
            called.call(&ctx, &name, arguments.0)
        };
        tools.set("call", Func::from(call))?;
        for (name, asks) in ASKED {
            let caller = caller.clone();
            let ask = move |ctx: Ctx<'js>, text: Value<'js>, more: Opt<Value<'js>>| {
                caller.ask(&ctx, asks, text, more.0)
            };
            tools.set(name, Func::from(ask))?;
        }
        globals.set("tools", tools)?;
        let lines = Object::new(ctx.clone())?;
        for name in LOGS {
            let console = console.clone();
            let log = move |ctx: Ctx<'js>, values: Rest<Value<'js>>| log(&ctx, &console, &values.0);
            lines.set(name, Func::from(log))?;
        }
        globals.set("console", lines)
    }

    /// Calls that have no answer yet.
    pub(super) fn in_flight(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Settles the promise of one call.
    pub(super) fn settle(&self, answer: Answer) -> rquickjs::Result<()> {
        let Some(settle) = self.waiting.borrow_mut().remove(&answer.number) else { return Ok(()) };
        let ctx = settle.resolve.ctx().clone();
        match answer.result.outcome {
            CallOutcome::Succeeded => settle.resolve.call((value_of(&ctx, &answer.result)?,)),
            outcome @ (CallOutcome::Failed
            | CallOutcome::Rejected
            | CallOutcome::Denied
            | CallOutcome::Unavailable
            | CallOutcome::TimedOut
            | CallOutcome::Cancelled
            | CallOutcome::Unknown) => {
                let error = Exception::from_message(ctx.clone(), &answer.result.text())?;
                error.set("outcome", format!("{outcome:?}"))?;
                settle.reject.call((error,))
            }
        }
    }

    /// Drops the ends of all promises.
    pub(super) fn forget(&self) {
        self.waiting.borrow_mut().clear();
    }
}

/// `tools.call`.
struct Caller<'js> {
    waiting: Waiting<'js>,
    made: mpsc::UnboundedSender<ScriptCall>,
    count: Cell<u32>,
    most: u32,
    bytes: usize,
}

impl<'js> Caller<'js> {
    fn call(
        &self,
        ctx: &Ctx<'js>,
        name: &Value<'js>,
        arguments: Option<Value<'js>>,
    ) -> rquickjs::Result<Promise<'js>> {
        let number = self.count.get() + 1;
        if number > self.most {
            return Err(thrown(ctx, &format!("a script may call at most {} times", self.most)));
        }
        let name = match name.as_string().map(|name| name.to_string()) {
            Some(Ok(name)) if name.len() <= NAME_MAX => name,
            Some(_) | None => return Err(thrown(ctx, "tools.call(name, args): the name is a tool's name")),
        };
        let arguments = self.arguments(ctx, arguments)?;
        let (promise, resolve, reject) = ctx.promise()?;
        self.count.set(number);
        self.waiting.borrow_mut().insert(number, Settle { resolve, reject });
        // The task is gone only when the script is to end; it finds out at its next wait.
        let _gone = self.made.send(ScriptCall { number, name, arguments });
        Ok(promise)
    }

    /// `tools.search(query, more)` and `tools.inspect(name)`: calls like any other.
    fn ask(
        &self,
        ctx: &Ctx<'js>,
        (tool, first): (&str, &str),
        text: Value<'js>,
        more: Option<Value<'js>>,
    ) -> rquickjs::Result<Promise<'js>> {
        let arguments = Object::new(ctx.clone())?;
        if let Some(more) = more.as_ref().and_then(Value::as_object) {
            for property in more.props::<String, Value<'js>>() {
                let (name, value) = property?;
                arguments.set(name, value)?;
            }
        }
        if !text.is_undefined() {
            arguments.set(first, text)?;
        }
        let tool = tool.into_js(ctx)?;
        self.call(ctx, &tool, Some(arguments.into_value()))
    }

    fn arguments(
        &self,
        ctx: &Ctx<'js>,
        arguments: Option<Value<'js>>,
    ) -> rquickjs::Result<Map<String, serde_json::Value>> {
        let Some(arguments) = arguments.filter(|value| !value.is_undefined() && !value.is_null()) else {
            return Ok(Map::new());
        };
        let object = || thrown(ctx, "tools.call(name, args): args is an object that JSON can hold");
        let json = ctx.json_stringify(arguments)?.ok_or_else(object)?.to_string()?;
        if json.len() > self.bytes {
            let words = format!("the arguments have {} bytes, and {} are the most", json.len(), self.bytes);
            return Err(thrown(ctx, &words));
        }
        serde_json::from_str(&json).map_err(|_other| object())
    }
}

fn thrown(ctx: &Ctx<'_>, words: &str) -> rquickjs::Error {
    Exception::throw_message(ctx, words)
}

/// What a script gets for a tool's yes: data where there is any, else text.
fn value_of<'js>(ctx: &Ctx<'js>, result: &CallResult) -> rquickjs::Result<Value<'js>> {
    match result.structured() {
        Some(json) => ctx.json_parse(json.as_str()),
        None => result.text().into_js(ctx),
    }
}

/// One line. Values are shown one by one, so that however many there are, no more is made than fits.
fn log<'js>(ctx: &Ctx<'js>, console: &Console, values: &[Value<'js>]) -> rquickjs::Result<()> {
    let room = console.room();
    let mut line = String::new();
    for value in values {
        if line.len() > room {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&shown(ctx, value)?);
    }
    console.log(&line);
    Ok(())
}

fn shown<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> rquickjs::Result<String> {
    if let (Some(object), false) = (value.as_object(), value.is_error() || value.is_function())
        && let Some(json) = ctx.json_stringify(object.clone())?
    {
        return json.to_string();
    }
    if value.is_symbol() {
        return Ok("a symbol".to_owned());
    }
    Ok(value.get::<Coerced<String>>()?.0)
}
