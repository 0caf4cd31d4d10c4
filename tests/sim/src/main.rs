//! The harness's program with its randomness pinned, so that what a seed does is the same to the byte.

use std::process::ExitCode;

mod random;

fn main() -> ExitCode {
    pilothouse_harness::program::main()
}
