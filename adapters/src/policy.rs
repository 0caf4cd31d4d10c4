//! Decides which programs may be started and which addresses may be reached for a server: the embedder's last word.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_messages::id::ServerId;

use crate::BoxFuture;

#[cfg(feature = "mcp")]
mod gate;
#[cfg(feature = "mcp")]
pub(crate) use gate::Gate;
#[cfg(feature = "mcp-http")]
pub(crate) use gate::Refusal;

/// How long a policy may take. One that takes longer has refused.
pub const POLICY_WITHIN: Duration = Duration::from_secs(10);

/// What is about to be done for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approach {
    /// Starting a process.
    Spawn {
        /// The program, as the definition has it.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Where it will run; this process's own directory if `None`.
        cwd: Option<PathBuf>,
    },
    /// Connecting to a host.
    Connect {
        /// The host, as the URL or the redirect names it.
        host: String,
        /// Its addresses: the connection goes to one of these. Empty if only a proxy knows them.
        addresses: Vec<IpAddr>,
    },
}

impl fmt::Display for Approach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn { command, .. } => write!(f, "the program \"{command}\""),
            Self::Connect { host, addresses } => {
                write!(f, "the host \"{host}\"")?;
                let shown: Vec<_> = addresses.iter().take(4).map(ToString::to_string).collect();
                if shown.is_empty() { Ok(()) } else { write!(f, " ({})", shown.join(", ")) }
            }
        }
    }
}

/// Is asked before a server's process is started, and before each connection to a host, also after a redirect.
///
/// For implementers: answering takes at most [`POLICY_WITHIN`], and less if the server's connect deadline ends
/// earlier. An answer that is late, and a panic, refuse. The words of a refusal are shown to people.
pub trait ServerPolicy: Send + Sync + 'static {
    /// Whether this may be done for this server; if not, why.
    fn allows<'a>(
        &'a self,
        server: &'a ServerId,
        approach: &'a Approach,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Allows everything: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl ServerPolicy for AllowAll {
    fn allows<'a>(&'a self, _: &'a ServerId, _: &'a Approach) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Refuses every host that has an address outside the public internet: loopback, private and link-local networks, the
/// metadata addresses of clouds, multicast, reserved ranges, and each of these inside an IPv6 address. Processes are
/// allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublicOnly;

impl ServerPolicy for PublicOnly {
    fn allows<'a>(&'a self, _: &'a ServerId, approach: &'a Approach) -> BoxFuture<'a, Result<(), String>> {
        let verdict = match approach {
            Approach::Spawn { .. } => Ok(()),
            Approach::Connect { addresses, .. } if addresses.is_empty() => {
                Err("its addresses are not known here, so nobody can say that they are public".to_owned())
            }
            Approach::Connect { addresses, .. } => {
                match addresses.iter().find_map(|address| Some((address, why_not_public(*address)?))) {
                    Some((address, why)) => {
                        Err(format!("{address} is {why}, and only public ones are allowed"))
                    }
                    None => Ok(()),
                }
            }
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// What an address is if it is no public one.
fn why_not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => why_not_public_v4(address),
        IpAddr::V6(address) => why_not_public_v6(address),
    }
}

/// IANA's special-purpose registry, and the one metadata address in a public range.
fn why_not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let octets = address.octets();
    match octets {
        _ if address.is_loopback() => Some("a loopback address"),
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => Some("a metadata address"),
        _ if address.is_private() => Some("a private address"),
        _ if address.is_link_local() => Some("a link-local address"),
        [100, 64..=127, ..] => Some("a shared address"),
        [0, ..] => Some("an address of this host"),
        _ if address.is_multicast() => Some("a multicast address"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => {
            Some("a reserved address")
        }
        _ if address.is_documentation() => Some("a reserved address"),
        _ => None,
    }
}

fn why_not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        why_not_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an address of this host"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // Mapped, compatible, and the two that a gateway translates.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Some("a private address"),
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Some("a metadata address"),
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        // Only 2000::/3 is handed out, without the tunnels and the examples in it.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("a reserved address"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests;
