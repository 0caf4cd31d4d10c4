//! `cargo +nightly fuzz run schema`: what must hold is in `rules/tests/fuzz/targets.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target has a program of its own")]
#[path = "../../rules/tests/fuzz/targets.rs"]
mod targets;

fuzz_target!(|bytes: &[u8]| targets::schema(bytes));
