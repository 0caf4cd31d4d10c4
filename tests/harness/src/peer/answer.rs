//! What a scripted server says to one request.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::fault::{EchoFault, EchoPlace, Fault};
use super::frame::Out;
use super::modern::{self, Generation};
use super::plan::{Live, Plan};
use super::process;
use super::script::{ScriptTool, ToolAnswer};
use super::session::Session;
use super::{listing, tasks};

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

/// One request as it came.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
    /// The headers that it came with, over HTTP.
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    /// The tool that a call names.
    pub(super) fn tool(&self) -> Option<&str> {
        if self.method == "tools/call" { self.params.get("name").and_then(Value::as_str) } else { None }
    }
}

/// What a method says: its result as text, or a JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Result(String),
    Error { code: i64, message: String, data: Option<Value> },
    Silence,
    Exit(u8),
}

impl Said {
    pub(super) fn value(result: &Value) -> Self {
        Self::Result(result.to_string())
    }

    pub(super) fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), data: None }
    }
}

/// A JSON-RPC error response.
pub(super) fn error(id: &Value, code: i64, message: &str, data: Option<&Value>) -> Value {
    let mut error = json!({"code": code, "message": message});
    if let (Some(data), Some(fields)) = (data, error.as_object_mut()) {
        fields.insert("data".into(), data.clone());
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// One request that is being answered.
pub(super) struct Exchange<'a> {
    pub(super) session: &'a Session,
    pub(super) live: &'a Live,
    pub(super) request: &'a Request,
    pub(super) plan: &'a Plan,
    /// Where what belongs to this request goes.
    pub(super) out: &'a Out,
}

impl Exchange<'_> {
    /// Answers as the plan has it. What a plan says of a call holds once it was run.
    pub(super) async fn said(&self) -> Said {
        let Self { live, request, plan, .. } = *self;
        if let Some(fault) = &plan.error {
            return Said::Error {
                code: fault.code,
                message: fault.message.clone(),
                data: fault.data.clone(),
            };
        }
        let echoed = echo(plan, request);
        if request.method != "tools/call" {
            if plan.silent {
                return Said::Silence;
            }
            if let Some(status) = plan.exit {
                return Said::Exit(status);
            }
            if let Some(result) = &plan.result {
                return Said::value(result);
            }
            if let Some(words) = echoed_in(&echoed, EchoPlace::Error) {
                return Said::error(INTERNAL, words);
            }
        }
        match modern::generation(live, request) {
            Ok(generation) => self.method(generation, &echoed).await,
            Err(refused) => refused,
        }
    }

    async fn method(&self, generation: Generation, echoed: &[(EchoPlace, String)]) -> Said {
        let Self { session, live, request, plan, out } = *self;
        let params = &request.params;
        let is_legacy = generation == Generation::Legacy;
        match request.method.as_str() {
            "initialize" => Said::value(&initialize(live, params)),
            "server/discover" => Said::value(&modern::discover(live)),
            "ping" if is_legacy => {
                session.ask_all(plan, out).await;
                Said::value(&json!({}))
            }
            "tools/list" => {
                if is_legacy {
                    session.ask_all(plan, out).await;
                }
                match listing::page(&session.state, live, params, &modern::list_extra(live, generation)) {
                    Some(page) => Said::Result(page),
                    None => Said::error(INVALID_PARAMS, "there is no such cursor"),
                }
            }
            "tools/call" => self.call(generation, echoed).await,
            "subscriptions/listen" if !is_legacy => modern::listen(session, live, request, out).await,
            "tasks/get" => tasks::get(&session.state, params, generation),
            "tasks/result" => tasks::result(&session.state, params).await,
            "tasks/cancel" => tasks::cancel(&session.state, params, generation),
            other => Said::error(METHOD_NOT_FOUND, format!("there is no method \"{other}\"")),
        }
    }

    async fn call(&self, generation: Generation, echoed: &[(EchoPlace, String)]) -> Said {
        let Self { session, live, request, plan, out } = *self;
        let (state, params) = (&session.state, &request.params);
        let Some(name) = request.tool() else {
            return Said::error(INVALID_PARAMS, "a call names its tool");
        };
        let refused = |words: &str| Said::value(&result(&ToolAnswer::text(words), true, None, generation));
        let Some(tool) = listing::find(state, live, name) else {
            return refused(&format!("there is no tool \"{name}\""));
        };
        if generation == Generation::Modern
            && let Some(required) = modern::input_required(session, plan, params)
        {
            return required;
        }
        state.remember(params);
        state.executions.count(name);
        if let Err(error) = count_in_file(live, name) {
            return refused(&format!("the count file cannot be written: {error}"));
        }
        if let Err(error) = log_call(live, params) {
            return refused(&format!("the log of calls cannot be written: {error}"));
        }
        if let Some(status) = plan.exit {
            return Said::Exit(status);
        }
        if let Some(words) = echoed_in(echoed, EchoPlace::Stderr) {
            process::say(state, &format!("{words}\n"));
        }
        if tool.task && tasks::is_wanted(params, generation) {
            return tasks::create(state, generation, tool.delay, self.answer(&tool, &[], generation));
        }
        let mut heard = match generation {
            Generation::Legacy => session.ask_all(plan, out).await,
            Generation::Modern => modern::input_responses(params),
        };
        state.hold().await;
        if !tool.delay.is_zero() {
            tokio::time::sleep(tool.delay).await;
        }
        if plan.silent {
            return Said::Silence;
        }
        if let Some(words) = echoed_in(echoed, EchoPlace::Error) {
            return Said::error(INTERNAL, words);
        }
        heard.extend(echoed_in(echoed, EchoPlace::Result));
        Said::value(&self.answer(&tool, &heard, generation))
    }

    fn answer(&self, tool: &ScriptTool, heard: &[String], generation: Generation) -> Value {
        if let Some(result) = &self.plan.result {
            return result.clone();
        }
        let mut blocks = match (&tool.answer, self.plan.huge_mib) {
            (_, Some(mib)) => {
                let bytes = usize::try_from(mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX).min(HUGE_MAX);
                vec![text_block(&"x".repeat(bytes))]
            }
            (ToolAnswer::Echo, None) => {
                let arguments = self.request.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                vec![text_block(&arguments.to_string())]
            }
            (ToolAnswer::Content(blocks), None) => blocks.clone(),
        };
        blocks.extend(heard.iter().map(|text| text_block(text)));
        result(&ToolAnswer::Content(blocks), tool.fails, tool.structured.as_ref(), generation)
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn initialize(live: &Live, params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let versions = modern::versions(live, Generation::Legacy);
    let known = asked.filter(|asked| versions.iter().any(|version| version == asked));
    let version = known.map(str::to_owned).or_else(|| versions.last().cloned());
    let forced =
        live.last(|fault| if let Fault::Version(version) = fault { Some(version.clone()) } else { None });
    let mut result = json!({"capabilities": capabilities(live), "serverInfo": modern::info()});
    let fields =
        [("protocolVersion", forced.unwrap_or(version)), ("instructions", live.script.instructions.clone())];
    if let Some(result) = result.as_object_mut() {
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        result.extend(given);
    }
    result
}

pub(super) fn capabilities(live: &Live) -> Value {
    live.script.capabilities.clone().unwrap_or_else(|| json!({"tools": {"listChanged": true}}))
}

/// What is told of a server's secrets, and where.
fn echo(plan: &Plan, request: &Request) -> Vec<(EchoPlace, String)> {
    plan.echoes.iter().map(|echo| (echo.place, secret(echo, request))).collect()
}

fn secret(echo: &EchoFault, request: &Request) -> String {
    let variable = echo.env.as_ref().map(|name| std::env::var(name).unwrap_or_default());
    let header = echo.header.as_ref().map(|name| {
        let found = request.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    });
    [variable, header].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn echoed_in(echoed: &[(EchoPlace, String)], place: EchoPlace) -> Option<String> {
    let words: Vec<&str> =
        echoed.iter().filter(|(at, _)| *at == place).map(|(_, words)| words.as_str()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The largest result that the peer makes (1 GiB).
const HUGE_MAX: usize = 1 << 30;

fn result(answer: &ToolAnswer, is_error: bool, structured: Option<&Value>, generation: Generation) -> Value {
    let content = match answer {
        ToolAnswer::Content(blocks) => blocks.as_slice(),
        ToolAnswer::Echo => &[],
    };
    let mut result = json!({"content": content, "isError": is_error});
    if let Some(fields) = result.as_object_mut() {
        if generation == Generation::Modern {
            fields.insert("resultType".into(), json!("complete"));
        }
        if let Some(structured) = structured {
            fields.insert("structuredContent".into(), structured.clone());
        }
    }
    result
}

fn count_in_file(live: &Live, tool: &str) -> std::io::Result<()> {
    let file = live.last(|fault| if let Fault::CountFile(path) = fault { Some(path) } else { None });
    file.map_or(Ok(()), |path| append(path, tool))
}

fn log_call(live: &Live, params: &Value) -> std::io::Result<()> {
    let file = live.last(|fault| if let Fault::CallLog(path) = fault { Some(path) } else { None });
    let line = || json!({"tool": params["name"], "arguments": params["arguments"]}).to_string();
    file.map_or(Ok(()), |path| append(path, &line()))
}

/// One line, in one write, so that several processes may share the file.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}
