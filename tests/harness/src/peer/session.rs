//! One client's conversation with a scripted server, whatever carries it: requests that run, questions that wait, and
//! announcements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;

use super::answer::{Exchange, Request, Said, error};
use super::fault::{AnswerId, AskFault, Fault, ProgressFault, StormFault};
use super::frame::{Flow, Frame, Out};
use super::modern::question;
use super::plan::{Live, Plan, Swap};
use super::{State, lock, process};

/// Requests of one session that run at once; more are refused.
const RUNNING_MAX: usize = 4096;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const BUSY: i64 = -32000;

/// One message of a client.
#[derive(Debug)]
pub(super) enum Incoming {
    Request(Request),
    Notice {
        method: String,
        params: Value,
    },
    /// An answer to a question of the server.
    Response(Value),
    /// Nothing that can be understood, and what is said to it.
    Bad(Value),
}

/// Reads one message.
pub(super) fn read(text: &str, headers: Vec<(String, String)>) -> Incoming {
    let bad = |code, words| Incoming::Bad(error(&Value::Null, code, words, None));
    let Ok(message) = serde_json::from_str::<Value>(text) else {
        return bad(PARSE_ERROR, "this is not JSON");
    };
    let Value::Object(mut fields) = message else { return bad(INVALID_REQUEST, "a message is one object") };
    match (fields.remove("id"), fields.remove("method")) {
        (Some(id), Some(Value::String(method))) => {
            let params = fields.remove("params").unwrap_or_else(|| json!({}));
            Incoming::Request(Request { id, method, params, headers })
        }
        (None, Some(Value::String(method))) => {
            let params = fields.remove("params").unwrap_or_else(|| json!({}));
            Incoming::Notice { method, params }
        }
        (Some(id), None) => {
            fields.insert("id".into(), id);
            Incoming::Response(Value::Object(fields))
        }
        (_, _) => bad(INVALID_REQUEST, "a message has a method"),
    }
}

/// A conversation. It ends with the last task that holds it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: Arc<State>,
    /// Where what belongs to no request goes.
    main: Out,
    /// Requests that run, by the text of their ids; each is told when it is cancelled.
    running: Mutex<HashMap<String, Arc<Notify>>>,
    /// Questions that wait, by their ids.
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    questions: AtomicU64,
    /// Requests answered, for the fault that counts them.
    answered: AtomicU64,
    /// The id of the request before this one.
    previous: Mutex<Value>,
    initialized: watch::Sender<bool>,
}

impl Session {
    pub(super) fn new(state: Arc<State>, main: Out) -> Arc<Self> {
        Arc::new(Self {
            state,
            main,
            running: Mutex::default(),
            asked: Mutex::default(),
            questions: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            previous: Mutex::new(Value::Null),
            initialized: watch::Sender::new(false),
        })
    }

    /// Whether the fault that counts answers ends the conversation now.
    pub(super) fn is_used_up(&self) -> bool {
        let most = self
            .state
            .live()
            .last(|fault| if let Fault::ExitAfter(answers) = fault { Some(*answers) } else { None });
        most.is_some_and(|most| self.answered.load(Ordering::Acquire) >= most)
    }

    /// Takes what asks for no answer.
    pub(super) fn note(&self, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                self.initialized.send_replace(true);
            }
            "notifications/cancelled" => {
                self.state.cancellations.fetch_add(1, Ordering::AcqRel);
                let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(call) = lock(&self.running).get(&id) {
                    call.notify_one();
                }
            }
            // Any other notice asks for nothing.
            _ => {}
        }
    }

    /// Does what the plan has for a notice.
    pub(super) async fn after_note(&self, plan: &Plan, out: &Out) -> Flow {
        for words in &plan.stderr {
            process::flood(&self.state, words);
        }
        for frame in said_before(plan) {
            if out.send(frame).await.is_err() {
                return Flow::End;
            }
        }
        match plan.exit {
            Some(status) => {
                self.state.exit(status);
                Flow::End
            }
            None => Flow::On,
        }
    }

    /// Takes the answer to a question.
    pub(super) fn hear(&self, response: Value) {
        let id = response.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.state.heard(response.clone());
        if let Some(waits) = lock(&self.asked).remove(&id) {
            // The call that asked may have been cancelled meanwhile.
            let _nobody_waits = waits.send(response);
        }
    }

    /// Answers one request on `out`, unless it is cancelled; `End` if the connection ends with it.
    pub(super) async fn respond(
        self: Arc<Self>,
        live: Arc<Live>,
        request: Request,
        plan: Plan,
        out: Out,
    ) -> Flow {
        let id = request.id.to_string();
        let Some(running) = Running::begin(&self, id) else {
            let refused = error(&request.id, BUSY, "too many requests run at once", None);
            return sent(out.send(Frame::Answer(refused.to_string())).await.is_ok());
        };
        let cancelled = running.cancelled.clone();
        let exchange = Exchange { session: &self, live: &live, request: &request, plan: &plan, out: &out };
        let mut work = Box::pin(self.work(&exchange));
        tokio::select! {
            biased;
            flow = &mut work => flow,
            () = cancelled.notified() => match plan.late {
                Some(late) => {
                    sleep(late).await;
                    work.await
                }
                None => Flow::On,
            }
        }
    }

    async fn work(&self, exchange: &Exchange<'_>) -> Flow {
        let Exchange { live, request, plan, out, .. } = *exchange;
        for words in &plan.stderr {
            process::flood(&self.state, words);
        }
        let said = tokio::select! {
            biased;
            said = exchange.said() => said,
            () = progress(plan.progress.as_ref(), request, out) => Said::Silence,
        };
        if !plan.delay.is_zero() {
            sleep(plan.delay).await;
        }
        if let Some(Swap { tools, announce }) = &plan.swap {
            live.swap(tools.clone());
            if *announce {
                self.state.announced.send_modify(|count| *count += 1);
            }
        }
        if request.method == "tools/list"
            && live.is_on(|fault| if let Fault::ListChangedOnList(on) = fault { Some(*on) } else { None })
        {
            self.state.announced.send_modify(|count| *count += 1);
        }
        match said {
            Said::Silence => Flow::On,
            Said::Exit(status) => {
                self.state.exit(status);
                Flow::End
            }
            Said::Result(text) => self.tell(exchange, &format!("\"result\":{text}")).await,
            Said::Error { code, message, data } => {
                let whole = error(&Value::Null, code, &message, data.as_ref());
                let text = whole.get("error").map(Value::to_string).unwrap_or_default();
                self.tell(exchange, &format!("\"error\":{text}")).await
            }
        }
    }

    /// Says the response, and before it what the script puts there.
    async fn tell(&self, exchange: &Exchange<'_>, body: &str) -> Flow {
        let Exchange { request, plan, out, .. } = *exchange;
        let mut frames = said_before(plan);
        let previous = std::mem::replace(&mut *lock(&self.previous), request.id.clone());
        let id = match plan.id {
            None | Some(AnswerId::Repeated) => Some(request.id.clone()),
            Some(AnswerId::Wrong) => Some(wrong(&request.id)),
            Some(AnswerId::Previous) => Some(previous),
            Some(AnswerId::Null) => Some(Value::Null),
            Some(AnswerId::Missing) => None,
            Some(AnswerId::Text) => Some(Value::String(request.id.to_string())),
        };
        let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
        // The members in the order of their names, as `serde_json` writes an object.
        let text = if body.starts_with("\"error\"") {
            format!("{{{body},{id}\"jsonrpc\":\"2.0\"}}")
        } else {
            format!("{{{id}\"jsonrpc\":\"2.0\",{body}}}")
        };
        let times = if plan.id == Some(AnswerId::Repeated) { 2 } else { 1 };
        frames.extend(std::iter::repeat_n(Frame::Answer(text), times));
        self.answered.fetch_add(1, Ordering::AcqRel);
        for frame in frames {
            if out.send(frame).await.is_err() {
                return Flow::End;
            }
        }
        if self.is_used_up() {
            self.state.exit(0);
            return Flow::End;
        }
        Flow::On
    }

    /// Asks the client everything that the plan has, one after the other; its answers, as texts.
    pub(super) async fn ask_all(&self, plan: &Plan, out: &Out) -> Vec<String> {
        let mut heard = Vec::new();
        for ask in &plan.asks {
            let answer = match self.ask(ask, out).await {
                Some(waits) => waits.await.ok(),
                None => None,
            };
            let Some(answer) = answer else { break };
            let part = answer.get("result").or_else(|| answer.get("error")).unwrap_or(&Value::Null);
            heard.push(part.to_string());
        }
        heard
    }

    async fn ask(&self, ask: &AskFault, out: &Out) -> Option<oneshot::Receiver<Value>> {
        let id = format!("peer-ask-{}", self.questions.fetch_add(1, Ordering::AcqRel) + 1);
        let mut message = question(ask.what, ask.params.as_ref());
        if let Some(fields) = message.as_object_mut() {
            fields.insert("jsonrpc".into(), json!("2.0"));
            fields.insert("id".into(), json!(id));
        }
        let (sender, receiver) = oneshot::channel();
        lock(&self.asked).insert(id, sender);
        out.send(Frame::notice(&message)).await.ok().map(|()| receiver)
    }

    /// Says what belongs to no request, for as long as anybody reads.
    pub(super) async fn announce(self: Arc<Self>, announced: watch::Receiver<u64>) {
        let mut initialized = self.initialized.subscribe();
        let (state, main) = (self.state.clone(), self.main.clone());
        // An error would mean that the sender is gone, and `self` holds it.
        let _held_by_self = initialized.wait_for(|done| *done).await.is_ok();
        let live = state.live();
        let asks = live.script.faults.iter().filter_map(|fault| {
            if let Fault::Ask(ask) = fault
                && ask.on.is_none()
            {
                Some(ask)
            } else {
                None
            }
        });
        for ask in asks {
            if self.ask(ask, &main).await.is_none() {
                return;
            }
        }
        let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        announcements(&live, announced, &main, &Frame::notice(&notice)).await;
    }
}

/// What the script puts before an answer.
fn said_before(plan: &Plan) -> Vec<Frame> {
    let mut frames = Vec::new();
    for say in &plan.say {
        frames.extend(say.message.as_ref().map(Frame::notice));
        frames.extend(say.text.clone().map(Frame::Raw));
    }
    frames.extend(plan.no_newline_mib.map(Frame::Flood));
    frames
}

/// Says `notice` as often as the script and the test have it, until nobody reads.
pub(super) async fn announcements(
    live: &Live,
    mut announced: watch::Receiver<u64>,
    out: &Out,
    notice: &Frame,
) {
    let after = live.last(|fault| {
        if let Fault::ListChangedAfterMs(ms) = fault { Some(Duration::from_millis(*ms)) } else { None }
    });
    let storm =
        live.last(|fault| if let Fault::ListChangedStorm(storm) = fault { Some(*storm) } else { None });
    let once = async {
        if let Some(after) = after {
            sleep(after).await;
            return out.send(notice.clone()).await.is_ok();
        }
        true
    };
    let storm = async {
        let Some(StormFault { count, gap_ms, after_ms }) = storm else { return true };
        sleep(Duration::from_millis(after_ms)).await;
        for _ in 0..count {
            if out.send(notice.clone()).await.is_err() {
                return false;
            }
            if gap_ms > 0 {
                sleep(Duration::from_millis(gap_ms)).await;
            }
        }
        true
    };
    let told = async {
        // An error would mean that the peer is gone, and the session holds its state.
        while announced.changed().await.is_ok() {
            if out.send(notice.clone()).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(once, storm, told);
}

/// Says progress until it has been said often enough, then waits for ever.
async fn progress(fault: Option<&ProgressFault>, request: &Request, out: &Out) {
    let token = request.params.pointer("/_meta/progressToken");
    if let (Some(ProgressFault { every_ms, times, .. }), Some(token)) = (fault, token) {
        for progress in 1..=times.unwrap_or(u64::MAX) {
            sleep(Duration::from_millis(*every_ms)).await;
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": progress}});
            if out.send(Frame::notice(&notice)).await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}

fn wrong(id: &Value) -> Value {
    id.as_i64().map_or_else(|| json!("nobody-asked"), |number| json!(number.saturating_add(1_000_000)))
}

fn sent(told: bool) -> Flow {
    if told { Flow::On } else { Flow::End }
}

/// A request for as long as it runs.
struct Running {
    session: Arc<Session>,
    id: String,
    cancelled: Arc<Notify>,
}

impl Running {
    fn begin(session: &Arc<Session>, id: String) -> Option<Self> {
        let cancelled = Arc::new(Notify::new());
        let mut running = lock(&session.running);
        if running.len() >= RUNNING_MAX {
            return None;
        }
        running.insert(id.clone(), cancelled.clone());
        Some(Self { session: session.clone(), id, cancelled })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = lock(&self.session.running);
        // Another request of the same id may have taken the place.
        if running.get(&self.id).is_some_and(|one| Arc::ptr_eq(one, &self.cancelled)) {
            running.remove(&self.id);
        }
    }
}
