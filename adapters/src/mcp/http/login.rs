//! Owns what one server is logged in with, over all its connections: the token, how it is renewed, who is asked.
//!
//! ```text
//! no token ──401──▶ discover ──stored?──▶ token ──401──▶ refresh ──▶ token
//!                      └──no──▶ consent ────▲   │           └─rejected──▶ consent
//!                                           └───┴──403 insufficient_scope──▶ consent (old scopes and new)
//! ```
//!
//! One renewal at a time; whoever waited for it takes its outcome. It goes on when the connection that needed it has
//! given up, since a person takes longer than a handshake may. What fails on the network changes no token.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Cell, PoisonError};
use std::time::Duration;

use pilothouse_messages::id::{ServerId, TenantId};
use pilothouse_messages::secret::Secret;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode, Url};
use rmcp::transport::auth::{AuthorizationManager, InMemoryCredentialStore, WWWAuthenticateParams};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::fault::Fault;
use super::reach::{Order, Place, Reach, is_same_origin};
use crate::oauth::{OAuth, TokenKey};
use crate::words::Words;

mod errand;
mod renew;

use errand::LastHeard;

/// How often one request is tried again with another token: a stored one, a refreshed one, a new one.
const ROUNDS_MAX: u32 = 3;
/// How long a token that could not be renewed early is used before that is tried again.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// What may come in a challenge (4 KiB).
const CHALLENGE_BYTES_MAX: usize = 4 << 10;

/// The login of one server.
pub(in crate::mcp) struct Login {
    settings: OAuth,
    place: Place,
    server: ServerId,
    tenant: Option<TenantId>,
    held: Mutex<Held>,
    /// What goes into requests, also while somebody is asked for more.
    latest: Cell<Option<Bearer>>,
    renewals: AtomicU64,
    /// How many people are being asked.
    asking: AtomicUsize,
    over: CancellationToken,
}

/// A login whose renewals end with its server.
pub(in crate::mcp) struct Kept(
    Arc<Login>,
    #[expect(dead_code, reason = "its drop is what it is for")] DropGuard,
);

impl Kept {
    /// What it waits for a person to do.
    pub(in crate::mcp) fn awaits(&self) -> Option<String> {
        self.0.awaits()
    }

    /// For one connection.
    pub(in crate::mcp) fn login(&self) -> Arc<Login> {
        self.0.clone()
    }
}

/// What goes into requests.
#[derive(Clone)]
struct Bearer {
    token: Secret,
    /// When it is renewed before it is asked for.
    until: Option<Instant>,
    /// When it ends.
    ends: Option<Instant>,
    /// What else the login knows that is secret: its refresh token, its client's secret.
    besides: Vec<Secret>,
}

#[derive(Default)]
struct Held {
    grant: Option<Grant>,
    /// Whether its issuer has refused to renew it.
    spent: bool,
    /// How the last renewal ended.
    last: Option<Result<Gained, Fault>>,
    /// When a person, or whoever asks one, last said no.
    refused_at: Option<Instant>,
}

/// A token with everything that renews it.
struct Grant {
    manager: AuthorizationManager,
    /// Where the manager keeps it.
    credentials: InMemoryCredentialStore,
    key: TokenKey,
    client_secret: Option<String>,
    documents: Documents,
    last: LastHeard,
}

/// Whether an authorization server takes the URL of a metadata document for a client's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Documents {
    Taken,
    Unknown,
}

/// Where a renewed token comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gained {
    Kept,
    Consented,
}

/// What a server wants before it answers.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Challenge {
    /// The header, if there is one.
    header: Option<String>,
    wants: Wants,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Token,
    Scope,
}

impl Challenge {
    /// Reads it off an answer of the server itself; whoever it redirects to is given no token.
    pub(in crate::mcp) fn of(response: &Response, home: &Url) -> Option<Self> {
        if !is_same_origin(response.url(), home) {
            return None;
        }
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let header = headers
            .filter_map(|header| header.to_str().ok())
            .find(|header| header.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")))
            .filter(|header| header.len() <= CHALLENGE_BYTES_MAX)
            .map(str::to_owned);
        let wants = match response.status() {
            StatusCode::UNAUTHORIZED => Wants::Token,
            StatusCode::FORBIDDEN => WWWAuthenticateParams::parse(header.as_deref()?, home)
                .is_insufficient_scope()
                .then_some(Wants::Scope)?,
            _ => return None,
        };
        Some(Self { header, wants })
    }
}

impl Login {
    /// The login of the server at this place.
    pub(in crate::mcp) fn kept(
        settings: OAuth,
        place: &Place,
        server: ServerId,
        tenant: Option<TenantId>,
    ) -> Kept {
        let over = CancellationToken::new();
        let login = Self {
            settings,
            place: Place { headers: HeaderMap::new(), ..place.clone() },
            server,
            tenant,
            held: Mutex::default(),
            latest: Cell::default(),
            renewals: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            over: over.clone(),
        };
        Kept(Arc::new(login), over.drop_guard())
    }

    /// Sends a request with the token that there is, and again with the one that a challenge brought.
    pub(in crate::mcp) async fn send(
        self: &Arc<Self>,
        reach: &Reach,
        order: Order,
        words: &Words,
    ) -> Result<Response, Fault> {
        let (mut rounds, mut gained) = (0, Gained::Kept);
        loop {
            let token = self.token().await?;
            let mut order = order.clone();
            if let Some(token) = &token {
                words.pass(token.expose());
                self.besides().iter().for_each(|secret| words.pass(secret.expose()));
                order.secret.insert(AUTHORIZATION, bearer(token)?);
            }
            let response = reach.send(order).await?;
            // A person is asked once for one request.
            let again = rounds < ROUNDS_MAX && gained == Gained::Kept;
            let Some(challenge) = Challenge::of(&response, reach.home()).filter(|_| again) else {
                return Ok(response);
            };
            rounds += 1;
            gained = self.renewed(challenge, token).await?;
        }
    }

    /// The token of now, if there is one. One that is about to expire is renewed first.
    async fn token(self: &Arc<Self>) -> Result<Option<Secret>, Fault> {
        let Some(Bearer { token, until, ends, besides: _ }) = self.latest() else {
            return Ok(None);
        };
        if until.is_none_or(|until| Instant::now() < until) {
            return Ok(Some(token));
        }
        match self.renewed(Challenge { header: None, wants: Wants::Token }, Some(token.clone())).await {
            Ok(_) => Ok(self.latest().map(|bearer| bearer.token)),
            // It was early, and the token still does.
            Err(Fault::Withheld(_)) if ends.is_none_or(|ends| Instant::now() < ends) => {
                let until = Some(Instant::now() + RENEW_AGAIN_AFTER);
                let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(bearer) = latest.as_mut().filter(|bearer| bearer.token == token) {
                    bearer.until = until;
                }
                Ok(Some(token))
            }
            Err(fault) => Err(fault),
        }
    }

    /// What it waits for a person to do.
    pub(in crate::mcp) fn awaits(&self) -> Option<String> {
        (self.asking.load(Ordering::Relaxed) > 0).then(|| "a person's consent to its login".to_owned())
    }

    fn besides(&self) -> Vec<Secret> {
        self.latest().map(|bearer| bearer.besides).unwrap_or_default()
    }

    fn latest(&self) -> Option<Bearer> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renews the token, or waits for whoever is doing so. It goes on when nobody waits for it any more: a token that
    /// was given once must not be lost.
    async fn renewed(self: &Arc<Self>, challenge: Challenge, used: Option<Secret>) -> Result<Gained, Fault> {
        let (login, seen) = (self.clone(), self.renewals.load(Ordering::Acquire));
        let renewing = tokio::spawn(async move {
            let over = login.over.clone();
            let renewal = async {
                let mut held = login.held.lock().await;
                if login.renewals.load(Ordering::Acquire) != seen {
                    return held.last.clone().unwrap_or(Ok(Gained::Kept));
                }
                let ended = login.renew(&mut held, &challenge, used.as_ref()).await;
                held.last = Some(ended.clone());
                login.renewals.fetch_add(1, Ordering::Release);
                ended
            };
            tokio::select! {
                biased;
                () = over.cancelled() => Err(Fault::Withheld("the server was removed".to_owned())),
                ended = renewal => ended,
            }
        });
        renewing.await.unwrap_or_else(|_panicked| Err(denied("the login failed here")))
    }
}

fn bearer(token: &Secret) -> Result<HeaderValue, Fault> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
    let mut value = value.map_err(|_| denied("the token has a character that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// There is no login, and trying again gives none.
fn denied(reason: impl Into<String>) -> Fault {
    Fault::Unauthorised { reason: reason.into(), challenge: None }
}
