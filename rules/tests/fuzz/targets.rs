//! What must hold for any bytes: the bodies of the fuzz targets, also run by `rules/tests/fuzz.rs` on seeded mutations.

use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::tool::ShownTool;
use pilothouse_rules::arguments::{Settled, Validator, settle};
use pilothouse_rules::listing::tool_of;
use pilothouse_rules::name::{is_wire_name_for_provider, wire_name};
use pilothouse_rules::provider::{Provider, check};
use pilothouse_rules::schema::{Dialect, provider_ready};
use pilothouse_rules::signature::render;
use serde_json::Value;

/// Three texts, parted by NUL: the id of a server, its name, the name of a tool. Every provider takes the wire name, and
/// the same texts give the same one.
pub(crate) fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let (id, server, tool) =
        (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let name = wire_name(id, server, tool);
    assert!(is_wire_name_for_provider(&name) && name.len() <= 63, "{name}");
    assert_eq!(name, wire_name(id, server, tool));
    assert_ne!(name, wire_name(id, server, &format!("{tool}x")));
}

/// A schema as JSON. What a provider is shown breaks none of its rules, and is left alone when it is shown again.
pub(crate) fn schema(bytes: &[u8]) {
    let Ok(schema) = serde_json::from_slice::<Value>(bytes) else { return };
    for dialect in
        [Dialect::Common, Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini]
    {
        let shown = provider_ready(&schema, dialect);
        let provider = match shown.dialect {
            Dialect::Common | Dialect::Gemini => Provider::Gemini,
            Dialect::OpenAi => Provider::OpenAi,
            Dialect::OpenAiStrict => Provider::OpenAiStrict,
            Dialect::Anthropic => Provider::Anthropic,
        };
        let tool = ShownTool {
            name: "t".to_owned(),
            description: "Does it.".to_owned(),
            input_schema: JsonText::from(&shown.schema),
        };
        assert_eq!(check(&tool, provider), [], "{dialect:?}: {}", shown.schema);
        assert_eq!(provider_ready(&shown.schema, shown.dialect).schema, shown.schema, "{dialect:?}");
    }
}

/// A tool as a server lists it, as JSON. Its signature is bounded and has no control characters but line breaks.
pub(crate) fn signature(bytes: &[u8]) {
    let Ok(listed) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(tool) = tool_of(listed) else { return };
    let limits = Limits::default();
    let text = render(&tool, "mcp__a__t_0", &limits);
    assert!(text.contains("mcp__a__t_0") && text.len() <= 64 << 10, "{}", text.len());
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

/// A schema and the text of arguments, parted by NUL. What is taken is an object that the schema admits; what is refused
/// is refused in bounded words; what is taken is taken again as it is.
pub(crate) fn arguments(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (schema, raw) = text.split_once('\0').unwrap_or(("{}", &text));
    let Ok(schema) = JsonText::parse(schema) else { return };
    let validator = Validator::new(&schema);
    match settle(raw, &validator) {
        Settled::Arguments { arguments, unchecked, .. } => {
            assert!(arguments.value().is_object() || arguments.value().is_null(), "{arguments}");
            if unchecked.is_none() {
                let again = settle(arguments.as_str(), &validator);
                let kept = matches!(&again, Settled::Arguments { arguments: kept, fixes, .. } if *kept == arguments && fixes.is_empty());
                assert!(kept, "{arguments}: {again:?}");
            }
        }
        Settled::Refused { reason } => assert!(reason.len() < 8 << 10, "{}", reason.len()),
    }
}
