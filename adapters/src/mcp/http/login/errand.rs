//! Carries the requests of a login: each is asked of the server policy, bounded in time and size, and redirected within
//! its origin only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use tokio::time::timeout;

use crate::mcp::http::fault::Fault;
use crate::mcp::http::intake::{Budget, whole};
use crate::mcp::http::reach::{Order, Reach, is_same_origin, next_hop};

/// One request with its redirects and its answer.
const ERRAND_WITHIN: Duration = Duration::from_secs(20);
const REDIRECTS_MAX: usize = 3;
/// Metadata and token answers are small (1 MiB).
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What the last errand came to; its own library says less.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something else than the following.
    #[default]
    Answer,
    /// Nothing: what lies between, or whoever answers there, is out of order for now.
    Outage,
    /// An OAuth error (RFC 6749, section 5.2).
    Refusal(String),
}

/// What the last errand of a login came to. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastHeard(Arc<Mutex<Heard>>);

impl LastHeard {
    pub(super) fn get(&self) -> Heard {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the authorization server does not know the client any more.
    pub(super) fn refuses_the_client(&self) -> bool {
        matches!(self.get(), Heard::Refusal(error) if error == "invalid_client" || error == "unauthorized_client")
    }

    fn set(&self, heard: Heard) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }
}

fn heard(answer: &Result<http::Response<Vec<u8>>, Fault>) -> Heard {
    match answer {
        Ok(answer) => match answer.status().as_u16() {
            408 | 429 | 500..=599 => Heard::Outage,
            400..=499 => {
                let error: Option<serde_json::Value> = serde_json::from_slice(answer.body()).ok();
                let error = error.as_ref().and_then(|body| body.get("error")?.as_str());
                error.map_or(Heard::Answer, |error| Heard::Refusal(error.to_owned()))
            }
            _ => Heard::Answer,
        },
        Err(Fault::Unreached(_) | Fault::Withheld(_) | Fault::Broken(_)) => Heard::Outage,
        Err(
            Fault::Refused(_)
            | Fault::Unauthorised { .. }
            | Fault::Status { .. }
            | Fault::Server { .. }
            | Fault::Malformed(_),
        ) => Heard::Answer,
    }
}

/// A client of its own for a login: it knows none of the server's headers.
pub(super) struct Errands {
    reach: Reach,
    budget: Budget,
    last: LastHeard,
}

impl Errands {
    pub(super) fn new(reach: Reach, last: LastHeard) -> Self {
        Self { reach, budget: Budget::default(), last }
    }

    async fn run(&self, errand: OAuthHttpRequest) -> Result<http::Response<Vec<u8>>, Fault> {
        let follow = match errand.redirect_policy {
            OAuthHttpRedirectPolicy::Follow => REDIRECTS_MAX,
            // rmcp's own enum; anything that is not said to follow does not.
            _ => 0,
        };
        let (head, body) = errand.request.into_parts();
        let malformed = |words: String| Fault::Malformed(words);
        let mut url =
            reqwest::Url::parse(&head.uri.to_string()).map_err(|error| malformed(error.to_string()))?;
        for hop in 0..=follow {
            let order = Order {
                method: head.method.clone(),
                url: url.clone(),
                plain: head.headers.clone(),
                secret: HeaderMap::new(),
                body: (!body.is_empty()).then(|| body.clone().into()),
            };
            let mut response = self.reach.send_once(&order, &url).await?;
            if hop < follow
                && let Some(next) = next_hop(&response, &url)?
            {
                if !is_same_origin(&next, &url) {
                    return Err(malformed("the authorization server redirects elsewhere".to_owned()));
                }
                url = next;
                continue;
            }
            if response.content_length().is_some_and(|length| length > ANSWER_BYTES_MAX) {
                return Err(malformed("an answer of the authorization server is too long".to_owned()));
            }
            let mut answer = http::Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                headers.extend(response.headers().clone());
            }
            let mut share = self.budget.share();
            let body = whole(&mut response, &mut share).await?;
            return answer.body(body).map_err(|error| malformed(error.to_string()));
        }
        Err(malformed("the authorization server redirects too often".to_owned()))
    }
}

impl OAuthHttpClient for Errands {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let late =
                |_elapsed| Err(Fault::Broken("the authorization server gave no answer in time".to_owned()));
            let done = timeout(ERRAND_WITHIN, self.run(request)).await.unwrap_or_else(late);
            self.last.set(heard(&done));
            done.map_err(|fault| fault.words().into())
        })
    }
}
