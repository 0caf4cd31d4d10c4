use super::*;

#[test]
fn an_endpoint_shows_neither_user_nor_query() {
    let rows = [
        ("http://h:1/p", "http://h:1/p", "http://h:1/p", vec![]),
        (
            "https://u:pw@h/p?key=v&flag#f",
            "https://h/p",
            "https://h/p?key&flag",
            vec!["u", "pw", "v", "flag", "f"],
        ),
        ("https://h?a=b@c", "https://h", "https://h?a", vec!["b@c"]),
        ("http://[::1]:80/p", "http://[::1]:80/p", "http://[::1]:80/p", vec![]),
        ("http://[::1]/p", "http://[::1]/p", "http://[::1]/p", vec![]),
        ("http://a@b@h/x@y", "http://h/x@y", "http://h/x@y", vec!["a@b"]),
    ];
    for (text, shown, fingerprinted, secrets) in rows {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!(endpoint.to_string(), shown);
        assert_eq!(format!("{endpoint:?}"), format!("Endpoint({shown})"));
        assert_eq!(endpoint.without_credentials(), fingerprinted);
        assert_eq!(endpoint.secrets(), secrets, "{text}");
    }
}

#[test]
fn what_is_no_url_of_an_http_server_is_refused() {
    let rows = [
        ("ws://h", EndpointError::Scheme),
        ("h:80/mcp", EndpointError::Scheme),
        ("http://", EndpointError::Host),
        ("http://u@/p", EndpointError::Host),
        ("http://:80/", EndpointError::Host),
        ("http://h/a b", EndpointError::Blank),
        ("https://admin:pa/ssw0rd@host", EndpointError::Port),
        ("https://h:/p", EndpointError::Port),
    ];
    for (text, error) in rows {
        assert_eq!(Endpoint::parse(text), Err(error), "{text}");
    }
}
