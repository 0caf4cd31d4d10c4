use std::sync::Arc;

use pilothouse_adapters::policy::{AllowAll, ServerPolicy};
use pilothouse_messages::limits::Limits;

use super::Server;

/// What is wrong, in words; `None` if it can be reached.
fn wrong(server: Server) -> Option<String> {
    let policy: Arc<dyn ServerPolicy> = Arc::new(AllowAll);
    server.checked(&Limits::default(), &policy).err().map(|error| error.to_string())
}

#[test]
fn a_url_or_a_header_that_cannot_be_used_is_told_without_its_secrets() {
    let rows = [
        (
            Server::http("s", "ftp://me:canary@h/"),
            "the URL of the server \"s\" cannot be used: it begins with neither http:// nor https://",
        ),
        (
            Server::sse("s", "http:///mcp?key=canary"),
            "the URL of the server \"s\" cannot be used: it names no host",
        ),
        (
            Server::with_connector("s", "l", never()).header("X-Key", "canary"),
            "the header \"X-Key\" of the server \"s\" cannot be sent: only a server behind a URL is sent headers",
        ),
    ];
    for (server, expected) in rows {
        assert!(!format!("{server:?}").contains("canary"), "{server:?}");
        assert_eq!(wrong(server), Some(format!("cannot start: {expected}")));
    }
}

#[cfg(not(feature = "mcp-http"))]
#[test]
fn a_server_behind_a_url_names_the_feature_that_it_needs() {
    let expected = "cannot start: the server \"s\" needs the cargo feature mcp-http: turn it on";
    for server in [Server::http("s", "http://h/mcp"), Server::sse("s", "https://h/sse").bearer("secret")] {
        assert_eq!(wrong(server), Some(expected.to_owned()));
    }
}

fn never() -> Arc<dyn pilothouse_adapters::server::Connector> {
    use pilothouse_adapters::BoxFuture;
    use pilothouse_adapters::server::{Connection, Connector, Terms};
    use pilothouse_messages::error::ConnectError;
    struct Never;
    impl Connector for Never {
        fn connect(&self, _: Terms) -> BoxFuture<'_, Result<Arc<dyn Connection>, ConnectError>> {
            Box::pin(std::future::pending())
        }

        fn stderr(&self) -> Vec<String> {
            Vec::new()
        }
    }
    Arc::new(Never)
}
