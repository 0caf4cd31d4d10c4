//! The program's storms: what it is asked for, and what it prints.

use std::process::ExitCode;

use pilothouse::digest::Digest;

use super::MISSED;
use crate::storm::batch::{self, Report};
use crate::storm::{Plan, Scene, Seeds, Storm, Violation};

/// Seeds that are made small; the others are named.
const SHRUNK_MAX: usize = 3;

/// How a storm is to be played and told.
pub(super) struct Asked {
    pub(super) how: How,
    pub(super) shrinks: bool,
    pub(super) jobs: Option<usize>,
}

/// What is printed of a storm.
pub(super) enum How {
    /// What it broke.
    Batch,
    /// Everything that happens in it.
    Trace,
    /// Whether it is the same again.
    Guard,
    /// How many seeds it takes to break a promise.
    First,
}

/// Plays the storms that were asked for, and prints what came of them.
pub(super) fn run(seeds: &str, plan: &str, scene: Option<&str>, asked: &Asked) -> Result<ExitCode, String> {
    let seeds: Seeds = seeds.parse().map_err(|error| format!("{error}"))?;
    let plan: Plan = plan.parse().map_err(|error| format!("{error}"))?;
    let mut storm = Storm::new(plan);
    if let Some(file) = scene {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("\"{file}\" cannot be read: {error}"))?;
        storm = storm.over(Scene::parse(&text).map_err(|error| error.to_string())?);
    }
    let scene = scene.map(|file| format!(" --scene {file}")).unwrap_or_default();
    let again = |seed: u64| {
        format!(
            "pilothouse-harness storm --plan {}{scene} --seeds {seed}..{}",
            plan.name,
            seed.saturating_add(1)
        )
    };
    match asked.how {
        How::Batch => {}
        How::Trace => return Ok(trace(&storm, seeds)),
        How::Guard => return Ok(guard(&storm, seeds)),
        How::First => return Ok(first(&storm, seeds)),
    }
    let jobs = asked.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let report = batch::run(&storm, seeds, jobs, |seed, violation| {
        println!("seed {seed} broke: {}", violation.promise);
    });
    for (place, (seed, violation)) in report.broken.iter().enumerate() {
        tell(&storm, *seed, violation, asked.shrinks && place < SHRUNK_MAX);
        println!("  again: {}", again(*seed));
    }
    summarise(plan, &report);
    let fine = report.broken.is_empty() && report.never().is_empty();
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

/// Prints everything that happens, broken promises included.
fn trace(storm: &Storm, seeds: Seeds) -> ExitCode {
    let mut ended = ExitCode::SUCCESS;
    for seed in seeds.from..seeds.to {
        let outcome = storm.run(seed);
        for line in &outcome.trace {
            println!("{seed} {line}");
        }
        if !outcome.violations.is_empty() {
            ended = ExitCode::from(MISSED);
        }
    }
    ended
}

/// Plays each seed twice; says where the second time was another one.
fn guard(storm: &Storm, seeds: Seeds) -> ExitCode {
    let mut ended = ExitCode::SUCCESS;
    for seed in seeds.from..seeds.to {
        let (once, twice) = (storm.run(seed).trace, storm.run(seed).trace);
        let longest = once.len().max(twice.len());
        if let Some(line) = (0..longest).find(|line| once.get(*line) != twice.get(*line)) {
            println!("seed {seed} differs in line {line}: {:?}, then {:?}", once.get(line), twice.get(line));
            ended = ExitCode::from(MISSED);
        }
        println!("{seed} {}", Digest::of_parts("pilothouse-harness/trace/1", &[once.join("\n").as_bytes()]));
    }
    ended
}

/// Plays seeds until one breaks a promise.
fn first(storm: &Storm, seeds: Seeds) -> ExitCode {
    for seed in seeds.from..seeds.to {
        if let Some(violation) = storm.run(seed).violations.first() {
            println!(
                "seed {seed}, the {}th: {}: {}",
                seed - seeds.from + 1,
                violation.promise,
                violation.words
            );
            return ExitCode::from(MISSED);
        }
    }
    println!("none of {} seeds breaks a promise", seeds.to - seeds.from);
    ExitCode::SUCCESS
}

fn tell(storm: &Storm, seed: u64, violation: &Violation, shrinks: bool) {
    let shrunk = if shrinks { storm.shrink(seed) } else { None };
    let violation = shrunk.as_ref().map_or(violation, |shrunk| &shrunk.violation);
    println!("plan {}, seed {seed}", storm.plan().name);
    println!("  broken: {}", violation.promise);
    println!("  seen at {} ms: {}", violation.at, violation.words);
    let Some(shrunk) = &shrunk else { return };
    let kinds: Vec<String> = shrunk.case.kinds.iter().map(ToString::to_string).collect();
    println!("  made small in {} plays; what is left of the disasters: {}", shrunk.plays, kinds.join(", "));
    for step in &shrunk.case.steps {
        println!("  {step}");
    }
}

fn summarise(plan: Plan, report: &Report) {
    let seconds = report.took.as_secs_f64().max(0.001);
    let virtual_hours = report.lasted as f64 / 3_600_000.0;
    println!(
        "plan {}: {} seeds in {seconds:.1} s ({:.0} a second, {virtual_hours:.1} virtual hours), {} broke a promise",
        plan.name,
        report.seeds,
        report.seeds as f64 / seconds,
        report.broken.len(),
    );
    for (what, times) in &report.counts {
        println!("  {times:>8} times {what}");
    }
    for (kind, away) in &report.away {
        let mut away = away.clone();
        away.sort_unstable();
        let at = |percent: usize| {
            away.get(away.len() * percent / 100).or(away.last()).copied().unwrap_or_default()
        };
        println!("  {kind} was back {} times, after p50 {} ms, p99 {} ms", away.len(), at(50), at(99));
    }
    for what in report.never() {
        println!("  NEVER: {what}");
    }
}
