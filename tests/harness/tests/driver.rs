//! The driver from outside: lines in, lines out, and how it ends.

mod driver {
    mod answers;
    mod audit;
    mod changes;
    mod clock;
    mod crash;
    mod files;
    mod http;
    mod kill;
    mod meta;
    mod questions;
    mod queue;
    mod run;
    mod windows;
}
