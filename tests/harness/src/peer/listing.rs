//! Writes the pages of a listing as text, so that a hostile one costs this side little.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::State;
use super::fault::{Bomb, BombFault, CursorFault, Fault};
use super::plan::Live;
use super::script::{ScriptTool, ToolAnswer};

/// The deepest schema, and the widest: a page of it stays below what a line may hold in memory here.
const BOMB_SIZE_MAX: u32 = 1_000_000;

/// What stands behind the script's own tools.
struct Offer {
    tools: Vec<ScriptTool>,
    many: u64,
    bomb: Option<BombFault>,
    bad: bool,
}

/// A page, or that there is no such cursor.
pub(super) fn page(state: &State, live: &Live, params: &Value, extra: &str) -> Option<String> {
    let offer = Offer::of(state, live);
    let size = live.script.page_size.map_or(u64::MAX, |size| size.get() as u64);
    let asked = match params.get("cursor") {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(text)) if text.is_empty() => Some(0),
        Some(cursor) => cursor.as_str().and_then(|text| text.parse::<u64>().ok()),
    };
    match cursor_fault(live) {
        Some(CursorFault::Repeat) => return Some(shown(&offer.texts(0, size), Some("0"), extra)),
        Some(CursorFault::Empty) => return Some(shown(&offer.texts(0, size), Some(""), extra)),
        Some(CursorFault::Endless) => {
            let page = asked?;
            let tool = generated("page", page);
            return Some(shown(&tool, Some(&page.saturating_add(1).to_string()), extra));
        }
        None => {}
    }
    let first = asked.filter(|first| *first <= offer.len())?;
    if offer.len() - first > size {
        let next = (first + size).to_string();
        return Some(shown(&offer.texts(first, size), Some(&next), extra));
    }
    state.listed.store(true, Ordering::Release);
    Some(shown(&offer.texts(first, size), None, extra))
}

/// The tool that a call means.
pub(super) fn find(state: &State, live: &Live, name: &str) -> Option<ScriptTool> {
    let Offer { tools, many, bomb, .. } = Offer::of(state, live);
    if let Some(tool) = tools.into_iter().find(|tool| tool.name == name) {
        return Some(tool);
    }
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
    let is_there = number("tool_").is_some_and(|number| number < many)
        || (number("page_").is_some() && cursor_fault(live) == Some(CursorFault::Endless))
        || (name == "bomb" && bomb.is_some());
    is_there.then(|| ScriptTool::named(name))
}

fn cursor_fault(live: &Live) -> Option<CursorFault> {
    let named = live.last(|fault| if let Fault::Cursor(cursor) = fault { Some(*cursor) } else { None });
    let repeats = live.is_on(|fault| if let Fault::RepeatCursor(on) = fault { Some(*on) } else { None });
    named.or(repeats.then_some(CursorFault::Repeat))
}

impl Offer {
    /// The script's tools, the late ones once a listing was read to its end, and the hostile ones.
    fn of(state: &State, live: &Live) -> Self {
        let mut tools = live.tools();
        if state.listed.load(Ordering::Acquire) {
            tools.extend(live.script.faults.iter().filter_map(|fault| {
                if let Fault::AddToolAfterList(tool) = fault { Some((**tool).clone()) } else { None }
            }));
        }
        Self {
            tools,
            many: live
                .last(|fault| if let Fault::ManyTools(many) = fault { Some(*many) } else { None })
                .unwrap_or(0),
            bomb: live.last(|fault| if let Fault::SchemaBomb(bomb) = fault { Some(*bomb) } else { None }),
            bad: live.is_on(|fault| if let Fault::BadTool(on) = fault { Some(*on) } else { None }),
        }
    }

    fn len(&self) -> u64 {
        let extra = u64::from(self.bomb.is_some()) + u64::from(self.bad);
        (self.tools.len() as u64).saturating_add(self.many).saturating_add(extra)
    }

    /// The tools of one page, with commas between them.
    fn texts(&self, first: u64, size: u64) -> String {
        let mut text = String::new();
        for index in first..first.saturating_add(size).min(self.len()) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&self.text(index));
        }
        text
    }

    fn text(&self, index: u64) -> String {
        if let Some(tool) = usize::try_from(index).ok().and_then(|index| self.tools.get(index)) {
            return described(tool).to_string();
        }
        let index = index - self.tools.len() as u64;
        match self.bomb {
            _ if index < self.many => generated("tool", index),
            Some(bomb) if index == self.many => {
                format!("{{\"name\":\"bomb\",\"inputSchema\":{}}}", bomb_text(bomb))
            }
            Some(_) | None => json!({"name": 17, "inputSchema": "none"}).to_string(),
        }
    }
}

fn shown(tools: &str, cursor: Option<&str>, extra: &str) -> String {
    let cursor = cursor.map_or_else(String::new, |cursor| format!("\"nextCursor\":{},", json!(cursor)));
    format!("{{{cursor}{extra}\"tools\":[{tools}]}}")
}

fn generated(prefix: &str, number: u64) -> String {
    format!("{{\"name\":\"{prefix}_{number}\",\"inputSchema\":{{\"type\":\"object\"}}}}")
}

fn described(tool: &ScriptTool) -> Value {
    let mut shown = Map::new();
    shown.insert("name".into(), json!(tool.name));
    shown.insert("inputSchema".into(), tool.schema.clone());
    let optional = [
        ("description", tool.description.as_ref().map(|text| json!(text))),
        ("annotations", tool.annotations.clone()),
        ("outputSchema", tool.output_schema.clone()),
        ("execution", tool.task.then(|| json!({"taskSupport": "optional"}))),
    ];
    shown.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Value::Object(shown)
}

fn bomb_text(bomb: BombFault) -> String {
    let size = bomb.size.min(BOMB_SIZE_MAX);
    let mut text = String::new();
    match bomb.kind {
        Bomb::Deep => {
            let count = size as usize;
            text.push_str(&"{\"type\":\"object\",\"properties\":{\"a\":".repeat(count));
            text.push_str("{\"type\":\"object\"}");
            text.push_str(&"}}".repeat(count));
        }
        Bomb::Wide => {
            let properties: Vec<String> =
                (0..size).map(|n| format!("\"p{n}\":{{\"type\":\"string\"}}")).collect();
            text = format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", properties.join(","));
        }
        Bomb::Refs => {
            text.push_str(
                "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/d0\"}},\"$defs\":{",
            );
            for n in 0..size {
                let next = n + 1;
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "\"d{n}\":{{\"allOf\":[{{\"$ref\":\"#/$defs/d{next}\"}},{{\"$ref\":\"#/$defs/d{next}\"}}]}},"
                );
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "\"d{size}\":{{\"type\":\"string\"}}}}}}");
        }
    }
    text
}

impl ScriptTool {
    /// A tool that takes anything and says "done".
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: None,
            schema: json!({"type": "object"}),
            annotations: None,
            answer: ToolAnswer::text("done"),
            fails: false,
            delay: std::time::Duration::ZERO,
            output_schema: None,
            structured: None,
            task: false,
        }
    }
}
