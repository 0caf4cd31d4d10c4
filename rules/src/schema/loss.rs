//! Decides how losses are told.

pub use pilothouse_messages::tool::Loosened;

use crate::cut::cut;

/// How many losses are told one by one.
const LOSSES_MAX: usize = 32;
/// The longest pointer, in bytes.
const AT_BYTES_MAX: usize = 256;

/// The losses of one schema, bounded.
#[derive(Debug, Default)]
pub(super) struct Losses {
    list: Vec<Loosened>,
    more: usize,
}

impl Losses {
    pub(super) fn add(&mut self, at: &str, what: &str) {
        let loss = Loosened { at: cut(at, AT_BYTES_MAX).to_owned(), what: what.to_owned() };
        if self.list.contains(&loss) {
            return;
        }
        if self.list.len() < LOSSES_MAX {
            self.list.push(loss);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<Loosened> {
        if self.more > 0 {
            self.list.push(Loosened { at: String::new(), what: format!("and {} more", self.more) });
        }
        self.list
    }
}
