//! A seed is the same storm to the byte: in another process, and in the simulation build also the second time, and alone.

use std::process::Command;

/// Seeds that are played; `tests/storm/guard` plays more of them.
const SEEDS: &str = "0..12";

/// What one more process says to this.
fn told(arguments: &[&str]) -> String {
    let told = Command::new(env!("CARGO_BIN_EXE_pilothouse-sim")).args(arguments).output();
    let told = told.expect("the program runs");
    let (out, errors) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{arguments:?}: {}\n{errors}{out}", told.status);
    out.into_owned()
}

/// Compares line by line, so that a failure names the first one that differs.
fn check(what: &str, once: &str, again: &str) {
    for (place, (one, other)) in once.lines().zip(again.lines()).enumerate() {
        assert_eq!(one, other, "{what}: line {place}");
    }
    assert_eq!(once.len(), again.len(), "{what}: one goes on where the other ends");
}

#[test]
fn the_same_seeds_are_the_same_to_the_byte_in_another_process() {
    let asked = ["storm", "--plan", "all", "--seeds", SEEDS, "--trace"];
    let (once, again) = std::thread::scope(|scope| {
        let again = scope.spawn(|| told(&asked));
        (told(&asked), again.join().expect("the other one is told"))
    });
    assert!(once.lines().count() > 1_000, "a storm is told at length: {once}");
    check("another process", &once, &again);
}

#[test]
fn lines_in_virtual_time_are_answered_the_same_to_the_byte_in_another_process() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../harness/files/approve-and-steer.jsonl");
    let asked = ["run", file, "--clock", "virtual"];
    let once = told(&asked);
    assert!(once.lines().count() > 20, "it is a whole conversation: {once}");
    check("another process", &once, &told(&asked));
}

/// Tokio's own dice are loaded in this build only; elsewhere they follow from how many runtimes a process had.
#[cfg(tokio_unstable)]
#[test]
fn a_seed_is_the_same_to_the_byte_the_second_time_and_alone() {
    let asked = ["storm", "--plan", "all", "--seeds", SEEDS, "--guard"];
    let digests = told(&asked);
    check("another process", &digests, &told(&asked));
    let alone = told(&["storm", "--plan", "all", "--seeds", "7..8", "--guard"]);
    assert_eq!(digests.lines().nth(7), alone.lines().next(), "seed 7 alone");
}
