//! Decides what a grant covers: the grants that hold, found by the tool that a call names.
//!
//! A grant covers a call if everything fits: tenant, place, tool, fingerprint, definition, every rule about the
//! arguments, and the time. What cannot be told to fit does not fit.

mod path;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pilothouse_messages::approval::{Card, Decision, GrantFault, Verdict};
use pilothouse_messages::digest::{Digest, canonical};
use pilothouse_messages::grant::{
    ArgumentRule, Grant, GrantOffer, GrantPlace, GrantReach, GrantScope, GrantSubject, digest_of_arguments,
};
use pilothouse_messages::id::{GrantId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::limits::Limits;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::ToolSource;
use pilothouse_messages::topic::ResolvedTool;
use serde_json::Value;

use crate::cut::{NAME_BYTES, cut};

/// The most fingerprints that one grant of a server holds: what a record can keep many times over.
const FINGERPRINTS_MAX: usize = 8_192;
/// The most text in one rule about arguments.
const RULE_BYTES_MAX: usize = 2 << 10;

/// A call, as grants look at it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Whose.
    pub tenant: &'a TenantId,
    /// Of which topic; `None` outside all.
    pub topic: Option<&'a TopicId>,
    /// In which turn; `None` outside all.
    pub turn: Option<TurnId>,
    /// The tool as it stands now.
    pub tool: &'a ResolvedTool,
    /// The arguments.
    pub arguments: &'a JsonText,
    /// The time.
    pub now: Timestamp,
}

/// What the grants say about one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The grant that covers it.
    pub grant: Option<GrantId>,
    /// Grants that were given for this tool, or its server, as it is no longer.
    pub void: Vec<GrantId>,
}

/// Where a grant is filed: what a call knows before its arguments are read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct File {
    tenant: TenantId,
    subject: GrantSubject,
    /// For grants of exact arguments, their digest: many of one tool cost a call nothing.
    exact: Option<Digest>,
}

impl File {
    fn of(grant: &Grant) -> Self {
        let exact = grant.arguments.iter().find_map(|rule| match rule {
            ArgumentRule::Exact { digest } => Some(*digest),
            ArgumentRule::Equals { .. } | ArgumentRule::Under { .. } => None,
        });
        Self { tenant: grant.tenant.clone(), subject: grant.subject.clone(), exact }
    }
}

/// The grants that hold. One writer keeps it; readers find a call's grants without looking at any other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GrantBook {
    grants: BTreeMap<GrantId, Arc<Grant>>,
    files: HashMap<File, Vec<Arc<Grant>>>,
    /// How many of a tenant's grants of a subject are of exact arguments; only then a call's digest is taken.
    exact: HashMap<(TenantId, GrantSubject), usize>,
    /// By when they end.
    ends: BTreeSet<(Timestamp, GrantId)>,
}

impl GrantBook {
    /// Files a grant; one of the same name is replaced.
    pub fn insert(&mut self, grant: Arc<Grant>) {
        self.remove(grant.grant);
        let file = File::of(&grant);
        if file.exact.is_some() {
            *self.exact.entry((file.tenant.clone(), file.subject.clone())).or_default() += 1;
        }
        if let Some(at) = grant.expires_at {
            self.ends.insert((at, grant.grant));
        }
        self.files.entry(file).or_default().push(grant.clone());
        self.grants.insert(grant.grant, grant);
    }

    /// Takes a grant out.
    pub fn remove(&mut self, name: GrantId) -> Option<Arc<Grant>> {
        let grant = self.grants.remove(&name)?;
        let file = File::of(&grant);
        if let Some(filed) = self.files.get_mut(&file) {
            filed.retain(|held| held.grant != name);
            if filed.is_empty() {
                self.files.remove(&file);
            }
        }
        if file.exact.is_some() {
            let counted = (file.tenant, file.subject);
            let left = self.exact.get(&counted).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => drop(self.exact.remove(&counted)),
                left => drop(self.exact.insert(counted, left)),
            }
        }
        if let Some(at) = grant.expires_at {
            self.ends.remove(&(at, name));
        }
        Some(grant)
    }

    /// The grant of this name.
    pub fn get(&self, name: GrantId) -> Option<&Arc<Grant>> {
        self.grants.get(&name)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Grant>> {
        self.grants.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// `true` if there is none.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// When the next one ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Those whose time is over.
    pub fn over(&self, now: Timestamp) -> impl Iterator<Item = GrantId> {
        self.ends.iter().take_while(move |(at, _)| *at <= now).map(|(_, grant)| *grant)
    }

    /// Grants of turns of this topic before this one.
    pub fn of_earlier_turns<'a>(
        &'a self,
        topic: &'a TopicId,
        turn: TurnId,
    ) -> impl Iterator<Item = GrantId> + 'a {
        let earlier = move |grant: &&Arc<Grant>| match &grant.place {
            GrantPlace::Turn { topic: of, turn: then } => of == topic && *then < turn,
            GrantPlace::Topic { .. } | GrantPlace::Always => false,
        };
        self.grants.values().filter(earlier).map(|grant| grant.grant)
    }

    /// What the grants say about one call.
    pub fn covers(&self, asked: &Asked<'_>) -> Coverage {
        let mut found = Coverage::default();
        if self.grants.is_empty() {
            return found;
        }
        let of_tool = GrantSubject::Tool(asked.tool.source.clone());
        let of_server = asked.tool.source.server().cloned().map(GrantSubject::Server);
        let mut arguments = Arguments { text: asked.arguments, value: None, digest: None };
        for subject in [Some(of_tool), of_server].into_iter().flatten() {
            let tenant = asked.tenant.clone();
            let counted = (tenant, subject);
            let exact = self.exact.contains_key(&counted).then(|| arguments.digest());
            let (tenant, subject) = counted;
            for exact in exact.map(Some).into_iter().chain([None]) {
                let file = File { tenant: tenant.clone(), subject: subject.clone(), exact };
                for grant in self.files.get(&file).into_iter().flatten() {
                    match fit(grant, asked, &mut arguments) {
                        Fit::Covers if found.grant.is_none() => found.grant = Some(grant.grant),
                        Fit::Void => found.void.push(grant.grant),
                        Fit::Covers | Fit::No => {}
                    }
                }
            }
        }
        found
    }
}

/// Arguments that are parsed and digested at most once, and only if a rule asks.
struct Arguments<'a> {
    text: &'a JsonText,
    value: Option<Value>,
    digest: Option<Digest>,
}

impl Arguments<'_> {
    fn value(&mut self) -> &Value {
        self.value.get_or_insert_with(|| self.text.value())
    }

    fn digest(&mut self) -> Digest {
        if let Some(digest) = self.digest {
            return digest;
        }
        let digest = digest_of_arguments(self.value());
        self.digest = Some(digest);
        digest
    }
}

enum Fit {
    Covers,
    No,
    Void,
}

fn fit(grant: &Grant, asked: &Asked<'_>, arguments: &mut Arguments<'_>) -> Fit {
    let known = grant.fingerprints.binary_search(&asked.tool.fingerprint).is_ok();
    let void = match &grant.subject {
        // The server's other tools are still what they were.
        GrantSubject::Server(_) => grant.definition != asked.tool.definition,
        GrantSubject::Tool(_) => grant.definition != asked.tool.definition || !known,
    };
    if void {
        return Fit::Void;
    }
    let here = match &grant.place {
        GrantPlace::Turn { topic, turn } => asked.topic == Some(topic) && asked.turn == Some(*turn),
        GrantPlace::Topic { topic } => asked.topic == Some(topic),
        GrantPlace::Always => true,
    };
    let holds = known
        && here
        && grant.tenant == *asked.tenant
        && grant.expires_at.is_none_or(|at| asked.now < at)
        && grant.arguments.iter().all(|rule| keeps(rule, arguments));
    if holds { Fit::Covers } else { Fit::No }
}

fn keeps(rule: &ArgumentRule, arguments: &mut Arguments<'_>) -> bool {
    match rule {
        ArgumentRule::Exact { digest } => arguments.digest() == *digest,
        ArgumentRule::Equals { pointer, value } => {
            let found = arguments.value().pointer(pointer);
            found.is_some_and(|found| canonical(found) == canonical(&value.value()))
        }
        ArgumentRule::Under { pointer, path, case } => {
            let found = arguments.value().pointer(pointer).and_then(Value::as_str);
            found.is_some_and(|found| path::is_under(found, path, *case))
        }
    }
}

/// The grant that a decision gives, if it asks for one.
pub fn given(
    card: &Card,
    decision: &Decision,
    present: &[Digest],
    now: Timestamp,
    limits: &Limits,
) -> Result<Option<Grant>, GrantFault> {
    let Some(offer) = &decision.grant else { return Ok(None) };
    if decision.verdict == Verdict::Deny {
        return Err(GrantFault::OfDenial);
    }
    check_rules(offer, limits)?;
    let turn_ends = now.after(limits.approval);
    let topic = card.topic.clone();
    // A turn that nobody ends by a record here is over at the latest when no card of it can be open any more.
    let (place, expires_at) = match offer.scope {
        GrantScope::Turn => {
            let at = offer.expires_at.map_or(turn_ends, |at| at.min(turn_ends));
            (GrantPlace::Turn { topic, turn: card.call.turn }, Some(at))
        }
        GrantScope::Topic => (GrantPlace::Topic { topic }, offer.expires_at),
        GrantScope::Always => (GrantPlace::Always, offer.expires_at),
    };
    if expires_at.is_some_and(|at| at <= now) {
        return Err(GrantFault::Over);
    }
    let (subject, mut fingerprints) = match (offer.of, &card.source) {
        (GrantReach::Tool, source) => (GrantSubject::Tool(source.clone()), vec![card.fingerprint]),
        (GrantReach::Server, ToolSource::Mcp { server, .. }) => {
            let present = present.iter().copied().chain([card.fingerprint]);
            (GrantSubject::Server(server.clone()), present.collect())
        }
        (GrantReach::Server, ToolSource::Builtin { .. }) => return Err(GrantFault::NoServer),
    };
    fingerprints.sort_unstable();
    fingerprints.dedup();
    if fingerprints.len() > FINGERPRINTS_MAX {
        return Err(GrantFault::TooMany {
            what: "the server offers too many tools",
            limit: FINGERPRINTS_MAX,
        });
    }
    Ok(Some(Grant {
        grant: GrantId::of(card.approval),
        approval: card.approval,
        tenant: card.tenant.clone(),
        place,
        subject,
        fingerprints,
        definition: card.definition,
        arguments: offer.arguments.clone(),
        by: cut(&decision.by, NAME_BYTES).to_owned(),
        reason: decision.reason.as_deref().map(|reason| cut(reason, limits.description_bytes).to_owned()),
        given_at: now,
        expires_at,
    }))
}

fn check_rules(offer: &GrantOffer, limits: &Limits) -> Result<(), GrantFault> {
    if offer.arguments.len() > limits.grant_rules {
        return Err(GrantFault::TooMany {
            what: "too many rules about arguments",
            limit: limits.grant_rules,
        });
    }
    for rule in &offer.arguments {
        let (pointer, reason) = match rule {
            ArgumentRule::Exact { .. } => continue,
            ArgumentRule::Equals { pointer, value } => {
                (pointer, too_long(value.as_str()).or_else(|| pointer_fault(pointer)))
            }
            ArgumentRule::Under { pointer, path, case: _ } => {
                let fault = path::components(path).is_none().then_some("its path is no path");
                (pointer, too_long(path).or(fault).or_else(|| pointer_fault(pointer)))
            }
        };
        if let Some(reason) = reason {
            return Err(GrantFault::Rule { pointer: cut(pointer, NAME_BYTES).to_owned(), reason });
        }
    }
    Ok(())
}

fn too_long(text: &str) -> Option<&'static str> {
    (text.len() > RULE_BYTES_MAX).then_some("its text is longer than 2 KiB")
}

fn pointer_fault(pointer: &str) -> Option<&'static str> {
    let is_one = pointer.is_empty() || pointer.starts_with('/');
    too_long(pointer).or((!is_one).then_some("a JSON Pointer begins with `/`"))
}

#[cfg(test)]
mod tests;
