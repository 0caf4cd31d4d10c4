//! Gets a token: from the store, by refreshing, or by a person's consent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilothouse_messages::secret::Secret;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore,
    InMemoryCredentialStore, OAuthClientConfig, StoredCredentials, WWWAuthenticateParams,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::errand::{Errands, Heard, LastHeard};
use super::{Bearer, Challenge, Documents, Gained, Grant, Held, Login, Wants, denied};
use crate::mcp::http::answer::whole_words;
use crate::mcp::http::fault::Fault;
use crate::mcp::http::reach::Reach;
use crate::oauth::{Consent, TokenKey};

/// How long a person may take.
const CONSENT_WITHIN: Duration = Duration::from_secs(600);
/// How long a refused login is not asked for again, however many calls want it.
const NO_HOLDS: Duration = Duration::from_secs(10);
/// How long the embedder's store may take.
const STORE_WITHIN: Duration = Duration::from_secs(10);
/// How long before its end a token is renewed, at most half its life.
const BEFORE_ITS_END: Duration = Duration::from_secs(30);
/// What is shown of an authorization server's words.
const SHOWN_CHARS: usize = 300;

/// What a token store keeps.
#[derive(Serialize, Deserialize)]
struct Written {
    credentials: StoredCredentials,
    client_secret: Option<String>,
}

/// Who the client is to an authorization server.
struct Client {
    id: String,
    secret: Option<String>,
}

impl Login {
    pub(super) async fn renew(
        &self,
        held: &mut Held,
        challenge: &Challenge,
        used: Option<&Secret>,
    ) -> Result<Gained, Fault> {
        let mut client = Known::Yes;
        if challenge.wants == Wants::Token {
            let current = self.latest();
            if current.is_some_and(|current| Some(&current.token) != used) {
                return Ok(Gained::Kept);
            }
            match &held.grant {
                Some(grant) if !held.spent => match grant.manager.refresh_token().await {
                    Ok(_) => {
                        self.take(grant, Source::Server).await?;
                        return Ok(Gained::Kept);
                    }
                    Err(error) => {
                        client = self.not_renewed(grant, &error).await?;
                        held.spent = true;
                        // What is kept now is newer: another process has renewed it.
                        if let Some(newer) = self.stored(challenge).await? {
                            self.take(&newer, Source::Store).await?;
                            held.set(newer);
                            return Ok(Gained::Kept);
                        }
                    }
                },
                Some(_spent) => {}
                None => {
                    if let Some(grant) = self.stored(challenge).await? {
                        self.take(&grant, Source::Store).await?;
                        held.set(grant);
                        return Ok(Gained::Kept);
                    }
                }
            }
        }
        if held.refused_at.is_some_and(|refused| refused.elapsed() < NO_HOLDS) {
            return held.last.clone().unwrap_or_else(|| Err(denied("the login was refused a moment ago")));
        }
        if client == Known::NoMore {
            held.grant = None;
        }
        let grant = self.consented(held.grant.as_ref(), challenge).await;
        held.refused_at = matches!(grant, Err(Fault::Unauthorised { .. })).then(Instant::now);
        let grant = grant?;
        self.take(&grant, Source::Server).await?;
        held.set(grant);
        Ok(Gained::Consented)
    }

    /// What a token is worth that could not be renewed: nothing, unless it was the network's fault or the
    /// authorization server's, so that it may do again later.
    async fn not_renewed(&self, grant: &Grant, error: &AuthError) -> Result<Known, Fault> {
        let client = match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => Known::Yes,
            // It was registered anew, or thrown out: no second try changes that.
            _ if grant.last.refuses_the_client() => Known::NoMore,
            // rmcp's own enum.
            error => return Err(Fault::Withheld(shown("the token could not be renewed", error))),
        };
        self.forget(grant).await;
        Ok(client)
    }

    /// Finds out who issues tokens for the server.
    async fn discovered(&self, challenge: &Challenge) -> Result<Grant, Fault> {
        let last = LastHeard::default();
        let errands = Errands::new(Reach::open(self.place.clone()).await?, last.clone());
        let home = self.place.home.as_str();
        let manager = AuthorizationManager::new_with_oauth_http_client(home, std::sync::Arc::new(errands));
        let mut manager = manager.await.map_err(|error| refused(&error, &last))?;
        let found = manager.resolve_metadata_from_challenge(challenge.header.as_deref()).await;
        let found = found.map_err(|error| refused(&error, &last))?;
        if !found.source.is_discovered() {
            return Err(denied("it wants a token, and does not say who issues them: give it one (a bearer)"));
        }
        let issuer = found.metadata.issuer.clone().unwrap_or_else(|| found.metadata.token_endpoint.clone());
        let said = found.metadata.additional_fields.get("client_id_metadata_document_supported");
        let documents = match said.and_then(serde_json::Value::as_bool) {
            Some(true) => Documents::Taken,
            Some(false) | None => Documents::Unknown,
        };
        manager.set_metadata(found.metadata);
        let credentials = InMemoryCredentialStore::new();
        manager.set_credential_store(credentials.clone());
        let mut resource = self.place.home.clone();
        resource.set_query(None);
        let key = TokenKey { tenant: self.tenant.clone(), resource: resource.to_string(), issuer };
        Ok(Grant { manager, credentials, key, client_secret: None, documents, last })
    }

    /// What an earlier process, or another connection, has kept.
    async fn stored(&self, challenge: &Challenge) -> Result<Option<Grant>, Fault> {
        let mut grant = self.discovered(challenge).await?;
        let (tokens, key) = (self.settings.tokens.clone(), grant.key.clone());
        let loaded = within(STORE_WITHIN, async move { tokens.load(&key).await }).await;
        let loaded = loaded.map_err(|reason| Fault::Withheld(format!("the token store failed: {reason}")))?;
        let Some(written) = loaded.and_then(|kept| serde_json::from_str::<Written>(kept.expose()).ok())
        else {
            return Ok(None);
        };
        let Written { credentials, client_secret } = written;
        if credentials.token_response.is_none() {
            return Ok(None);
        }
        let client = Client { id: credentials.client_id.clone(), secret: client_secret.clone() };
        let configured = grant.manager.configure_client(self.config(client));
        configured.map_err(|error| refused(&error, &grant.last))?;
        let saved = grant.credentials.save(credentials).await;
        saved.map_err(|error| refused(&error, &grant.last))?;
        grant.client_secret = client_secret;
        Ok(Some(grant))
    }

    fn config(&self, client: Client) -> OAuthClientConfig {
        let config = OAuthClientConfig::new(client.id, self.settings.redirect_uri.clone());
        match client.secret {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        }
    }

    /// Asks a person.
    async fn consented(&self, old: Option<&Grant>, challenge: &Challenge) -> Result<Grant, Fault> {
        let Some(authorise) = self.settings.authorise.clone() else {
            let words = "it wants a login, and nobody is there to consent: set `OAuth::authorise`";
            return Err(Fault::Unauthorised {
                reason: words.to_owned(),
                challenge: challenge.header.clone(),
            });
        };
        let Grant { mut manager, credentials, key, documents, last, .. } = self.discovered(challenge).await?;
        let old = match old.filter(|old| old.key == key) {
            Some(old) => loaded(old).await?.map(|credentials| (credentials, old.client_secret.clone())),
            None => None,
        };
        let scopes = match challenge.wants {
            Wants::Token => self.settings.scopes.clone(),
            Wants::Scope => self.wider(old.as_ref().map(|(old, _)| old), challenge),
        };
        let mut request =
            AuthorizationRequest::new(self.settings.redirect_uri.clone()).with_initial_scope_selection();
        if !scopes.is_empty() {
            request = request.with_scopes(scopes.clone());
        }
        let client = match old {
            Some((old, secret)) => Some(Client { id: old.client_id, secret }),
            None => self.client(&mut manager, &last, documents, scopes).await?,
        };
        let client_secret = client.as_ref().and_then(|client| client.secret.clone());
        request = match (client, &self.settings.metadata_url) {
            (Some(Client { id, secret: None }), _) => request.with_preregistered_client(id),
            (Some(Client { id, secret: Some(secret) }), _) => {
                request.with_preregistered_client(id).with_client_secret(secret)
            }
            (None, Some(url)) => request.with_client_metadata_url(url),
            (None, None) => request,
        };
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_manager, error)| refused(&error, &last))?;
        let consent = Consent {
            server: self.server.clone(),
            url: session.auth_url.clone(),
            redirect_uri: self.settings.redirect_uri.clone(),
        };
        let redirected = {
            let _asking = Asking::new(&self.asking);
            within(CONSENT_WITHIN, async move { authorise.authorise(consent).await }).await
        };
        let redirected =
            redirected.map_err(|reason| denied(format!("nobody consented to the login: {reason}")))?;
        let (code, state) = (redirected.code.expose(), redirected.state.expose());
        let exchanged = session.handle_callback_with_issuer(code, state, redirected.issuer.as_deref()).await;
        exchanged.map_err(|error| refused(&error, &last))?;
        Ok(Grant { manager: session.auth_manager, credentials, key, client_secret, documents, last })
    }

    /// What is granted already and what the challenge names (MCP 2025-11-25, "Step-Up Authorization Flow").
    fn wider(&self, old: Option<&StoredCredentials>, challenge: &Challenge) -> Vec<String> {
        let mut scopes = old.map(|old| old.granted_scopes.clone()).unwrap_or_default();
        let header = challenge.header.as_deref().unwrap_or_default();
        let named = WWWAuthenticateParams::parse(header, &self.place.home).scope.unwrap_or_default();
        for scope in named.split_whitespace().chain(self.settings.scopes.iter().map(String::as_str)) {
            if !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
        scopes
    }

    /// Who we are there; `None` if a metadata document says so.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        last: &LastHeard,
        documents: Documents,
        mut scopes: Vec<String>,
    ) -> Result<Option<Client>, Fault> {
        if let Some((id, secret)) = &self.settings.registered {
            let secret = secret.as_ref().map(|secret| secret.expose().to_owned());
            return Ok(Some(Client { id: id.clone(), secret }));
        }
        if self.settings.metadata_url.is_some() && documents == Documents::Taken {
            return Ok(None);
        }
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(&[]).await;
        }
        let names: Vec<_> = scopes.iter().map(String::as_str).collect();
        let (name, redirect) = (&self.settings.client_name, &self.settings.redirect_uri);
        let registered =
            manager.register_client(name, redirect, &names).await.map_err(|error| refused(&error, last))?;
        Ok(Some(Client { id: registered.client_id, secret: registered.client_secret }))
    }

    /// Uses a token from now on, and has it kept.
    async fn take(&self, grant: &Grant, source: Source) -> Result<(), Fault> {
        let Some(credentials) = loaded(grant).await? else {
            return Err(denied("the authorization server gave no token"));
        };
        // The fields as RFC 6749 names them: their accessors are another crate's.
        let response = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let Some(token) = response.get("access_token").and_then(serde_json::Value::as_str) else {
            return Err(denied("the authorization server gave no token"));
        };
        let lives = response.get("expires_in").and_then(serde_json::Value::as_u64).map(Duration::from_secs);
        let left = lives.map(|lives| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let age =
                now.saturating_sub(Duration::from_secs(credentials.token_received_at.unwrap_or_default()));
            (lives.saturating_sub(age).min(YEAR), BEFORE_ITS_END.min(lives / 2))
        });
        let ends = left.map(|(left, _)| Instant::now() + left);
        let until = left.map(|(left, early)| Instant::now() + left.saturating_sub(early));
        let refresh = response.get("refresh_token").and_then(serde_json::Value::as_str);
        let besides = refresh.into_iter().chain(grant.client_secret.as_deref()).map(Secret::new).collect();
        *self.latest.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(Bearer { token: Secret::new(token), until, ends, besides });
        if source == Source::Server {
            let written = Written { credentials, client_secret: grant.client_secret.clone() };
            let value = Secret::new(serde_json::to_string(&written).unwrap_or_default());
            let (tokens, key) = (self.settings.tokens.clone(), grant.key.clone());
            let saved = within(STORE_WITHIN, async move { tokens.save(&key, value).await }).await;
            if let Err(reason) = saved {
                tracing::warn!(target: "pilothouse", server = %self.server, reason, "a token could not be kept");
            }
        }
        Ok(())
    }
}

impl Login {
    /// Has a token forgotten that its issuer takes no more, unless another process has kept a newer one by now.
    async fn forget(&self, grant: &Grant) {
        let token = |credentials: &StoredCredentials| serde_json::to_value(&credentials.token_response).ok();
        let ours = loaded(grant).await.ok().flatten().as_ref().and_then(token);
        let (tokens, key) = (self.settings.tokens.clone(), grant.key.clone());
        let removed = within(STORE_WITHIN, async move {
            let kept = tokens.load(&key).await?;
            let kept = kept.and_then(|kept| serde_json::from_str::<Written>(kept.expose()).ok());
            match kept {
                Some(kept) if token(&kept.credentials) != ours => Ok(()),
                Some(_) | None => tokens.remove(&key).await,
            }
        })
        .await;
        if let Err(reason) = removed {
            tracing::warn!(target: "pilothouse", server = %self.server, reason, "a token could not be forgotten");
        }
    }
}

impl Held {
    fn set(&mut self, grant: Grant) {
        self.grant = Some(grant);
        self.spent = false;
    }
}

/// Whether an authorization server knows who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    NoMore,
}

/// Counts a person who is being asked.
struct Asking<'a>(&'a AtomicUsize);

impl<'a> Asking<'a> {
    fn new(asking: &'a AtomicUsize) -> Self {
        asking.fetch_add(1, Ordering::Relaxed);
        Self(asking)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// No clock takes more.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Where a token comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Store,
    Server,
}

async fn loaded(grant: &Grant) -> Result<Option<StoredCredentials>, Fault> {
    grant.credentials.load().await.map_err(|error| refused(&error, &grant.last))
}

/// Runs the embedder's code: bounded, and a panic is a refusal.
async fn within<T: Send + 'static>(
    patience: Duration,
    asked: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    match timeout(patience, AbortOnDropHandle::new(tokio::spawn(asked))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panicked)) => Err("it panicked".to_owned()),
        Err(_elapsed) => Err(format!("no answer within {} s", patience.as_secs())),
    }
}

fn shown(what: &str, error: &AuthError) -> String {
    format!("{what}: {}", whole_words(&error.to_string(), SHOWN_CHARS))
}

/// What a failed step of a login means.
fn refused(error: &AuthError, last: &LastHeard) -> Fault {
    let words = shown("the login failed", error);
    if last.get() == Heard::Outage {
        return Fault::Withheld(words);
    }
    match error {
        AuthError::DiscoveryRequestFailed { .. }
        | AuthError::HttpError(_)
        | AuthError::CredentialStoreError(_) => Fault::Withheld(words),
        // rmcp's own enum; whatever else it says, it says again.
        _ => denied(words),
    }
}
