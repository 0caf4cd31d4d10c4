//! Decides which of our own environment variables a child process gets: a safe base list, never all of them.

use std::env;
use std::ffi::{OsStr, OsString};

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

/// The part of our own environment that every child process gets.
pub(super) fn base() -> Vec<(OsString, OsString)> {
    env::vars_os().filter(|(name, _)| is_base(name)).collect()
}

fn is_base(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let same = |base: &&str| if cfg!(windows) { base.eq_ignore_ascii_case(name) } else { *base == name };
    BASE.iter().any(same) || BASE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
