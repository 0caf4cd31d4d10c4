//! Streamable HTTP: a `POST` for each message, a `GET` for what the server says by itself, a `DELETE` for the end; and
//! the same without sessions, as 2026-07-28 has it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Shared;
use super::request::HttpRequest;
use super::response::{Events, Reply};
use super::sessions::HttpSession;
use crate::peer::answer::{Request, error};
use crate::peer::fault::{HttpAnswers, HttpFault};
use crate::peer::frame::Flow;
use crate::peer::lock;
use crate::peer::modern::{self, Generation};
use crate::peer::plan::{Live, Plan};
use crate::peer::session::{Incoming, read};

const SESSION: &str = "Mcp-Session-Id";
const VERSION: &str = "MCP-Protocol-Version";

const HEADER_MISMATCH: i64 = -32020;
const REFUSED: i64 = -32000;

/// Answers one request to the path of Streamable HTTP.
pub(super) async fn answer(shared: &Arc<Shared>, live: &Arc<Live>, request: HttpRequest) -> Reply {
    match request.method.as_str() {
        "POST" => post(shared, live, request).await,
        "GET" => get(shared, live, &request),
        "DELETE" => delete(shared, live, &request),
        _ => Reply::empty(405).with("Allow", "GET, POST, DELETE"),
    }
}

/// Whether the fault leaves a request no answer of its own.
fn replaces(fault: &HttpFault) -> bool {
    use crate::peer::fault::Reset;
    let answers = fault.status.is_some() || fault.body.is_some() || fault.body_mib.is_some();
    let never = matches!(fault.reset, Some(Reset::BeforeAnswer | Reset::InHead));
    answers || never || fault.hang.is_some()
}

/// The plain reply, or what a fault makes of it.
fn met(reply: Reply, plan: &Plan) -> Reply {
    match &plan.http {
        Some(fault) if replaces(fault) => Reply::empty(200).spoilt(fault),
        Some(fault) => reply.spoilt(fault),
        None => reply,
    }
}

async fn post(shared: &Arc<Shared>, live: &Arc<Live>, http: HttpRequest) -> Reply {
    let text = String::from_utf8_lossy(&http.body).into_owned();
    match read(&text, http.headers.clone()) {
        Incoming::Request(request) => asked(shared, live, &http, request),
        Incoming::Notice { method, params } => {
            shared.state.saw(&method);
            let plan = live.plan(&method, None);
            match session(shared, live, &http) {
                Ok(Some(session)) => {
                    session.session.note(&method, &params);
                    // A fault that ends the server has closed this connection, too.
                    let _ends_with_the_server = session.session.after_note(&plan, &session.out).await;
                }
                // Without a session there is nothing that a notice could be about.
                Ok(None) => {}
                Err(refused) => return met(refused, &plan),
            }
            met(Reply::empty(202), &plan)
        }
        Incoming::Response(response) => {
            let plan = live.plan("response", None);
            match session(shared, live, &http) {
                Ok(Some(session)) => session.session.hear(response),
                Ok(None) => shared.state.heard(response),
                Err(refused) => return met(refused, &plan),
            }
            met(Reply::empty(202), &plan)
        }
        Incoming::Bad(words) => Reply::json(400, &words),
    }
}

fn asked(shared: &Arc<Shared>, live: &Arc<Live>, http: &HttpRequest, request: Request) -> Reply {
    shared.state.saw(&request.method);
    let plan = live.plan(&request.method, request.tool());
    let fault = plan.http.clone();
    if let Some(fault) = fault.as_ref().filter(|fault| replaces(fault) && !fault.runs) {
        return Reply::empty(200).spoilt(fault);
    }
    let is_modern = modern::generation(live, &request) == Ok(Generation::Modern);
    if is_modern && let Some(refused) = mismatch(http, &request) {
        return refused;
    }
    let opens = request.method == "initialize" && live.script.http.sessions;
    let found = if is_modern {
        Ok(None)
    } else if opens {
        Ok(Some(lock(&shared.sessions).open(&shared.state)))
    } else {
        session(shared, live, http)
    };
    let (session, is_its_own) = match found {
        Ok(Some(session)) => (session, false),
        Ok(None) => (HttpSession::new(String::new(), &shared.state), true),
        Err(refused) => return refused,
    };
    let is_lost = fault.as_ref().is_some_and(|fault| fault.stream.is_some());
    let reply = run(live, &session, request, plan);
    if is_lost && is_its_own {
        // Its client is to believe that it was lost, not cancelled.
        session.clone().run_on();
    }
    let reply = if opens { reply.with(SESSION, &session.id) } else { reply };
    if is_its_own {
        // What a server says by itself has no stream to go to: the session ends with this response.
        session.main.end();
    }
    match fault {
        Some(fault) if replaces(&fault) => {
            // It runs on although its answer is not told.
            session.clone().run_on();
            Reply::empty(200).spoilt(&fault)
        }
        Some(fault) => reply.spoilt(&fault),
        None => reply,
    }
}

/// Starts a request; its answer comes on a stream.
fn run(live: &Arc<Live>, session: &Arc<HttpSession>, request: Request, plan: Plan) -> Reply {
    let (stream, out, frames) = session.stream();
    let end = plan.http.as_ref().and_then(|fault| fault.stream);
    let is_silent = plan.silent;
    let (kept, inner, script) = (stream.clone(), session.session.clone(), live.clone());
    session.spawn(async move {
        let work = async move {
            let flow = inner.respond(script, request, plan, out.clone()).await;
            if is_silent && flow == Flow::On {
                // A request that is never answered keeps its response open.
                std::future::pending::<()>().await;
            }
        };
        tokio::join!(kept.keep(frames), work);
    });
    let held = session.clone();
    match live.script.http.answers {
        HttpAnswers::Json if end.is_none() => Reply::answer(stream, held),
        HttpAnswers::Json | HttpAnswers::Sse => {
            Reply::events(Events { stream, from: 0, end, first: None, held })
        }
    }
}

/// The session that a request is about; none if there are no sessions here.
fn session(shared: &Shared, live: &Live, http: &HttpRequest) -> Result<Option<Arc<HttpSession>>, Reply> {
    let spoken = [Generation::Legacy, Generation::Modern].map(|one| modern::versions(live, one)).concat();
    if let Some(version) = http.header(VERSION).filter(|version| !spoken.contains(version)) {
        let words = format!("unsupported protocol version {version} (supported: {})", spoken.join(", "));
        return Err(refused(400, &words));
    }
    let settings = &live.script.http;
    if !settings.sessions {
        return Ok(None);
    }
    let Some(id) = http.header(SESSION) else {
        return Err(refused(settings.no_session, "a request names its session"));
    };
    match (lock(&shared.sessions).find(id), settings.unknown_session) {
        (Some(session), _) => Ok(Some(session)),
        (None, Some(status)) => Err(refused(status, "session not found")),
        (None, None) => Err(Reply::silence()),
    }
}

fn refused(status: u16, words: &str) -> Reply {
    Reply::json(status, &error(&Value::Null, REFUSED, words, None))
}

/// Headers that say something else than the body.
fn mismatch(http: &HttpRequest, request: &Request) -> Option<Reply> {
    let said = |pointer: &str| request.params.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let expected = [
        (VERSION, said("/_meta/io.modelcontextprotocol~1protocolVersion")),
        ("Mcp-Method", Some(request.method.clone())),
        ("Mcp-Name", request.tool().map(str::to_owned)),
    ];
    let wrong = expected.into_iter().find(|(name, value)| {
        let given = http.header(name);
        // A name that is no plain text is sent encoded, and is taken as it is.
        let is_encoded = given.is_some_and(|given| given.starts_with("=?base64?"));
        value.is_some() && given != value.as_ref() && !is_encoded
    });
    wrong.map(|(name, _)| {
        let words = format!("the header {name} does not say what the body says");
        Reply::json(400, &error(&request.id, HEADER_MISMATCH, &words, Some(&json!({"header": name}))))
    })
}

fn get(shared: &Shared, live: &Live, http: &HttpRequest) -> Reply {
    let plan = live.plan("GET", None);
    let settings = &live.script.http;
    let reply = if !settings.get || !settings.sessions {
        Reply::empty(405).with("Allow", "POST, DELETE")
    } else {
        match session(shared, live, http) {
            Ok(Some(session)) => stream(&session, http, &plan),
            Ok(None) => Reply::empty(405).with("Allow", "POST"),
            Err(refused) => refused,
        }
    };
    met(reply, &plan)
}

/// The stream that a client takes up, or the session's own.
fn stream(session: &Arc<HttpSession>, http: &HttpRequest, plan: &Plan) -> Reply {
    let (stream, from) = match http.header("Last-Event-ID") {
        Some(event) => match session.resume(event) {
            Some(found) => found,
            None => return refused(400, "there is no such event"),
        },
        None => (session.main.clone(), session.main.unread()),
    };
    let end = plan.http.as_ref().and_then(|fault| fault.stream);
    Reply::events(Events { stream, from, end, first: None, held: session.clone() })
}

fn delete(shared: &Shared, live: &Live, http: &HttpRequest) -> Reply {
    let plan = live.plan("DELETE", None);
    let reply = match session(shared, live, http) {
        Ok(Some(session)) => {
            lock(&shared.sessions).close(&session.id);
            session.main.end();
            Reply::empty(204)
        }
        Ok(None) => Reply::empty(405).with("Allow", "POST"),
        Err(refused) => refused,
    };
    met(reply, &plan)
}
