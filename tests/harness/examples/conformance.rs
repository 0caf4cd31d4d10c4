//! The client that MCP's official conformance suite drives: `tests/conformance/run` starts it for each scenario.
//!
//! It reaches the scenario's server as an embedder would: through a runtime, its connection actor and its catalog. The
//! suite says with which arguments it wants which tools called; everything else is what a runtime does anyway.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use pilothouse::ServerHandle;
use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::id::ServerId;
use pilothouse::listing::{ListingState, ListingView};
use pilothouse::mcp::{Ask, AskKind, Asks, Question, Reply};
use pilothouse::model::scripted::ScriptedModel;
use pilothouse::oauth::{Authorise, Consent, OAuth, Redirected};
use pilothouse::prelude::*;
use pilothouse::secret::Secret;
use pilothouse::topic::PermissionMode;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Below the suite's own 30 s, at which it kills only the shell.
const WITHIN: Duration = Duration::from_secs(20);
const SERVER: &str = "suite";
const REDIRECT: &str = "http://localhost:3000/callback";
/// The suite's, of a client that is described by a document.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

type Failure = Box<dyn std::error::Error>;

/// What a scenario wants done once the server was listed.
enum Task {
    /// Nothing more: the listing is what it watches.
    List,
    /// These calls, one after the other.
    Call(Vec<(String, Value)>),
    /// These calls, all at once.
    CallTogether(Vec<(String, Value)>),
    /// One call of each tool that the catalog offers: it is the catalog that leaves bad ones out.
    CallAll,
    /// The schema of the one tool, as the catalog has it, as an argument of the other.
    Echo { of: &'static str, to: &'static str },
}

fn task(scenario: &str) -> Result<Task, Failure> {
    let plain = |names: &[&str]| names.iter().map(|name| (name.to_string(), json!({}))).collect();
    Ok(match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => Task::List,
        "tools_call" => Task::Call(vec![("add_numbers".to_owned(), json!({"a": 5, "b": 3}))]),
        "elicitation-sep1034-client-defaults" => Task::Call(plain(&["test_client_elicitation_defaults"])),
        "sse-retry" => Task::Call(plain(&["test_reconnection"])),
        "http-standard-headers" => Task::Call(plain(&["test_headers", "my-hyphenated-tool"])),
        "http-custom-headers" => Task::Call(calls_of_the_context()?),
        "http-invalid-tool-headers" => Task::CallAll,
        "json-schema-2020-12-preservation" => {
            Task::Echo { of: "json_schema_2020_12_tool", to: "json_schema_echo" }
        }
        "sep-2322-client-request-state" => Task::CallTogether(plain(&[
            "test_mrtr_echo_state",
            "test_mrtr_no_state",
            "test_mrtr_unrelated",
            "test_mrtr_no_result_type",
        ])),
        scenario if scenario.starts_with("auth/") => Task::CallAll,
        other => return Err(format!("the scenario \"{other}\" is not known here").into()),
    })
}

fn context() -> Result<Value, Failure> {
    match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => Ok(serde_json::from_str(&context)?),
        Err(_none) => Ok(Value::Null),
    }
}

fn login() -> Result<OAuth, Failure> {
    let login = OAuth::new(REDIRECT).client_metadata_url(DOCUMENT).authorise(Browser);
    let context = context()?;
    Ok(match (context["client_id"].as_str(), context["client_secret"].as_str()) {
        (Some(id), secret) => login.registered(id, secret.map(Secret::new)),
        (None, _) => login,
    })
}

/// The calls that the suite names beside the scenario.
fn calls_of_the_context() -> Result<Vec<(String, Value)>, Failure> {
    let context = context()?;
    let calls = context["toolCalls"].as_array().ok_or("the context has no toolCalls")?;
    let call = |call: &Value| Some((call["name"].as_str()?.to_owned(), call["arguments"].clone()));
    calls.iter().map(call).collect::<Option<_>>().ok_or_else(|| "a call of the context has no name".into())
}

fn main() -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|tokio| tokio.block_on(async { tokio::time::timeout(WITHIN, run()).await? }));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("conformance: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let url = std::env::args().nth(1).ok_or("usage: conformance URL")?;
    let task = task(&std::env::var("MCP_CONFORMANCE_SCENARIO")?)?;
    let runtime = Runtime::builder()
        .server(Server::http(SERVER, url).oauth(login()?))
        .asks(Defaults)
        .model("nobody", ScriptedModel::new(Vec::new()))
        .max_mode(PermissionMode::Bypass)
        .start()
        .await?;
    let done = perform(&runtime, task).await;
    runtime.shutdown().await;
    done
}

async fn perform(runtime: &Runtime, task: Task) -> Result<(), Failure> {
    let server = runtime.server(&ServerId::new(SERVER)?)?;
    let listing = server.warm(WITHIN).await;
    if listing.state != ListingState::Warm {
        return Err(format!("the server was not listed: {:?}, {:?}", listing.state, server.view()).into());
    }
    let config = TopicConfig { mode: PermissionMode::Bypass, ..TopicConfig::new("nobody") };
    let caller = Caller { server, topic: runtime.open_topic("suite", config).await? };
    match task {
        Task::List => Ok(()),
        Task::Call(calls) => caller.call_each(&calls).await,
        Task::CallAll => {
            let calls: Vec<_> = listing.tools().iter().map(|tool| tool.name.clone()).collect();
            let calls: Vec<_> =
                calls.into_iter().map(|name| (name.clone(), filled(&listing, &name))).collect();
            caller.call_each(&calls).await
        }
        Task::CallTogether(calls) => {
            let mut together = tokio::task::JoinSet::new();
            for call in calls {
                let caller = caller.clone();
                together
                    .spawn(async move { caller.call(&call).await.map_err(|failure| failure.to_string()) });
            }
            for ended in together.join_all().await {
                ended?;
            }
            Ok(())
        }
        Task::Echo { of, to } => {
            caller.call(&(to.to_owned(), json!({"schema": schema(&listing, of)?}))).await
        }
    }
}

fn schema(listing: &ListingView, tool: &str) -> Result<Value, Failure> {
    let tool = listing.tools().iter().find(|offered| offered.name == tool);
    Ok(tool.ok_or("the focal tool was not listed")?.input_schema.value())
}

/// A text for each argument.
fn filled(listing: &ListingView, tool: &str) -> Value {
    let schema = schema(listing, tool).unwrap_or_default();
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    names.map(|name| (name.clone(), json!("us-west1"))).collect::<Map<_, _>>().into()
}

#[derive(Clone)]
struct Caller {
    server: ServerHandle,
    topic: Topic,
}

impl Caller {
    async fn call_each(&self, calls: &[(String, Value)]) -> Result<(), Failure> {
        for call in calls {
            self.call(call).await?;
        }
        Ok(())
    }

    async fn call(&self, (tool, arguments): &(String, Value)) -> Result<(), Failure> {
        let name = self.server.tool_name(tool).ok_or_else(|| format!("no tool \"{tool}\" was listed"))?;
        let result = self.topic.call(&name, arguments).await?;
        match result {
            CallResult { outcome: CallOutcome::Succeeded, .. } => Ok(()),
            other => Err(format!("\"{tool}\": {other:?}").into()),
        }
    }
}

/// Accepts every form as it is filled in beforehand.
struct Defaults;

impl Asks for Defaults {
    fn kinds(&self) -> BTreeSet<AskKind> {
        BTreeSet::from([AskKind::Form])
    }

    fn answer(&self, question: Question) -> std::pin::Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        let reply = match question.ask {
            Ask::Form { schema, .. } => Reply::Accepted(defaults(&schema)),
            Ask::Roots | Ask::Sampling(_) | Ask::Url { .. } => Reply::Declined,
        };
        Box::pin(std::future::ready(reply))
    }
}

fn defaults(schema: &Value) -> Map<String, Value> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect()
}

/// Consents to everything: visits the page, and reads where it sends the browser.
struct Browser;

impl Authorise for Browser {
    fn authorise(
        &self,
        consent: Consent,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Redirected, String>> + Send + '_>> {
        Box::pin(async move { visit(&consent.url).await.map_err(|failure| failure.to_string()) })
    }
}

async fn visit(url: &str) -> Result<Redirected, Box<dyn std::error::Error + Send + Sync>> {
    let rest = url.strip_prefix("http://").ok_or("the suite has no https")?;
    let (host, path) = rest.split_once('/').ok_or("the page has no path")?;
    let mut stream = tokio::net::TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let target = answer.lines().find_map(|line| {
        let (name, target) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then_some(target)
    });
    Ok(Redirected::from_url(target.ok_or("the page does not send the browser on")?)?)
}
