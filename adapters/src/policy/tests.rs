use std::net::IpAddr;
use std::sync::Arc;

use pilothouse_messages::id::ServerId;

use super::gate::Refusal;
use super::{Approach, Gate, PublicOnly, ServerPolicy, why_not_public};
use crate::BoxFuture;

#[test]
fn only_public_addresses_are_public() {
    let rows = [
        ("1.1.1.1", None),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("2606:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::808:808", None),
        ("127.0.0.1", Some("a loopback address")),
        ("127.9.9.9", Some("a loopback address")),
        ("::1", Some("a loopback address")),
        ("::ffff:127.0.0.1", Some("a loopback address")),
        ("::127.0.0.1", Some("a loopback address")),
        ("64:ff9b::7f00:1", Some("a loopback address")),
        ("2002:7f00:1::", Some("a loopback address")),
        ("10.0.0.1", Some("a private address")),
        ("172.16.0.1", Some("a private address")),
        ("192.168.1.1", Some("a private address")),
        ("::ffff:192.168.1.1", Some("a private address")),
        ("fc00::1", Some("a private address")),
        ("fd12::1", Some("a private address")),
        ("64:ff9b:1::1", Some("a private address")),
        ("169.254.1.1", Some("a link-local address")),
        ("fe80::1", Some("a link-local address")),
        ("169.254.169.254", Some("a metadata address")),
        ("::ffff:169.254.169.254", Some("a metadata address")),
        ("100.100.100.200", Some("a metadata address")),
        ("168.63.129.16", Some("a metadata address")),
        ("fd00:ec2::254", Some("a metadata address")),
        ("100.64.0.1", Some("a shared address")),
        ("0.0.0.0", Some("an address of this host")),
        ("::", Some("an address of this host")),
        ("224.0.0.1", Some("a multicast address")),
        ("ff02::1", Some("a multicast address")),
        ("255.255.255.255", Some("a reserved address")),
        ("198.18.0.1", Some("a reserved address")),
        ("203.0.113.1", Some("a reserved address")),
        ("2001::1", Some("a reserved address")),
        ("2001:db8::1", Some("a reserved address")),
        ("4000::1", Some("a reserved address")),
    ];
    for (address, expected) in rows {
        assert_eq!(why_not_public(address.parse().unwrap()), expected, "{address}");
    }
}

/// Answers in one of the ways in which an embedder's policy may.
enum Policy {
    Hangs,
    PanicsAtOnce,
    PanicsLater,
}

impl ServerPolicy for Policy {
    fn allows<'a>(&'a self, _: &'a ServerId, _: &'a Approach) -> BoxFuture<'a, Result<(), String>> {
        match self {
            Self::Hangs => Box::pin(std::future::pending()),
            Self::PanicsAtOnce => panic!("as a policy may"),
            Self::PanicsLater => Box::pin(async { panic!("as a policy may") }),
        }
    }
}

fn host(addresses: &[&str]) -> Approach {
    let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Approach::Connect { host: "example.org".to_owned(), addresses }
}

async fn asked(policy: impl ServerPolicy, approach: Approach) -> Result<(), Refusal> {
    Gate::new(Arc::new(policy), ServerId::new("s").unwrap()).ask(approach).await
}

fn refused(what: &str, reason: &str) -> Result<(), Refusal> {
    Err(Refusal { what: what.to_owned(), reason: reason.to_owned() })
}

#[tokio::test]
async fn a_host_with_one_address_inside_is_inside() {
    assert_eq!(asked(PublicOnly, host(&["1.1.1.1"])).await, Ok(()));
    assert_eq!(
        asked(PublicOnly, host(&["1.1.1.1", "10.0.0.1"])).await,
        refused(
            "the host \"example.org\" (1.1.1.1, 10.0.0.1)",
            "10.0.0.1 is a private address, and only public ones are allowed"
        )
    );
    assert_eq!(
        asked(PublicOnly, host(&[])).await,
        refused(
            "the host \"example.org\"",
            "its addresses are not known here, so nobody can say that they are public"
        )
    );
    let spawn = Approach::Spawn { command: "mcp".to_owned(), args: Vec::new(), cwd: None };
    assert_eq!(asked(PublicOnly, spawn).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_hangs_or_panics_refuses() {
    let rows = [
        (Policy::Hangs, "the policy gave no answer within 10 s"),
        (Policy::PanicsAtOnce, "the policy panicked"),
        (Policy::PanicsLater, "the policy panicked"),
    ];
    for (policy, reason) in rows {
        assert_eq!(
            asked(policy, host(&["1.1.1.1"])).await,
            refused("the host \"example.org\" (1.1.1.1)", reason)
        );
    }
}
