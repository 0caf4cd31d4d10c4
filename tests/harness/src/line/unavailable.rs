//! What the language of lines knows and this version does not do. Refused by name, so that a file which needs it
//! fails at the line and not later.

use serde_json::Value;

/// Verbs that are refused whole.
const VERBS: [&str; 5] = ["continue", "grants", "audit", "metrics", "revoke"];

/// What is refused of a field.
enum Part {
    /// The field with any value; what to do without it.
    Field(&'static str),
    /// These values of it; what to write instead.
    Values(&'static [&'static str], &'static str),
}

use Part::{Field, Values};

const MODES: Part = Values(&["acceptEdits", "bypassPermissions", "plan", "auto"], "write \"default\"");
const STEERING: Part = Values(&["inject"], "write \"chain\"");
const LEAVE: Part = Field("leave it out");

/// Verb, path of a field as a JSON pointer, what of it is refused.
const FIELDS: [(&str, &str, Part); 14] = [
    ("server", "/transport/http", Field("use `stdio` or `peer`")),
    ("server", "/transport/sse", Field("use `stdio` or `peer`")),
    ("topic", "/model/provider", Field("use `script`")),
    ("topic", "/config/mode", MODES),
    ("topic", "/config/steering", STEERING),
    ("topic", "/config/context_window", LEAVE),
    ("configure", "/mode", MODES),
    ("configure", "/steering", STEERING),
    ("configure", "/context_window", LEAVE),
    ("send", "/level", Values(&["now", "next_turn"], "write \"next_step\"")),
    ("decide", "/scope", Values(&["turn", "topic", "always"], "write \"once\"")),
    ("decide", "/of", Values(&["server"], "write \"tool\"")),
    ("decide", "/arguments", LEAVE),
    ("crash", "/at", LEAVE),
];

/// Refuses what this version does not do, with the field's path and the reason.
pub(super) fn check(verb: &str, body: &Value) -> Result<(), (String, String)> {
    if VERBS.contains(&verb) {
        return Err((verb.to_owned(), "not available in this version: leave the line out".to_owned()));
    }
    for (_, pointer, part) in FIELDS.iter().filter(|(of, _, _)| *of == verb) {
        let path = || format!("{verb}{}", pointer.replace('/', "."));
        match (body.pointer(pointer), part) {
            (Some(_), Field(instead)) => {
                return Err((path(), format!("not available in this version: {instead}")));
            }
            (Some(Value::String(value)), Values(values, instead)) if values.contains(&value.as_str()) => {
                return Err((path(), format!("\"{value}\" is not available in this version: {instead}")));
            }
            (None | Some(_), Field(_) | Values(..)) => {}
        }
    }
    Ok(())
}
