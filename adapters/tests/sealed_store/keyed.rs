//! A sealer for tests: it hides values and notices changes, and is no encryption that anybody should use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_adapters::store::sealed::{SealError, Sealer};
use pilothouse_messages::digest::Digest;

/// Adds digests of the key, the place and a number to a value, and a digest over all.
struct Keyed {
    key: String,
    numbers: AtomicU64,
}

/// A sealer with this key.
pub(crate) fn sealer(key: &str) -> Arc<dyn Sealer> {
    Arc::new(Keyed { key: key.to_owned(), numbers: AtomicU64::new(0) })
}

impl Keyed {
    fn mixed(&self, place: &[u8], number: [u8; 8], value: &[u8]) -> Vec<u8> {
        let stream = (0u64..).flat_map(|block| {
            let parts = [self.key.as_bytes(), place, &number, &block.to_be_bytes()];
            Digest::of_parts("test/stream", &parts).0
        });
        value.iter().zip(stream).map(|(byte, mask)| byte ^ mask).collect()
    }

    fn tag(&self, place: &[u8], rest: &[u8]) -> [u8; 32] {
        Digest::of_parts("test/tag", &[self.key.as_bytes(), place, rest]).0
    }
}

impl Sealer for Keyed {
    fn seal(&self, place: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let rest = [&number[..], &self.mixed(place, number, value)].concat();
        Ok([&self.tag(place, &rest)[..], &rest].concat())
    }

    fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let wrong = || SealError("it is not what was sealed for this place with this key".to_owned());
        let (tag, rest) = sealed.split_first_chunk::<32>().ok_or_else(wrong)?;
        let (number, mixed) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        if *tag != self.tag(place, rest) {
            return Err(wrong());
        }
        Ok(self.mixed(place, *number, mixed))
    }
}
