use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::endpoint::Endpoint;
use pilothouse_messages::id::ServerId;
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{ServerDefinition, Transport};
use reqwest::Url;

use super::{BadHttp, HttpConnector, basic};
use crate::policy::AllowAll;

fn defined(url: &str, name: &str, value: &str) -> Option<BadHttp> {
    let headers = BTreeMap::from([(name.to_owned(), Secret::new(value))]);
    let transport = Transport::Http { endpoint: Endpoint::parse(url).unwrap(), headers };
    let definition = ServerDefinition::new(ServerId::new("s").unwrap(), transport);
    HttpConnector::new(&definition, Arc::new(AllowAll)).err()
}

#[test]
fn a_definition_that_can_reach_nobody_says_so() {
    let header =
        |name: &str, reason: &str| Some(BadHttp::Header { name: name.to_owned(), reason: reason.to_owned() });
    let rows = [
        ("http://h/mcp", "x-key", "v", None),
        ("http://h:99999/mcp", "x-key", "v", Some(BadHttp::Url("invalid port number".to_owned()))),
        ("http://h/mcp", "two words", "v", header("two words", "it is no header's name")),
        (
            "http://h/mcp",
            "x-key",
            "a\nb",
            header("x-key", "its value has a character that no header may have"),
        ),
        ("http://h/mcp", "Mcp-Session-Id", "v", header("Mcp-Session-Id", "the protocol sets it")),
        ("http://h/mcp", "Mcp-Param-Region", "v", header("Mcp-Param-Region", "the protocol sets it")),
        ("http://h/mcp", "Host", "v", header("Host", "the protocol sets it")),
    ];
    for (url, name, value, expected) in rows {
        assert_eq!(defined(url, name, value), expected, "{url} {name}");
    }
}

#[cfg(not(any(feature = "rustls", feature = "native-tls", feature = "tls-no-provider")))]
#[test]
fn https_without_tls_is_refused_before_anything_is_sent() {
    assert_eq!(defined("https://h/mcp", "x-key", "v"), Some(BadHttp::NoTls));
}

#[test]
fn user_and_password_of_a_url_become_a_header() {
    let rows = [
        ("http://h/", None),
        ("http://me:secret@h/", Some("Basic bWU6c2VjcmV0")),
        ("http://me@h/", Some("Basic bWU6")),
        ("http://me:a%20b%zz@h/", Some("Basic bWU6YSBiJXp6")),
    ];
    for (url, expected) in rows {
        let header = basic(&Url::parse(url).unwrap());
        assert!(header.iter().all(|header| header.is_sensitive()), "{url}");
        assert_eq!(header.as_ref().and_then(|header| header.to_str().ok()), expected, "{url}");
    }
}
