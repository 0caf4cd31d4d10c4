//! Decides what a prompt says about tools that are found by search only: how to find them, and where they are.
//!
//! Names and descriptions are not listed. A label comes from whoever named the server: it is cut to [`LABEL_CHARS`] and
//! every character that could end its attribute or line, or hide from a reader, is written as a reference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use pilothouse_messages::registry::Entry;

/// The longest label that is shown, in characters; a longer one ends in `…`.
pub const LABEL_CHARS: usize = 64;

/// How many namespaces are shown; further ones are counted.
pub const NAMESPACES_MAX: usize = 64;

const HEAD: &str = "<deferred-tools>
Further tools are not listed here. Find one by search, look at its signature, then call it:
<usage>
  1. tool_search({query?, namespace?, verbose?, limit?})
  2. tool_inspect({name})
  3. tool_invoke({name, params})
</usage>
";

const LATE_HEAD: &str = "<late-tools>
These tools became available during this conversation. Find them with tool_search, then call them with tool_invoke:
";

/// The section about these tools; nothing if there are none.
///
/// The same tools always give the same bytes, in any order.
pub fn deferred_section<'a>(deferred: impl IntoIterator<Item = &'a Arc<Entry>>) -> Option<String> {
    let block = namespaces_block(deferred.into_iter().map(|entry| entry.namespace_label()));
    (!block.is_empty()).then(|| format!("{HEAD}{block}\n</deferred-tools>"))
}

/// The section about tools that came after the block was pinned; nothing if there are none.
pub(super) fn late_section<'a>(late: impl IntoIterator<Item = &'a Arc<Entry>>) -> Option<String> {
    let block = namespaces_block(late.into_iter().map(|entry| entry.namespace_label()));
    (!block.is_empty()).then(|| format!("{LATE_HEAD}{block}\n</late-tools>"))
}

/// One line a label with the number of its tools, by bytes of the labels; empty if there is none.
fn namespaces_block<'a>(labels: impl IntoIterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    labels.into_iter().for_each(|label| *counts.entry(label).or_default() += 1);
    if counts.is_empty() {
        return String::new();
    }
    let mut block = String::from("<namespaces>\n");
    for (label, count) in counts.iter().take(NAMESPACES_MAX) {
        block.push_str("  <namespace name=\"");
        let mut chars = label.chars();
        chars.by_ref().take(LABEL_CHARS).for_each(|c| push_escaped(&mut block, c));
        if chars.next().is_some() {
            block.push('…');
        }
        // Writing to a text cannot fail.
        let _ = writeln!(block, "\" count=\"{count}\"/>");
    }
    if counts.len() > NAMESPACES_MAX {
        let rest = counts.values().skip(NAMESPACES_MAX);
        // As above.
        let _ = writeln!(block, "  <more namespaces=\"{}\" count=\"{}\"/>", rest.len(), rest.sum::<usize>());
    }
    block.push_str("</namespaces>");
    block
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&apos;"),
        c if is_hidden(c) => {
            // Writing to a text cannot fail.
            let _ = write!(out, "&#x{:X};", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Control characters, line and paragraph ends, and what has no width, turns the direction of writing or tags text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests;
