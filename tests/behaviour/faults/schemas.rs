//! Schemas: a strange one costs at most its own tool, is kept as it came, and is shown as every provider takes it.

use std::sync::Arc;

use pilothouse::call::CallOutcome;
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::schema::{self, Dialect, Provider};
use pilothouse::tool::ShownTool;
use pilothouse_harness::peer::Peer;
use serde_json::{Value, json};

use crate::stage::{call, memory, peer, plays, said, server};

/// What becomes of a tool with such a schema.
enum Fate {
    Kept,
    Dropped(&'static str),
}

use Fate::{Dropped, Kept};

const NO_OBJECT: &str = "its input schema is not an object";
const OTHER: &str = "its input schema is for something other than an object";

/// A server with one odd tool among sound ones. (`null` written as a schema is one; absent is another row.)
fn offers(odd: &Value) -> Arc<Peer> {
    let mut listed: Vec<_> =
        (0..29).map(|n| json!({"name": format!("sound{n}"), "inputSchema": {"type": "object"}})).collect();
    listed.insert(17, odd.clone());
    // The result of the listing is given as it is, so that it may be as odd as it likes.
    let result = json!({"on": "list", "result": {"tools": listed}});
    peer(
        json!({"tools": [{"name": "odd"}, {"name": "sound1", "reply": "healthy"}], "faults": [{ "result": result }]}),
    )
}

/// Every provider takes what it is shown of this tool, in its own dialect; strict mode only where it can say it.
fn assert_shown(tool: &ShownTool) {
    for dialect in [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini] {
        let shown = schema::provider_ready(&tool.input_schema.value(), dialect);
        let provider = match shown.dialect {
            Dialect::Common | Dialect::OpenAi => Provider::OpenAi,
            Dialect::OpenAiStrict => Provider::OpenAiStrict,
            Dialect::Anthropic => Provider::Anthropic,
            Dialect::Gemini => Provider::Gemini,
        };
        assert!(
            shown.dialect == dialect || dialect == Dialect::OpenAiStrict,
            "{dialect:?}: {:?}",
            shown.dialect
        );
        let tool = ShownTool { input_schema: (&shown.schema).into(), ..tool.clone() };
        assert_eq!(schema::check(&tool, provider), [], "{dialect:?}: {}", tool.input_schema);
        assert!(tool.input_schema.as_str().len() < 64 << 10, "{}", tool.input_schema.as_str().len());
    }
}

/// Lists the tool among 29 others, which stay and can be called whatever it is.
async fn check(odd: Value, fate: Fate) {
    let odd = if odd.get("name").is_some() { odd } else { json!({"name": "odd", "inputSchema": odd}) };
    let offering = offers(&odd);
    let store = memory();
    let steps = [call("a", "sound1", json!({})), Step::text("Done.")];
    let definition = Server::in_memory("a", offering.clone()).effect("sound1", Effect::Reads);
    let mut stage = plays(steps).server(definition).store(store.clone()).raise().await;
    let view = stage.server("a").list();
    let listing = view.listing.clone().expect("it is listed");
    let surface = stage.topic.surface().expect("the topic is open");
    match fate {
        Kept => {
            assert_eq!((listing.tools.len(), listing.dropped.len()), (30, 0), "{:?}", listing.dropped);
            // What was sent is what is kept: approvals and fingerprints are made on it.
            assert_eq!(listing.tools[17].input_schema.value(), odd["inputSchema"]);
            let name = stage.server("a").tool_name("odd").expect("it has a name");
            let shown = surface.tools.iter().find(|tool| tool.name == name).expect("it is shown");
            assert_shown(shown);
        }
        Dropped(reason) => {
            assert_eq!(listing.tools.len(), 29);
            let told: Vec<_> =
                listing.dropped.iter().map(|one| (one.name.as_deref(), one.reason.as_str())).collect();
            assert_eq!(told, [(Some("odd"), reason)]);
        }
    }
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    assert_eq!(said(&stage.results()[0]), "succeeded: healthy", "{odd}");
    drop(stage);
    // It is read back from the store as it was.
    let runtime = plays([]).peer("a", &offering).store(store.crash()).cold().start().await;
    let again = server(&runtime, "a").list();
    assert_eq!(again.tools(), listing.tools.as_slice());
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_is_none_for_arguments_costs_its_own_tool_only() {
    check(json!({"type": "string"}), Dropped(OTHER)).await;
    check(json!({"name": "odd"}), Dropped(NO_OBJECT)).await;
    for none in [json!(null), json!(true), json!([]), json!("x")] {
        check(none, Dropped(NO_OBJECT)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_property_without_a_type_is_shown_to_every_provider() {
    let odd = json!({"description": "x", "default": null});
    check(json!({"type": "object", "properties": {"a": odd}}), Kept).await;
}

#[tokio::test(start_paused = true)]
async fn a_schema_with_definitions_at_its_root_is_whole_for_every_provider_and_checked() {
    let db = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let schema = json!({
        "type": "object",
        "properties": {"target": {"anyOf": [{"$ref": "#/$defs/Db"}, {"type": "null"}]}},
        "$defs": {"Db": db},
    });
    let output = json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}});
    check(json!({"name": "odd", "inputSchema": schema, "outputSchema": output}), Kept).await;
    for dialect in
        [Dialect::Common, Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini]
    {
        let shown = schema::provider_ready(&schema, dialect).schema;
        let text = shown.to_string();
        assert!(!text.contains("$ref") || text.contains("$defs"), "{dialect:?}: {text}");
        assert!(text.contains("\"id\""), "{dialect:?} shows what a Db is: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn words_that_only_some_providers_know_are_kept_and_not_shown_to_the_others() {
    let zod = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "properties": {"url": {"type": "string", "format": "uri", "pattern": "^https", "default": "https://x"}},
    });
    check(zod, Kept).await;
    let every = json!({
        "type": "object",
        "$comment": "kept",
        "x-vendor": {"a": 1},
        "patternProperties": {"^x": {"type": "string"}},
        "properties": {
            "i": {"type": "integer"}, "u": {"type": ["string", "null"]}, "free": {}, "c": {"const": 7},
            "o": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "n": {"not": {"type": "string"}},
        },
    });
    check(every, Kept).await;
    let drafts = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "tuple": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
            "prefix": {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1},
            "above": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
        },
    });
    check(drafts, Kept).await;
}

#[tokio::test(start_paused = true)]
async fn alternatives_stay_alternatives_wherever_they_stand() {
    let one =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    check(json!({"anyOf": [one("a"), one("b")]}), Kept).await;
    let filter = json!({"anyOf": [
        {"type": "object", "properties": {"field": {"type": "string"}}},
        {"type": "array", "items": {"type": "object", "properties": {"clause": {"type": "string"}}}},
    ]});
    let schema = json!({"type": "object", "properties": {"filter": filter}});
    check(schema.clone(), Kept).await;
    let shown = schema::provider_ready(&schema, Dialect::Common).schema["properties"]["filter"].clone();
    assert_ne!(shown["type"], "string", "{shown}");
    let text = shown.to_string();
    assert!(text.contains("field") && text.contains("clause"), "both are seen: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_refers_to_itself_is_shown_within_bounds() {
    let node = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}});
    check(
        json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}),
        Kept,
    )
    .await;
    let circle = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}});
    check(json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": circle}), Kept).await;
    let twice = |n: usize| {
        json!({"type": "object", "properties": {
            "l": {"$ref": format!("#/$defs/d{}", n + 1)}, "r": {"$ref": format!("#/$defs/d{}", n + 1)},
        }})
    };
    let mut defs: serde_json::Map<_, _> = (0..12).map(|n| (format!("d{n}"), twice(n))).collect();
    defs.insert("d12".to_owned(), json!({"type": "string"}));
    check(json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}), Kept).await;
    let deep = peer(
        json!({"tools": [{"name": "look"}], "faults": [{"schema_bomb": {"kind": "deep", "size": 10_000}}]}),
    );
    let runtime = plays([]).peer("deep", &deep).start().await;
    let state = server(&runtime, "deep").view();
    assert!(state.tools <= 1, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_another_property_is_followed_for_those_who_cannot() {
    let schema = json!({"type": "object", "properties": {
        "headers": {"type": "array", "items": {"type": "string"}},
        "actions": {"type": "array", "items": {"$ref": "#/properties/headers"}},
    }});
    check(schema.clone(), Kept).await;
    let shown = schema::provider_ready(&schema, Dialect::Gemini).schema;
    assert_eq!(shown["properties"]["actions"]["items"], shown["properties"]["headers"]);
}

#[tokio::test(start_paused = true)]
async fn arguments_are_forwarded_as_far_as_the_schema_permits() {
    let tools = json!({"tools": [
        {"name": "open", "echo": true, "schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
    ]});
    let offering = peer(tools);
    let runtime = plays([])
        .server(Server::in_memory("a", offering.clone()).effect("open", Effect::Reads))
        .start()
        .await;
    let a = server(&runtime, "a");
    let forwarded = a.call("open", &json!({"pathh": "a"})).await;
    assert_eq!(
        (forwarded.outcome, offering.calls()[0]["arguments"].clone()),
        (CallOutcome::Succeeded, json!({"pathh": "a"}))
    );
}
