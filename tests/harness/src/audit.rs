//! The audit of a data directory, in words for people; the directory itself stays as it is.
//!
//! A store repairs itself when it is opened, and so would change the evidence. A copy is opened instead, made while the
//! directory's lock is held, so that no runtime writes meanwhile.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::Verdict;
use pilothouse::audit::{
    AuditBasis, AuditFact, AuditGap, AuditReport, AuditRow, AuditTool, ScriptCallFact, audit_store,
};
use pilothouse::error::StoreError;
use pilothouse::store::sled::SledStore;
use pilothouse::store::{SealedStore, Sealer, Store};
use tokio::time::{Instant, sleep};

/// The most that is shown of one text.
const SHOWN_CHARS: usize = 200;
/// How long a lock that is just being given up is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why a directory was not audited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// It holds no store.
    #[error("\"{}\" holds no store: name the data directory of a runtime", .0.display())]
    NoStore(PathBuf),
    /// It is a file.
    #[error("\"{}\" is a file: name the data directory that it is in", .0.display())]
    File(PathBuf),
    /// A runtime has it.
    #[error("\"{}\" is in use: stop its runtime, or ask it for Runtime::audit", .0.display())]
    InUse(PathBuf),
    /// It cannot be copied.
    #[error("\"{}\" cannot be copied: {source}", path.display())]
    Copy {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The copy cannot be read as a store.
    #[error("the store cannot be opened, and the directory is as it was: {0}")]
    Store(#[from] StoreError),
}

/// Reads a copy of the store in this directory and draws up its account.
///
/// # Errors
/// An [`AuditError`] that says what keeps it from being read. Damage inside a log is told in the report.
///
/// # Cancel safety
/// Safe: it only reads; the copy goes with the future.
pub async fn of_directory(directory: &Path) -> Result<AuditReport, AuditError> {
    read(directory, None).await
}

/// As [`of_directory`], for a store that was sealed.
///
/// # Errors
/// As there; a sealer that does not fit is told as a [`StoreError::Sealed`].
///
/// # Cancel safety
/// As there.
pub async fn of_sealed_directory(
    directory: &Path,
    sealer: Arc<dyn Sealer>,
) -> Result<AuditReport, AuditError> {
    read(directory, Some(sealer)).await
}

async fn read(directory: &Path, sealer: Option<Arc<dyn Sealer>>) -> Result<AuditReport, AuditError> {
    let failed = |source| AuditError::Copy { path: directory.to_owned(), source };
    if directory.is_file() {
        return Err(AuditError::File(directory.to_owned()));
    }
    if !directory.join("db").is_file() {
        return Err(AuditError::NoStore(directory.to_owned()));
    }
    let copy = tempfile::tempdir().map_err(failed)?;
    {
        let _held = hold(directory).await?;
        copy_files(directory, copy.path()).map_err(failed)?;
    }
    let store = SledStore::open(copy.path()).await?;
    let report = match sealer {
        None => audit_store(&store).await,
        Some(sealer) => match SealedStore::open(Arc::new(store.clone()), sealer).await {
            Ok(sealed) => audit_store(&sealed).await,
            Err(error) => Err(error),
        },
    };
    // The copy goes anyway.
    drop(store.close().await);
    Ok(report?)
}

/// The lock that an open store holds; a directory without one was never opened by a runtime of ours. One that is just
/// being given up is waited for.
async fn hold(directory: &Path) -> Result<File, AuditError> {
    let file = File::open(directory.join("lock")).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => AuditError::NoStore(directory.to_owned()),
        _ => AuditError::Copy { path: directory.to_owned(), source },
    })?;
    let deadline = Instant::now() + LOCK_WAIT;
    while fs2::FileExt::try_lock_shared(&file).is_err() {
        if Instant::now() >= deadline {
            return Err(AuditError::InUse(directory.to_owned()));
        }
        sleep(LOCK_PAUSE).await;
    }
    Ok(file)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The report in words: a line a record, a line a fault, and what was read.
pub fn words(report: &AuditReport) -> String {
    let rows = report.rows.iter().map(row);
    let gaps = report.gaps.iter().map(gap);
    let faults = report.faults.iter().map(|fault| shown(&format!("FAULT {fault}"), usize::MAX));
    let AuditReport { ledger, grants, topics, .. } = report;
    let read = format!(
        "{ledger} records of the ledger and {grants} of grants, whole and in their chain; {topics} topics; {} faults",
        report.faults.len()
    );
    rows.chain(gaps).chain(faults).chain([read]).flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn row(row: &AuditRow) -> String {
    let of = |id: Option<&str>| id.unwrap_or("-").to_owned();
    let (tenant, topic) =
        (row.tenant.as_ref().map(|id| id.as_str()), row.topic.as_ref().map(|id| id.as_str()));
    let (at, tenant, topic) = (row.at.0, of(tenant), of(topic));
    let line = format!("{at} {tenant}/{topic} {}", fact(&row.fact));
    shown(&line, usize::MAX)
}

fn gap(gap: &AuditGap) -> String {
    let line = match gap {
        AuditGap::Trimmed { topic, through, .. } => {
            format!("topic {topic}: turns up to {through} are not kept any more")
        }
        AuditGap::Removed { topic, .. } => format!("topic {topic} was removed with its records"),
    };
    shown(&line, usize::MAX)
}

fn fact(fact: &AuditFact) -> String {
    match fact {
        AuditFact::CardOpened { approval, call, tool, arguments, reason, .. } => {
            let arguments = shown(arguments.as_str(), SHOWN_CHARS);
            format!("card {approval} asks for call {call}: {} {arguments} ({reason})", tool.name)
        }
        AuditFact::Decided { approval, verdict, by, reason, arguments, .. } => {
            let verdict = match verdict {
                Verdict::Allow => "allowed",
                Verdict::Deny => "denied",
            };
            let edited = if arguments.is_some() { " with other arguments" } else { "" };
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{by} {verdict} card {approval}{edited}{reason}")
        }
        AuditFact::Expired { approval } => format!("card {approval} expired"),
        AuditFact::Withdrawn { approval, reason } => format!("card {approval} was taken back: {reason}"),
        AuditFact::Told { approval, payment } => {
            format!("the topic has the word on card {approval}: {}", name(payment))
        }
        AuditFact::DecisionRefused { approval, by, why } => {
            format!("a decision of {by} on card {approval} changed nothing: {}", name(why))
        }
        AuditFact::Granted { grant } => {
            let (of, place) = (name(&grant.subject), name(&grant.place));
            format!("{} gave grant {} of {of}, {place}, with card {}", grant.by, grant.grant, grant.approval)
        }
        AuditFact::GrantEnded { grant, end } => format!("grant {grant} ended: {}", name(end)),
        AuditFact::ClockJumped { from, to } => format!("the clock jumped from {from} to {to}"),
        AuditFact::Configured { mode } => format!("the mode is {}", name(mode)),
        AuditFact::HeadlessSet { headless } => format!("calls that need a person: {}", name(headless)),
        AuditFact::Allowed { call, attempt, tool, arguments, basis } => {
            let tool = tool.as_ref().map_or("an unknown tool".to_owned(), of_tool);
            let arguments = arguments.as_ref().map(|text| shown(text.as_str(), SHOWN_CHARS));
            let arguments = arguments.unwrap_or_default();
            format!("call {call} ran, attempt {attempt}: {tool} {arguments} because {}", because(basis))
        }
        AuditFact::NotAllowed { call, name, reason } => {
            format!("call {call} of {name} did not run: {reason}")
        }
        AuditFact::QuestionAsked { card, .. } => {
            format!("server {} asks a person for call {}: question {}", card.server, card.call, card.question)
        }
        AuditFact::QuestionEnded { question, word, by, reason, .. } => {
            let who = by.as_ref().or(reason.as_ref()).cloned().unwrap_or_default();
            format!("question {question} ended: {} ({who})", name(word))
        }
        AuditFact::Finished { call, attempt: _, outcome } => format!("call {call} ended: {}", name(outcome)),
        AuditFact::AnsweredLate { call, answer } => {
            format!("call {call} was answered when nobody waited for it any more: {}", name(&answer.word))
        }
        AuditFact::ScriptCall { call, number, what } => {
            format!("call {number} of the script of {call} {}", of_script(what))
        }
    }
}

fn of_script(what: &ScriptCallFact) -> String {
    match what {
        ScriptCallFact::Allowed { tool, arguments, basis } => {
            let (tool, arguments) = (of_tool(tool), shown(arguments.as_str(), SHOWN_CHARS));
            format!("ran: {tool} {arguments} because {}", because(basis))
        }
        ScriptCallFact::Answered { name: tool, outcome } => {
            format!("of {tool} did not run: {}", name(outcome))
        }
        ScriptCallFact::Finished { outcome } => format!("ended: {}", name(outcome)),
    }
}

fn of_tool(tool: &AuditTool) -> String {
    format!("{} ({})", tool.name, name(&tool.effect))
}

fn because(basis: &AuditBasis) -> String {
    let who = |by: &Option<String>| by.clone().unwrap_or_else(|| "nobody who is known".to_owned());
    match basis {
        AuditBasis::Mode { mode } => format!("the mode {} lets it", name(mode)),
        AuditBasis::Approved { approval, by, .. } => format!("{} approved card {approval}", who(by)),
        AuditBasis::Grant { grant, by, .. } => format!("grant {grant} of {} covers it", who(by)),
        AuditBasis::Classified => "the classifier let it".to_owned(),
    }
}

/// A closed word, or a small structure, as it stands in JSON.
fn name(word: &impl serde::Serialize) -> String {
    // None of them has a key that is no text.
    let text = serde_json::to_string(word).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// A text on one line, without what a terminal would obey or a reader not see.
fn shown(text: &str, chars: usize) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == chars {
            out.push('…');
            break;
        }
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}
