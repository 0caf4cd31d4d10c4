//! Where an HTTP server is, without showing what stands in the URL for its eyes only.

use std::fmt;

/// A URL of an HTTP server. `Debug` and `Display` show scheme, host, port and path; user, password, query and fragment
/// are shown to nobody, since keys are often put there.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(String);

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Its scheme is another one.
    #[error("it begins with neither http:// nor https://")]
    Scheme,
    /// It names no host.
    #[error("it names no host")]
    Host,
    /// Its port is no number; a `/`, `?` or `#` in a password has to be written with a percent sign.
    #[error("its port is no number; a /, ? or # in a password has to be escaped with a percent sign")]
    Port,
    /// It has blanks or control characters.
    #[error("it has a blank or a control character")]
    Blank,
}

impl Endpoint {
    /// Takes a URL whose scheme is `http` or `https`.
    ///
    /// # Errors
    /// What is wrong with it; whether the rest of it is a URL is seen when it is first reached.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(EndpointError::Blank);
        }
        let endpoint = Self(text.to_owned());
        let (scheme, _) = text.split_once("://").ok_or(EndpointError::Scheme)?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(EndpointError::Scheme);
        }
        let parts = endpoint.parts();
        if parts.host.is_empty() || parts.host.starts_with(':') {
            return Err(EndpointError::Host);
        }
        // An unescaped / ? or # in a password ends the host too early, and would show what stands before it.
        let port = parts.host.rsplit_once(':').map(|(_, port)| port).filter(|_| !parts.host.ends_with(']'));
        if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(EndpointError::Port);
        }
        Ok(endpoint)
    }

    /// The whole URL, for the one place that connects.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Every part of the URL that is shown to nobody: user, password, and each value in the query and the fragment.
    pub fn secrets(&self) -> Vec<&str> {
        let parts = self.parts();
        let values = [parts.query, parts.fragment].into_iter().flatten();
        let values =
            values.flat_map(|text| text.split('&')).map(|pair| pair.split_once('=').unwrap_or(("", pair)).1);
        let user = parts.user.unwrap_or_default();
        user.splitn(2, ':').chain(values).filter(|text| !text.is_empty()).collect()
    }

    /// The URL without user and password, and without the *values* in its query.
    pub fn without_credentials(&self) -> String {
        let mut text = self.to_string();
        if let Some(query) = self.parts().query {
            let names: Vec<_> =
                query.split('&').map(|pair| pair.split('=').next().unwrap_or_default()).collect();
            text.push('?');
            text.push_str(&names.join("&"));
        }
        text
    }

    fn parts(&self) -> Parts<'_> {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let (rest, fragment) = cut(rest, '#');
        let (rest, query) = cut(rest, '?');
        let path_at = rest.find(['/', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        Parts { scheme, user, host, path, query, fragment }
    }
}

struct Parts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { scheme, host, path, .. } = self.parts();
        write!(f, "{scheme}://{host}{path}")
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests;
