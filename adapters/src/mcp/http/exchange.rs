//! One message on its way: the POST, and its answer in whatever shape it comes.
//!
//! ```text
//! posted ──202──▶ done (no request)
//!   │ └──JSON──▶ answered
//!   └──events──▶ answered
//!        └─end, break──▶ (last event id?) wait ──▶ GET ──events──▶ answered
//! ```

use std::time::Duration;

use reqwest::Response;
use reqwest::header::HeaderValue;
use rmcp::model::RequestId;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use super::answer::{self, Shape};
use super::delivery::Reached;
use super::events::Events;
use super::fault::{Fault, Sign};
use super::head::Head;
use super::intake;
use super::session::{Mode, SESSION, Session};
use crate::mcp::outbox::Queued;

/// How often in a row an answer is asked for again without a new event.
const RESUMES_MAX: u32 = 5;
/// How long to wait before that, if the server does not say.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait that a server may ask for.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the rest of a stream is waited for after its answer.
const REST_WITHIN: Duration = Duration::from_millis(50);
/// How long a message that needs no answer may take: nobody else bounds it.
const NOTE_WITHIN: Duration = Duration::from_secs(10);

/// The wait that a server asked for, within bounds.
pub(in crate::mcp) fn retry_of(asked: Option<Duration>) -> Duration {
    asked.unwrap_or(RETRY).min(RETRY_MAX)
}

/// Sends a request and sees to its answer.
pub(in crate::mcp) async fn request(session: &Session, head: &Head, id: &RequestId, letter: Queued) {
    let Err(fault) = converse(session, head, id, letter).await else {
        return;
    };
    if session.life().is_over() {
        return;
    }
    // What `server/discover` fails with may only mean that the server is older, unless nothing else can help either.
    if head.is("initialize") || (head.is("server/discover") && fault.clone().connect_error().is_permanent()) {
        session.delivery.refuse(fault.clone());
    }
    session.delivery.fail(id, fault.clone()).await;
    session.conclude(&fault).await;
}

/// Sends a message that has no answer. What fails with it is told to nobody, but is not lost on the connection.
pub(in crate::mcp) async fn note(session: &Session, head: &Head, letter: Queued) {
    let (line, _queued) = letter.open();
    let fault = match timeout(NOTE_WITHIN, session.post(head, line)).await {
        Ok(Ok(response)) if response.status().is_success() => return,
        Ok(Ok(response)) if session.is_gone(response.status()).await => return,
        Ok(Ok(response)) => answer::failure(response).await,
        Ok(Err(fault)) => fault,
        Err(_elapsed) => Fault::Malformed("it did not take a message in time".to_owned()),
    };
    let reason = session.life().words().reason(fault.words());
    tracing::debug!(target: "pilothouse", reason, "a message to a server was not taken");
    session.conclude(&fault).await;
}

async fn converse(session: &Session, head: &Head, id: &RequestId, letter: Queued) -> Result<(), Fault> {
    let (line, queued) = letter.open();
    let response = session.post(head, line).await?;
    drop(queued);
    if !response.status().is_success() {
        if !head.is("initialize") && session.is_gone(response.status()).await {
            return Ok(());
        }
        return Err(answer::failure(response).await);
    }
    if session.mode() == Mode::Sse {
        return Ok(());
    }
    let session_id = response.headers().get(SESSION).cloned();
    let mut see = |result: &mut Map<String, Value>| see(session, head, session_id.as_ref(), result);
    match answer::shape(&response)? {
        Shape::Json => {
            let (mut response, mut share) = (response, session.budget.share());
            let body = intake::whole(&mut response, &mut share).await?;
            if body.trim_ascii().is_empty() {
                return Err(Fault::Malformed("it is empty".to_owned()));
            }
            match session.delivery.hand_on(body, Some(id), &mut see).await? {
                Reached::Answer => Ok(()),
                Reached::Other => Err(Fault::Malformed("it answers another request".to_owned())),
            }
        }
        Shape::Events => follow(session, id, response, &mut see).await,
    }
}

/// What an answer tells the session.
fn see(session: &Session, head: &Head, id: Option<&HeaderValue>, result: &mut Map<String, Value>) {
    if head.is("initialize") {
        session.begin(result, id.cloned());
    } else if head.is("tools/list") {
        session.learn(result);
    }
}

/// Reads a stream until the answer has come, over as many connections as that takes.
async fn follow(
    session: &Session,
    id: &RequestId,
    response: Response,
    see: &mut (impl FnMut(&mut Map<String, Value>) + Send),
) -> Result<(), Fault> {
    let mut events = Events::of(response, &session.budget);
    let (mut last, mut retry, mut resumes) = (None::<String>, None, 0);
    loop {
        let ended = read(session, id, &mut events, see).await;
        if let Ok(Reached::Answer) = ended {
            // What has not come by then is closed with the connection.
            let _ = timeout(REST_WITHIN, events.drain()).await;
            return Ok(());
        }
        let fault = match ended {
            // It may have run all the same, as when a connection breaks.
            Ok(_) => Fault::Broken("its event stream ended without the answer".to_owned()),
            Err(fault) if fault.sign() == Sign::Alive => return Err(fault),
            Err(fault) => fault,
        };
        retry = events.retry().or(retry);
        match events.last_id().map(str::to_owned) {
            Some(new) if last.as_ref() != Some(&new) => (last, resumes) = (Some(new), 0),
            Some(_) | None => {}
        }
        let Some(after) = last.as_deref() else {
            return Err(fault);
        };
        events = loop {
            if resumes == RESUMES_MAX {
                return Err(fault);
            }
            resumes += 1;
            sleep(retry_of(retry)).await;
            match session.listen(Some(after)).await {
                Ok(response) if response.status().is_success() => match answer::shape(&response)? {
                    Shape::Events => break Events::of(response, &session.budget),
                    Shape::Json => return Err(fault),
                },
                Ok(response) if response.status().is_server_error() => {}
                Ok(response) => {
                    if session.is_gone(response.status()).await {
                        return Ok(());
                    }
                    return Err(answer::failure(response).await);
                }
                Err(again) if again.sign() == Sign::Doubtful => {}
                // It was sent long ago, so it is not unsent.
                Err(again) => {
                    session.conclude(&again).await;
                    return Err(Fault::Broken(again.words()));
                }
            }
        };
    }
}

/// Reads to the answer or to the end.
async fn read(
    session: &Session,
    id: &RequestId,
    events: &mut Events,
    see: &mut (impl FnMut(&mut Map<String, Value>) + Send),
) -> Result<Reached, Fault> {
    while let Some(event) = events.next().await? {
        if event.is_message()
            && session.delivery.hand_on(event.data, Some(id), &mut *see).await? == Reached::Answer
        {
            return Ok(Reached::Answer);
        }
    }
    Ok(Reached::Other)
}
