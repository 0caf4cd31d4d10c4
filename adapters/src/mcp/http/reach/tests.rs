use reqwest::{StatusCode, Url};

use std::net::IpAddr;
use std::sync::Arc;

use pilothouse_messages::id::ServerId;
use pilothouse_messages::server::Proxies;

use super::{Allowed, Names, hop};
use crate::policy::{Gate, PublicOnly};

/// Where a redirect with this status and target leads from `https://a.test/mcp`.
fn check(status: u16, location: Option<&str>, expected: Result<Option<&str>, &str>) {
    let from = Url::parse("https://user:key@a.test/mcp").unwrap();
    let hop = hop(StatusCode::from_u16(status).unwrap(), location, &from);
    let words = hop.map_err(|fault| format!("{fault:?}"));
    match (words, expected) {
        (Ok(target), Ok(wanted)) => {
            assert_eq!(target.as_ref().map(Url::as_str), wanted, "{status} {location:?}")
        }
        (Err(words), Err(wanted)) => assert!(words.contains(wanted), "{status} {location:?}: {words}"),
        (found, _) => panic!("{status} {location:?}: {found:?}"),
    }
}

#[test]
fn a_redirect_away_from_https_is_refused_in_words_of_its_own() {
    for status in [301, 302, 307, 308] {
        check(
            status,
            Some("http://a.test/mcp/"),
            Err("it redirects away from https; the request was not sent there"),
        );
        check(status, Some("file:///etc/passwd"), Err("it redirects away from https"));
        check(status, Some("/mcp/"), Ok(Some("https://a.test/mcp/")));
        check(status, Some("https://key:stolen@b.test/mcp"), Ok(Some("https://b.test/mcp")));
        check(status, None, Err("it redirects to nowhere"));
        check(status, Some("http://["), Err("it redirects to what is no URL"));
    }
    for status in [200, 303, 304, 401] {
        check(status, Some("http://a.test/"), Ok(None));
    }
}

/// What `localhost` means to a client behind a proxy, once this was asked of the policy about it.
async fn means(asked: Option<&[&str]>) -> Result<Vec<String>, String> {
    let allowed = Allowed::default();
    let parse = |text: &&str| text.parse::<IpAddr>().unwrap();
    if let Some(asked) = asked {
        allowed.insert("localhost".to_owned(), asked.iter().map(parse).collect());
    }
    let gate = Gate::new(Arc::new(PublicOnly), ServerId::new("a").unwrap());
    let names = Names { gate, proxies: Proxies::FromEnvironment, allowed };
    let found = names.addresses("localhost".to_owned()).await;
    found.map(|found| found.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn behind_a_proxy_a_name_means_what_the_policy_was_asked_about_and_nothing_else() {
    assert_eq!(means(Some(&["93.184.216.34"])).await, Ok(vec!["93.184.216.34".to_owned()]));
    let refused = means(Some(&[])).await.expect_err("it is resolved, and refused");
    assert!(refused.contains("localhost"), "{refused}");
    assert!(means(None).await.is_ok_and(|found| found.contains(&"127.0.0.1".to_owned())), "the proxy's own");
}
