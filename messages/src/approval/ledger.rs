//! What the ledger is told, what it records, and what it answers.

use serde::{Deserialize, Serialize};

use super::{Card, CardOwner, DecideAnswer, Decision, Settlement, ToolFace, Verdict};
use crate::digest::Digest;
use crate::grant::{Grant, GrantEnd, RevokeAnswer};
use crate::id::{ApprovalId, GrantId, QuestionId, TenantId, TopicId};
use crate::json::JsonText;
use crate::question::{Answer, AnswerOutcome, QuestionCard, QuestionEnd, QuestionWord, Reply};
use crate::time::Timestamp;
use crate::topic::command::{CardNews, Payment};

/// Everything that the approval actor can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalCommand {
    /// A topic asks for a person (idempotent by card name).
    Open(Box<Card>),
    /// A person decides.
    Decide {
        /// The card.
        approval: ApprovalId,
        /// The decision.
        decision: Box<Decision>,
        /// Fingerprints of what the card's server offers now; a grant of a whole server covers these.
        present: Vec<Digest>,
    },
    /// Asks whose card this is; changes nothing.
    Find {
        /// The card.
        approval: ApprovalId,
    },
    /// Somebody who may not decide about the card tried to.
    Foreign {
        /// The card.
        approval: ApprovalId,
        /// Who.
        by: String,
    },
    /// Somebody takes a grant back.
    Revoke {
        /// The grant.
        grant: GrantId,
        /// Who.
        by: String,
        /// For which tenant; another tenant's grant is unknown to it. `None` is the embedder itself.
        tenant: Option<TenantId>,
    },
    /// What these grants were given for has changed.
    Void {
        /// The grants.
        grants: Vec<GrantId>,
    },
    /// A topic no longer wants these cards.
    Withdraw {
        /// The topic.
        topic: TopicId,
        /// The cards.
        approvals: Vec<ApprovalId>,
        /// Why.
        reason: String,
    },
    /// A topic has recorded a decision.
    Pay {
        /// The topic.
        topic: TopicId,
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
    },
    /// The clock reached [`next_deadline`](ApprovalCommand): cards expire, debts are told again.
    Tick,
    /// A decision was refused before the ledger could weigh it.
    Refuse {
        /// The card that it named.
        approval: ApprovalId,
        /// Who.
        by: String,
        /// Why.
        why: RefusedDecision,
    },
    /// The clock stands elsewhere than the time that has passed.
    Clock {
        /// Where it should stand.
        from: Timestamp,
        /// Where it stands.
        to: Timestamp,
    },
    /// A server asks a person.
    Ask(Box<QuestionCard>),
    /// A person answers a question.
    Answer {
        /// The question.
        question: QuestionId,
        /// The answer.
        answer: Box<Answer>,
    },
    /// Nobody waits for these answers any more.
    DropQuestions {
        /// The questions.
        questions: Vec<QuestionId>,
        /// Why.
        reason: String,
    },
    /// Asks whose question this is; changes nothing.
    FindQuestion {
        /// The question.
        question: QuestionId,
    },
    /// As `Open`, with what there is to see of the tool.
    OpenShowing {
        /// The card.
        card: Box<Card>,
        /// Its tool, as it stands now.
        face: Box<ToolFace>,
    },
}

/// Why a decision changed nothing. These are stored: their bytes are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedDecision {
    /// The card already had the same last word.
    Repeated,
    /// The card already had another last word.
    Conflict,
    /// Nobody had decided in time.
    Expired,
    /// The topic no longer wanted the card.
    Withdrawn,
    /// The card that was shown was not this one.
    Changed,
    /// No such card.
    Unknown,
    /// The decider may not decide about this card.
    Foreign,
    /// The arguments or the grant that it brought could not be taken.
    Unfit,
}

/// What happened in the ledger. These are stored: their bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalEvent {
    /// A card waits for a person.
    Opened {
        /// The card.
        card: Card,
        /// When.
        at: Timestamp,
    },
    /// A person decided; the topic is owed the news until it has recorded it.
    Decided {
        /// The card.
        approval: ApprovalId,
        /// Approved or denied.
        verdict: Verdict,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
        /// The digest of the card that was decided.
        digest: Digest,
        /// When.
        at: Timestamp,
    },
    /// Nobody decided in time; the topic is owed the news.
    Expired {
        /// The card.
        approval: ApprovalId,
        /// When.
        at: Timestamp,
    },
    /// The topic no longer wants the card.
    Withdrawn {
        /// The card.
        approval: ApprovalId,
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// The topic has recorded the news, or it came too late.
    Paid {
        /// The card.
        approval: ApprovalId,
        /// What became of it.
        payment: Payment,
        /// When.
        at: Timestamp,
    },
    /// As `Decided`, with other arguments or beside a grant.
    DecidedWith {
        /// The card.
        approval: ApprovalId,
        /// Approved or denied.
        verdict: Verdict,
        /// By whom.
        by: String,
        /// Why.
        reason: Option<String>,
        /// The digest of the card that was decided.
        digest: Digest,
        /// The arguments that replace the card's.
        arguments: Option<JsonText>,
        /// The digest of the [terms](Decision::terms).
        terms: Digest,
        /// When.
        at: Timestamp,
    },
    /// Somebody who may not decide about the card tried to.
    ForeignDecider {
        /// The card.
        approval: ApprovalId,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// A standing approval was given.
    Granted {
        /// The grant.
        grant: Grant,
    },
    /// A standing approval is over.
    GrantEnded {
        /// The grant.
        grant: GrantId,
        /// Why.
        end: GrantEnd,
        /// When.
        at: Timestamp,
    },
    /// A decision changed nothing.
    DecisionRefused {
        /// The card that it named.
        approval: ApprovalId,
        /// Who.
        by: String,
        /// Why.
        why: RefusedDecision,
        /// When.
        at: Timestamp,
    },
    /// The clock stood elsewhere than the time that had passed.
    ClockJumped {
        /// Where it should have stood.
        from: Timestamp,
        /// Where it stood.
        to: Timestamp,
        /// When, by the ledger's own time, which never falls.
        at: Timestamp,
    },
    /// A question waits for a person.
    Asked {
        /// The question.
        card: QuestionCard,
        /// When.
        at: Timestamp,
    },
    /// A person answered a question.
    Answered {
        /// The question.
        question: QuestionId,
        /// Accepted, declined or dismissed.
        word: QuestionWord,
        /// By whom.
        by: String,
        /// Digest of what the person wrote.
        content: Option<Digest>,
        /// When.
        at: Timestamp,
    },
    /// A question ended without an answer.
    QuestionOver {
        /// The question.
        question: QuestionId,
        /// Expired or withdrawn.
        word: QuestionWord,
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// As `Opened`, of a tool that people have not been shown as it is now.
    OpenedShowing {
        /// The card.
        card: Card,
        /// Its tool.
        face: ToolFace,
        /// When.
        at: Timestamp,
    },
}

impl ApprovalEvent {
    /// When.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Opened { at, .. }
            | Self::Decided { at, .. }
            | Self::Expired { at, .. }
            | Self::Withdrawn { at, .. }
            | Self::Paid { at, .. }
            | Self::DecidedWith { at, .. }
            | Self::ForeignDecider { at, .. }
            | Self::DecisionRefused { at, .. }
            | Self::ClockJumped { at, .. }
            | Self::Asked { at, .. }
            | Self::Answered { at, .. }
            | Self::QuestionOver { at, .. }
            | Self::GrantEnded { at, .. }
            | Self::OpenedShowing { at, .. } => *at,
            Self::Granted { grant } => grant.given_at,
        }
    }

    /// What it is about: a card, a grant or a question; `None` if it is about none of them.
    pub fn about(&self) -> Option<Matter> {
        match self {
            Self::Opened { card, .. } | Self::OpenedShowing { card, .. } => Some(Matter::Card(card.approval)),
            Self::Decided { approval, .. }
            | Self::DecidedWith { approval, .. }
            | Self::Expired { approval, .. }
            | Self::Withdrawn { approval, .. }
            | Self::Paid { approval, .. }
            | Self::ForeignDecider { approval, .. }
            | Self::DecisionRefused { approval, .. } => Some(Matter::Card(*approval)),
            Self::Granted { grant } => Some(Matter::Grant(grant.grant)),
            Self::GrantEnded { grant, .. } => Some(Matter::Grant(*grant)),
            Self::Asked { card, .. } => Some(Matter::Question(card.question)),
            Self::Answered { question, .. } | Self::QuestionOver { question, .. } => {
                Some(Matter::Question(*question))
            }
            Self::ClockJumped { .. } => None,
        }
    }

    /// `true` if it is about a grant and is kept with those.
    pub fn is_about_grants(&self) -> bool {
        matches!(self.about(), Some(Matter::Grant(_)))
    }
}

/// What an event of the ledger is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Matter {
    /// A card.
    Card(ApprovalId),
    /// A standing approval.
    Grant(GrantId),
    /// What a server asked a person.
    Question(QuestionId),
}

/// What the ledger wants done, once its events are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDirective {
    /// Tell the topic about a card; told again until paid.
    TellTopic {
        /// The topic.
        topic: TopicId,
        /// The card.
        approval: ApprovalId,
        /// The news.
        news: CardNews,
    },
    /// Tell the call that asked what a person said; again each time that it is said again. One that is gone, or was
    /// told, has nothing to do with it.
    TellAsker {
        /// The question.
        question: QuestionId,
        /// What was said.
        reply: Reply,
    },
}

/// What the one who told the ledger something is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// The card is stored and may be shown.
    Opened,
    /// The card already had this last word.
    Settled(Settlement),
    /// The answer to a decision.
    Decide(DecideAnswer),
    /// Whose card or question it is; `None` if there is none of that name.
    Found(Option<CardOwner>),
    /// The answer to a revocation.
    Revoke(RevokeAnswer),
    /// Done; nothing to say.
    Noted,
    /// The answer to an answer.
    Answer(AnswerOutcome),
    /// The question already had this last word.
    Over(QuestionEnd),
}

/// Why the ledger changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalRejection {
    /// Too many cards of one topic wait.
    #[error("{open} cards of this topic already wait for a person, the limit is {limit}")]
    TooManyCards {
        /// How many wait.
        open: usize,
        /// How many may.
        limit: usize,
    },
    /// The card is named for another call than it shows.
    #[error("the card's name does not belong to its topic and call")]
    ForeignName,
    /// A grant was asked for that cannot be given; nothing was decided.
    #[error("the decision was not taken: {0}")]
    Grant(GrantFault),
}

/// Why a grant cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantFault {
    /// A denial grants nothing.
    #[error("a denial grants nothing: leave the scope out")]
    OfDenial,
    /// The tool belongs to no server.
    #[error("the tool belongs to no server: grant the tool")]
    NoServer,
    /// It would be over before it begins.
    #[error("the grant would be over before it begins: name a later time")]
    Over,
    /// A rule can hold for no arguments.
    #[error("the rule about `{pointer}` can hold for no arguments: {reason}")]
    Rule {
        /// Where in the arguments.
        pointer: String,
        /// In plain words.
        reason: &'static str,
    },
    /// There is no room.
    #[error("{what}, the limit is {limit}: revoke some, or grant less")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}
