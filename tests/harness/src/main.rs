//! The harness as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilothouse_harness::program::main()
}
