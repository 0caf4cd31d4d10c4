//! What a killed process and a broken disk leave of approvals: nothing that was acknowledged is lost, nothing runs
//! twice, and what is missing is known.
//!
//! `PILOTHOUSE_KILLS=2000 cargo test --test durability` is the full size; `PILOTHOUSE_SEED` repeats a run.
#![cfg(unix)]

#[path = "durability/dice.rs"]
mod dice;
#[path = "durability/full.rs"]
mod full;
#[path = "durability/lines.rs"]
mod lines;
#[path = "durability/run.rs"]
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use dice::Dice;
use pilothouse::approval::Verdict;
use pilothouse::audit::{AuditFact, AuditReport};
use pilothouse_harness::audit::of_directory;
use run::Run;

/// How often the process is killed.
const KILLS: u64 = 200;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn audited(directory: &Path) -> AuditReport {
    of_directory(directory).await.unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
}

/// Every decision of the ledger, and that there is one for each card.
fn decided(report: &AuditReport) -> BTreeMap<String, Verdict> {
    let mut decided = BTreeMap::new();
    for row in &report.rows {
        if let AuditFact::Decided { approval, verdict, .. } = &row.fact {
            assert_eq!(decided.insert(approval.to_string(), *verdict), None, "{approval} was decided twice");
        }
    }
    decided
}

fn count(report: &AuditReport, fits: fn(&AuditFact) -> bool) -> usize {
    report.rows.iter().filter(|row| fits(&row.fact)).count()
}

fn succeeded(fact: &AuditFact) -> bool {
    matches!(fact, AuditFact::Finished { outcome: pilothouse::call::CallOutcome::Succeeded, .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_process_is_killed_no_decision_is_lost_and_no_call_runs_twice() {
    let (kills, seed) = (number("PILOTHOUSE_KILLS", KILLS), number("PILOTHOUSE_SEED", 1));
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut dice = Dice::new(seed);
    let mut acknowledged: BTreeMap<String, Verdict> = BTreeMap::new();
    for _ in 0..kills {
        let mut run = Run::start(&data, &marks);
        // Some die while they start, most in the middle of their work.
        let time = Duration::from_millis(dice.below(60));
        match dice.below(4) {
            0 => run.starts(time),
            _ => run.works(time, &mut dice),
        }
        acknowledged.extend(run.kill());
    }
    let mut last = Run::start(&data, &marks);
    last.works(Duration::from_secs(3), &mut dice);
    acknowledged.extend(last.end());

    let report = audited(&data).await;
    assert_eq!(report.faults, [], "seed {seed}");
    let decided = decided(&report);
    let lost: Vec<_> = acknowledged.iter().filter(|(card, word)| decided.get(*card) != Some(word)).collect();
    assert!(lost.is_empty(), "seed {seed}: lost or changed {lost:?}");

    let ran = std::fs::read_to_string(&marks).expect("calls ran").lines().count();
    let allowed = count(&report, |fact| matches!(fact, AuditFact::Allowed { .. }));
    let done = count(&report, succeeded);
    assert!(done <= ran && ran <= allowed, "seed {seed}: {done} done, {ran} ran, {allowed} allowed");
    println!(
        "{kills} kills, seed {seed}: {} decisions acknowledged, {} in the ledger, {ran} calls ran, 0 lost, 0 doubled",
        acknowledged.len(),
        decided.len()
    );
    assert!(
        acknowledged.len() as u64 >= kills / 8,
        "the kills hit a working process: {}",
        acknowledged.len()
    );
}

/// What a broken disk does to the end of a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Cut,
    Zeroed,
    Flipped,
}

/// Damages a file within the last 4 to 64 KiB that were written.
fn damage(file: &Path, damage: Damage, dice: &mut Dice) {
    let mut bytes = std::fs::read(file).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let reach = 4_096 << dice.below(5);
    let back = usize::try_from(dice.below(reach)).expect("it fits");
    spoil(&mut bytes, damage, end.saturating_sub(back + 1)..end, dice);
    std::fs::write(file, bytes).expect("it can be written");
}

/// Damages what was written, at the beginning of this range.
fn spoil(bytes: &mut Vec<u8>, damage: Damage, Range { start, end }: Range<usize>, dice: &mut Dice) {
    match damage {
        Damage::Cut => bytes.truncate(start),
        Damage::Zeroed => bytes[start..end.min(start + 512)].fill(0),
        Damage::Flipped => bytes[start] ^= 1 << dice.below(8),
    }
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_store_that_a_disk_has_spoilt_is_told_and_never_taken_for_the_truth() {
    let (each, seed) = (number("PILOTHOUSE_KILLS", KILLS) / 10, number("PILOTHOUSE_SEED", 1));
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut dice = Dice::new(seed);
    let mut run = Run::start(&data, &marks);
    run.works_until(60, Duration::from_secs(20), &mut dice);
    let acknowledged = run.kill();
    assert!(!acknowledged.is_empty(), "something was decided");

    let (mut told, mut whole) = (0, 0);
    let mut kinds = BTreeSet::new();
    for n in 0..each {
        for kind in [Damage::Cut, Damage::Zeroed, Damage::Flipped] {
            let copy = directory.path().join(format!("{kind:?}-{n}"));
            copied(&data, &copy);
            damage(&copy.join("db"), kind, &mut dice);
            match of_directory(&copy).await {
                Err(error) => {
                    told += 1;
                    kinds.insert(error.to_string());
                }
                Ok(report) if !report.faults.is_empty() => told += 1,
                Ok(report) => {
                    whole += 1;
                    let decided = decided(&report);
                    let lost: Vec<_> =
                        acknowledged.iter().filter(|(card, word)| decided.get(*card) != Some(word)).collect();
                    assert!(lost.is_empty(), "seed {seed}, {kind:?} {n}: lost without a word {lost:?}");
                }
            }
            std::fs::remove_dir_all(&copy).expect("it can be removed");
        }
    }
    println!("seed {seed}: {told} spoilt ends told, {whole} without a loss; {kinds:?}");
    assert!(told > 0, "some of {whole} ends had to be spoilt");
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_disk_has_spoilt_a_store_its_history_is_the_same_or_the_damage_is_told() {
    let (places, seed) = (number("PILOTHOUSE_KILLS", KILLS) / 5, number("PILOTHOUSE_SEED", 1));
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut dice = Dice::new(seed);
    let mut run = Run::start(&data, &marks);
    run.works_until(12, Duration::from_secs(20), &mut dice);
    run.end();
    let truth = audited(&data).await;
    assert!(truth.faults.is_empty() && truth.rows.len() > 40, "{:?}", truth.faults);
    let whole = std::fs::read(data.join("db")).expect("it is there");
    let end = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);

    // The test itself does no damage.
    let copy = directory.path().join("copy");
    copied(&data, &copy);
    assert_eq!(audited(&copy).await, truth);
    std::fs::remove_dir_all(&copy).expect("it can be removed");

    let (mut told, mut same) = (0, 0);
    for place in 0..places {
        // One place in each of so many equal parts.
        let part = end as u64 / places;
        let at = usize::try_from(place * part + dice.below(part.max(1))).expect("it fits");
        for kind in [Damage::Cut, Damage::Zeroed, Damage::Flipped] {
            copied(&data, &copy);
            let mut bytes = whole.clone();
            spoil(&mut bytes, kind, at..end, &mut dice);
            std::fs::write(copy.join("db"), bytes).expect("it can be written");
            match of_directory(&copy).await {
                Ok(report) if report.faults.is_empty() => {
                    same += 1;
                    assert_eq!(report, truth, "seed {seed}, {kind:?} at {at} of {end}");
                }
                Ok(_) | Err(_) => told += 1,
            }
            std::fs::remove_dir_all(&copy).expect("it can be removed");
        }
    }
    println!("seed {seed}: {told} damages told, {same} without effect");
    assert!(told > same, "{told} told, {same} without effect");
}

#[test]
fn a_second_process_on_one_directory_is_told_that_it_is_in_use() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (data, marks) = (directory.path().join("data"), directory.path().join("marks"));
    let mut first = Run::start(&data, &marks);
    first.works(Duration::from_millis(300), &mut Dice::new(1));
    let second = run::once(&data, "{\"tree\": {}}\n");
    assert!(second.contains("\"code\":\"locked\""), "{second}");
    let acknowledged = first.end();
    assert!(!acknowledged.is_empty(), "the first one is unharmed");
}
