use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Attempt, MessageId, StepId, StepRef};
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::TopicConfig;

use super::*;
use crate::store::Batch;
use crate::store::head::Used;
use crate::store::log::{PART_BYTES, put_record};
use crate::store::memory::MemoryStore;

fn id(name: &str) -> TopicId {
    TopicId::new(name).unwrap()
}

fn event(n: u64) -> TopicEvent {
    TopicEvent::TextAppended {
        at: StepRef { turn: TurnId(1), step: StepId(1), attempt: Attempt(1) },
        // Some records have parts.
        delta: "x".repeat(if n == 3 { PART_BYTES * 2 } else { 1 }),
    }
}

fn configured() -> TopicEvent {
    TopicEvent::Configured { config: TopicConfig::new("main"), at: Timestamp(5) }
}

struct Stored(Batch);

impl Stored {
    fn head(mut self, topic: &str, head: Head) -> Self {
        self.0.put(Keyspace::Head, topic_prefix(&id(topic)), head.to_bytes());
        self
    }

    fn journal(mut self, topic: &str, records: impl IntoIterator<Item = u64>) -> Self {
        for n in records {
            self = self.event(topic, n, &event(n));
        }
        self
    }

    fn event(mut self, topic: &str, n: u64, event: &TopicEvent) -> Self {
        let record = JOURNAL.encode(n, Digest([0; 32]), event).unwrap();
        put_record(&mut self.0, Keyspace::Journal, &topic_prefix(&id(topic)), n, &record);
        self
    }

    /// The checkpoint after this turn, and the record that comes after it.
    fn checkpoint(mut self, topic: &str, turn: u64, previous: u64, next: u64) -> Self {
        let checkpoint = TopicCheckpoint {
            next,
            previous: TurnId(previous),
            at: Timestamp(turn * 10),
            config: vec![configured()],
            last_message: MessageId(turn),
            last_turn: TurnId(turn),
            turns: turn,
            stop: None,
            model_spoke_last: true,
            queue: vec![],
            held: vec![],
            keys: vec![],
        };
        let record = CHECKPOINTS.encode(turn, Digest([0; 32]), &checkpoint).unwrap();
        put_record(&mut self.0, Keyspace::Checkpoints, &topic_prefix(&id(topic)), turn, &record);
        self
    }

    fn raw(mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Self {
        self.0.put(keyspace, key, value);
        self
    }
}

fn stored() -> Stored {
    Stored(Batch::new())
}

fn head() -> Head {
    Head { epoch: 1, ..Head::default() }
}

/// The topics with the sequences of their records, the removed ones, and where there is damage.
async fn check(what: &str, stored: Stored, topics: &[(&str, &[u64])], damage: &[(Option<&str>, u64, &str)]) {
    let store = MemoryStore::new();
    store.lane().append(stored.0).await.unwrap();
    let books = read(&store).await.unwrap();
    let found: Vec<(String, Vec<u64>)> = books
        .topics
        .iter()
        .map(|topic| (topic.topic.to_string(), topic.records.iter().map(|record| record.sequence).collect()))
        .collect();
    let topics: Vec<_> =
        topics.iter().map(|(topic, records)| ((*topic).to_owned(), records.to_vec())).collect();
    assert_eq!(found, topics, "{what}");
    assert_eq!(books.damage.len(), damage.len(), "{what}: {:?}", books.damage);
    for (fault, (of, whole, words)) in books.damage.iter().zip(damage) {
        let AuditFault::Damaged { topic, whole: found, reason, .. } = fault else { panic!("{fault:?}") };
        let at = (topic.as_ref().map(TopicId::as_str), *found);
        assert_eq!(at, (*of, *whole), "{what}");
        assert!(reason.contains(words), "{what}: {reason}");
    }
}

#[tokio::test]
async fn each_journal_is_read_as_its_head_says_or_the_damage_is_told() {
    let trimmed = |kept_from| Head { kept_from, checkpoint: TurnId(8), ..head() };
    let turns = || stored().checkpoint("t", 4, 0, 3).checkpoint("t", 8, 4, 6);
    let removed = Head { presence: Present::Removed, ..head() };
    let t = Some("t");
    let whole = || stored().head("t", head()).journal("t", 1..=4);
    check("whole", whole(), &[("t", &[1, 2, 3, 4])], &[]).await;
    check("nothing yet", stored().head("t", head()), &[("t", &[])], &[]).await;
    let left = || stored().head("t", removed).journal("t", 3..=4);
    let open = left().raw(Keyspace::Open, &topic_prefix(&id("t")), b"t");
    check("removed, cut off half-way", open, &[], &[]).await;
    check("removed in its head alone", left(), &[("t", &[])], &[(t, 0, "its records are there")]).await;
    let begun = TopicEvent::TurnStarted { turn: TurnId(1), messages: vec![], at: Timestamp(1) };
    let begun = || stored().head("t", head()).event("t", 1, &begun);
    check("a turn is open", begun().raw(Keyspace::Open, &topic_prefix(&id("t")), b"t"), &[("t", &[1])], &[])
        .await;
    check("none is open", begun(), &[("t", &[1])], &[(t, 1, "it ends within a turn")]).await;
    check("no head", stored().journal("t", 1..=2), &[("t", &[1, 2])], &[(t, 2, "its head is gone")]).await;
    let odd = || stored().journal("t", 1..=2).raw(Keyspace::Head, &topic_prefix(&id("t")), b"odd");
    check("a head that is none", odd(), &[("t", &[1, 2])], &[(t, 2, "cannot be read")]).await;
    let gap = stored().head("t", head()).journal("t", [1, 2, 4]);
    check("a gap", gap, &[("t", &[1, 2])], &[(t, 2, "record 3 in journal")]).await;

    let kept = || turns().head("t", trimmed(3));
    check("trimmed", kept().journal("t", 3..=7), &[("t", &[3, 4, 5, 6, 7])], &[]).await;
    check("not yet deleted", kept().journal("t", 1..=5), &[("t", &[3, 4, 5])], &[]).await;
    let short = kept().journal("t", 3..=4);
    check("lost before the newest checkpoint", short, &[("t", &[3, 4])], &[(t, 4, "records 5 to 5")]).await;
    let lost = stored().head("t", trimmed(3)).journal("t", 3..=5);
    check("no checkpoint", lost, &[("t", &[3, 4, 5])], &[(t, 5, "a checkpoint of the topic is gone")]).await;
    let other = turns().head("t", trimmed(4)).journal("t", 4..=5);
    check("kept from no checkpoint", other, &[("t", &[4, 5])], &[(t, 5, "a checkpoint")]).await;

    let neighbours = || whole().head("tt", head()).journal("tt", 1..=1).head("s", removed);
    check("neighbours", neighbours(), &[("t", &[1, 2, 3, 4]), ("tt", &[1])], &[]).await;
    let odd = neighbours()
        .raw(Keyspace::Journal, &[0xff; 12], b"?")
        .raw(Keyspace::Journal, &[0, 1], b"?")
        .raw(Keyspace::Head, b"?", b"?");
    let topics = [("t", &[1, 2, 3, 4][..]), ("tt", &[1])];
    check("keys of nobody", odd, &topics, &[(None, 0, "3 keys of topics name no topic")]).await;
    let odd = [&topic_prefix(&id("t"))[..], &[0xff; 12]].concat();
    let foreign = neighbours().raw(Keyspace::Journal, &odd, b"?");
    let topics = [("t", &[1, 2, 3][..]), ("tt", &[1])];
    check("a foreign key", foreign, &topics, &[(t, 3, "a foreign key lies beside")]).await;
}

#[tokio::test]
async fn what_came_before_the_first_kept_record_is_taken_from_its_checkpoint() {
    let used = Used { turn: TurnId(5), message: MessageId(9) };
    let head = Head { kept_from: 3, checkpoint: TurnId(8), used, ..head() };
    let stored = stored().checkpoint("t", 4, 0, 3).checkpoint("t", 8, 4, 6).journal("t", 3..=6);
    let again = Head { used, ..self::head() };
    let stored = stored.head("t", head).head("again", again).journal("again", 1..=1);
    let store = MemoryStore::new();
    store.lane().append(stored.0).await.unwrap();
    let books = read(&store).await.unwrap();
    let seeds: Vec<_> =
        books.topics.iter().map(|topic| (topic.before.clone(), topic.at, topic.after_turn)).collect();
    // Turns of an earlier topic of the same name are gone, too.
    let nothing = (vec![], Timestamp(0), TurnId(5));
    assert_eq!(seeds, [nothing, (vec![configured()], Timestamp(40), TurnId(5))]);
    assert_eq!(books.damage, []);
}
