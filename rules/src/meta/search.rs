//! Decides how `tool_search` answers, once the tools are found.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::call::{CallOutcome, CallResult};
use pilothouse_messages::meta::{MetaTool, SearchDetail, SearchInput};
use pilothouse_messages::registry::Entry;
use pilothouse_messages::tool::SurfaceView;

use super::Inspected;
use super::text::{line, quoted};

/// The most tools in one answer where the model does not say.
pub(super) const LIMIT_DEFAULT: usize = 20;
/// The most tools that a model may ask for.
pub(super) const LIMIT_MAX: usize = 100;
/// How much of a description is shown, in bytes; `tool_inspect` shows the rest.
const DESCRIPTION_BYTES: usize = 240;
/// How much of a label is shown, in bytes.
const LABEL_BYTES: usize = 120;
/// The longest schema that is shown, in bytes.
const SCHEMA_BYTES: usize = 8 << 10;
/// How long an answer may be, in bytes.
const ANSWER_BYTES: usize = 32 << 10;
/// How many namespaces an answer without a tool names.
const NAMESPACES_MAX: usize = 20;

/// One tool that was found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The tool.
    pub entry: Arc<Entry>,
    /// A word about a server that does not answer now, such as `the server is down`.
    pub trouble: Option<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The tools, best first.
    pub findings: Vec<Finding>,
    /// How many there are in all.
    pub matched: usize,
    /// Where nothing was found: the namespaces there are, and how many tools each has.
    pub namespaces: Vec<(String, usize)>,
    /// Where nothing was found: the nearest names.
    pub nearest: Vec<String>,
}

/// Answers a call of `tool_search`. Tools whose schemas are shown whole become inspected.
///
/// The answer is bounded and has the tools in the order of the search; those of one namespace stand together, at the
/// place of the first.
pub fn answer_search(
    input: &SearchInput,
    found: &Found,
    block: &SurfaceView,
    inspected: &mut Inspected,
) -> CallResult {
    let text = match found.findings.is_empty() {
        true => nothing(input, found),
        false => listed(input, found, block, inspected),
    };
    CallResult::said(CallOutcome::Succeeded, text)
}

fn listed(input: &SearchInput, found: &Found, block: &SurfaceView, inspected: &mut Inspected) -> String {
    let mut out = String::new();
    let mut told = 0;
    let findings: Vec<_> = found.findings.iter().take(input.limit).collect();
    for (label, group) in grouped(&findings) {
        let mut heading = Some(format!("{}\n", line(label, LABEL_BYTES)));
        for finding in group {
            let (words, seen) = about(finding, input.detail);
            if out.len() + words.len() > ANSWER_BYTES {
                continue;
            }
            out.push_str(&heading.take().unwrap_or_default());
            out.push_str(&words);
            told += 1;
            if seen {
                inspected.record(finding.entry.fingerprint);
            }
        }
    }
    let matched = found.matched.max(findings.len());
    if told < matched {
        let words = "tools are listed: say more in the query, or name a namespace";
        out.push_str(&format!("{told} of {matched} {words}"));
    }
    let has = |tool: MetaTool| block.tools.iter().any(|shown| shown.name == tool.name());
    if input.detail == SearchDetail::Brief && has(MetaTool::Inspect) && has(MetaTool::Invoke) {
        let end = if told < matched { "\n" } else { "" };
        out.push_str(&format!(
            "{end}See a signature with tool_inspect, then call the tool with tool_invoke."
        ));
    }
    out.trim_end().to_owned()
}

/// The tools by label; labels in the order of their first tool.
fn grouped<'a>(findings: &[&'a Finding]) -> Vec<(&'a str, Vec<&'a Finding>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        let label = finding.entry.namespace_label();
        let place = *places.entry(label).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(finding),
            None => groups.push((label, vec![finding])),
        }
    }
    groups
}

/// The lines about one tool, and whether they hold its whole schema.
fn about(finding: &Finding, detail: SearchDetail) -> (String, bool) {
    let entry = &finding.entry;
    let definition = &entry.definition;
    let texts = [definition.description.as_deref(), definition.title.as_deref()];
    let text =
        texts.into_iter().flatten().map(|text| line(text, DESCRIPTION_BYTES)).find(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| line(&definition.name, DESCRIPTION_BYTES));
    let mut out = format!("  - {} — {text}", entry.name);
    if let Some(trouble) = &finding.trouble {
        out.push_str(&format!(" ({})", line(trouble, LABEL_BYTES)));
    }
    out.push('\n');
    let schema = match detail {
        SearchDetail::Brief => return (out, false),
        SearchDetail::Schemas => definition.input_schema.as_str(),
    };
    if schema.len() > SCHEMA_BYTES {
        out.push_str(&format!("    input: {} bytes of schema, too many to be listed\n", schema.len()));
        return (out, false);
    }
    out.push_str(&format!("    input: {schema}\n"));
    (out, true)
}

fn nothing(input: &SearchInput, found: &Found) -> String {
    let mut out = match (input.query.trim(), &input.namespace) {
        ("", None) => return "there are no other tools".to_owned(),
        ("", Some(namespace)) => format!("no tools in the namespace {}", quoted(namespace)),
        (query, None) => format!("no tools found for {}", quoted(query)),
        (query, Some(namespace)) => format!("no tools found for {} in {}", quoted(query), quoted(namespace)),
    };
    if !found.nearest.is_empty() {
        out.push_str(&format!("\nnearest names: {}", found.nearest.join(", ")));
    }
    if !found.namespaces.is_empty() {
        out.push_str("\nnamespaces:");
        for (label, tools) in found.namespaces.iter().take(NAMESPACES_MAX) {
            out.push_str(&format!("\n  - {} ({tools})", line(label, LABEL_BYTES)));
        }
    }
    out.push_str("\nuse other or fewer words, or leave out the query to list all tools");
    out
}
