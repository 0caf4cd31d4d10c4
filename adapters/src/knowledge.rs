//! The embedder's knowledge: bases of documents that can be listed and searched, and the tools that models get for them.

use std::sync::Arc;

use pilothouse_messages::id::TopicId;
use pilothouse_messages::tool::Effect;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::BoxFuture;
use crate::text::{cut, one_line};
use crate::tool::{Function, Invocation};
use crate::web::{limit_of, text_of};

/// The namespace of the tools.
const NAMESPACE: &str = "kb";
/// Passages where a model does not say, and at most.
const PASSAGES: (usize, usize) = (6, 20);
/// The most bases that are listed, or searched at once.
const BASES_MAX: usize = 100;
/// How long a question may be, in bytes.
const QUERY_BYTES: usize = 4 << 10;
/// How much of a name or title is told, in bytes.
const NAME_BYTES: usize = 300;
/// How much of a description is told, in bytes.
const DESCRIPTION_BYTES: usize = 1 << 10;
/// How much of a passage is told, in bytes; all together at most as much as [`PASSAGES_BYTES`].
const PASSAGE_BYTES: usize = 4 << 10;
/// How much all passages of one answer may have, in bytes.
const PASSAGES_BYTES: usize = 48 << 10;

/// One base of documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// What it is asked by.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What is in it.
    pub description: String,
    /// How many documents it has.
    pub documents: u64,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnowledgeQuery {
    /// The topic that asks; `None` outside a topic. A base that its tenant may not see is not searched.
    pub topic: Option<TopicId>,
    /// The question, never empty, bounded.
    pub text: String,
    /// Ids of the bases to be searched, as a model wrote them; empty for all.
    pub bases: Vec<String>,
    /// The most passages that are of use.
    pub limit: usize,
}

/// One passage that was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The base's id.
    pub base: String,
    /// The document.
    pub document: String,
    /// The passage.
    pub text: String,
    /// How well it fits; the larger the better, on the base's own scale.
    pub score: f64,
}

/// Bases of documents.
///
/// For implementers: both futures are dropped at the call's deadline or cancellation; `Err` is told to the model.
/// Whom a topic belongs to, and so which bases it may see, only you know. What is beyond a bound is left out.
pub trait KnowledgeBase: Send + Sync + 'static {
    /// The bases that the topic may see.
    fn list(&self, topic: Option<TopicId>) -> BoxFuture<'_, Result<Vec<Base>, String>>;

    /// The passages that fit best, best first.
    fn search(&self, query: KnowledgeQuery) -> BoxFuture<'_, Result<Vec<Passage>, String>>;
}

/// The tools of a knowledge base: `kb_list` and `kb_search`. They only read, so they run without a person.
pub fn functions(knowledge: Arc<dyn KnowledgeBase>) -> Vec<Function> {
    vec![list_function(knowledge.clone()), search_function(knowledge)]
}

fn list_function(knowledge: Arc<dyn KnowledgeBase>) -> Function {
    let run = move |invocation: Invocation| {
        let knowledge = knowledge.clone();
        async move {
            let bases = knowledge.list(invocation.topic).await?;
            let more = bases.len().saturating_sub(BASES_MAX);
            let bases: Vec<_> = bases.into_iter().take(BASES_MAX).map(bounded_base).collect();
            Ok(json!({"bases": bases, "more": more}).to_string())
        }
    };
    let schema = json!({"type": "object", "properties": {}});
    Function::new("kb_list", "Lists the knowledge bases that can be searched", &schema, run)
        .namespace(NAMESPACE)
        .effect(Effect::Reads)
}

fn bounded_base(base: Base) -> Base {
    Base {
        id: one_line(&base.id, NAME_BYTES),
        name: one_line(&base.name, NAME_BYTES),
        description: one_line(&base.description, DESCRIPTION_BYTES),
        documents: base.documents,
    }
}

fn search_function(knowledge: Arc<dyn KnowledgeBase>) -> Function {
    let (usual, most) = PASSAGES;
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "The question, in plain words."},
            "bases": {
                "type": "array", "items": {"type": "string"}, "maxItems": BASES_MAX,
                "description": "Ids of the knowledge bases to be searched, as kb_list gives them; all if not given.",
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": most,
                "description": format!("The most passages; {usual} if not given."),
            },
        },
        "required": ["query"],
    });
    let run = move |invocation: Invocation| {
        let knowledge = knowledge.clone();
        async move {
            let limit = limit_of(&invocation.arguments, PASSAGES);
            let text = text_of(&invocation.arguments, "query", QUERY_BYTES)?;
            let bases = bases_of(&invocation.arguments);
            let query = KnowledgeQuery { topic: invocation.topic, text, bases, limit };
            let passages = knowledge.search(query).await?;
            Ok(json!({"results": bounded_passages(passages, limit)}).to_string())
        }
    };
    Function::new("kb_search", "Searches the knowledge bases; gives the passages that fit best", &schema, run)
        .namespace(NAMESPACE)
        .effect(Effect::Reads)
}

fn bases_of(arguments: &Value) -> Vec<String> {
    let bases = arguments.get("bases").and_then(Value::as_array).into_iter().flatten();
    bases.filter_map(Value::as_str).take(BASES_MAX).map(str::to_owned).collect()
}

fn bounded_passages(passages: Vec<Passage>, limit: usize) -> Vec<Passage> {
    let mut left = PASSAGES_BYTES;
    let bounded = passages.into_iter().take(limit).map_while(|passage| {
        let text = cut(&passage.text, PASSAGE_BYTES.min(left)).to_owned();
        left = left.saturating_sub(text.len());
        let (base, document) = (one_line(&passage.base, NAME_BYTES), one_line(&passage.document, NAME_BYTES));
        // A score that JSON cannot say is none.
        let score = if passage.score.is_finite() { passage.score } else { 0.0 };
        (!text.is_empty()).then_some(Passage { base, document, text, score })
    });
    bounded.collect()
}

#[cfg(test)]
mod tests;
