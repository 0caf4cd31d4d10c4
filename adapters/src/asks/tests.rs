use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::id::ServerId;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::{Ask, AskKind, AskPort, Asks, Origin, Question, Reply, Root};
use crate::BoxFuture;

/// Answers as its words say.
struct Person(&'static str);

impl Asks for Person {
    fn kinds(&self) -> BTreeSet<AskKind> {
        [AskKind::Roots, AskKind::Sampling, AskKind::Form, AskKind::Url].into()
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            match (self.0, question.ask) {
                ("panics", _) => panic!("the person breaks"),
                ("hangs", _) => std::future::pending().await,
                ("declines", _) => Reply::Declined,
                ("dismisses", _) => Reply::Dismissed,
                ("confused", Ask::Roots) => Reply::Accepted(Map::new()),
                ("confused", _) => Reply::Roots(Vec::new()),
                (_, Ask::Roots) => {
                    let here = Root { uri: "file:///srv".to_owned(), name: Some("data".to_owned()) };
                    Reply::Roots(vec![here, Root { uri: "file:///tmp".to_owned(), name: None }])
                }
                (_, Ask::Sampling(params)) => Reply::Message(Map::from_iter([("asked".to_owned(), params)])),
                (_, Ask::Form { message, .. }) => {
                    Reply::Accepted(Map::from_iter([("said".to_owned(), json!(message))]))
                }
                (_, Ask::Url { url, host, .. }) => {
                    assert_eq!(
                        (url.as_str(), host.as_str()),
                        ("https://example.com:8443/a?b=c", "example.com:8443")
                    );
                    Reply::Accepted(Map::new())
                }
            }
        })
    }
}

fn port(person: Option<&'static str>) -> AskPort {
    let asks = person.map(|words| Arc::new(Person(words)) as Arc<dyn Asks>);
    let server = ServerId::new("files").unwrap();
    AskPort::new(server, asks, Arc::new(Semaphore::new(1)), Duration::from_secs(600))
}

async fn check(person: Option<&'static str>, method: &str, params: Value, expected: Result<Value, i64>) {
    let answer = port(person).put(Origin::default(), method, &params).await;
    assert_eq!(answer.map_err(|refusal| refusal.code), expected, "{person:?} {method} {params}");
}

fn form() -> Value {
    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})
}

fn page(url: &str) -> Value {
    json!({"mode": "url", "message": "look", "url": url, "elicitationId": "1"})
}

#[tokio::test(start_paused = true)]
async fn every_question_gets_the_embedders_answer_or_a_polite_refusal() {
    let (roots, sampling, elicit) = ("roots/list", "sampling/createMessage", "elicitation/create");
    let decline = || Ok(json!({"action": "decline"}));
    let none = || Ok(json!({"roots": []}));
    let good = page("https://example.com:8443/a?b=c");

    let both = json!({"roots": [{"uri": "file:///srv", "name": "data"}, {"uri": "file:///tmp"}]});
    check(Some("answers"), roots, json!({}), Ok(both)).await;
    check(Some("answers"), sampling, json!({"maxTokens": 1}), Ok(json!({"asked": {"maxTokens": 1}}))).await;
    check(Some("answers"), elicit, form(), Ok(json!({"action": "accept", "content": {"said": "who?"}})))
        .await;
    check(Some("answers"), elicit, good.clone(), Ok(json!({"action": "accept"}))).await;

    for person in ["panics", "hangs", "declines", "confused"] {
        check(Some(person), roots, json!({}), none()).await;
        check(Some(person), sampling, json!({}), Err(-1)).await;
        check(Some(person), elicit, form(), decline()).await;
        check(Some(person), elicit, good.clone(), decline()).await;
    }
    check(Some("dismisses"), elicit, form(), Ok(json!({"action": "cancel"}))).await;
    check(None, roots, json!({}), none()).await;
    check(None, sampling, json!({}), Err(-32601)).await;
    check(None, elicit, form(), decline()).await;
    check(Some("answers"), "no/such/method", json!({}), Err(-32601)).await;
}

#[tokio::test]
async fn only_a_plain_https_url_is_put_to_a_person() {
    let urls = [
        "http://example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://example.com\u{202e}\n/",
        "https://bank.com@evil.com/",
        "",
    ];
    for url in urls {
        check(Some("answers"), "elicitation/create", page(url), Err(-32602)).await;
    }
    check(Some("answers"), "elicitation/create", json!({"mode": "new"}), Err(-32602)).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_beyond_the_bound_is_declined_at_once() {
    let port = port(Some("hangs"));
    let start = tokio::time::Instant::now();
    let (first, second) = (form(), form());
    let first = port.put(Origin::default(), "elicitation/create", &first);
    let second = async {
        tokio::task::yield_now().await;
        let answer = port.put(Origin::default(), "elicitation/create", &second).await;
        (answer, start.elapsed())
    };
    let (first, second) = tokio::join!(first, second);
    let decline = || Ok(json!({"action": "decline"}));
    assert_eq!((first, second), (decline(), (decline(), Duration::ZERO)));
    assert_eq!(start.elapsed(), Duration::from_secs(600));
}
