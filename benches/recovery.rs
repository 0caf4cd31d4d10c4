//! How long a process that was killed takes until every topic that was live has recovered, each turn interrupted and each
//! message that waited held.
//!
//! `cargo bench --bench recovery` prints it; any other way of running it is a short check that it still works.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse::model::Model;
use pilothouse::model::scripted::{ScriptedModel, Step};
use pilothouse::prelude::*;
use pilothouse::topic::TopicStatus;

/// The directory of a process that lives until it is killed.
const LIVES: &str = "PILOTHOUSE_BENCH_LIVES";
/// How many topics it has.
const TOPICS: &str = "PILOTHOUSE_BENCH_TOPICS";

async fn started(data: &Path) -> Runtime {
    let hanging = |_name: &str| {
        let steps = (0..8).map(|_| Step { hang: true, ..Step::default() }).collect();
        Some(Arc::new(ScriptedModel::new(steps)) as Arc<dyn Model>)
    };
    Runtime::builder().data_dir(data).models(hanging).start().await.expect("the runtime starts")
}

/// Opens the topics, each with a turn that runs and a message that waits, says so, and lives on.
async fn live(data: &Path, topics: usize) {
    let runtime = started(data).await;
    let mut open = Vec::new();
    for number in 0..topics {
        let topic = runtime.open_topic(format!("t{number}"), TopicConfig::new("m")).await;
        let topic = topic.expect("the topic opens");
        topic.send("first").await.expect("it is taken");
        topic.send("second").await.expect("it is taken");
        open.push(topic);
    }
    println!("live");
    std::io::stdout().flush().expect("the pipe is read");
    // It is killed; it ends by itself with whoever started it.
    let parent = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    parent.await.expect("it reads").expect("a pipe");
}

/// A process with so many live topics, killed.
fn killed(data: &Path, topics: usize) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .env(LIVES, data)
        .env(TOPICS, topics.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "live\n");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

/// When the start has returned, and when each topic has recovered.
async fn recovered(data: &Path, topics: usize) -> (Duration, Vec<Duration>) {
    let begun = Instant::now();
    let runtime = started(data).await;
    let start = begun.elapsed();
    let (mut times, mut known) = (Vec::new(), 0);
    while known < topics {
        let tree = runtime.tree();
        let is_over = |status: Option<TopicStatus>| status == Some(TopicStatus::Error);
        let now = tree.children[4].children.iter().filter(|topic| is_over(topic.status)).count();
        times.extend((known..now).map(|_| begun.elapsed()));
        known = now.max(known);
        assert!(begun.elapsed() < Duration::from_secs(60), "{known} of {topics} have recovered");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    runtime.shutdown().await;
    (start, times)
}

fn percentile(times: &mut [Duration], hundredth: usize) -> f64 {
    times.sort();
    times[(times.len() * hundredth).div_ceil(100).saturating_sub(1)].as_secs_f64() * 1e3
}

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.expect("a runtime for the bench");
    if let Some(data) = std::env::var_os(LIVES) {
        let topics = std::env::var(TOPICS).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        return tokio.block_on(live(Path::new(&data), topics));
    }
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    let (topics, kills) = if asked("--bench") && !asked("--test") { (1_000, 7) } else { (20, 2) };
    let (mut starts, mut each, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..kills {
        let directory = tempfile::tempdir().expect("a directory for the bench");
        killed(directory.path(), topics);
        let (start, times) = tokio.block_on(recovered(directory.path(), topics));
        starts.push(start);
        last.extend(times.last().copied());
        each.extend(times);
    }
    println!(
        "a killed process with {topics} live topics: started in p50 {:.1} ms, p99 {:.1} ms; a topic recovered after p50 {:.1} ms, p99 {:.1} ms; all after p50 {:.1} ms, p99 {:.1} ms ({kills} kills)",
        percentile(&mut starts, 50),
        percentile(&mut starts, 99),
        percentile(&mut each, 50),
        percentile(&mut each, 99),
        percentile(&mut last, 50),
        percentile(&mut last, 99),
    );
}
