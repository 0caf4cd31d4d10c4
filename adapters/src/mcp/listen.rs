//! Listens for changed tools on a modern server: one subscription for each connection, reopened when it ends.

use std::time::Duration;

use pilothouse_messages::error::RequestError;
use rmcp::model::{
    ClientRequest, SubscriptionFilter, SubscriptionsListenRequest, SubscriptionsListenRequestParams,
};
use serde_json::Map;
use tokio::time::{Instant, sleep};

use super::requests::Requests;
use crate::server::{Notice, Notices};

/// The first pause before it is opened again; doubles with each early end.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// One that lived this long did not end early.
const LONG: Duration = Duration::from_secs(60);
/// The server has no such method (JSON-RPC 2.0, section 5.1).
const METHOD_NOT_FOUND: i64 = -32601;

/// Listens until the connection ends, or the server says that it cannot.
///
/// Between two subscriptions changes are missed, so each end is told as one.
pub(super) async fn listen(requests: Requests, notices: Notices) {
    let mut pause = PAUSE_FIRST;
    loop {
        let opened = Instant::now();
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let request = SubscriptionsListenRequest::new(SubscriptionsListenRequestParams::new(filter));
        let request = ClientRequest::SubscriptionsListenRequest(request);
        // Whatever else it says: it has ended, and how makes no difference.
        if let Err(RequestError::Ended { .. } | RequestError::Server { code: METHOD_NOT_FOUND, .. }) =
            requests.result(request, Map::new(), None).await
        {
            return;
        }
        if opened.elapsed() >= LONG {
            pause = PAUSE_FIRST;
        }
        tokio::select! {
            biased;
            () = requests.life().over() => return,
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
        // A full queue already holds a notice that says the same.
        let _ = notices.try_send(Notice::ToolsChanged);
    }
}
