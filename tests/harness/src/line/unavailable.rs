//! What the language of lines knows and this version does not do. Refused by name, so that a file which needs it
//! fails at the line and not later.

use serde_json::Value;

/// Verbs that are refused whole.
const VERBS: [&str; 4] = ["server_remove", "continue", "audit", "metrics"];

/// What is refused of a field.
enum Part {
    /// The field with any value; what to do without it.
    Field(&'static str),
    /// These values of it; what to write instead.
    Values(&'static [&'static str], &'static str),
}

use Part::{Field, Values};

const STEERING: Part = Values(&["inject"], "write \"chain\"");
const LEAVE: Part = Field("leave it out");

/// Verb, path of a field as a JSON pointer, what of it is refused.
const FIELDS: [(&str, &str, Part); 8] = [
    ("server", "/transport/http", Field("use `stdio` or `peer`")),
    ("server", "/transport/sse", Field("use `stdio` or `peer`")),
    ("server", "/idle_stop_ms", LEAVE),
    ("topic", "/model/provider", Field("use `script`")),
    ("topic", "/config/steering", STEERING),
    ("configure", "/steering", STEERING),
    ("send", "/level", Values(&["now", "next_turn"], "write \"next_step\"")),
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
