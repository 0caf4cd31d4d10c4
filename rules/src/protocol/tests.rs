use pilothouse_messages::protocol::Remembered::{EndedWhenDiscovered, Legacy, Modern, Nothing};
use pilothouse_messages::protocol::{Era, Heard, Patience, ProtocolStep, Remembered};

use super::Negotiation;

fn discover(patience: Patience) -> ProtocolStep {
    ProtocolStep::Discover { version: "2026-07-28".to_owned(), patience }
}

fn initialize() -> ProtocolStep {
    ProtocolStep::Initialize { version: "2025-11-25".to_owned() }
}

fn speak(era: Era, version: &str) -> ProtocolStep {
    ProtocolStep::Speak { era, version: version.to_owned() }
}

fn give_up(words: &str) -> ProtocolStep {
    ProtocolStep::GiveUp(words.to_owned())
}

fn supported(versions: &[&str]) -> Heard {
    Heard::Supported(versions.iter().map(ToString::to_string).collect())
}

fn answered(version: &str) -> Heard {
    Heard::Answered(version.to_owned())
}

fn error(code: i64, supported: &[&str]) -> Heard {
    let supported = supported.iter().map(ToString::to_string).collect();
    Heard::Error { code, message: "no".to_owned(), supported }
}

fn status(status: u16) -> Heard {
    Heard::Status { status, reason: format!("HTTP status {status}") }
}

fn modern() -> Remembered {
    Modern("2026-07-28".to_owned())
}

fn legacy() -> Remembered {
    Legacy("2025-06-18".to_owned())
}

/// Plays what is heard, and compares every step and what is remembered after the last one.
fn check(known: Remembered, first: ProtocolStep, then: &[(Heard, ProtocolStep)], remembered: Remembered) {
    let mut negotiation = Negotiation::new(known.clone());
    assert_eq!(negotiation.first(), first, "{known:?}");
    for (heard, step) in then {
        assert_eq!(negotiation.heard(heard.clone()), *step, "{known:?}, {heard:?}");
    }
    assert_eq!(*negotiation.remembered(), remembered, "{known:?}, {then:?}");
}

#[test]
fn what_a_server_spoke_last_time_comes_first() {
    check(Nothing, discover(Patience::Share), &[], Nothing);
    check(modern(), discover(Patience::Whole), &[], modern());
    check(legacy(), initialize(), &[], legacy());
    check(EndedWhenDiscovered, initialize(), &[], EndedWhenDiscovered);
}

#[test]
fn a_server_that_discovers_is_modern() {
    let speaks = speak(Era::Modern, "2026-07-28");
    let both = supported(&["2026-07-28", "2025-11-25"]);
    check(Nothing, discover(Patience::Share), &[(both, speaks.clone())], modern());
    check(modern(), discover(Patience::Whole), &[(supported(&["2026-07-28"]), speaks)], modern());
}

#[test]
fn whatever_no_modern_server_says_makes_it_legacy() {
    let signs = [
        error(-32601, &[]),
        error(-32602, &[]),
        error(-32000, &[]),
        Heard::Misshapen("`supportedVersions` is no list".to_owned()),
        answered("2025-06-18"),
        Heard::Silence,
        status(400),
        status(404),
        status(405),
        supported(&["2025-06-18"]),
        error(-32022, &["2025-06-18"]),
    ];
    for sign in signs {
        let then = [(sign, initialize()), (answered("2025-06-18"), speak(Era::Legacy, "2025-06-18"))];
        check(Nothing, discover(Patience::Share), &then, legacy());
    }
}

#[test]
fn what_is_no_sign_of_a_legacy_server_ends_the_negotiation() {
    let rows = [
        (error(-32020, &[]), "the server answered error -32020: no"),
        (error(-32021, &[]), "the server answered error -32021: no"),
        (status(401), "HTTP status 401"),
        (status(403), "HTTP status 403"),
        (status(503), "HTTP status 503"),
        (
            error(-32022, &["2030-01-01"]),
            "it speaks MCP \"2030-01-01\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
        ),
    ];
    for (heard, words) in rows {
        check(Nothing, discover(Patience::Share), &[(heard, give_up(words))], Nothing);
    }
}

#[test]
fn a_refused_version_that_the_server_names_all_the_same_is_asked_for_once_more() {
    let again = error(-32022, &["2026-07-28"]);
    let then = [
        (again.clone(), discover(Patience::Share)),
        (
            again,
            give_up(
                "it speaks MCP \"2026-07-28\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28",
            ),
        ),
    ];
    check(Nothing, discover(Patience::Share), &then, Nothing);
}

#[test]
fn a_server_that_was_modern_is_never_talked_down() {
    let rows = [
        (error(-32601, &[]), "the server answered error -32601: no"),
        (status(404), "HTTP status 404"),
        (Heard::Silence, "it did not answer `server/discover`"),
    ];
    for (heard, words) in rows {
        let words = format!(
            "it spoke MCP 2026-07-28 before, and now: {words}; change its definition to start afresh"
        );
        check(modern(), discover(Patience::Whole), &[(heard, give_up(&words))], modern());
    }
}

#[test]
fn a_server_that_ends_when_it_is_discovered_is_initialized_by_the_next_connection() {
    let ended = || Heard::Ended("exited with status 1".to_owned());
    let then = [(ended(), give_up("exited with status 1"))];
    check(Nothing, discover(Patience::Share), &then, EndedWhenDiscovered);
    check(modern(), discover(Patience::Whole), &then, modern());
    check(legacy(), initialize(), &then, legacy());
}

#[test]
fn a_legacy_server_that_refuses_to_be_initialized_may_have_become_modern() {
    let upgraded = [
        (error(-32601, &[]), discover(Patience::Share)),
        (supported(&["2026-07-28"]), speak(Era::Modern, "2026-07-28")),
    ];
    check(legacy(), initialize(), &upgraded, modern());
    let broken = [
        (error(-32601, &[]), discover(Patience::Share)),
        (error(-32601, &[]), give_up("the server answered error -32601: no")),
    ];
    check(legacy(), initialize(), &broken, legacy());
}

#[test]
fn a_modern_server_that_was_slow_to_say_so_is_given_all_the_time_there_is() {
    let slow = [
        (Heard::Silence, initialize()),
        (error(-32022, &["2026-07-28"]), discover(Patience::Whole)),
        (supported(&["2026-07-28"]), speak(Era::Modern, "2026-07-28")),
    ];
    check(Nothing, discover(Patience::Share), &slow, modern());
    let never = [
        (Heard::Silence, initialize()),
        (error(-32022, &[]), discover(Patience::Whole)),
        (Heard::Silence, give_up("it did not answer `server/discover`")),
    ];
    check(Nothing, discover(Patience::Share), &never, Nothing);
}

#[test]
fn the_answer_to_initialize_is_checked() {
    let then = [(
        answered("2099-01-01"),
        give_up(
            "it speaks MCP \"2099-01-01\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
        ),
    )];
    check(legacy(), initialize(), &then, legacy());
    let then = [(
        answered("2026-07-28"),
        give_up(
            "it speaks MCP \"2026-07-28\", understood are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
        ),
    )];
    check(legacy(), initialize(), &then, legacy());
}
