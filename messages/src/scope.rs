//! Which tools a topic may use.

use std::fmt;
use std::sync::Arc;

use crate::id::{ServerId, TenantId};
use crate::registry::Entry;
use crate::tool::{ToolLists, ToolSource};

/// Which tools a topic may use.
///
/// Sets are kept sorted and without duplicates, so that two scopes are equal exactly if they admit the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    tenant: TenantId,
    servers: Option<Vec<ServerId>>,
    builtins: Option<Vec<String>>,
    lists: Option<Judged>,
}

/// Lists, and what they let through.
#[derive(Clone)]
struct Judged {
    lists: ToolLists,
    admits: Arc<dyn Fn(&Entry) -> bool + Send + Sync>,
}

impl PartialEq for Judged {
    fn eq(&self, other: &Self) -> bool {
        self.lists == other.lists
    }
}

impl Eq for Judged {}

impl fmt::Debug for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lists.fmt(f)
    }
}

impl Scope {
    /// A scope; `None` admits every server, or every function, that the tenant may use.
    pub fn new(tenant: TenantId, servers: Option<Vec<ServerId>>, builtins: Option<Vec<String>>) -> Self {
        Self { tenant, servers: servers.map(as_set), builtins: builtins.map(as_set), lists: None }
    }

    /// This scope, narrowed by lists; `admits` says what they let through and depends on them alone.
    #[must_use]
    pub fn narrowed(
        mut self,
        lists: ToolLists,
        admits: impl Fn(&Entry) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.lists = (!lists.is_open()).then(|| Judged { lists, admits: Arc::new(admits) });
        self
    }

    /// Whose topic it is.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Whether the server is among the chosen ones. Says nothing about whose it is.
    pub fn admits_server(&self, server: &ServerId) -> bool {
        self.servers.as_ref().is_none_or(|chosen| chosen.binary_search(server).is_ok())
    }

    /// Whether the tool may be used: chosen, the tenant's own or everybody's, and active by its own word.
    pub fn admits(&self, entry: &Entry) -> bool {
        let is_chosen = match &entry.source {
            ToolSource::Mcp { server, .. } => self.admits_server(server),
            ToolSource::Builtin { name } => {
                self.builtins.as_ref().is_none_or(|chosen| chosen.binary_search(name).is_ok())
            }
        };
        is_chosen
            && entry.tenant.as_ref().is_none_or(|tenant| *tenant == self.tenant)
            && self.lists.as_ref().is_none_or(|judged| (judged.admits)(entry))
            && entry.applies.as_ref().is_none_or(|applies| applies.to(self))
    }
}

fn as_set<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items.dedup();
    items
}

/// In which scopes a tool is active, as its owner says.
///
/// Two are equal only if one is a clone of the other.
#[derive(Clone)]
pub struct Applies(Arc<dyn Fn(&Scope) -> bool + Send + Sync>);

impl Applies {
    /// Active where the predicate holds. It is asked whenever tools are read, so it has to be quick, and it must not
    /// panic: whoever takes one from outside catches that first.
    pub fn new(predicate: impl Fn(&Scope) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }

    /// Whether the tool is active in this scope.
    pub fn to(&self, scope: &Scope) -> bool {
        (self.0)(scope)
    }
}

impl PartialEq for Applies {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Applies {}

impl fmt::Debug for Applies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Applies")
    }
}
