//! A server that wants a token, and the authorization server that issues it, in one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::oauth::{Authorise, Consent, MemoryTokens, OAuth, Redirected, TokenKey, TokenStore};
use pilothouse_adapters::policy::{AllowAll, Approach};

use super::site::{json_body, response};
use super::*;

/// What the authorization server does, and has done.
#[derive(Default)]
struct Issuer {
    issued: AtomicUsize,
    /// Tokens below this number are not taken any more.
    valid_from: AtomicUsize,
    down: AtomicBool,
    refreshes_refused: AtomicBool,
    consents: AtomicUsize,
    refuses: AtomicBool,
    /// How many clients have registered, and below which number none is known any more.
    clients: AtomicUsize,
    clients_from: AtomicUsize,
    registers_nobody: AtomicBool,
    /// How long a token lives, in seconds; an hour if 0.
    lives: AtomicUsize,
    /// Under which name it is to be reached.
    host: &'static str,
}

impl Issuer {
    fn on(host: &'static str) -> Arc<Self> {
        Arc::new(Self { host, ..Self::default() })
    }

    fn answer(&self, seen: &site::Seen) -> Option<Vec<site::Act>> {
        let port = seen.headers.get("host").and_then(|host| host.rsplit(':').next()).unwrap_or_default();
        let (home, issuer) = (format!("http://127.0.0.1:{port}"), format!("http://{}:{port}", self.host));
        let reply = |body: Value| Some(json_body(&body.to_string()));
        match seen.path.split('?').next().unwrap_or_default() {
            path @ ("/.well-known/oauth-protected-resource/mcp"
            | "/.well-known/oauth-protected-resource/sse") => {
                let resource = format!("{home}/{}", &path[path.len() - 3..]);
                reply(json!({"resource": resource, "authorization_servers": [issuer]}))
            }
            "/.well-known/oauth-authorization-server" => reply(json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "code_challenge_methods_supported": ["S256"],
                "response_types_supported": ["code"],
            })),
            "/register" if self.registers_nobody.load(Ordering::Relaxed) => {
                Some(response("503 Busy", "", ""))
            }
            "/register" => {
                let id = format!("client-{}", self.clients.fetch_add(1, Ordering::Relaxed));
                reply(json!({"client_id": id, "redirect_uris": ["http://localhost/back"]}))
            }
            "/token" if self.clients.load(Ordering::Relaxed) <= self.clients_from.load(Ordering::Relaxed) => {
                Some(response(
                    "401 Unauthorized",
                    "content-type: application/json\r\n",
                    r#"{"error":"invalid_client"}"#,
                ))
            }
            "/token" if self.down.load(Ordering::Relaxed) => Some(response("503 Busy", "", "")),
            "/token" if self.refreshes_refused.load(Ordering::Relaxed) => Some(response(
                "400 Bad Request",
                "content-type: application/json\r\n",
                r#"{"error":"invalid_grant"}"#,
            )),
            "/token" => {
                let number = self.issued.fetch_add(1, Ordering::Relaxed);
                let lives = self.lives.load(Ordering::Relaxed);
                let lives = if lives == 0 { 3_600 } else { lives };
                reply(json!({
                    "access_token": format!("token-number-{number}"), "refresh_token": "refreshes",
                    "token_type": "Bearer", "expires_in": lives,
                }))
            }
            "/mcp" | "/sse" | "/message" => {
                let token = seen.headers.get("authorization").and_then(|value| value.rsplit('-').next());
                let number = token.and_then(|number| number.parse::<usize>().ok());
                let taken = number.is_some_and(|number| number >= self.valid_from.load(Ordering::Relaxed));
                match seen.headers.get("authorization").filter(|_| taken && seen.tool() == "tells") {
                    Some(told) => Some(response("500 Oops", "", &format!("{told}, refreshes"))),
                    None => (!taken).then(|| response("401 No", "", "")),
                }
            }
            _ => Some(response("404 Not Found", "", "")),
        }
    }

    async fn site(self: &Arc<Self>) -> Site {
        self.site_of(Kind::Json, Sessions::Yes).await
    }

    async fn site_of(self: &Arc<Self>, kind: Kind, sessions: Sessions) -> Site {
        let issuer = self.clone();
        let fault: Fault = Arc::new(move |seen| issuer.answer(seen));
        Site::start("plain", kind, sessions, fault).await
    }

    fn revoke(&self) {
        self.valid_from.store(self.issued.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// How often a person was asked, and how many tokens there were.
    fn counts(&self) -> (usize, usize) {
        (self.consents.load(Ordering::Relaxed), self.issued.load(Ordering::Relaxed))
    }
}

struct Person(Arc<Issuer>);

impl Authorise for Person {
    fn authorise(&self, consent: Consent) -> BoxFuture<'_, Result<Redirected, String>> {
        self.0.consents.fetch_add(1, Ordering::Relaxed);
        let no = self.0.refuses.load(Ordering::Relaxed);
        let state = consent.url.split("state=").nth(1).and_then(|rest| rest.split('&').next());
        let to = format!("{}?code=x&state={}", consent.redirect_uri, state.unwrap_or_default());
        Box::pin(std::future::ready(if no { Err("not now".to_owned()) } else { Redirected::from_url(&to) }))
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<MemoryTokens>, Arc<AtomicUsize>);

impl Shared {
    /// How many tokens were forgotten.
    fn removed(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl TokenStore for Shared {
    fn load(&self, key: &TokenKey) -> BoxFuture<'_, Result<Option<Secret>, String>> {
        self.0.load(key)
    }

    fn save(&self, key: &TokenKey, value: Secret) -> BoxFuture<'_, Result<(), String>> {
        self.0.save(key, value)
    }

    fn remove(&self, key: &TokenKey) -> BoxFuture<'_, Result<(), String>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.remove(key)
    }
}

fn login(tokens: &Shared) -> OAuth {
    OAuth::new("http://localhost/back").tokens(tokens.clone())
}

async fn connect(
    site: &Site,
    login: OAuth,
    policy: impl ServerPolicy,
) -> Result<(Arc<dyn Connection>, HttpConnector), ConnectError> {
    let endpoint = Endpoint::parse(&site.url()).unwrap();
    let transport = Transport::Http { endpoint, headers: BTreeMap::new() };
    let definition = ServerDefinition::new(ServerId::new("scripted").unwrap(), transport);
    let connector = HttpConnector::new(&definition, Arc::new(policy)).unwrap().logging_in(login);
    let (notices, _noticed) = mpsc::channel(1);
    let connected = timeout(Duration::from_secs(20), connector.connect(terms(notices))).await;
    connected.expect("in time").map(|link| (link, connector))
}

async fn echoes(link: &dyn Connection) -> Result<CallResult, RequestError> {
    call(link, "echo", json!({"text": "on"})).await
}

#[tokio::test]
async fn without_anybody_to_consent_a_login_fails_at_once_and_for_good() {
    let issuer = Issuer::on("127.0.0.1");
    let site = issuer.site().await;
    let error = connect(&site, login(&Shared::default()), AllowAll).await.err().expect("refused");
    let reason = "it wants a login, and nobody is there to consent: set `OAuth::authorise`".to_owned();
    assert!(error.is_permanent());
    assert_eq!(error, ConnectError::Unauthorised { reason, challenge: None });
    let asked = site.seen().iter().filter(|seen| seen.path == "/mcp" && seen.method == "POST").count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_token_that_is_not_taken_any_more_is_renewed_once_and_the_call_goes_on() {
    let (issuer, tokens) = (Issuer::on("127.0.0.1"), Shared::default());
    let site = issuer.site().await;
    let asking = login(&tokens).authorise(Person(issuer.clone()));
    let (link, _connector) = connect(&site, asking, AllowAll).await.unwrap();
    assert_eq!(issuer.counts(), (1, 1));
    issuer.revoke();
    let (one, two) = tokio::join!(echoes(&*link), echoes(&*link));
    assert_eq!((one, two), (said(CallOutcome::Succeeded, "on"), said(CallOutcome::Succeeded, "on")));
    assert_eq!(issuer.counts(), (1, 2), "one refresh for both, and no consent");

    issuer.revoke();
    issuer.down.store(true, Ordering::Relaxed);
    let error = echoes(&*link).await.expect_err("no token");
    assert!(matches!(error, RequestError::Unsent { .. }), "{error:?}");
    issuer.down.store(false, Ordering::Relaxed);
    assert_eq!(echoes(&*link).await, said(CallOutcome::Succeeded, "on"), "an outage costs no token");
    assert_eq!(issuer.counts(), (1, 3));

    let told = call(&*link, "tells", json!({})).await;
    let reason = "it says \"Bearer <secret>, <secret>\"".to_owned();
    assert_eq!(told, Err(RequestError::Http { status: 500, reason }), "no token comes back in its words");

    let (again, _connector) = connect(&site, login(&tokens), AllowAll).await.expect("the token was kept");
    assert_eq!(echoes(&*again).await, said(CallOutcome::Succeeded, "on"));
    assert_eq!(issuer.counts(), (1, 3), "nobody is asked for what is kept");
}

#[tokio::test]
async fn a_person_who_says_no_is_not_asked_again_by_every_call() {
    let (issuer, tokens) = (Issuer::on("127.0.0.1"), Shared::default());
    let site = issuer.site().await;
    let asking = login(&tokens).authorise(Person(issuer.clone()));
    let (link, _connector) = connect(&site, asking, AllowAll).await.unwrap();
    issuer.refuses.store(true, Ordering::Relaxed);
    issuer.refreshes_refused.store(true, Ordering::Relaxed);
    issuer.revoke();
    for _ in 0..3 {
        let error = echoes(&*link).await.expect_err("no token");
        let reason = "nobody consented to the login: not now".to_owned();
        assert_eq!(error, RequestError::Unauthorised { reason, challenge: None });
    }
    assert_eq!(issuer.counts(), (2, 1));
    assert_eq!(tokens.removed(), 1, "what its issuer takes no more is not kept");
}

#[tokio::test]
async fn a_client_that_its_issuer_knows_no_more_is_registered_anew_and_nobody_tries_for_ever() {
    let (issuer, tokens) = (Issuer::on("127.0.0.1"), Shared::default());
    let site = issuer.site().await;
    let asking = || login(&tokens).authorise(Person(issuer.clone()));
    let (link, _connector) = connect(&site, asking(), AllowAll).await.unwrap();
    issuer.revoke();
    issuer.clients_from.store(1, Ordering::Relaxed);
    assert_eq!(echoes(&*link).await, said(CallOutcome::Succeeded, "on"));
    assert_eq!((issuer.counts(), issuer.clients.load(Ordering::Relaxed), tokens.removed()), ((2, 2), 2, 1));

    issuer.revoke();
    issuer.clients_from.store(100, Ordering::Relaxed);
    let error = echoes(&*link).await.expect_err("no client is known");
    assert!(matches!(error, RequestError::Unauthorised { .. }), "{error:?}");
}

#[tokio::test]
async fn a_token_that_another_process_has_renewed_survives_whoever_comes_too_late() {
    let (issuer, tokens) = (Issuer::on("127.0.0.1"), Shared::default());
    let site = issuer.site().await;
    let asking = || login(&tokens).authorise(Person(issuer.clone()));
    let (winner, _connector) = connect(&site, asking(), AllowAll).await.unwrap();
    let (loser, _connector) = connect(&site, asking(), AllowAll).await.unwrap();
    assert_eq!(issuer.counts(), (1, 1), "the second one finds the first one's token");
    // Their streams are open, so that nothing but the calls wants a token from here on.
    let listening = |seen: &&site::Seen| seen.method == "GET" && seen.path == "/mcp";
    becomes("both listen", || site.seen().iter().filter(listening).count() >= 2).await;
    for link in [&winner, &loser] {
        assert_eq!(echoes(&**link).await, said(CallOutcome::Succeeded, "on"));
    }
    issuer.revoke();
    assert_eq!(echoes(&*winner).await, said(CallOutcome::Succeeded, "on"));
    // A refresh token is good once, and the winner has used it.
    issuer.refreshes_refused.store(true, Ordering::Relaxed);
    assert_eq!(echoes(&*loser).await, said(CallOutcome::Succeeded, "on"));
    assert_eq!((issuer.counts(), tokens.removed()), ((1, 2), 0));
}

#[tokio::test]
async fn an_outage_while_a_client_registers_is_not_the_end_of_its_login() {
    let issuer = Issuer::on("127.0.0.1");
    let site = issuer.site().await;
    let asking = || login(&Shared::default()).authorise(Person(issuer.clone()));
    issuer.registers_nobody.store(true, Ordering::Relaxed);
    let error = connect(&site, asking(), AllowAll).await.err().expect("nobody is registered");
    assert!(!error.is_permanent(), "{error:?}");
    issuer.registers_nobody.store(false, Ordering::Relaxed);
    assert!(connect(&site, asking(), AllowAll).await.is_ok());
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_early_is_used_as_long_as_it_lives() {
    let (issuer, tokens) = (Issuer::on("127.0.0.1"), Shared::default());
    let site = issuer.site().await;
    issuer.lives.store(8, Ordering::Relaxed);
    let asking = login(&tokens).authorise(Person(issuer.clone()));
    let (link, _connector) = connect(&site, asking, AllowAll).await.unwrap();
    issuer.down.store(true, Ordering::Relaxed);
    // Half its life: from here on it is renewed before it is used.
    tokio::time::sleep(Duration::from_millis(4_100)).await;
    assert_eq!(echoes(&*link).await, said(CallOutcome::Succeeded, "on"));
    assert!(site.seen().iter().filter(|seen| seen.path == "/token").count() > 1, "a renewal was tried");
    assert_eq!(issuer.counts(), (1, 1));
}

#[tokio::test]
async fn a_server_behind_sse_is_logged_in_to_as_well_and_says_that_it_waits_for_a_person() {
    struct Slow(Arc<Issuer>, Arc<tokio::sync::Notify>);
    impl Authorise for Slow {
        fn authorise(&self, consent: Consent) -> BoxFuture<'_, Result<Redirected, String>> {
            Box::pin(async {
                self.1.notified().await;
                Person(self.0.clone()).authorise(consent).await
            })
        }
    }
    let (issuer, comes) = (Issuer::on("127.0.0.1"), Arc::new(tokio::sync::Notify::new()));
    let site = issuer.site_of(Kind::Legacy, Sessions::No).await;
    let transport =
        Transport::Sse { endpoint: Endpoint::parse(&site.url()).unwrap(), headers: BTreeMap::new() };
    let definition = ServerDefinition::new(ServerId::new("scripted").unwrap(), transport);
    let asking = login(&Shared::default()).authorise(Slow(issuer.clone(), comes.clone()));
    let connector = Arc::new(SseConnector::new(&definition, Arc::new(AllowAll)).unwrap().logging_in(asking));
    assert_eq!(connector.awaits(), None);
    let (notices, _noticed) = mpsc::channel(1);
    let connecting = tokio::spawn({
        let connector = connector.clone();
        async move { connector.connect(terms(notices)).await }
    });
    becomes("a person is asked", || connector.awaits().is_some()).await;
    assert_eq!(connector.awaits().as_deref(), Some("a person's consent to its login"));
    comes.notify_one();
    let link =
        timeout(Duration::from_secs(20), connecting).await.expect("in time").unwrap().expect("connected");
    assert_eq!(echoes(&*link).await, said(CallOutcome::Succeeded, "on"));
    assert_eq!((connector.awaits(), issuer.counts()), (None, (1, 1)));
}

#[tokio::test]
async fn a_login_reaches_nobody_against_the_policy() {
    struct NotByName;
    impl ServerPolicy for NotByName {
        fn allows<'a>(
            &'a self,
            _: &'a ServerId,
            approach: &'a Approach,
        ) -> BoxFuture<'a, Result<(), String>> {
            let named = matches!(approach, Approach::Connect { host, .. } if host == "localhost");
            Box::pin(std::future::ready(if named { Err("not there".to_owned()) } else { Ok(()) }))
        }
    }
    let issuer = Issuer::on("localhost");
    let site = issuer.site().await;
    let asking = || login(&Shared::default()).authorise(Person(issuer.clone()));
    let error = connect(&site, asking(), NotByName).await.err().expect("refused");
    assert!(!site.seen().iter().any(|seen| seen.path.contains("authorization-server")), "{error}");
    assert_eq!(issuer.counts(), (0, 0), "{error}");
    connect(&site, asking(), AllowAll).await.expect("allowed");
    assert_eq!(issuer.counts(), (1, 1));
}
