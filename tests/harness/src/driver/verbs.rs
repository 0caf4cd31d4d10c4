//! What each verb does to the runtime, and what its reply says.

use std::sync::Arc;

use pilothouse::ServerHandle;
use pilothouse::approval::{Decision, GrantId, GrantOffer, GrantReach, GrantScope};
use pilothouse::call::{CallOutcome, CallResult};
use pilothouse::digest::Digest;
use pilothouse::id::{ApprovalId, ServerId, TopicId};
use pilothouse::json::JsonText;
use pilothouse::model::scripted::ToolRef;
use pilothouse::tool::identity_digits;
use pilothouse::topic::TopicConfig;
use serde_json::{Value, json};

use super::models::Models;
use super::out::Fields;
use super::refusal::Refusal;
use super::show;
use super::stage::Stage;
use super::windows::{Kept, loaded};
use crate::line::{
    AttachFields, CallFields, Cards, ConfigureFields, DecideFields, DetachFields, EnableFields, ListFields,
    Reach, RefreshFields, RestartFields, RevokeFields, Scope, SendFields, StopFields, TopicFields,
    ViewFields,
};

/// What a verb comes to: the fields of its reply.
pub(super) type Answered = Result<Fields, Refusal>;

impl Stage {
    pub(super) async fn open_topic(&mut self, fields: TopicFields) -> Answered {
        let id = fields.topic;
        // Before the start: a stored topic that owes a step finds its script.
        self.models.play(&id, fields.model.script);
        let mut config = TopicConfig::new(Models::name(&id)).patched(&fields.config.patch());
        config.tenant = fields.tenant.unwrap_or_default();
        let topic = self.runtime().await?.open_topic(id.as_str(), config).await?;
        let view = loaded(&topic).await?;
        if !self.windows.contains_key(&id) {
            self.open_windows(&id, topic, Kept::default()).await?;
        }
        Ok(show::fields(json!({"topic": id, "status": view.status})))
    }

    pub(super) async fn send(&mut self, fields: SendFields) -> Answered {
        let topic = self.topic(&fields.topic).await?;
        let sent = topic.send_at(fields.level.unwrap_or_default(), fields.text, fields.key).await?;
        Ok(show::sent(&fields.topic, &sent))
    }

    pub(super) async fn stop(&mut self, fields: StopFields) -> Answered {
        let turn = self.topic(&fields.topic).await?.stop("harness").await?;
        Ok(show::fields(json!({"topic": fields.topic, "turn": turn})))
    }

    pub(super) async fn configure(&mut self, fields: ConfigureFields) -> Answered {
        let configured = self.topic(&fields.topic).await?.configure(fields.config.patch()).await?;
        Ok(show::fields(json!({
            "topic": fields.topic, "at_next_turn": configured.waits(),
            "now": configured.now, "next_turn": configured.next_turn,
        })))
    }

    pub(super) async fn decide(&mut self, fields: DecideFields) -> Answered {
        let runtime = self.runtime().await?;
        let decision = Decision {
            verdict: fields.decision,
            by: fields.by,
            reason: fields.reason,
            // A text that is no digest is the digest of no card.
            digest: fields
                .digest
                .map(|text| Digest::parse(&text).unwrap_or_else(|| Digest::of_bytes(&[text.as_bytes()]))),
            tenant: fields.tenant,
            arguments: fields.arguments.as_ref().map(JsonText::from),
            grant: offer(fields.scope.unwrap_or_default(), fields.of.unwrap_or_default()),
        };
        let mut answers = Vec::new();
        let decisions =
            self.chosen(fields.approval)?.into_iter().map(|approval| (approval, decision.clone()));
        for (approval, answer) in runtime.decide_each(decisions).await {
            answers.push(show::answer(approval, &answer?));
        }
        Ok(show::fields(json!({"answers": answers})))
    }

    pub(super) async fn grants(&mut self) -> Answered {
        let grants = self.runtime().await?.grants();
        Ok(show::fields(json!({"grants": grants.iter().map(show::grant).collect::<Vec<_>>()})))
    }

    pub(super) async fn revoke(&mut self, fields: RevokeFields) -> Answered {
        let runtime = self.runtime().await?;
        let named = match fields.grant.as_str() {
            "last" => {
                runtime.grants().into_iter().max_by_key(|grant| grant.given_at).map(|grant| grant.grant)
            }
            text => GrantId::parse(text),
        };
        let Some(grant) = named else {
            let words = format!("\"{}\" is no grant: write its 64 hex digits, or \"last\"", fields.grant);
            return Err(Refusal::new("malformed_id", words));
        };
        let answer = runtime.revoke(grant, fields.by).await?;
        Ok(show::fields(json!({"grant": grant, "answer": answer})))
    }

    fn chosen(&self, cards: Cards) -> Result<Vec<ApprovalId>, Refusal> {
        match cards {
            Cards::All => Ok(self.out.cards()),
            Cards::Last => match self.out.cards().pop() {
                Some(last) => Ok(vec![last]),
                None => Err(Refusal::new("unknown_approval", "no card was printed so far")),
            },
            Cards::Id(text) => match ApprovalId::parse(&text) {
                Some(approval) => Ok(vec![approval]),
                None => {
                    let words =
                        format!("\"{text}\" is no approval id: write its 64 hex digits, \"last\" or \"all\"");
                    Err(Refusal::new("malformed_id", words))
                }
            },
        }
    }

    pub(super) async fn approvals(&mut self) -> Answered {
        let runtime = self.runtime().await?;
        let cards = runtime.approvals();
        cards.iter().for_each(|card| self.out.note_card(card.approval));
        let shown = cards.iter().map(|card| show::card_with(card, runtime.change_of(card.approval).as_ref()));
        Ok(show::fields(json!({"cards": shown.collect::<Vec<_>>()})))
    }

    pub(super) async fn attach(&mut self, fields: AttachFields) -> Answered {
        self.windows(&fields.topic).await?.attach(&fields.name, fields.buffer)
    }

    pub(super) async fn detach(&mut self, fields: DetachFields) -> Answered {
        self.windows(&fields.topic).await?.detach(&fields.name)
    }

    pub(super) async fn view(&mut self, fields: ViewFields) -> Answered {
        let topic = self.topic(&fields.topic).await?;
        Ok(show::view(loaded(&topic).await?.as_ref()))
    }

    pub(super) async fn surface(&mut self, fields: ViewFields) -> Answered {
        let topic = self.topic(&fields.topic).await?;
        loaded(&topic).await?;
        let surface = topic.surface();
        let mut shown = surface.map(|surface| show::surface(&surface)).unwrap_or_default();
        shown.insert("topic".into(), json!(fields.topic));
        shown.insert("warnings".into(), json!(topic.warnings()));
        Ok(shown)
    }

    pub(super) async fn tree(&mut self) -> Answered {
        Ok(show::tree(&self.runtime().await?.tree()))
    }

    pub(super) async fn list(&mut self, fields: ListFields) -> Answered {
        Ok(show::listing(&self.runtime().await?.server(&fields.server)?.list(), self.out.now()))
    }

    pub(super) async fn refresh(&mut self, fields: RefreshFields) -> Answered {
        let revision = self.runtime().await?.server(&fields.server)?.refresh().await?;
        Ok(show::fields(json!({"server": fields.server, "revision": revision})))
    }

    pub(super) async fn restart_server(&mut self, fields: RestartFields) -> Answered {
        self.runtime().await?.server(&fields.id)?.restart().await?;
        Ok(show::fields(json!({"server": fields.id})))
    }

    pub(super) async fn remove_server(&mut self, fields: RestartFields) -> Answered {
        self.runtime().await?.remove_server(&fields.id).await?;
        Ok(show::fields(json!({"server": fields.id})))
    }

    pub(super) async fn enable_server(&mut self, fields: EnableFields) -> Answered {
        let server = self.runtime().await?.server(&fields.id)?;
        if fields.enabled {
            server.enable().await?
        } else {
            server.disable().await?
        }
        Ok(show::fields(json!({"server": fields.id, "enabled": fields.enabled})))
    }

    /// `None` if the reply comes later, when the call is over.
    pub(super) async fn call(&mut self, line: usize, fields: CallFields) -> Result<Option<Fields>, Refusal> {
        if let Some(topic) = &fields.topic {
            return self.call_for(line, topic.clone(), fields).await;
        }
        let Some((server, tool)) = self.callee(fields.tool).await? else {
            let words = "no server offers a tool of this wire name: look at `surface`";
            return Ok(Some(show::result(&CallResult::said(CallOutcome::Rejected, words))));
        };
        let arguments: Value = fields.arguments;
        if !fields.background {
            return Ok(Some(show::result(&server.call(&tool, &arguments).await)));
        }
        let out = Arc::clone(&self.out);
        self.calls.spawn(async move {
            let result = server.call(&tool, &arguments).await;
            out.reply(line, show::result(&result));
        });
        Ok(None)
    }

    /// A call on behalf of a topic: within what the topic may use.
    async fn call_for(
        &mut self,
        line: usize,
        topic: TopicId,
        fields: CallFields,
    ) -> Result<Option<Fields>, Refusal> {
        let topic = self.topic(&topic).await?;
        loaded(&topic).await?;
        let tool = match fields.tool {
            ToolRef::Name(name) => name,
            of @ ToolRef::Of(_) => {
                let callee = self.callee(of).await?;
                // A tool that is not listed is refused by its raw name.
                callee.map_or_else(String::new, |(server, tool)| server.tool_name(&tool).unwrap_or(tool))
            }
        };
        if !fields.background {
            return Ok(Some(show::result(&topic.call(&tool, &fields.arguments).await?)));
        }
        let out = Arc::clone(&self.out);
        self.calls.spawn(async move {
            match topic.call(&tool, &fields.arguments).await {
                Ok(result) => out.reply(line, show::result(&result)),
                Err(error) => out.refused(Some(line), &error.into()),
            }
        });
        Ok(None)
    }

    /// Who runs a tool, and what it calls the tool.
    async fn callee(&mut self, tool: ToolRef) -> Result<Option<(ServerHandle, String)>, Refusal> {
        let runtime = self.runtime().await?;
        match tool {
            ToolRef::Of(of) => {
                let server = ServerId::new(of.server)
                    .map_err(|error| Refusal::new("malformed_id", format!("`tool.server`: {error}")))?;
                Ok(Some((runtime.server(&server)?, of.tool)))
            }
            ToolRef::Name(name) => {
                let mut servers = runtime.servers().into_iter();
                Ok(servers.find_map(|server| offered(&server, &name).map(|tool| (server, tool))))
            }
        }
    }
}

/// What a decision grants beside its card.
fn offer(scope: Scope, of: Reach) -> Option<GrantOffer> {
    let reach = match of {
        Reach::Tool => GrantReach::Tool,
        Reach::Server => GrantReach::Server,
    };
    let scope = match scope {
        Scope::Once => return None,
        Scope::Turn => GrantScope::Turn,
        Scope::Topic => GrantScope::Topic,
        Scope::Always => GrantScope::Always,
    };
    Some(GrantOffer::new(scope, reach))
}

/// The server's own name of the tool that has this wire name. A wire name ends in digits of its tool's identity.
fn offered(server: &ServerHandle, name: &str) -> Option<String> {
    let listing = server.list();
    let mut tools = listing.tools().iter().map(|tool| &tool.name);
    tools.find(|tool| name.ends_with(&identity_digits(server.id().as_str(), tool))).cloned()
}
