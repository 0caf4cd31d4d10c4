//! Decides which of our own environment variables a child process gets: a safe base list, never all of them.

use std::env;
use std::ffi::{OsStr, OsString};

use pilothouse_messages::server::Proxies;

/// Variables that programs need to find themselves, their user and their language; none holds a credential.
#[cfg(not(windows))]
const BASE: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"];
/// As on Unix, and what Windows programs do not start without.
#[cfg(windows)]
const BASE: &[&str] = &[
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
/// Families of such variables.
const BASE_PREFIXES: &[&str] = if cfg!(windows) { &[] } else { &["LC_", "XDG_"] };

/// Where proxies are, in capitals and small letters; their values may hold credentials.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"];
/// Where further certificate authorities are; without them a proxy that looks into TLS is of no use.
const AUTHORITIES: &[&str] =
    &["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// The part of our own environment that a child process gets.
pub(super) fn base(proxies: Proxies) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| match proxies {
        Proxies::None => is_base(name),
        Proxies::FromEnvironment => is_base(name) || is_of_the_network(name),
    };
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}

/// What the values of the proxies' variables hide.
pub(crate) fn proxy_secrets() -> Vec<String> {
    let proxies = env::vars_os().filter(|(name, _)| is_of_the_network(name));
    let values = proxies.filter_map(|(_, value)| value.into_string().ok());
    values
        .filter_map(|value| {
            let rest = value.split_once("://").map_or(value.as_str(), |(_, rest)| rest);
            let (user, _) = rest.rsplit_once('@')?;
            Some(user.split_once(':').map_or(user, |(_, password)| password).to_owned())
        })
        .collect()
}

fn is_of_the_network(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_small = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_proxy = PROXIES.iter().any(|proxy| *proxy == name || is_small && proxy.eq_ignore_ascii_case(name));
    is_proxy || AUTHORITIES.contains(&name)
}

fn is_base(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let same = |base: &&str| if cfg!(windows) { base.eq_ignore_ascii_case(name) } else { *base == name };
    BASE.iter().any(same) || BASE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
