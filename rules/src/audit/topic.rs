//! What a topic's journal says: what was allowed on which basis, and whether that basis holds.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_messages::approval::{Verdict, card_digest};
use pilothouse_messages::audit::{
    AuditBasis, AuditFact, AuditFault, AuditGap, AuditLog, AuditReport, AuditRow, AuditTool, TopicRecords,
};
use pilothouse_messages::grant::{GrantPlace, GrantSubject};
use pilothouse_messages::id::{ApprovalId, Attempt, CallId, GrantId, TenantId, TopicId, TurnId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::record::Record;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::{
    CallPlan, PermissionMode, PlannedCall, ResolvedTool, RunBasis, TopicConfig, TopicEvent,
};

mod script;

use super::ledger::{Authority, Given};
use crate::gate::Modes;

/// A journal, as far as it has been read.
struct Reader<'a> {
    topic: &'a TopicId,
    authority: &'a Authority,
    /// The newest time that is known; most records of a journal have none of their own.
    at: Timestamp,
    sequence: u64,
    newest: Option<TopicConfig>,
    /// What the open turn began with.
    turn: Option<TopicConfig>,
    plans: BTreeMap<CallId, PlannedCall>,
    edits: BTreeMap<CallId, JsonText>,
    started: BTreeSet<(CallId, Attempt)>,
    /// Calls of scripts, by the call that the script runs in and their number.
    scripts: BTreeSet<(CallId, u32)>,
    /// The cards whose last word it has.
    words: BTreeSet<ApprovalId>,
    out: &'a mut AuditReport,
}

/// What the account of approvals has to know of a journal.
pub(super) struct Read {
    /// The last turn that is not in it any more.
    pub(super) after_turn: TurnId,
    /// The cards whose last word it has.
    pub(super) words: BTreeSet<ApprovalId>,
}

pub(super) fn read(records: &TopicRecords, authority: &Authority, out: &mut AuditReport) -> Read {
    let TopicRecords { topic, before, at, after_turn, records } = records;
    let mut reader = Reader {
        topic,
        authority,
        at: *at,
        sequence: 0,
        newest: None,
        turn: None,
        plans: BTreeMap::new(),
        edits: BTreeMap::new(),
        started: BTreeSet::new(),
        scripts: BTreeSet::new(),
        words: BTreeSet::new(),
        out,
    };
    for event in before {
        if let TopicEvent::Configured { config, .. } = event {
            reader.newest = Some(config.clone());
        }
    }
    if !before.is_empty() {
        let (tenant, topic) = (reader.tenant(), topic.clone());
        reader.out.gaps.push(AuditGap::Trimmed { tenant, topic, through: *after_turn });
    }
    for Record { sequence, payload, .. } in records {
        reader.sequence = *sequence;
        reader.event(payload);
    }
    Read { after_turn: *after_turn, words: reader.words }
}

impl Reader<'_> {
    fn event(&mut self, event: &TopicEvent) {
        if let Some(at) = event.at() {
            self.reached(at);
        }
        match event {
            TopicEvent::Configured { config, .. } => {
                self.newest = Some(config.clone());
                self.row(AuditFact::Configured { mode: config.mode });
            }
            TopicEvent::HeadlessSet { headless } => self.row(AuditFact::HeadlessSet { headless: *headless }),
            TopicEvent::TurnStarted { .. } => self.turn = self.newest.clone(),
            TopicEvent::TurnFinished { .. } => {
                self.plans.clear();
                self.edits.clear();
                self.started.clear();
                self.scripts.clear();
            }
            TopicEvent::StepReplied { calls, .. } => calls.iter().for_each(|call| self.planned(call)),
            TopicEvent::CallStarted { call, attempt, basis } => self.started(*call, *attempt, basis),
            TopicEvent::CallFinished { call, attempt, result } => {
                self.row(AuditFact::Finished { call: *call, attempt: *attempt, outcome: result.outcome });
            }
            TopicEvent::CallDecided { call: _, approval, .. } => {
                self.words.insert(*approval);
                if let Some(word) = self.authority.words.get(approval) {
                    self.reached(word.at);
                }
            }
            TopicEvent::CallExpired { call: _, approval } => {
                self.words.insert(*approval);
            }
            TopicEvent::CardOpened { call, approval } => {
                if let Some(at) = self.authority.shown(*approval, self.topic, *call) {
                    self.reached(at);
                }
            }
            TopicEvent::CallEdited { call, arguments } => {
                self.edits.insert(*call, arguments.clone());
            }
            TopicEvent::Nested { call, news } => self.nested(*call, news),
            TopicEvent::CallAnsweredLate { call, answer, at: _ } => {
                self.row(AuditFact::AnsweredLate { call: *call, answer: *answer });
            }
            TopicEvent::MessageAccepted { .. }
            | TopicEvent::MessageDropped { .. }
            | TopicEvent::MessageResent { .. }
            | TopicEvent::TurnResumed { .. }
            | TopicEvent::Slept { .. }
            | TopicEvent::Recovered { .. }
            | TopicEvent::StepStarted { .. }
            | TopicEvent::TextAppended { .. }
            | TopicEvent::CallSent { .. }
            | TopicEvent::StepFinished { .. }
            | TopicEvent::MessagesHeld { .. }
            | TopicEvent::CallReceipted { .. }
            | TopicEvent::MessageEdited { .. }
            | TopicEvent::QueueReordered { .. }
            | TopicEvent::LevelSet { .. }
            | TopicEvent::MessagesInjected { .. }
            | TopicEvent::TurnContinued { .. }
            | TopicEvent::TurnTermsSet { .. }
            | TopicEvent::ToolTermsSet { .. } => {}
        }
    }

    fn tenant(&self) -> Option<TenantId> {
        self.newest.as_ref().map(|config| config.tenant.clone())
    }

    fn reached(&mut self, at: Timestamp) {
        self.at = self.at.max(at);
    }

    fn row(&mut self, fact: AuditFact) {
        self.out.rows.push(AuditRow {
            at: self.at,
            log: AuditLog::Topic,
            sequence: self.sequence,
            tenant: self.tenant(),
            topic: Some(self.topic.clone()),
            fact,
        });
    }

    fn planned(&mut self, planned: &PlannedCall) {
        let call = planned.call;
        match &planned.plan {
            CallPlan::Reject(reason) | CallPlan::Deny(reason) => {
                let (name, reason) = (planned.name.clone(), reason.clone());
                self.row(AuditFact::NotAllowed { call, name, reason });
            }
            CallPlan::Run(_) | CallPlan::Ask { .. } | CallPlan::Answered => {}
        }
        self.plans.insert(call, planned.clone());
    }

    fn started(&mut self, call: CallId, attempt: Attempt, basis: &RunBasis) {
        let plan = self.plans.get(&call).cloned();
        let again = !self.started.insert((call, attempt));
        let (tool, arguments) = match &plan {
            Some(PlannedCall { tool: Some(tool), arguments, .. }) if !again => (tool, arguments),
            Some(_) | None => {
                self.fault(AuditFault::RanUnplanned { topic: self.topic.clone(), call, attempt });
                let basis = self.basis(basis);
                self.row(AuditFact::Allowed { call, attempt, tool: None, arguments: None, basis });
                return;
            }
        };
        self.reached(self.since(basis));
        self.check(call, tool, arguments, basis);
        let sent = self.edits.get(&call).unwrap_or(arguments).clone();
        let basis = self.basis(basis);
        let tool = Some(AuditTool::from(tool));
        self.row(AuditFact::Allowed { call, attempt, tool, arguments: Some(sent), basis });
    }

    /// From when on the basis of an intent could be known.
    fn since(&self, basis: &RunBasis) -> Timestamp {
        let since = match basis {
            RunBasis::Approved { approval } => self.authority.words.get(approval).map(|word| word.at),
            RunBasis::Grant { grant } => self.authority.grants.get(grant).map(|given| given.grant.given_at),
            RunBasis::Mode | RunBasis::Classified => None,
        };
        since.unwrap_or_default()
    }

    fn modes(&self) -> Modes {
        let mode =
            |config: &Option<TopicConfig>| config.as_ref().map(|config| config.mode).unwrap_or_default();
        // How loose the runtime allowed a topic to be is not in its journal.
        Modes { turn: mode(&self.turn), newest: mode(&self.newest), max: PermissionMode::Bypass }
    }

    fn basis(&self, basis: &RunBasis) -> AuditBasis {
        match basis {
            RunBasis::Mode => {
                let Modes { turn, newest, .. } = self.modes();
                let mode = if crate::gate::is_within(newest, turn) { newest } else { turn };
                AuditBasis::Mode { mode }
            }
            RunBasis::Approved { approval } => {
                let word = self.authority.words.get(approval);
                let word = word.filter(|word| word.verdict == Verdict::Allow);
                AuditBasis::Approved {
                    approval: *approval,
                    by: word.map(|word| word.by.clone()),
                    decided_at: word.map(|word| word.at),
                }
            }
            RunBasis::Grant { grant } => {
                let given = self.authority.grants.get(grant).map(|given| &given.grant);
                AuditBasis::Grant {
                    grant: *grant,
                    by: given.map(|given| given.by.clone()),
                    given_at: given.map(|given| given.given_at),
                    place: given.map(|given| given.place.clone()),
                }
            }
            RunBasis::Classified => AuditBasis::Classified,
        }
    }

    fn check(&mut self, call: CallId, tool: &ResolvedTool, planned: &JsonText, basis: &RunBasis) {
        if let Err(mode) = self.modes().let_run(tool, basis) {
            self.fault(AuditFault::RanAgainstMode { topic: self.topic.clone(), call, mode });
        }
        match basis {
            RunBasis::Mode | RunBasis::Classified => {}
            RunBasis::Approved { approval } => self.check_card(call, tool, planned, *approval),
            RunBasis::Grant { grant } if self.granted(call, tool, *grant) => {}
            RunBasis::Grant { grant } => {
                let (topic, grant) = (self.topic.clone(), *grant);
                self.fault(AuditFault::RanUngranted { topic, call, grant });
            }
        }
    }

    fn check_card(&mut self, call: CallId, tool: &ResolvedTool, planned: &JsonText, approval: ApprovalId) {
        let topic = self.topic.clone();
        let word = self.authority.words.get(&approval).filter(|word| word.verdict == Verdict::Allow);
        let Some(word) = word.filter(|_| self.authority.shown(approval, &topic, call).is_some()) else {
            return self.fault(AuditFault::RanUndecided { topic, call, approval });
        };
        let digest = card_digest(&tool.name, tool.fingerprint, tool.definition, planned);
        if word.digest != digest || word.arguments.as_ref() != self.edits.get(&call) {
            self.fault(AuditFault::RanOtherwise { topic, call, approval });
        }
    }

    fn granted(&self, call: CallId, tool: &ResolvedTool, grant: GrantId) -> bool {
        self.authority.grants.get(&grant).is_some_and(|given| self.covers(given, call, tool))
    }

    fn covers(&self, Given { grant, ended }: &Given, call: CallId, tool: &ResolvedTool) -> bool {
        let here = match &grant.place {
            GrantPlace::Turn { topic, turn } => topic == self.topic && *turn == call.turn,
            GrantPlace::Topic { topic } => topic == self.topic,
            GrantPlace::Always => true,
        };
        let about = match &grant.subject {
            GrantSubject::Tool(source) => *source == tool.source,
            GrantSubject::Server(server) => tool.source.server() == Some(server),
        };
        let theirs = self.newest.as_ref().is_some_and(|config| config.tenant == grant.tenant);
        let over = [*ended, grant.expires_at].into_iter().flatten().min();
        // The call ran at the earliest at the newest time known before it.
        let in_time = self.authority.clock_went_back || over.is_none_or(|over| self.at <= over);
        let same = grant.definition == tool.definition && grant.fingerprints.contains(&tool.fingerprint);
        here && about && theirs && in_time && same
    }

    fn fault(&mut self, fault: AuditFault) {
        self.out.faults.push(fault);
    }
}
