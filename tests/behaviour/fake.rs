//! A server behind the connector itself: it counts what is asked of it, and fails where a scripted peer cannot.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::error::{ConnectError, RequestError};
use pilothouse::mcp::{Connection, Connector, Notices, Page};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a server behaves just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Its program does not exist.
    Missing,
    /// It dies in the handshake.
    Dying,
    /// It connects, and answers nothing that makes sense.
    Garbled,
    /// It connects, and never lets go.
    Clinging,
    /// Its own code panics, wherever it is asked.
    Panicking,
}

/// One server, over all its connections. A clone is the same server.
#[derive(Debug, Clone)]
pub(crate) struct Fake(Arc<State>);

#[derive(Debug)]
struct State {
    mood: Mutex<Mood>,
    tools: Mutex<Vec<Value>>,
    listing_takes: Duration,
    connects: AtomicUsize,
    listings: AtomicUsize,
    calls: AtomicUsize,
}

/// A tool as a server lists it.
pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

impl Fake {
    pub(crate) fn new(mood: Mood, tools: impl IntoIterator<Item = Value>) -> Self {
        Self(Arc::new(State {
            mood: Mutex::new(mood),
            tools: Mutex::new(tools.into_iter().collect()),
            listing_takes: Duration::from_millis(100),
            connects: AtomicUsize::new(0),
            listings: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.clone())
    }

    pub(crate) fn becomes(&self, mood: Mood) {
        *lock(&self.0.mood) = mood;
    }

    pub(crate) fn offers(&self, tools: impl IntoIterator<Item = Value>) {
        *lock(&self.0.tools) = tools.into_iter().collect();
    }

    pub(crate) fn connects(&self) -> usize {
        self.0.connects.load(Ordering::Relaxed)
    }

    pub(crate) fn listings(&self) -> usize {
        self.0.listings.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::Relaxed)
    }

    fn mood(&self) -> Mood {
        let mood = *lock(&self.0.mood);
        assert_ne!(mood, Mood::Panicking, "its own fault");
        mood
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connector for Fake {
    fn connect(&self, _notices: Notices) -> Answer<'_, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async {
            self.0.connects.fetch_add(1, Ordering::Relaxed);
            match self.mood() {
                Mood::Missing => {
                    let (command, reason) = ("fake".to_owned(), "no such file".to_owned());
                    Err(ConnectError::Spawn { command, reason })
                }
                Mood::Dying => Err(ConnectError::Handshake { reason: "it died".to_owned() }),
                Mood::Well | Mood::Garbled | Mood::Clinging | Mood::Panicking => {
                    Ok(Arc::new(Open(self.clone())) as Arc<dyn Connection>)
                }
            }
        })
    }

    fn stderr(&self) -> Vec<String> {
        vec!["a word of its own".to_owned()]
    }
}

struct Open(Fake);

impl Connection for Open {
    fn protocol(&self) -> String {
        "2025-11-25".to_owned()
    }

    fn list_page(&self, _cursor: Option<String>) -> Answer<'_, Result<Page, RequestError>> {
        Box::pin(async {
            self.0.0.listings.fetch_add(1, Ordering::Relaxed);
            sleep(self.0.0.listing_takes).await;
            match self.0.mood() {
                Mood::Garbled => Err(RequestError::Malformed { reason: "gibberish".to_owned() }),
                Mood::Well | Mood::Missing | Mood::Dying | Mood::Clinging | Mood::Panicking => {
                    Ok(Page { tools: lock(&self.0.0.tools).clone(), ..Page::default() })
                }
            }
        })
    }

    fn probe(&self) -> Answer<'_, Result<(), RequestError>> {
        Box::pin(async { Ok(()) })
    }

    fn call(
        &self,
        tool: String,
        _arguments: Map<String, Value>,
        _meta: Map<String, Value>,
    ) -> Answer<'_, Result<CallResult, RequestError>> {
        Box::pin(async move {
            self.0.0.calls.fetch_add(1, Ordering::Relaxed);
            match self.0.mood() {
                Mood::Clinging => std::future::pending().await,
                Mood::Well | Mood::Missing | Mood::Dying | Mood::Garbled | Mood::Panicking => {
                    Ok(CallResult::said(CallOutcome::Succeeded, format!("{tool} did it")))
                }
            }
        })
    }

    fn ended(&self) -> Answer<'_, String> {
        Box::pin(std::future::pending())
    }

    fn close(&self, _grace: Duration) -> Answer<'_, ()> {
        Box::pin(async {
            if self.0.mood() == Mood::Clinging {
                std::future::pending::<()>().await;
            }
        })
    }

    fn kill(&self) {}
}
