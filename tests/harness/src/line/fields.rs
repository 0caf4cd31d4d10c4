//! The fields of the verbs that do something.

use std::collections::BTreeMap;

use pilothouse::approval::Verdict;
use pilothouse::id::{ServerId, TenantId, TopicId};
use pilothouse::model::scripted::{Step, ToolRef};
use pilothouse::secret::Secret;
use pilothouse::tool::{Effect, ToolLists};
use pilothouse::topic::{
    AfterCrash, Budget, Claim, ConfigPatch, Headless, HistoryCursor, Level, PermissionMode, Steering,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::peer::Script;

/// `server`: a server as the embedder defines it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFields {
    /// Stable, also over renames.
    pub id: ServerId,
    /// What people see.
    pub name: Option<String>,
    /// How it is reached.
    pub transport: TransportFields,
    /// Its connect deadline.
    pub connect_timeout_ms: Option<u64>,
    /// Its call deadline.
    pub call_timeout_ms: Option<u64>,
    /// Stopped after this long without use, and started by the next one.
    pub idle_stop_ms: Option<u64>,
    /// Raw names of tools that always ask.
    #[serde(default)]
    pub force_prompt: Vec<String>,
    /// Raw names of tools that a message that cannot wait may cancel.
    #[serde(default)]
    pub interruptible: Vec<String>,
    /// Raw names of tools that are hidden.
    #[serde(default)]
    pub disabled: Vec<String>,
    /// Rules for the tools that there are at all.
    #[serde(default)]
    pub tools: ToolListFields,
    /// Whether its annotations are believed.
    #[serde(default)]
    pub trust_annotations: bool,
    /// What its tools do, by raw name.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
    /// Whose it is.
    pub tenant: Option<TenantId>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportFields {
    /// A child process.
    Stdio(StdioFields),
    /// Streamable HTTP.
    Http(UrlFields),
    /// HTTP+SSE.
    Sse(UrlFields),
    /// A scripted server in memory.
    Peer(Box<Script>),
}

/// A server behind a URL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlFields {
    /// Where it is.
    #[serde(deserialize_with = "secret")]
    pub url: Secret,
    /// Headers of every request.
    #[serde(default, deserialize_with = "secrets")]
    pub headers: BTreeMap<String, Secret>,
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdioFields {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that it gets.
    #[serde(default, deserialize_with = "secrets")]
    pub env: BTreeMap<String, Secret>,
}

/// A URL may hold a key.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

fn secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Secret>, D::Error> {
    let plain = BTreeMap::<String, String>::deserialize(deserializer)?;
    Ok(plain.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
}

/// `server_restart`, `server_remove`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartFields {
    /// Which server.
    pub id: ServerId,
}

/// `server_enable`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableFields {
    /// Which server.
    pub id: ServerId,
    /// On or off.
    pub enabled: bool,
}

/// `refresh`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshFields {
    /// Which server.
    pub server: ServerId,
}

/// `topic`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicFields {
    /// Its id.
    pub topic: TopicId,
    /// Whose it is.
    pub tenant: Option<TenantId>,
    /// Its model.
    pub model: ModelFields,
    /// Its settings.
    #[serde(default)]
    pub config: ConfigFields,
}

/// A topic's model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFields {
    /// What it does, step by step.
    pub script: Vec<Step>,
}

/// A topic's settings; what is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFields {
    /// How freely tools run.
    pub mode: Option<PermissionMode>,
    /// What becomes of a message that arrives while a turn runs.
    pub steering: Option<Steering>,
    /// Steps in one turn.
    pub max_steps: Option<u32>,
    /// The servers whose tools it may use.
    pub servers: Option<Vec<ServerId>>,
    /// The functions that it may use.
    pub builtins: Option<Vec<String>>,
    /// How long a pinned surface lives while idle.
    pub surface_ttl_ms: Option<u64>,
    /// How long a card waits for a person.
    pub approval_ttl_ms: Option<u64>,
    /// What becomes of a call that needs a person.
    pub headless: Option<Headless>,
    /// The model's context window, in tokens.
    pub context_window: Option<u64>,
    /// Which of these tools it may use after all.
    pub tools: Option<ToolListFields>,
    /// How many of the messages that wait start one turn.
    pub claim: Option<Claim>,
    /// What becomes of a turn that a crash has cut off.
    pub after_crash: Option<AfterCrash>,
    /// What one turn may use up.
    pub budget: Option<Budget>,
}

/// An allow list and a deny list of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolListFields {
    /// What is let through; everything if it is left out.
    pub allow: Option<Vec<String>>,
    /// What is not.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl ToolListFields {
    fn lists(&self) -> ToolLists {
        ToolLists { allow: self.allow.clone(), deny: self.deny.clone() }
    }
}

impl ConfigFields {
    /// The same as a change of a configuration.
    pub fn patch(&self) -> ConfigPatch {
        ConfigPatch {
            model: None,
            mode: self.mode,
            max_steps: self.max_steps,
            servers: self.servers.clone(),
            builtins: self.builtins.clone(),
            surface_ttl_ms: self.surface_ttl_ms,
            approval_ttl_ms: self.approval_ttl_ms,
            headless: self.headless,
            tools: self.tools.as_ref().map(ToolListFields::lists),
            context_window: self.context_window,
            steering: self.steering,
            claim: self.claim,
            after_crash: self.after_crash,
            budget: self.budget,
        }
    }
}

/// `send`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFields {
    /// To which topic.
    pub topic: TopicId,
    /// The message.
    pub text: String,
    /// Makes a repeated send harmless.
    pub key: Option<String>,
    /// How soon it is to be seen.
    pub level: Option<Level>,
}

/// `stop` and `continue`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopFields {
    /// Which topic.
    pub topic: TopicId,
}

/// `decide`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideFields {
    /// Which cards.
    pub approval: Cards,
    /// Run it or not.
    pub decision: Verdict,
    /// Who decides.
    pub by: String,
    /// The digest of the card that was shown, as text: also one that no card has.
    pub digest: Option<String>,
    /// How far the decision reaches.
    pub scope: Option<Scope>,
    /// What it reaches.
    pub of: Option<Reach>,
    /// The arguments to send instead of the card's.
    pub arguments: Option<Value>,
    /// For which tenant the decider speaks.
    pub tenant: Option<TenantId>,
    /// Why.
    pub reason: Option<String>,
}

/// Which cards a decision is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Cards {
    /// The last one that was printed.
    Last,
    /// All that were printed.
    All,
    /// The one of this id, as text: also one that does not exist.
    Id(String),
}

impl From<String> for Cards {
    fn from(text: String) -> Self {
        match text.as_str() {
            "last" => Self::Last,
            "all" => Self::All,
            _ => Self::Id(text),
        }
    }
}

/// How far a decision reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This card.
    #[default]
    Once,
    /// To the end of the turn.
    Turn,
    /// As long as the topic.
    Topic,
    /// Every topic of the tenant.
    Always,
}

/// What a decision reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The card's tool.
    #[default]
    Tool,
    /// Every tool that the card's server offers now.
    Server,
}

/// `revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeFields {
    /// The grant's id, as text; `last` is the one that was given last.
    pub grant: String,
    /// Who takes it back.
    pub by: String,
}

/// `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerFields {
    /// The question's id, as text; `last` is the one that was asked last.
    pub question: String,
    /// What is said.
    pub action: Action,
    /// The form's fields, for `accept`.
    pub content: Option<Value>,
    /// Who says it.
    pub by: String,
    /// The digest of the question that was shown.
    pub digest: Option<String>,
    /// For which tenant the answer speaks.
    pub tenant: Option<TenantId>,
}

/// What is said to a question, in MCP's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Yes, with the fields.
    Accept,
    /// No.
    Decline,
    /// Neither.
    Cancel,
}

/// `configure`: a topic and any of its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigureFields {
    /// Which topic.
    pub topic: TopicId,
    /// What changes.
    pub config: ConfigFields,
}

/// `attach`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachFields {
    /// To which topic.
    pub topic: TopicId,
    /// The subscriber's name.
    #[serde(rename = "as")]
    pub name: String,
    /// Events kept for it.
    pub buffer: Option<usize>,
}

/// `detach`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachFields {
    /// From which topic.
    pub topic: TopicId,
    /// The subscriber's name.
    #[serde(rename = "as")]
    pub name: String,
}

/// `call`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFields {
    /// Which tool.
    pub tool: ToolRef,
    /// The arguments as they are sent, also wrong ones (default: an empty object).
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// On behalf of which topic.
    pub topic: Option<TopicId>,
    /// Whether the next line is done before the answer is there; the reply comes with it.
    #[serde(default)]
    pub background: bool,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

/// `list`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListFields {
    /// Which server.
    pub server: ServerId,
}

/// `surface` and `view`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewFields {
    /// Which topic.
    pub topic: TopicId,
}

/// `history`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryFields {
    /// Which topic.
    pub topic: TopicId,
    /// `earlier` of the page before; the newest turns without it.
    #[serde(default)]
    pub cursor: Option<HistoryCursor>,
}

/// `export`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportFields {
    /// Which topic.
    pub topic: TopicId,
    /// The first record.
    #[serde(default)]
    pub from: u64,
}

/// `sleep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepFields {
    /// How long, in milliseconds.
    pub ms: u64,
}
