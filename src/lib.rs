//! Pilothouse is an actor runtime for the tools of agents, embedded in larger services: a dead, slow or lying MCP
//! server never makes anything else wait, and nothing that was accepted is lost.
//!
#![cfg_attr(feature = "mcp", doc = "```")]
#![cfg_attr(not(feature = "mcp"), doc = "```ignore")]
//! use pilothouse::prelude::*;
//! use pilothouse::model::scripted::{ScriptedModel, Step};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder()
//!     .server(Server::stdio("files", "mcp-server-filesystem").arg("/tmp")) // may be dead: nothing waits for it
//!     .model("demo", ScriptedModel::new(vec![Step::text("Hello!")]))
//!     .start()
//!     .await?;
//! let topic = runtime.open_topic("greetings", TopicConfig::new("demo")).await?;
//! let mut window = topic.attach().ok_or("the topic is not open")?;
//! topic.send("Say hello.").await?;
//! while let Some(TopicEventOut::Update { update, .. }) = window.next().await {
//!     if let TopicUpdate::TurnFinished { stop, .. } = update {
//!         println!("{}", stop.name());
//!         break;
//!     }
//! }
//! runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The nouns
//!
//! - A **[`Runtime`]** owns a supervision tree; a **[`Server`]** is one MCP server in it, an actor of its own.
//! - A **[`Topic`]** is one conversation. A **turn** runs from a message to a [stop reason](topic::StopReason); a
//!   **step** is one model reply and the calls it asks for. A message sent while a turn runs is queued; the turn yields at
//!   its next step boundary, and a chained turn answers it.
//! - A **[card](approval::Card)** asks a person before a risky tool runs. The first [decision](approval::Decision) wins
//!   and is durable before anybody sees it.
//! - Everything that is read (listings, views, cards, the tree) is a snapshot: reading never waits.
//!
//! # Where next
//!
//! [`docs::architecture`] is the map, [`docs::guarantees`] says what is promised and which test keeps it, and
//! [`docs::harness`] drives a whole runtime with plain messages. `cargo run --example quickstart` shows the main job.

/// What an embedder needs for the main job.
pub mod prelude {
    pub use crate::approval::Decision;
    pub use crate::tool::{Effect, Function};
    pub use crate::topic::{StopReason, TopicConfig, TopicEventOut, TopicUpdate};
    pub use crate::{Runtime, Server, Topic};
}

pub use pilothouse_actors::bus::RuntimeEvents;
pub use pilothouse_actors::hub::Subscription;
pub use pilothouse_messages::{
    call, digest, error, id, json, limits, listing, protocol, registry, secret, server, time, tree,
};
#[cfg(feature = "testing")]
pub use pilothouse_supervision::Mishap;
pub use pilothouse_supervision::{Builder, Runtime, Sent, Server, ServerHandle, Shutdown, Topic, log_filter};

/// Approvals: cards, decisions, grants, and the embedder's own layers of the gate.
pub mod approval {
    pub use pilothouse_adapters::gate::{
        Classifier, DecidePolicy, Decider, DenyRule, Guard, GuardVerdict, Subject,
    };
    pub use pilothouse_messages::approval::{
        Card, CardOwner, CardState, DecideAnswer, Decision, FacePart, SeenAs, Settlement, ToolChange,
        ToolFace, Verdict,
    };
    pub use pilothouse_messages::grant::{
        ArgumentRule, Grant, GrantOffer, GrantPlace, GrantReach, GrantScope, GrantSubject, PathCase,
        RevokeAnswer,
    };
    pub use pilothouse_messages::id::{ApprovalId, GrantId};
    pub use pilothouse_messages::topic::Classified;
}

/// The audit: who allowed what, on which basis each call ran, and what does not add up. See [`docs::audit`].
pub mod audit {
    pub use pilothouse_messages::approval::RefusedDecision;
    pub use pilothouse_messages::audit::{
        AuditBasis, AuditFact, AuditFault, AuditGap, AuditLog, AuditReport, AuditRow, AuditTool,
        ScriptCallFact,
    };
    pub use pilothouse_messages::call::{LateAnswer, LateWord};
    pub use pilothouse_messages::grant::GrantEnd;
    pub use pilothouse_messages::topic::command::Payment;
    pub use pilothouse_supervision::audit_store;
}

/// Clocks that a runtime can be built with.
pub mod clock {
    pub use pilothouse_adapters::clock::{Clock, SystemClock, TokioClock};
}

/// Small programs that models write, which call tools: switched on with [`Builder::exec`].
#[cfg(feature = "exec")]
pub mod exec {
    pub use pilothouse_adapters::exec::ExecOptions;
    pub use pilothouse_messages::limits::ExecLimits;
}

/// Ways to reach MCP servers.
pub mod mcp {
    pub use pilothouse_adapters::asks::{
        Ask, AskKind, AskPort, AskRefusal, Asks, Origin, Question, Reply, Root,
    };
    #[cfg(feature = "mcp")]
    pub use pilothouse_adapters::mcp::InMemoryServer;
    pub use pilothouse_adapters::policy::{AllowAll, Approach, PublicOnly, ServerPolicy};
    pub use pilothouse_adapters::server::{
        Answers, CacheScope, CallAnswer, CallRequest, Connection, Connector, InputRequired, Negotiate,
        Notice, Notices, Page, Pulse, TaskState, TaskTicket, Terms,
    };
    pub use pilothouse_messages::server::Proxies;
}

/// Servers from the configuration files that people already have.
#[cfg(feature = "mcp")]
pub mod config {
    pub use pilothouse_supervision::{
        ConfigError, ConfigNote, ConfigOptions, ImportedServers, OnMistake, servers_from_json,
    };
}

/// Knowledge bases that models may search.
pub mod knowledge {
    pub use pilothouse_adapters::knowledge::{Base, KnowledgeBase, KnowledgeQuery, Passage};
}

/// Models: the trait, its data, and the scripted one.
pub mod model {
    pub use pilothouse_adapters::model::{Model, ModelError, ModelResolver, ModelStream, scripted};
    pub use pilothouse_messages::model::{
        Dialect, FinishReason, HistoryCall, HistoryItem, ModelEvent, ModelLimits, ModelRequest, Usage,
    };
    pub use pilothouse_rules::history::{HistoryPolicy, HistoryRoom, NewestTurns};
}

/// Models of providers: OpenAI, Anthropic, and whatever speaks OpenAI's chat completions.
///
/// ```no_run
/// use pilothouse::models::{Account, Models};
/// use pilothouse::secret::Secret;
///
/// # fn accounts(key: Secret) -> Result<pilothouse::Builder, Box<dyn std::error::Error>> {
/// let models = Models::new()
///     .account("anthropic", &Account::anthropic(key).context_window(200_000))?
///     .account("local", &Account::compatible("http://localhost:11434/v1"))?;
/// // A topic names its model: `TopicConfig::new("local/qwen3")`.
/// # Ok(pilothouse::Runtime::builder().models(models))
/// # }
/// ```
#[cfg(feature = "models")]
pub mod models {
    pub use pilothouse_adapters::model::hosted::{Account, AccountError, HostedModel, Models};
}

/// Logging in to servers behind HTTP.
#[cfg(feature = "mcp-oauth")]
pub mod oauth {
    pub use pilothouse_adapters::oauth::{
        Authorise, Consent, MemoryTokens, OAuth, Redirected, TokenKey, TokenStore,
    };
}

/// Questions of servers to people: forms to fill in and pages to visit.
pub mod question {
    pub use pilothouse_messages::id::QuestionId;
    pub use pilothouse_messages::question::{
        Answer, AnswerOutcome, PersonAsk, QuestionCard, QuestionEnd, QuestionWord, Reply,
    };
}

/// What a provider is shown of a tool: schemas in its dialect, its rules, signatures.
///
/// A [`Model`](model::Model) of the embedder's own says by [`Model::dialect`](model::Model::dialect) whose rules the tools
/// of its requests keep; [`docs::providers`] has the rules, and [`provider_ready`](schema::provider_ready) does the same
/// for a schema by itself.
pub mod schema {
    pub use pilothouse_rules::provider::{Provider, Rule, Violation, check};
    pub use pilothouse_rules::schema::{Dialect, Loosened, ProviderSchema, provider_ready, strict};
    pub use pilothouse_rules::signature::render;
}

/// Stores: the trait and its adapters.
pub mod store {
    pub use pilothouse_adapters::store::sealed::{SEAL_BYTES_MAX, SealError, SealedStore, Sealer};
    #[cfg(feature = "sled")]
    pub use pilothouse_adapters::store::sled;
    pub use pilothouse_adapters::store::{
        Ack, AckSender, Batch, Change, Durability, Keyspace, Lane, Mark, Pair, Store, StoreId, ack, memory,
    };
}

/// Tools: definitions, effects, and functions of the embedder.
pub mod tool {
    pub use pilothouse_adapters::repair::{ArgumentRepair, BrokenCall};
    #[cfg(feature = "schemars")]
    pub use pilothouse_adapters::tool::Caller;
    pub use pilothouse_adapters::tool::{Function, Invocation, Json, Output, Tool};
    pub use pilothouse_messages::deferral::Defer;
    pub use pilothouse_messages::scope::Scope;
    pub use pilothouse_messages::tool::{
        DeferredGroup, Effect, LoosenedTool, ShownTool, SurfaceView, ToolDefinition, ToolLists, ToolSource,
        identity_digits,
    };
}

/// What tools cost, what is deferred, and how it is found again.
pub mod search {
    #[cfg(feature = "tokens")]
    pub use pilothouse_adapters::tokens::{ExactTokens, TokenRanksError};
    pub use pilothouse_messages::deferral::{Defer, DeferralGate, DeferralReport, ToolCost};
    pub use pilothouse_rules::registry::policy::{
        Admission, PolicyReach, PolicyRule, PolicyRuleError, ToolPolicy, UnmatchedRule,
    };
    pub use pilothouse_rules::search::{Hit, Nothing, Question, Rank, SearchAnswer, ToolIndex, ToolPool};
    pub use pilothouse_rules::tokens::{Bytes4, PerTool, TokenCounter};
}

/// Topics: configuration, views, updates.
pub mod topic {
    pub use pilothouse_messages::topic::{
        AfterCrash, Budget, BudgetLimit, CallState, CallView, Claim, ConfigPatch, Configured, CostLimit,
        ExportPage, Headless, HistoryCursor, HistoryPage, HoldReason, Level, LiveInput, LiveStep,
        MessageView, NestedView, PermissionMode, Receipt, Setting, Steering, StepView, StopReason,
        TopicConfig, TopicEventOut, TopicRejection, TopicStatus, TopicUpdate, TopicView, TurnTerms, TurnView,
    };
}

/// The web, as far as an embedder lends it to models.
pub mod web {
    pub use pilothouse_adapters::web::{Web, WebFetch, WebHit, WebPage, WebQuery, WebSearch};
}

/// Pages of the manual; their links and code are checked with the rest.
pub mod docs {
    #[doc = include_str!("../docs/architecture.md")]
    pub mod architecture {}
    #[doc = include_str!("../docs/audit.md")]
    pub mod audit {}
    #[doc = include_str!("../docs/chaos.md")]
    pub mod chaos {}
    #[doc = include_str!("../docs/figures.md")]
    pub mod figures {}
    #[doc = include_str!("../docs/guarantees.md")]
    pub mod guarantees {}
    #[doc = include_str!("../docs/harness.md")]
    pub mod harness {}
    #[doc = include_str!("../docs/providers.md")]
    pub mod providers {}
    #[doc = include_str!("../docs/observability.md")]
    pub mod observability {}
    #[doc = include_str!("../docs/testing.md")]
    pub mod testing {}
    /// Choices that a reader would ask about, with what they cost.
    pub mod decisions {
        #[doc = include_str!("../docs/decisions/bincode.md")]
        pub mod bincode {}
        #[doc = include_str!("../docs/decisions/crates.md")]
        pub mod crates {}
        #[doc = include_str!("../docs/decisions/decider.md")]
        pub mod decider {}
        #[doc = include_str!("../docs/decisions/faults.md")]
        pub mod faults {}
        #[doc = include_str!("../docs/decisions/frozen-surface.md")]
        pub mod frozen_surface {}
        #[doc = include_str!("../docs/decisions/models.md")]
        pub mod models {}
        #[doc = include_str!("../docs/decisions/sealer.md")]
        pub mod sealer {}
        #[doc = include_str!("../docs/decisions/simulation.md")]
        pub mod simulation {}
        #[doc = include_str!("../docs/decisions/sled-flush.md")]
        pub mod sled_flush {}
    }
}

/// The program in the README compiles and runs.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../README.md")]
mod readme {}
