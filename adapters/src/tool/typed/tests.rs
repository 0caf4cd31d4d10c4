use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::tool::{Caller, Function, Invocation, Json};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// What to look for.
    text: String,
    #[serde(default)]
    limit: Option<u32>,
    kind: Option<Kind>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Open,
    Closed,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn called(function: &Function, arguments: Value) -> Result<String, String> {
    function.tool.call(Invocation::new(arguments, CancellationToken::new())).await
}

#[test]
fn the_schema_is_that_of_the_type() {
    let function = Function::typed("find", "Finds", async |_: Search, _: Caller| Ok::<_, String>("none"));
    let schema = function.definition.input_schema.value();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["text"]));
    assert_eq!(schema["properties"]["text"], json!({"type": "string", "description": "What to look for."}));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!((schema.get("$schema"), schema.get("title")), (None, None));
    let bare = Function::typed("now", "Tells", async |_: Nothing, _: Caller| Ok::<_, String>(()));
    assert_eq!(bare.definition.input_schema.value(), json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn an_answer_is_text_json_or_a_no() {
    let text = Function::typed("a", "A", async |search: Search, _: Caller| Ok::<_, String>(search.text));
    let value = Function::typed("b", "B", async |search: Search, _: Caller| {
        Ok::<_, String>(Json(json!({"kind": search.kind, "limit": search.limit})))
    });
    let unit = Function::typed_blocking("c", "C", |_: Nothing, _: Caller| Ok::<_, String>(()));
    let no = Function::typed_blocking("d", "D", |_: Nothing, _: Caller| Err::<String, _>("not today"));
    let panics = Function::typed_blocking("e", "E", |_: Nothing, _: Caller| -> Result<String, String> {
        panic!("boom")
    });
    let odd = Function::typed("f", "F", async |_: Nothing, _: Caller| {
        Ok::<_, String>(Json(std::collections::BTreeMap::from([(vec![1], 2)])))
    });
    let rows = [
        (&text, json!({"text": "x"}), Ok("x")),
        (&text, json!({"text": 1}), Err("wrong arguments: invalid type: integer `1`, expected a string")),
        (&value, json!({"text": "x", "kind": "open", "limit": 3}), Ok("{\"kind\":\"open\",\"limit\":3}")),
        (&unit, json!({}), Ok("done")),
        (&no, json!({}), Err("not today")),
        (&panics, json!({}), Err("the function panicked")),
        (&odd, json!({}), Err("the function's answer cannot be written as JSON: key must be a string")),
    ];
    for (function, arguments, expected) in rows {
        let answer = called(function, arguments).await;
        assert_eq!(answer, expected.map(str::to_owned).map_err(str::to_owned), "{function:?}");
    }
}
