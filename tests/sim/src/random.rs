//! Decides what the operating system's randomness is in this program: the same in every thread of every process.
//!
//! The order of a standard hash map follows from it, and rmcp and ractor go through some of theirs: to end what is
//! pending, to kill children.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::mem::MaybeUninit;

thread_local! {
    /// What this thread has been given so far.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Stands in for the system's function of this name: `getrandom(2)`. It cannot fail.
#[allow(unsafe_code)]
// SAFETY: no other symbol of this program has the name but libc's own, whose shape and contract it has.
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: as with the system's, whoever calls has `length` writable bytes there.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<MaybeUninit<u8>>(), length) };
    for piece in bytes.chunks_mut(8) {
        for (byte, drawn) in piece.iter_mut().zip(next().to_le_bytes()) {
            byte.write(drawn);
        }
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// The next 64 bits: SplitMix64 (Steele, Lea, Flood 2014).
fn next() -> u64 {
    STATE.with(|state| {
        state.set(state.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        let mut z = state.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}
