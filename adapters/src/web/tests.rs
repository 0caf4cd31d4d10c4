use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Web, WebFetch, WebHit, WebPage, WebQuery, WebSearch, check_url};
use crate::BoxFuture;
use crate::tool::Invocation;

/// An engine that finds more than anybody asked for, and a reader whose pages are long.
struct Endless;

impl WebSearch for Endless {
    fn search(&self, query: WebQuery) -> BoxFuture<'_, Result<Vec<WebHit>, String>> {
        let hit = |n: usize| WebHit {
            title: format!("{n}\n{}", "t".repeat(10_000)),
            url: format!("https://example.org/{n}"),
            snippet: query.text.clone(),
        };
        let hits = (0..1_000).map(hit).collect();
        Box::pin(async { Ok(hits) })
    }
}

impl WebFetch for Endless {
    fn fetch(&self, url: String) -> BoxFuture<'_, Result<WebPage, String>> {
        Box::pin(async { Ok(WebPage { url, title: "Long".into(), text: "é".repeat(1 << 20) }) })
    }
}

async fn called(name: &str, arguments: Value) -> Result<Value, String> {
    let functions = Web::new().search(Endless).fetch(Endless).functions();
    let function = functions.iter().find(|function| function.definition.name == name).expect("it is there");
    let answer = function.tool.call(Invocation::new(arguments, CancellationToken::new())).await?;
    Ok(serde_json::from_str(&answer).expect("an answer is JSON"))
}

#[test]
fn a_tool_is_there_exactly_if_something_is_behind_it() {
    let names = |web: Web| -> Vec<_> { web.functions().into_iter().map(|f| f.definition.name).collect() };
    assert_eq!(names(Web::new()), Vec::<String>::new());
    assert_eq!(names(Web::new().search(Endless)), ["web_search"]);
    assert_eq!(names(Web::new().fetch(Endless)), ["web_fetch"]);
    assert_eq!(names(Web::new().search(Endless).fetch(Endless)), ["web_search", "web_fetch"]);
}

#[tokio::test]
async fn results_are_bounded_whatever_an_engine_and_a_page_give() {
    let found = called("web_search", json!({"query": "tides"})).await.expect("found");
    let results = found["results"].as_array().expect("a list");
    assert_eq!((results.len(), &results[7]["url"]), (8, &json!("https://example.org/7")));
    assert_eq!(results[0]["title"].as_str().map(str::len), Some(300));
    assert_eq!(
        called("web_search", json!({"query": "t", "limit": 900}))
            .await
            .map(|f| f["results"].as_array().map(Vec::len)),
        Ok(Some(20))
    );
    let page = called("web_fetch", json!({"url": "https://example.org/"})).await.expect("read");
    assert_eq!((page["text"].as_str().map(str::len), &page["truncated"]), (Some(48 << 10), &json!(true)));
}

#[test]
fn only_addresses_of_the_open_web_are_read() {
    let good = [
        "https://example.org",
        "http://example.org:8080/a?b#c",
        "HTTPS://93.184.216.34/",
        "https://[2606:4700::1]/",
    ];
    for url in good {
        assert_eq!(check_url(url), Ok(()), "{url}");
    }
    let bad = [
        "file:///etc/passwd",
        "ftp://example.org",
        "example.org",
        "http://",
        "http://me:secret@example.org/",
        "http://localhost/",
        "http://a.localhost./",
        "http://127.0.0.1:80/",
        "http://10.0.0.8/",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fd00::1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://example.org\\@10.0.0.1/",
        "http://exam ple.org/",
        "http://127%2e0%2e0%2e1/",
        "http://%6cocalhost/",
        "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
        "http://169\u{3002}254\u{3002}169\u{3002}254/",
        "http://[fe80::1%25eth0]/",
    ];
    for url in bad {
        assert!(check_url(url).is_err(), "{url}");
    }
}
