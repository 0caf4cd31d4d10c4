use std::time::Duration;

use super::{Limits, TEXT_MAX, WAIT_MAX};

#[test]
fn no_limit_is_cut_to_what_a_clock_and_the_store_can_take_and_the_defaults_stay() {
    let wide = Limits {
        call: Duration::MAX,
        reply_bytes: usize::MAX,
        queued_bytes: TEXT_MAX + 1,
        ..Limits::default()
    };
    let cut = Limits { call: WAIT_MAX, reply_bytes: TEXT_MAX, queued_bytes: TEXT_MAX, ..Limits::default() };
    assert_eq!(wide.clamped(), cut);
    assert_eq!(Limits::default().clamped(), Limits::default());
}
