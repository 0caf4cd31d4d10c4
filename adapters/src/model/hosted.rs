//! Models behind the APIs of providers: OpenAI's chat completions and whatever speaks it, and Anthropic's messages.
//!
//! ```text
//! Account ──model(name)──▶ HostedModel ──run──▶ body (openai, anthropic) ──▶ talk: one POST ──▶ events ──▶ reply
//! Models: "account/name" ──▶ HostedModel
//! ```
//!
//! One request is sent for each run: the session says whether there is another try. A key goes to the account's own URL
//! only, since no redirect is followed, and is masked in every error.

use std::fmt;
use std::sync::Arc;

use pilothouse_messages::model::{Dialect, ModelLimits, ModelRequest};

use super::{Model, ModelStream};

mod account;
mod anthropic;
mod conversation;
mod failure;
mod openai;
mod resolver;
mod site;
mod talk;

pub use account::{Account, AccountError};
pub use resolver::Models;
use site::Site;
use talk::Talk;

/// Which API an account speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    /// OpenAI's chat completions.
    OpenAi,
    /// The same as others speak it, who keep to its older words.
    Compatible,
    /// Anthropic's messages.
    Anthropic,
}

/// One model of an account. A clone is the same, and so are its connections.
#[derive(Clone)]
pub struct HostedModel {
    site: Arc<Site>,
    name: Arc<str>,
}

impl HostedModel {
    /// The name that its provider knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Model for HostedModel {
    fn run(&self, request: ModelRequest) -> ModelStream {
        let (body, reply) = match self.site.api {
            Api::OpenAi | Api::Compatible => (
                openai::body(&self.name, &self.site, &request),
                talk::Reply::OpenAi(openai::Reply::default()),
            ),
            Api::Anthropic => {
                let reply = talk::Reply::Anthropic(anthropic::Reply::default());
                (anthropic::body(&self.name, &self.site, &request), reply)
            }
        };
        Box::pin(Talk::new(self.site.clone(), body.to_string(), reply))
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(self.site.context_window, self.site.max_output)
    }

    fn dialect(&self) -> Dialect {
        match self.site.api {
            Api::OpenAi => Dialect::OpenAi,
            // Nobody knows what stands behind it.
            Api::Compatible => Dialect::Common,
            Api::Anthropic => Dialect::Anthropic,
        }
    }
}

/// No part of a key is shown.
impl fmt::Debug for HostedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedModel").field("api", &self.site.api).field("name", &self.name).finish()
    }
}
