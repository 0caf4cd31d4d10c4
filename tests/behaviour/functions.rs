//! Functions of the embedder: typed ones, the web and knowledge bases, as topics call them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse::id::TopicId;
use pilothouse::knowledge::{Base, KnowledgeBase, KnowledgeQuery, Passage};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::tool::Invocation;
use pilothouse::web::{Web, WebHit, WebQuery, WebSearch};
use serde_json::{Value, json};

use crate::stage::{Setup, call_function, plays, said};

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The results of calls, one step each, as a topic's history has them.
async fn results(calls: &[(&str, Value)], set_up: impl FnOnce(Setup) -> Setup) -> Vec<String> {
    let steps = calls.iter().map(|(name, arguments)| call_function(name, arguments.clone()));
    let mut stage = set_up(plays(steps.chain([Step::text("Done.")]))).raise().await;
    stage.say("Go.").await;
    assert_eq!(stage.until_end().await, StopReason::Completed);
    stage.results().iter().map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn arguments_are_checked_before_a_function_sees_them() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let double = Function::new("double", "Doubles it.", &schema, move |asked: Invocation| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok((asked.arguments["n"].as_i64().unwrap_or_default() * 2).to_string()) }
    });
    let calls = [("double", json!({"n": "4"})), ("double", json!({})), ("double", json!({"n": 4}))];
    let told = results(&calls, |setup| setup.function(double.effect(Effect::Reads))).await;
    let wrong = |fault: &str| {
        format!(
            "rejected: \"double\" was not called: the arguments do not match its schema:\n- {fault}\nthis is its \
             signature:\n/**\n * doubles it.\n *\n * @param {{object}} params - parameters\n * @param {{integer}} \
             params.n - (required)\n */\nfunction double(params) {{}}"
        )
    };
    assert_eq!(
        told,
        [
            wrong("n: expected an integer, found the string \"4\""),
            wrong("arguments: \"n\" is required and missing"),
            "succeeded: 8".to_owned(),
        ]
    );
    assert_eq!(runs.load(Ordering::Relaxed), 1, "it ran for the good call only");
}

#[tokio::test(start_paused = true)]
async fn a_function_may_have_a_deadline_of_its_own() {
    let hang = Function::new("hang", "Hangs.", &json!({"type": "object"}), async |_: Invocation| {
        std::future::pending().await
    });
    let hang = hang.effect(Effect::Reads).call_timeout(Duration::from_secs(2));
    let told = results(&[("hang", json!({}))], |setup| setup.function(hang)).await;
    assert_eq!(told, ["timedout: no answer within 2000 ms"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_is_there_only_where_its_predicate_holds_and_one_that_panics_is_nowhere() {
    let named = |name: &str| {
        Function::new(name, "Says yes.", &json!({"type": "object"}), async |_: Invocation| {
            Ok("yes".to_owned())
        })
        .effect(Effect::Reads)
    };
    let calls = [("here", json!({})), ("elsewhere", json!({})), ("broken", json!({}))];
    let told = results(&calls, |setup| {
        setup
            .function(named("here").applies(|scope| scope.tenant().as_str() == "default"))
            .function(named("elsewhere").applies(|scope| scope.tenant().as_str() == "other"))
            .function(named("broken").applies(|_| panic!("oh")))
    });
    let told = told.await;
    assert_eq!(told[0], "succeeded: yes");
    let nearest = |name: &str| {
        format!(
            "rejected: no tool named \"{name}\" is available here; the nearest is \"here\": call it by exactly that name"
        )
    };
    assert_eq!(told[1..], [nearest("elsewhere"), nearest("broken")]);
}

struct Almanac;

impl WebSearch for Almanac {
    fn search(&self, query: WebQuery) -> Answer<'_, Vec<WebHit>> {
        Box::pin(async move {
            if query.text == "storm" {
                return Err("the engine is out of quota".to_owned());
            }
            let url = "https://example.org/tides".to_owned();
            Ok(vec![WebHit { title: query.text, url, snippet: format!("at most {}", query.limit) }])
        })
    }
}

impl KnowledgeBase for Almanac {
    fn list(&self, topic: Option<TopicId>) -> Answer<'_, Vec<Base>> {
        let id = topic.map(|topic| topic.to_string()).unwrap_or_default();
        Box::pin(async { Ok(vec![Base { id, ..Base::default() }]) })
    }

    fn search(&self, query: KnowledgeQuery) -> Answer<'_, Vec<Passage>> {
        Box::pin(async move { panic!("asked for {}", query.text) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_searches_the_web_and_the_knowledge_that_its_embedder_lends() {
    let calls = [
        ("web_search", json!({"query": "tides", "limit": 3})),
        ("web_search", json!({"query": "storm"})),
        ("web_search", json!({"limit": 3})),
        ("kb_list", json!({})),
        ("kb_search", json!({"query": "anchors"})),
        ("web_fetch", json!({"url": "https://example.org"})),
    ];
    let lend =
        |setup: Setup| setup.build(|builder| builder.web(Web::new().search(Almanac)).knowledge(Almanac));
    let told = results(&calls, lend).await;
    let hit = r#"{"results":[{"snippet":"at most 3","title":"tides","url":"https://example.org/tides"}]}"#;
    assert_eq!(told[0], format!("succeeded: {hit}"));
    assert_eq!(told[1], "failed: the engine is out of quota");
    let missing = "rejected: \"web_search\" was not called: the arguments do not match its schema:\n- arguments: \"query\" is required and missing\n";
    assert!(told[2].starts_with(missing), "{}", told[2]);
    assert!(
        told[3].starts_with(r#"succeeded: {"bases":[{"description":"","documents":0,"id":""#),
        "{}",
        told[3]
    );
    assert_eq!(told[4], "failed: the function panicked");
    assert!(told[5].starts_with("rejected: no tool named \"web_fetch\" is available here"), "{}", told[5]);
}
