//! Those who act: people who write, decide and stop, operators, and accidents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse::approval::{Card, DecideAnswer, Decision, GrantOffer, GrantReach, GrantScope, Verdict};
use pilothouse::call::CallOutcome;
use pilothouse::id::ServerId;
use pilothouse::topic::ConfigPatch;
use pilothouse::tree::TreeNode;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::dice::{Dice, jitter};
use super::life::{ASKED, Life};
use super::plan::Kind;
use super::promise::{ANSWERED, ASKS, CRASH, STOP_AT_ONCE};
use super::step::{Act, Step};
use super::watch::dawdle;
use super::world::World;

/// How long a call outside a turn may take: to wait for its server, and its own deadline.
const CALL_WITHIN: Duration = Duration::from_secs(130);
/// How long a refresh may take: to connect, to list, and to be asked for.
const REFRESH_WITHIN: Duration = Duration::from_secs(90);
/// How long the end of a connection may take, and two questions.
const EDIT_WITHIN: Duration = Duration::from_secs(30);

/// Waits for an answer, which has to come within its bound.
pub(super) async fn bounded<T>(
    world: &World,
    what: &str,
    within: Duration,
    answer: impl Future<Output = T>,
) -> Option<T> {
    match timeout(within, answer).await {
        Ok(answer) => Some(answer),
        Err(_elapsed) => {
            world.violated(ANSWERED, format!("{what} was not answered in {within:?}"));
            None
        }
    }
}

/// Does one step, when it is time.
pub(super) async fn perform(life: Arc<Life>, step: Step) {
    let world = life.play.world.clone();
    let wait = step.at.saturating_sub(world.now());
    sleep(Duration::from_millis(wait)).await;
    let mut dice = world.dice(&format!("act/{}", step.number));
    jitter(&mut dice).await;
    life.play.begin(&step);
    world.trace(format!("does {}", step.act));
    act(&life, &step.act, &mut dice).await;
}

async fn act(life: &Life, act: &Act, dice: &mut Dice) {
    let (world, play) = (&life.play.world, &life.play);
    match act {
        Act::Send { topic, text } => send(life, topic, text).await,
        Act::StopTopic { topic } => stop(life, topic).await,
        Act::Mode { topic, mode } => {
            let Some(topic) = life.topics.get(topic) else { return };
            let patch = ConfigPatch { mode: Some(*mode), ..ConfigPatch::default() };
            note(
                world,
                "a change of mode",
                bounded(world, "a change of mode", ASKED, topic.configure(patch)).await,
            );
        }
        Act::Repin { topic } => {
            if let Some(topic) = life.topics.get(topic) {
                topic.repin();
            }
        }
        Act::Window { topic: name, buffer, pace } => {
            let Some(topic) = life.topics.get(name) else { return };
            if let Some(window) = topic.attach_with(*buffer) {
                dawdle(world, name, window, Duration::from_millis(*pace)).await;
            }
        }
        Act::Call { server, tool } => call(life, server, tool, dice).await,
        Act::Revoke => {
            for grant in life.runtime.grants() {
                let revoking = life.runtime.revoke(grant.grant, "ann");
                note(world, "a revocation", bounded(world, "a revocation", ASKED, revoking).await);
            }
        }
        Act::Refresh { server } => {
            let Some(server) = handle(life, server) else { return };
            note(world, "a refresh", bounded(world, "a refresh", REFRESH_WITHIN, server.refresh()).await);
        }
        Act::RestartServer { server } => {
            let Some(server) = handle(life, server) else { return };
            note(
                world,
                "a restart",
                bounded(world, "a restart of a server", EDIT_WITHIN, server.restart()).await,
            );
        }
        Act::Switch { server, off } => {
            let Some(server) = handle(life, server) else { return };
            note(
                world,
                "switching off",
                bounded(world, "switching off", EDIT_WITHIN, server.disable()).await,
            );
            sleep(Duration::from_millis(*off)).await;
            note(world, "switching on", bounded(world, "switching on", EDIT_WITHIN, server.enable()).await);
        }
        Act::Rename { server } => {
            let Some(server) = play.server(server) else { return };
            let server = server.name(format!("Server {}", dice.below(100)));
            let editing = life.runtime.edit_server(server);
            note(world, "an edit", bounded(world, "an edit", EDIT_WITHIN, editing).await);
        }
        Act::Kill { server } => {
            if let Some(peer) = play.peers.get(server) {
                peer.kill();
                world.count("a server died");
            }
        }
        Act::Swap { server } => play.swap(server, dice),
        Act::Strike { actor } => strike(life, *actor).await,
        Act::Crash { loss } => drop(life.store.crash(*loss)),
        Act::Restart => {
            life.restarts.send_replace(true);
        }
    }
}

fn handle(life: &Life, server: &str) -> Option<pilothouse::ServerHandle> {
    let id = ServerId::new(server).ok()?;
    life.runtime.server(&id).ok()
}

/// Writes down how something went that has no more to be held to.
fn note<T, E: std::fmt::Display>(world: &World, what: &str, went: Option<Result<T, E>>) {
    match went {
        Some(Ok(_done)) => world.trace(format!("{what}: done")),
        Some(Err(error)) => world.trace(format!("{what}: {error}")),
        None => {}
    }
}

async fn send(life: &Life, name: &str, text: &str) {
    let world = &life.play.world;
    let Some(topic) = life.topics.get(name) else { return };
    match bounded(world, "a send", ASKED, topic.send_with_key(text, text)).await {
        Some(Ok(sent)) => {
            world.trace(format!(
                "{name} took \"{text}\" as {} {}",
                sent.message,
                super::check::place(&sent.receipt)
            ));
            world.took(name, text, sent.message);
        }
        Some(Err(error)) => {
            world.trace(format!("{name} did not take \"{text}\": {error}"));
            world.count("a message was refused, or not confirmed");
        }
        None => {}
    }
}

async fn stop(life: &Life, name: &str) {
    let world = &life.play.world;
    let Some(topic) = life.topics.get(name) else { return };
    match timeout(ASKED, topic.stop("ann")).await {
        Ok(Ok(turn)) => {
            world.trace(format!("{name} stopped {turn:?}"));
            let open = topic
                .view()
                .and_then(|view| view.turns.last().filter(|last| last.stop.is_none()).map(|last| last.turn));
            if turn.is_some() && open == turn {
                world.violated(STOP_AT_ONCE, format!("{name}: turn {turn:?} is still open after its stop"));
            }
        }
        Ok(Err(error)) => world.trace(format!("{name} did not stop: {error}")),
        Err(_elapsed) => world.violated(STOP_AT_ONCE, format!("{name} did not stop in {ASKED:?}")),
    }
}

async fn call(life: &Life, server: &str, tool: &str, dice: &mut Dice) {
    let world = &life.play.world;
    let Some(handle) = handle(life, server) else { return };
    let token = format!("direct-{}", dice.throw());
    let arguments = json!({"token": token});
    let calling = bounded(world, "a call outside a turn", CALL_WITHIN, handle.call(tool, &arguments));
    let Some(result) = calling.await else { return };
    world.trace(format!("a call of {tool} outside a turn: {:?}", result.outcome));
    let times = world.facts().reached.get(&token).copied().unwrap_or_default();
    if result.outcome == CallOutcome::Succeeded && times == 0 {
        world.violated(CRASH, format!("{token} of {tool} did not run, and succeeded: {result:?}"));
    }
    if tool == "drop" && result.outcome == CallOutcome::Succeeded {
        world.violated(ASKS, format!("{token} of {tool} ran outside a turn, where nobody can be asked"));
    }
}

/// Ends an actor, and sees how long it is away.
async fn strike(life: &Life, actor: u64) {
    let world = &life.play.world;
    let names = names(&life.runtime.tree());
    let Some(name) = names.get(usize::try_from(actor % names.len().max(1) as u64).unwrap_or_default()) else {
        return;
    };
    if !life.runtime.kill_actor(name) {
        return;
    }
    let kind = name.split('/').next().unwrap_or_default().to_owned();
    world.trace(format!("killed {name}"));
    world.count("an actor was killed");
    let began = Instant::now();
    // A kill is noticed when the actor next waits.
    let mut pause = Duration::from_millis(1);
    sleep(pause).await;
    while began.elapsed() < Duration::from_secs(120) {
        if is_there(&life.runtime.tree(), name) {
            let away = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            world.facts().away.entry(kind).or_default().push(away);
            return;
        }
        sleep(pause).await;
        // To the millisecond for those that come back at once, to a hundredth for those that wait for their turn.
        pause = pause.max(began.elapsed() / 100);
    }
}

fn names(node: &TreeNode) -> Vec<String> {
    let below = node.children.iter().flat_map(names);
    node.children.iter().map(|child| child.name.clone()).chain(below).collect()
}

fn is_there(node: &TreeNode, name: &str) -> bool {
    node.children.iter().any(|child| {
        (child.name == name && matches!(child.state.as_str(), "running" | "ready")) || is_there(child, name)
    })
}

/// Decides about every card, sooner or later or not at all; in some storms several people do.
pub(super) async fn decide_cards(life: Arc<Life>) {
    let world = life.play.world.clone();
    let (mut seen, mut deciding) = (BTreeSet::new(), JoinSet::new());
    while world.is_stormy() {
        for card in life.runtime.approvals() {
            if seen.insert(card.approval) {
                let mut dice = world.dice(&format!("card/{}/{}", card.approval, life.number));
                let people = if world.has(Kind::Conflict) { dice.between(1, 3) } else { 1 };
                if dice.percent(8) {
                    continue;
                }
                let first = dice.below(8_000);
                for person in 0..people {
                    let after = Duration::from_millis(first + person * dice.below(40));
                    let dice = world.dice(&format!("decide/{}/{}/{person}", card.approval, life.number));
                    deciding.spawn(decide(life.clone(), card.clone(), person, after, dice));
                }
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    deciding.join_all().await;
}

async fn decide(life: Arc<Life>, card: Card, person: u64, after: Duration, mut dice: Dice) {
    let world = &life.play.world;
    sleep(after).await;
    jitter(&mut dice).await;
    let by = format!("person {person}");
    let (allows, binds, grants) = (dice.percent(70), dice.percent(50), dice.percent(30));
    let verdict = if allows { Verdict::Allow } else { Verdict::Deny };
    let mut decision = if allows { Decision::allow(&by) } else { Decision::deny(&by, "no") };
    if binds {
        decision = decision.of(&card);
    }
    if world.has(Kind::Grant) && allows && grants {
        let scope = match dice.below(3) {
            0 => GrantScope::Turn,
            1 => GrantScope::Topic,
            _ => GrantScope::Always,
        };
        let mut facts = world.facts();
        match scope {
            GrantScope::Turn | GrantScope::Topic => {
                facts.granted.insert(card.topic.to_string());
            }
            GrantScope::Always => {
                facts.granted.extend(life.play.topics.iter().cloned().chain(["direct".to_owned()]))
            }
        }
        drop(facts);
        world.count("a grant was offered");
        decision = decision.granting(GrantOffer::new(scope, GrantReach::Tool));
    }
    world.decides(&card, verdict);
    match bounded(world, "a decision", ASKED, life.runtime.decide(card.approval, decision)).await {
        Some(Ok(told)) => {
            world.trace(format!("{by} says {verdict:?} to {}: {told:?}", card.call));
            match told {
                DecideAnswer::Conflict(_) => world.count("two people disagreed about a card"),
                DecideAnswer::Already(_) => world.count("two people agreed about a card"),
                DecideAnswer::Withdrawn(_) => world.count("a decision came after its card was taken back"),
                DecideAnswer::Applied
                | DecideAnswer::Expired(_)
                | DecideAnswer::Changed { .. }
                | DecideAnswer::Unknown => {}
            }
            world.decided(&card, verdict, &by, &told);
        }
        Some(Err(error)) => {
            world.trace(format!("{by} is not heard about {}: {error}", card.call));
            world.count("a decision was not confirmed");
        }
        None => {}
    }
}
