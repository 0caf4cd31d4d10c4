use reqwest::{StatusCode, Url};

use super::hop;

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
