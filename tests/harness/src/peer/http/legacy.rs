//! HTTP+SSE of 2024-11-05: one event stream for everything the server says, and a `POST` for each message.

use std::sync::Arc;

use super::Shared;
use super::request::HttpRequest;
use super::response::{Events, Reply};
use super::sessions::HttpSession;
use crate::peer::lock;
use crate::peer::plan::Live;
use crate::peer::session::{Incoming, read};

/// Where messages go.
pub(super) const MESSAGE_PATH: &str = "/message";

/// Opens the event stream, which is the session.
pub(super) fn open(shared: &Arc<Shared>, live: &Live, http: &HttpRequest) -> Reply {
    if http.method != "GET" {
        return Reply::empty(405).with("Allow", "GET");
    }
    let plan = live.plan("GET", None);
    let session = lock(&shared.sessions).open(&shared.state);
    let first = format!("event: endpoint\ndata: {MESSAGE_PATH}?sessionId={}\n\n", session.id);
    let end = plan.http.as_ref().and_then(|fault| fault.stream);
    let stream = session.main.clone();
    let reply = Reply::events(Events { stream, from: 0, end, first: Some(first), held: session });
    match &plan.http {
        Some(fault) => reply.spoilt(fault),
        None => reply,
    }
}

/// Takes one message; what is said to it comes on the stream.
pub(super) async fn take(shared: &Arc<Shared>, live: &Arc<Live>, http: HttpRequest) -> Reply {
    if http.method != "POST" {
        return Reply::empty(405).with("Allow", "POST");
    }
    let found = http.query("sessionId").and_then(|id| lock(&shared.sessions).find(id));
    let session = match (found, live.script.http.unknown_session) {
        (Some(session), _) => session,
        (None, Some(status)) => return Reply::text(status, "session not found"),
        (None, None) => return Reply::silence(),
    };
    let text = String::from_utf8_lossy(&http.body).into_owned();
    let fault = heard(shared, live, &session, read(&text, http.headers.clone())).await;
    match fault {
        Some(fault) => Reply::text(202, "Accepted").spoilt(&fault),
        None => Reply::text(202, "Accepted"),
    }
}

/// Does what a message asks for; how its `POST` fares.
async fn heard(
    shared: &Shared,
    live: &Arc<Live>,
    session: &Arc<HttpSession>,
    message: Incoming,
) -> Option<crate::peer::fault::HttpFault> {
    match message {
        Incoming::Request(request) => {
            shared.state.saw(&request.method);
            let plan = live.plan(&request.method, request.tool());
            let fault = plan.http.clone();
            let runs = fault.as_ref().is_none_or(|fault| fault.runs || fault.status.is_none_or(|s| s < 300));
            if runs {
                let (inner, live, out) = (session.session.clone(), live.clone(), session.out.clone());
                session.spawn(async move {
                    // A fault that ends the server has closed this connection, too.
                    let _ends_with_the_server = inner.respond(live, request, plan, out).await;
                });
            }
            fault
        }
        Incoming::Notice { method, params } => {
            shared.state.saw(&method);
            let plan = live.plan(&method, None);
            session.session.note(&method, &params);
            // A fault that ends the server has closed this connection, too.
            let _ends_with_the_server = session.session.after_note(&plan, &session.out).await;
            plan.http
        }
        Incoming::Response(response) => {
            let plan = live.plan("response", None);
            session.session.hear(response);
            plan.http
        }
        Incoming::Bad(words) => {
            let frame = crate::peer::frame::Frame::Answer(words.to_string());
            // The session keeps the other end for as long as it lives.
            let _kept_by_the_session = session.out.send(frame).await;
            None
        }
    }
}
