use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Base, KnowledgeBase, KnowledgeQuery, Passage, functions};
use crate::BoxFuture;
use crate::tool::Invocation;
use pilothouse_messages::id::TopicId;

/// Says back what it is asked, at great length.
struct Echo;

impl KnowledgeBase for Echo {
    fn list(&self, _topic: Option<TopicId>) -> BoxFuture<'_, Result<Vec<Base>, String>> {
        let base = |n: usize| Base { id: format!("b{n}"), name: "Base".into(), ..Base::default() };
        Box::pin(async move { Ok((0..150).map(base).collect()) })
    }

    fn search(&self, query: KnowledgeQuery) -> BoxFuture<'_, Result<Vec<Passage>, String>> {
        Box::pin(async move {
            if query.bases == ["gone"] {
                return Err("there is no base \"gone\"".to_owned());
            }
            let text = format!("{} {:?} {}", query.text, query.bases, "x".repeat(100_000));
            let passage = Passage { base: "b0".into(), document: "d".into(), text, score: f64::NAN };
            Ok(vec![passage; 50])
        })
    }
}

async fn called(name: &str, arguments: Value) -> Result<Value, String> {
    let functions = functions(Arc::new(Echo));
    let function = functions.iter().find(|function| function.definition.name == name).expect("it is there");
    let answer = function.tool.call(Invocation::new(arguments, CancellationToken::new())).await?;
    Ok(serde_json::from_str(&answer).expect("an answer is JSON"))
}

#[tokio::test]
async fn bases_are_listed_up_to_a_bound() {
    let listed = called("kb_list", json!({})).await.expect("listed");
    assert_eq!((listed["bases"].as_array().map(Vec::len), &listed["more"]), (Some(100), &json!(50)));
    let first = json!({"id": "b0", "name": "Base", "description": "", "documents": 0});
    assert_eq!(listed["bases"][0], first);
}

#[tokio::test]
async fn passages_are_bounded_one_by_one_and_together() {
    let found = called("kb_search", json!({"query": "tides", "bases": ["b1"]})).await.expect("found");
    let results = found["results"].as_array().expect("a list");
    assert_eq!(results.len(), 6);
    assert!(
        results[0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("tides [\"b1\"] xxx") && text.len() == 4 << 10)
    );
    assert_eq!(results[0]["score"], json!(0.0));
    let most = called("kb_search", json!({"query": "tides", "limit": 20})).await.expect("found");
    assert_eq!(most["results"].as_array().map(Vec::len), Some(12), "48 KiB are twelve passages of 4");
}

#[tokio::test]
async fn a_no_is_a_no_of_the_tool() {
    let no = called("kb_search", json!({"query": "tides", "bases": ["gone"]})).await;
    assert_eq!(no, Err("there is no base \"gone\"".to_owned()));
    assert_eq!(called("kb_search", json!({"query": "  "})).await, Err("query is empty".to_owned()));
}
