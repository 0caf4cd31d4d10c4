//! What the language of lines knows and this version does not do. Refused by name, so that a file which needs it
//! fails at the line and not later.

use serde_json::Value;

/// Verbs that are refused whole.
const VERBS: [&str; 2] = ["audit", "metrics"];

/// Verb, path of a field as a JSON pointer, what to do without it.
const FIELDS: [(&str, &str, &str); 2] =
    [("topic", "/model/provider", "use `script`"), ("crash", "/at", "leave it out")];

/// Refuses what this version does not do, with the field's path and the reason.
pub(super) fn check(verb: &str, body: &Value) -> Result<(), (String, String)> {
    if VERBS.contains(&verb) {
        return Err((verb.to_owned(), "not available in this version: leave the line out".to_owned()));
    }
    for (_, pointer, instead) in FIELDS.iter().filter(|(of, _, _)| *of == verb) {
        if body.pointer(pointer).is_some() {
            let path = format!("{verb}{}", pointer.replace('/', "."));
            return Err((path, format!("not available in this version: {instead}")));
        }
    }
    Ok(())
}
