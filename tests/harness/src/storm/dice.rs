//! Seeded chance: one seed, split by name, so that one more throw here moves nothing there.

use pilothouse::digest::Digest;

/// A stream of throws. The same seed and name give the same throws, in every process.
///
/// ```
/// use pilothouse_harness::storm::Dice;
/// let mut dice = Dice::new(7, "disk");
/// let first = dice.below(100);
/// assert_eq!(Dice::new(7, "disk").below(100), first);
/// ```
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of this name.
    pub fn new(seed: u64, name: &str) -> Self {
        let Digest(bytes) =
            Digest::of_parts("pilothouse-harness/dice/1", &[&seed.to_be_bytes(), name.as_bytes()]);
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[..8]);
        Self(u64::from_be_bytes(first))
    }

    /// The next 64 bits: SplitMix64 (Steele, Lea, Flood 2014).
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below this one; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.throw() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Yes, in so many of a hundred throws.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let place = self.below(from.len() as u64);
        from.get(usize::try_from(place).unwrap_or_default())
    }
}

/// Lets others go first, 0 to 3 times: on one thread a schedule varies in no other way.
pub(super) async fn jitter(dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        tokio::task::yield_now().await;
    }
}
