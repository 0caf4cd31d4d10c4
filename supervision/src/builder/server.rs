//! A server as an embedder writes it down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_adapters::policy::ServerPolicy;
use pilothouse_adapters::server::Connector;
use pilothouse_messages::endpoint::{Endpoint, EndpointError};
use pilothouse_messages::error::StartError;
use pilothouse_messages::id::{IdError, ServerId, TenantId};
use pilothouse_messages::limits::{Limits, WAIT_MAX};
use pilothouse_messages::secret::Secret;
use pilothouse_messages::server::{Proxies, ServerDefinition, Transport};
use pilothouse_messages::tool::Effect;
use pilothouse_rules::registry::policy::ToolPolicy;

/// A definition with the way to reach it.
pub(crate) type Reachable = (ServerDefinition, Arc<dyn Connector>);

/// One MCP server, as a builder is given it. Nothing is checked before the start, which reports everything at once.
///
/// ```
/// use pilothouse_supervision::Server;
/// use pilothouse_messages::tool::Effect;
///
/// let files = Server::stdio("files", "mcp-server-filesystem").arg("/srv/data").effect("read_file", Effect::Reads);
/// ```
#[derive(Clone)]
#[must_use = "hand it to a builder"]
pub struct Server {
    definition: Result<ServerDefinition, (String, IdError)>,
    reach: Reach,
    #[cfg(feature = "mcp-oauth")]
    oauth: Option<pilothouse_adapters::oauth::OAuth>,
    /// What is wrong besides, once the id is right.
    wrong: Option<Wrong>,
}

/// Why a server cannot be reached, whatever its id is.
#[derive(Debug, Clone)]
enum Wrong {
    Url(EndpointError),
    Header(String),
    #[cfg(feature = "mcp-oauth")]
    OAuth,
}

#[derive(Clone)]
enum Reach {
    #[cfg(feature = "mcp")]
    Stdio,
    Http,
    Connector(Arc<dyn Connector>),
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.definition.fmt(f)
    }
}

impl Server {
    /// A child process that speaks MCP on its standard streams. The program is searched in `PATH`; it gets a safe base
    /// list of variables and those of [`env`](Self::env), never the whole environment.
    #[cfg(feature = "mcp")]
    pub fn stdio(id: impl Into<String>, command: impl Into<String>) -> Self {
        let transport = Transport::Stdio {
            command: command.into(),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        };
        Self::new(id, transport, Reach::Stdio)
    }

    /// A server in this process, over a pair of pipes.
    #[cfg(feature = "mcp")]
    pub fn in_memory(
        id: impl Into<String>,
        server: Arc<dyn pilothouse_adapters::mcp::InMemoryServer>,
    ) -> Self {
        let connector = Arc::new(pilothouse_adapters::mcp::PipeConnector::new(server));
        Self::with_connector(id, "in-memory", connector)
    }

    /// A server behind Streamable HTTP (MCP 2025-03-26 and later), at an `http` or `https` URL. Its user, password and
    /// query never reach a log or a view. Needs the feature `mcp-http`, and for `https` one that brings TLS.
    pub fn http(id: impl Into<String>, url: impl AsRef<str>) -> Self {
        Self::at(id, url.as_ref(), |endpoint| Transport::Http { endpoint, headers: Default::default() })
    }

    /// A server behind HTTP+SSE (MCP 2024-11-05), at the URL of its event stream. As [`http`](Self::http) otherwise.
    pub fn sse(id: impl Into<String>, url: impl AsRef<str>) -> Self {
        Self::at(id, url.as_ref(), |endpoint| Transport::Sse { endpoint, headers: Default::default() })
    }

    fn at(id: impl Into<String>, url: &str, transport: impl FnOnce(Endpoint) -> Transport) -> Self {
        match Endpoint::parse(url) {
            Ok(endpoint) => Self::new(id, transport(endpoint), Reach::Http),
            Err(error) => {
                let nowhere = Transport::InMemory { label: String::new() };
                Self { wrong: Some(Wrong::Url(error)), ..Self::new(id, nowhere, Reach::Http) }
            }
        }
    }

    /// A server that is reached in the embedder's own way; another `label` is another definition.
    pub fn with_connector(
        id: impl Into<String>,
        label: impl Into<String>,
        connector: Arc<dyn Connector>,
    ) -> Self {
        Self::new(id, Transport::InMemory { label: label.into() }, Reach::Connector(connector))
    }

    fn new(id: impl Into<String>, transport: Transport, reach: Reach) -> Self {
        let id = id.into();
        let definition = match ServerId::new(id.clone()) {
            Ok(id) => Ok(ServerDefinition::new(id, transport)),
            Err(error) => Err((id, error)),
        };
        Self {
            definition,
            reach,
            #[cfg(feature = "mcp-oauth")]
            oauth: None,
            wrong: None,
        }
    }

    /// What was written down so far, for tests of those who write it.
    #[cfg(test)]
    pub(super) fn defined(&self) -> Option<&ServerDefinition> {
        self.definition.as_ref().ok()
    }

    fn with(mut self, change: impl FnOnce(&mut ServerDefinition)) -> Self {
        if let Ok(definition) = &mut self.definition {
            change(definition);
        }
        self
    }

    /// What people see; the id if it is not said.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.with(|definition| definition.name = name)
    }

    /// Gives it to one tenant; without this it is everybody's.
    pub fn tenant(self, tenant: TenantId) -> Self {
        self.with(|definition| definition.tenant = Some(tenant))
    }

    /// Adds an argument (stdio).
    pub fn arg(self, arg: impl Into<String>) -> Self {
        let arg = arg.into();
        self.with(|definition| match &mut definition.transport {
            Transport::Stdio { args, .. } => args.push(arg),
            Transport::Http { .. } | Transport::Sse { .. } | Transport::InMemory { .. } => {}
        })
    }

    /// Adds arguments (stdio).
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, |server, arg| server.arg(arg))
    }

    /// Sets a variable of its environment (stdio); the value never reaches a log or a view.
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), Secret::new(value));
        self.with(|definition| match &mut definition.transport {
            Transport::Stdio { env, .. } => {
                env.insert(name, value);
            }
            Transport::Http { .. } | Transport::Sse { .. } | Transport::InMemory { .. } => {}
        })
    }

    /// Sends a header with every request (HTTP); the value never reaches a log or a view, and goes to no other origin
    /// that the server redirects to.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), Secret::new(value));
        let Ok(definition) = &mut self.definition else {
            return self;
        };
        match &mut definition.transport {
            Transport::Http { headers, .. } | Transport::Sse { headers, .. } => {
                headers.insert(name.to_ascii_lowercase(), value);
            }
            Transport::Stdio { .. } | Transport::InMemory { .. } => {
                self.wrong.get_or_insert(Wrong::Header(name));
            }
        }
        self
    }

    /// Sends this token with every request (HTTP), as `Authorization: Bearer …`.
    pub fn bearer(self, token: impl AsRef<str>) -> Self {
        self.header("authorization", format!("Bearer {}", token.as_ref()))
    }

    /// Logs in to it where it wants that (HTTP): OAuth 2.1, as MCP's "Authorization" says.
    #[cfg(feature = "mcp-oauth")]
    pub fn oauth(mut self, oauth: pilothouse_adapters::oauth::OAuth) -> Self {
        let over_http = |definition: &ServerDefinition| {
            matches!(definition.transport, Transport::Http { .. } | Transport::Sse { .. })
        };
        if self.definition.as_ref().is_ok_and(over_http) {
            self.oauth = Some(oauth);
        } else {
            self.wrong.get_or_insert(Wrong::OAuth);
        }
        self
    }

    /// Masks this text in whatever the server says, as the values of variables and headers are: for a key that stands
    /// among its arguments.
    pub fn secret(self, text: impl Into<String>) -> Self {
        let secret = Secret::new(text);
        self.with(|definition| definition.secrets.push(secret))
    }

    /// Whether the proxies and certificate authorities that this process's environment names are used: by HTTP, or by
    /// the child process. Without this they are not.
    pub fn proxies(self, proxies: Proxies) -> Self {
        self.with(|definition| definition.proxies = proxies)
    }

    /// Sets its working directory (stdio).
    pub fn cwd(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.with(|definition| match &mut definition.transport {
            Transport::Stdio { cwd, .. } => *cwd = Some(directory),
            Transport::Http { .. } | Transport::Sse { .. } | Transport::InMemory { .. } => {}
        })
    }

    /// Believes its annotations (`readOnlyHint` …). Without this every tool whose effect is not stated asks.
    pub fn trust_annotations(self) -> Self {
        self.with(|definition| definition.trust_annotations = true)
    }

    /// States the effect of one tool, by the name that the server gives it.
    pub fn effect(self, tool: impl Into<String>, effect: Effect) -> Self {
        let tool = tool.into();
        self.with(|definition| {
            definition.effects.insert(tool, effect);
        })
    }

    /// Makes one tool ask always.
    pub fn force_prompt(self, tool: impl Into<String>) -> Self {
        let tool = tool.into();
        self.with(|definition| definition.force_prompt.push(tool))
    }

    /// Lets a message of level [`Now`](pilothouse_messages::topic::Level::Now) cancel one tool while it runs. One that
    /// reads may always be cancelled so.
    pub fn interruptible(self, tool: impl Into<String>) -> Self {
        let tool = tool.into();
        self.with(|definition| definition.interruptible.push(tool))
    }

    /// Hides one tool.
    pub fn hide(self, tool: impl Into<String>) -> Self {
        let tool = tool.into();
        self.with(|definition| definition.disabled.push(tool))
    }

    /// Leaves only those of its tools that a rule like this means; several rules add up. A rule is a tool's raw, wire or
    /// legacy name, or a wildcard (`*`, `mcp__name__*`, `mcp:id`).
    pub fn allow(self, rule: impl Into<String>) -> Self {
        let rule = rule.into();
        self.with(|definition| definition.tools.allow.get_or_insert_default().push(rule))
    }

    /// Takes away those of its tools that this rule means, even if they are allowed; as [`allow`](Self::allow)
    /// otherwise.
    pub fn deny(self, rule: impl Into<String>) -> Self {
        let rule = rule.into();
        self.with(|definition| definition.tools.deny.push(rule))
    }

    /// Defines it, but does not run it until it is enabled.
    pub fn disabled(self) -> Self {
        self.with(|definition| definition.enabled = false)
    }

    /// Its own deadline from start to handshake.
    pub fn connect_timeout(self, within: Duration) -> Self {
        self.with(|definition| definition.connect_timeout = Some(within))
    }

    /// Its own deadline for a call.
    pub fn call_timeout(self, within: Duration) -> Self {
        self.with(|definition| definition.call_timeout = Some(within))
    }

    /// Its own silence before it is asked whether it still answers.
    pub fn probe_interval(self, silence: Duration) -> Self {
        self.with(|definition| definition.probe_interval = Some(silence))
    }

    /// Stops it after this long without a call or a refresh; the next one starts it, and waits for it within its own
    /// deadline. Its tools stay as they are meanwhile.
    pub fn idle_stop(self, idle: Duration) -> Self {
        self.with(|definition| definition.idle_stop = Some(idle))
    }

    /// The definition with its connector, if it is one.
    pub(crate) fn checked(
        self,
        limits: &Limits,
        policy: &Arc<dyn ServerPolicy>,
    ) -> Result<Reachable, StartError> {
        let mut definition = self.definition.map_err(|(text, source)| StartError::Id { text, source })?;
        let server = definition.id.clone();
        match self.wrong {
            None => {}
            Some(Wrong::Url(error)) => return Err(StartError::Url { server, reason: error.to_string() }),
            Some(Wrong::Header(name)) => {
                let reason = "only a server behind a URL is sent headers".to_owned();
                return Err(StartError::Header { server, name, reason });
            }
            #[cfg(feature = "mcp-oauth")]
            Some(Wrong::OAuth) => {
                let reason = "only a server behind a URL is logged in to".to_owned();
                return Err(StartError::Url { server, reason });
            }
        }
        if let Err(error) = ToolPolicy::faults(&definition.tools) {
            return Err(StartError::Rule { server, reason: error.to_string() });
        }
        let clamped = |wait: Duration| wait.min(WAIT_MAX);
        definition.connect_timeout = definition.connect_timeout.map(clamped);
        definition.call_timeout = definition.call_timeout.map(clamped);
        definition.probe_interval = definition.probe_interval.map(clamped);
        definition.idle_stop = definition.idle_stop.map(clamped);
        let connector: Arc<dyn Connector> = match self.reach {
            #[cfg(feature = "mcp")]
            Reach::Stdio => Arc::new(
                pilothouse_adapters::mcp::StdioConnector::new(&definition, limits).asking(policy.clone()),
            ),
            #[cfg(feature = "mcp-oauth")]
            Reach::Http if self.oauth.is_some() => logging_in(&definition, policy, self.oauth)?,
            Reach::Http => over_http(&definition, policy)?,
            Reach::Connector(connector) => connector,
        };
        // Without `mcp` nothing here has a bound or asks a policy.
        let _used = (limits, policy);
        Ok((definition, connector))
    }
}

#[cfg(not(feature = "mcp-http"))]
fn over_http(
    definition: &ServerDefinition,
    _policy: &Arc<dyn ServerPolicy>,
) -> Result<Arc<dyn Connector>, StartError> {
    Err(StartError::Feature { server: definition.id.clone(), feature: "mcp-http" })
}

#[cfg(feature = "mcp-http")]
fn over_http(
    definition: &ServerDefinition,
    policy: &Arc<dyn ServerPolicy>,
) -> Result<Arc<dyn Connector>, StartError> {
    use pilothouse_adapters::mcp::{HttpConnector, SseConnector};
    let connector = match &definition.transport {
        Transport::Sse { .. } => SseConnector::new(definition, policy.clone())
            .map(|connector| Arc::new(connector) as Arc<dyn Connector>),
        Transport::Http { .. } | Transport::Stdio { .. } | Transport::InMemory { .. } => {
            HttpConnector::new(definition, policy.clone())
                .map(|connector| Arc::new(connector) as Arc<dyn Connector>)
        }
    };
    connector.map_err(|bad| start_error(definition.id.clone(), bad))
}

#[cfg(feature = "mcp-oauth")]
fn logging_in(
    definition: &ServerDefinition,
    policy: &Arc<dyn ServerPolicy>,
    oauth: Option<pilothouse_adapters::oauth::OAuth>,
) -> Result<Arc<dyn Connector>, StartError> {
    use pilothouse_adapters::mcp::{HttpConnector, SseConnector};
    let Some(oauth) = oauth else { return over_http(definition, policy) };
    let connector = match &definition.transport {
        Transport::Sse { .. } => SseConnector::new(definition, policy.clone())
            .map(|connector| Arc::new(connector.logging_in(oauth)) as Arc<dyn Connector>),
        Transport::Http { .. } | Transport::Stdio { .. } | Transport::InMemory { .. } => {
            HttpConnector::new(definition, policy.clone())
                .map(|connector| Arc::new(connector.logging_in(oauth)) as Arc<dyn Connector>)
        }
    };
    connector.map_err(|bad| start_error(definition.id.clone(), bad))
}

#[cfg(feature = "mcp-http")]
fn start_error(server: ServerId, bad: pilothouse_adapters::mcp::BadHttp) -> StartError {
    use pilothouse_adapters::mcp::BadHttp;
    match bad {
        BadHttp::NoTls => StartError::Feature {
            server,
            feature: "rustls (or native-tls, or tls-no-provider), since its URL is https",
        },
        BadHttp::Header { name, reason } => StartError::Header { server, name, reason },
        other => StartError::Url { server, reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
