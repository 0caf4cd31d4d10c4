//! A pool that admits every tool, as if every server were up.

use pilothouse_messages::registry::Entry;
use pilothouse_rules::search::ToolPool;

pub(crate) struct Everything;

impl ToolPool for Everything {
    fn admits(&self, _entry: &Entry) -> bool {
        true
    }

    fn is_up(&self, _entry: &Entry) -> bool {
        true
    }
}
