//! One life of the process in a storm: from its start to its crash, its restart or its orderly end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::clock::TokioClock;
use pilothouse::limits::Limits;
use pilothouse::model::Model;
use pilothouse::store::memory::MemoryStore;
use pilothouse::topic::TopicConfig;
use pilothouse::{Runtime, Topic};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::mind::Mind;
use super::people;
use super::plan::Kind;
use super::promise::{ANSWERED, HEALS, NOTHING_LEFT, SHUTDOWN};
use super::scene::Play;
use super::store::FaultyStore;
use super::watch::{follow_events, follow_topic};
use super::world::StormDisk;

/// How long a shutdown may take: `Limits::stop`, and what its last task needs to be told.
const STOPS_WITHIN: Duration = Duration::from_millis(10_500);
/// How long whatever was asked of an actor may take: its absence, a commit, its absence again; and a little more.
pub(super) const ASKED: Duration = Duration::from_secs(20);
/// How long a life may last; none needs a tenth of it.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an opening may take: three questions.
const OPENS_WITHIN: Duration = Duration::from_secs(60);

/// Which part of a storm a life belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It storms.
    Storm,
    /// The storm is over; all has to become well.
    Calm,
    /// All is well; one more start has to find it so.
    Epilogue,
}

/// How a life ended, and what it left.
pub(super) enum End {
    /// It crashed, or it was restarted.
    Again(MemoryStore),
    /// The storm is over, and the next life begins in calm.
    GoesCalm(MemoryStore),
    /// All became well.
    Well(MemoryStore),
    /// Nothing more is to be seen.
    Over,
}

/// What everybody in one life can reach.
pub(super) struct Life {
    pub(super) play: Arc<Play>,
    pub(super) runtime: Runtime,
    pub(super) store: FaultyStore,
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) restarts: watch::Sender<bool>,
    pub(super) number: u64,
}

/// Lives one life.
pub(super) async fn live(play: Arc<Play>, memory: MemoryStore, number: u64, phase: Phase) -> End {
    let begins = play.world.begin_life();
    play.world.trace(format!("life {number} begins"));
    let disk = StormDisk::new(play.world.clone(), number);
    let store = FaultyStore::over(memory, play.world.store_id(), disk);
    let clock = TokioClock::starting_at(begins);
    tokio::select! {
        biased;
        left = store.crashed() => {
            play.world.count("the process crashed");
            play.world.trace("the process crashed");
            End::Again(left)
        }
        end = within(play.clone(), store.clone(), clock, number, phase) => end,
        // Where nobody waits for a time any more, virtual time jumps to this one.
        () = sleep(LIFE_MAX) => {
            play.world.violated(ANSWERED, "somebody waits for ever");
            End::Over
        }
    }
}

async fn within(play: Arc<Play>, store: FaultyStore, clock: TokioClock, number: u64, phase: Phase) -> End {
    let world = play.world.clone();
    if phase == Phase::Calm {
        // From before its start on: what a disk refuses then leaves no approvals in the whole life.
        world.calm();
    }
    let runtime = match start(&play, &store, clock, number).await {
        Ok(runtime) => runtime,
        Err(words) => {
            world.trace(format!("it does not start: {words}"));
            world.count("a start failed");
            if phase != Phase::Storm {
                world.violated(HEALS, format!("it does not start: {words}"));
                return End::Over;
            }
            sleep(Duration::from_secs(1)).await;
            return End::Again(store.memory().crash_keeping_lazy());
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_events(world.clone(), runtime.clone()));
    let Some(topics) = open_all(&play, &runtime, phase).await else {
        // Nobody can work on what does not open: an embedder would start again.
        let _forced = runtime.shutdown().await;
        return End::Again(store.memory().crash_keeping_lazy());
    };
    for (name, topic) in &topics {
        tasks.spawn(follow_topic(world.clone(), name.clone(), topic.clone()));
    }
    let restarts = watch::Sender::new(false);
    let life = Arc::new(Life { play: play.clone(), runtime, store, topics, restarts, number });
    match phase {
        Phase::Storm => storm(life, tasks).await,
        Phase::Calm => calm(life, tasks).await,
        Phase::Epilogue => {
            end(life, tasks, Wanted::Clean).await;
            End::Over
        }
    }
}

async fn start(
    play: &Arc<Play>,
    store: &FaultyStore,
    clock: TokioClock,
    number: u64,
) -> Result<Runtime, String> {
    let mut limits = Limits::default();
    limits.view_turns = 10_000;
    let minds: BTreeMap<String, Arc<dyn Model>> = play
        .topics
        .iter()
        .map(|topic| {
            let mind = Mind::new(play.world.clone(), topic, number, play.tools.clone());
            (topic.clone(), Arc::new(mind) as Arc<dyn Model>)
        })
        .collect();
    let mut builder = Runtime::builder()
        .store(Arc::new(store.clone()))
        .clock(clock)
        .limits(limits)
        .seed(play.world.seed)
        .heavy_work_in_turn()
        .models(move |name: &str| minds.get(name).cloned());
    for server in play.servers() {
        builder = builder.server(server);
    }
    let builder = play.scene.build(builder);
    match timeout(Duration::from_secs(400), builder.start()).await {
        Ok(started) => started.map_err(|error| error.to_string()),
        Err(_elapsed) => {
            play.world.violated(ANSWERED, "a start did not end");
            Err("it took too long".to_owned())
        }
    }
}

/// Opens every topic; in a storm it is tried for a while.
async fn open_all(play: &Arc<Play>, runtime: &Runtime, phase: Phase) -> Option<BTreeMap<String, Topic>> {
    let mut topics = BTreeMap::new();
    for name in &play.topics {
        let mut opened = None;
        for _attempt in 0..10 {
            opened = open(play, runtime, name).await;
            if opened.is_some() {
                break;
            }
            sleep(Duration::from_secs(5)).await;
        }
        match opened {
            Some(topic) => {
                if let Some(view) = topic.view() {
                    play.world.saw_whole_view(name, &view);
                }
                topics.insert(name.clone(), topic);
            }
            None if phase == Phase::Storm => return None,
            None => {
                play.world.violated(HEALS, format!("{name} does not open"));
                return None;
            }
        }
    }
    Some(topics)
}

async fn open(play: &Arc<Play>, runtime: &Runtime, name: &str) -> Option<Topic> {
    let world = &play.world;
    let patience = world.dice(&format!("patience/{name}")).between(20, 600) * 1_000;
    let mut config = TopicConfig::new(name);
    config.approval_ttl_ms = Some(patience);
    config.max_steps = Some(6);
    let opening = async {
        match runtime.topic(name).await {
            Ok(topic) if topic.view().is_some_and(|view| !view.config.model.is_empty()) => Ok(topic),
            _ => runtime.open_topic(name, config).await,
        }
    };
    match people::bounded(world, "opening a topic", OPENS_WITHIN, opening).await? {
        Ok(topic) => Some(topic),
        Err(error) => {
            world.trace(format!("{name} does not open: {error}"));
            None
        }
    }
}

/// Lets everything happen that is still to happen, and goes on until there is calm.
async fn storm(life: Arc<Life>, mut tasks: JoinSet<()>) -> End {
    let world = life.play.world.clone();
    tasks.spawn(people::decide_cards(life.clone()));
    for step in life.play.steps_left() {
        tasks.spawn(people::perform(life.clone(), step));
    }
    let mut restarts = life.restarts.subscribe();
    let mut dice = world.dice("linger");
    let last = life.play.steps.last().map(|step| step.at).unwrap_or_default();
    let until = (last + dice.below(30_000)).saturating_sub(world.now()).max(1);
    let stays = dice.percent(50) && !world.has(Kind::BadDisk) && !world.has(Kind::StuckDisk);
    let restarting = timeout(Duration::from_millis(until), restarts.wait_for(|restarts| *restarts));
    // What it resolves to locks the channel, so it is let go at once.
    let is_restarted = restarting.await.is_ok();
    if is_restarted {
        world.count("the process was restarted");
        let memory = end(life, tasks, Wanted::Bounded).await;
        return End::Again(memory);
    }
    if stays {
        world.calm();
        return calm(life, tasks).await;
    }
    End::GoesCalm(end(life, tasks, Wanted::Bounded).await)
}

/// All becomes well, and stays so.
async fn calm(life: Arc<Life>, tasks: JoinSet<()>) -> End {
    super::calm::settle(&life).await;
    End::Well(end(life, tasks, Wanted::Clean).await)
}

/// What a shutdown has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Over in time.
    Bounded,
    /// And without force, and nothing is left.
    Clean,
}

/// Shuts down; what is on the disk then.
async fn end(life: Arc<Life>, mut tasks: JoinSet<()>, wanted: Wanted) -> MemoryStore {
    let world = life.play.world.clone();
    let began = tokio::time::Instant::now();
    let shutdown = life.runtime.shutdown().await;
    let took = began.elapsed();
    world.trace(format!("shut down, forced {:?}", shutdown.forced));
    if took > STOPS_WITHIN {
        world.violated(SHUTDOWN, format!("it took {took:?}, and forced {:?}", shutdown.forced));
    }
    if wanted == Wanted::Clean && !shutdown.is_clean() {
        world.violated(SHUTDOWN, format!("it forced {:?}", shutdown.forced));
    }
    tasks.shutdown().await;
    let memory = life.store.memory().crash_keeping_lazy();
    if wanted == Wanted::Clean {
        let play = life.play.clone();
        drop(life);
        nothing_is_left(&play).await;
    }
    memory
}

async fn nothing_is_left(play: &Arc<Play>) {
    sleep(Duration::from_secs(100)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let connections: usize = play.peers.values().map(|peer| peer.connections()).sum();
    // One is the disk's own.
    if tasks > 1 || connections > 0 {
        let words = format!("{tasks} tasks and {connections} connections are left");
        play.world.violated(NOTHING_LEFT, words);
    }
}
