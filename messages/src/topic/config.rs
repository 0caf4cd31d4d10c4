//! What an embedder chooses for a topic.

use serde::{Deserialize, Serialize};

use crate::id::{ServerId, TenantId};
use crate::tool::ToolLists;
use crate::topic::terms::{AfterCrash, Budget, Claim, Steering, TurnTerms};

/// How freely tools run without a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads run; everything else asks.
    #[default]
    Default,
    /// Reads and edits run; everything else asks.
    AcceptEdits,
    /// Reads run; everything else is denied.
    Plan,
    /// Reads run; about everything else the embedder's classifier says whether it runs.
    Auto,
    /// Everything runs that no deny list, guard or tool of its own wants asked.
    #[serde(alias = "bypassPermissions")]
    Bypass,
}

/// What becomes of a call that needs a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Headless {
    /// It is parked: a card waits for a person, also over a restart.
    #[default]
    Park,
    /// It is denied: nobody is there to be asked.
    Deny,
}

/// The settings of one topic. Stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicConfig {
    /// Whose topic it is.
    pub tenant: TenantId,
    /// The model's name; the builder's resolver turns it into a model.
    pub model: String,
    /// How freely tools run.
    pub mode: PermissionMode,
    /// Steps in one turn; `None` takes the runtime's limit.
    pub max_steps: Option<u32>,
    /// The servers whose tools it may use; `None` means every server that its tenant may use.
    pub servers: Option<Vec<ServerId>>,
    /// The embedder's functions that it may use; `None` means all.
    pub builtins: Option<Vec<String>>,
    /// How long a pinned surface lives while idle, in milliseconds; `None` takes the runtime's limit.
    pub surface_ttl_ms: Option<u64>,
    /// How long a card waits for a person, in milliseconds; `None` takes the runtime's limit.
    pub approval_ttl_ms: Option<u64>,
    /// What becomes of a call that needs a person. Stored by an event of its own, since the bytes of this type are
    /// frozen.
    #[serde(skip)]
    pub headless: Headless,
    /// Which of these tools it may use after all. Stored by an event of its own, like the next one.
    #[serde(skip)]
    pub tools: ToolLists,
    /// The model's context window, in tokens; `None` takes the model's own, or 32 000 where nobody knows. It decides
    /// which tools are shown.
    #[serde(skip)]
    pub context_window: Option<u64>,
    /// The terms of its turns. Stored by an event of their own.
    #[serde(skip)]
    pub turns: TurnTerms,
}

impl TopicConfig {
    /// The defaults, with this model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            tenant: TenantId::default(),
            model: model.into(),
            mode: PermissionMode::Default,
            max_steps: None,
            servers: None,
            builtins: None,
            surface_ttl_ms: None,
            approval_ttl_ms: None,
            headless: Headless::Park,
            tools: ToolLists::default(),
            context_window: None,
            turns: TurnTerms::default(),
        }
    }

    /// This configuration with the patch laid over it.
    #[must_use]
    pub fn patched(&self, patch: &ConfigPatch) -> Self {
        let mut next = self.clone();
        if let Some(model) = &patch.model {
            next.model.clone_from(model);
        }
        if let Some(mode) = patch.mode {
            next.mode = mode;
        }
        if let Some(steps) = patch.max_steps {
            next.max_steps = Some(steps);
        }
        if let Some(servers) = &patch.servers {
            next.servers = Some(servers.clone());
        }
        if let Some(builtins) = &patch.builtins {
            next.builtins = Some(builtins.clone());
        }
        next.surface_ttl_ms = patch.surface_ttl_ms.or(next.surface_ttl_ms);
        next.approval_ttl_ms = patch.approval_ttl_ms.or(next.approval_ttl_ms);
        next.headless = patch.headless.unwrap_or(next.headless);
        if let Some(tools) = &patch.tools {
            next.tools.clone_from(tools);
        }
        next.context_window = patch.context_window.or(next.context_window);
        next.turns.steering = patch.steering.unwrap_or(next.turns.steering);
        next.turns.claim = patch.claim.unwrap_or(next.turns.claim);
        next.turns.after_crash = patch.after_crash.unwrap_or(next.turns.after_crash);
        next.turns.budget = patch.budget.unwrap_or(next.turns.budget);
        next
    }
}

/// Changes to a configuration; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigPatch {
    /// Another model.
    pub model: Option<String>,
    /// Another mode.
    pub mode: Option<PermissionMode>,
    /// Another step limit.
    pub max_steps: Option<u32>,
    /// Another set of servers.
    pub servers: Option<Vec<ServerId>>,
    /// Another set of functions.
    pub builtins: Option<Vec<String>>,
    /// Another surface lifetime.
    pub surface_ttl_ms: Option<u64>,
    /// Another patience.
    pub approval_ttl_ms: Option<u64>,
    /// Another fate of calls that need a person.
    pub headless: Option<Headless>,
    /// Other lists of tools, in place of both.
    pub tools: Option<ToolLists>,
    /// Another context window.
    pub context_window: Option<u64>,
    /// Another way in which messages join a turn.
    pub steering: Option<Steering>,
    /// Another number of messages that start one turn.
    pub claim: Option<Claim>,
    /// Another fate of a turn that a crash has cut off.
    pub after_crash: Option<AfterCrash>,
    /// Another budget, in place of all of it.
    pub budget: Option<Budget>,
}
