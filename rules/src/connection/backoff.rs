//! Decides how long a server is left alone after a failure: doubling, capped, with full jitter.

use std::time::Duration;

use pilothouse_messages::connection::Generation;
use pilothouse_messages::limits::Limits;

/// The shortest delay: even with bounds of zero a failure never starts the next connection in the same instant.
const SHORTEST: Duration = Duration::from_millis(1);

/// The delay after this many failures in a row: anything from [`SHORTEST`] to the cap, the same each time for one
/// seed and generation, so that many servers that fail together do not return together.
pub(super) fn delay(seed: u64, generation: Generation, failures: u32, limits: &Limits) -> Duration {
    let cap = cap_ms(failures, limits);
    let share = u128::from(mix(seed, generation));
    let picked = (share * (u128::from(cap) + 1)) >> 64;
    // `picked` is at most `cap`, which is a u64.
    Duration::from_millis(u64::try_from(picked).unwrap_or(cap)).max(SHORTEST)
}

/// The pause before a parked server is tried once: three to five quarters of the bound, so that many servers that were
/// parked together are not tried together.
pub(super) fn half_open(seed: u64, generation: Generation, limits: &Limits) -> Duration {
    let quarter = limits.half_open / 4;
    // The upper half of the bits: a share that a `Duration` can be multiplied by.
    let share = u32::try_from(mix(seed, generation) >> 32).unwrap_or(u32::MAX);
    let spread = quarter.saturating_mul(2).mul_f64(f64::from(share) / f64::from(u32::MAX));
    quarter.saturating_mul(3).saturating_add(spread).max(SHORTEST)
}

/// The longest delay after this many failures in a row, in milliseconds.
pub(super) fn cap_ms(failures: u32, limits: &Limits) -> u64 {
    let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let factor = 1u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    ms(limits.backoff_first).saturating_mul(factor).min(ms(limits.backoff_max))
}

/// SplitMix64 (Steele, Lea, Flood 2014) over both numbers: each bit of either changes about half of the result.
fn mix(seed: u64, generation: Generation) -> u64 {
    scramble(seed.wrapping_add(scramble(generation.0)))
}

fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
