use pilothouse_adapters::store::memory::MemoryStore;
use pilothouse_adapters::store::{Batch, Keyspace, Pair, Store};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::error::StoreError;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::listing::{CacheScope, CatalogEvent, Listing, ListingState};
use pilothouse_messages::record::Format;
use pilothouse_messages::time::Timestamp;
use pilothouse_rules::catalog::Catalog;

use super::{CatalogJournal, GENESIS, LISTING, Loaded, load};
use crate::durable::Journal as _;

const SPACE: Keyspace = Keyspace::Listing;

fn id(server: &str) -> ServerId {
    ServerId::new(server).unwrap()
}

fn listing(at: u64) -> Listing {
    let definition = Digest([1; 32]);
    Listing { definition, revision: Revision(at), listed_at: Timestamp(at), tools: vec![], dropped: vec![] }
}

async fn append(store: &MemoryStore, batches: Vec<Batch>) {
    let lane = store.lane();
    for batch in batches {
        lane.append(batch).await.unwrap();
    }
}

async fn list(store: &MemoryStore, journal: &mut CatalogJournal, server: &str, at: u64) {
    let listed = CatalogEvent::Listed {
        server: id(server),
        listing: listing(at),
        cache: CacheScope::Public,
        expires: None,
    };
    append(store, journal.stage(&[listed], &Catalog::new()).unwrap()).await;
}

/// The servers that have a listing, with its age.
fn warm(loaded: &Loaded) -> Vec<(String, u64)> {
    let views = ["good", "odd"].map(|server| loaded.catalog.view(&id(server)));
    let listed = views.into_iter().flatten().filter(|view| view.state != ListingState::Cold);
    listed
        .map(|view| (view.server.to_string(), view.listing.map_or(0, |listing| listing.listed_at.0)))
        .collect()
}

/// A store with two listings, one of which `odd` has been replaced by these pairs.
async fn stored(pairs: impl FnOnce(&[Pair]) -> Batch) -> MemoryStore {
    let store = MemoryStore::new();
    let mut journal = CatalogJournal::default();
    list(&store, &mut journal, "good", 5).await;
    list(&store, &mut journal, "odd", 6).await;
    let mut all = store.scan(SPACE, Vec::new(), None, 99).await.unwrap();
    all.retain(|(key, _)| key.windows(3).any(|part| part == b"odd"));
    assert_eq!(all.len(), 2, "a part and its switch");
    append(&store, vec![pairs(&all)]).await;
    store
}

/// The damaged one is passed over and kept; the next listing heals it.
async fn check(what: &str, pairs: impl FnOnce(&[Pair]) -> Batch) {
    let store = stored(pairs).await;
    let before = store.scan(SPACE, Vec::new(), None, 99).await.unwrap();
    let mut loaded = load(&store).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((warm(&loaded), loaded.newest), (vec![("good".to_owned(), 5)], Timestamp(5)), "{what}");
    append(&store, std::mem::take(&mut loaded.leftovers)).await;
    assert_eq!(store.scan(SPACE, Vec::new(), None, 99).await.unwrap(), before, "{what}");

    list(&store, &mut loaded.journal, "odd", 7).await;
    let healed = load(&store).await.unwrap();
    assert_eq!(warm(&healed), vec![("good".to_owned(), 5), ("odd".to_owned(), 7)], "{what}");
    assert_eq!(healed.leftovers, vec![], "{what}");
}

/// The switch and the part of a listing that says these bytes, in place of the ones that are there.
fn replaced(bytes: &[u8]) -> Batch {
    let staged = pilothouse_adapters::store::large::stage(SPACE, b"odd", bytes, None);
    staged.batches.into_iter().next().unwrap()
}

#[tokio::test]
async fn a_damaged_listing_leaves_its_server_cold_and_the_others_as_they_were() {
    check("a part is gone", |pairs| {
        let mut batch = Batch::new();
        batch.delete(SPACE, pairs[0].0.clone());
        batch
    })
    .await;
    check("a switch is unreadable", |pairs| {
        let mut batch = Batch::new();
        batch.put(SPACE, pairs[1].0.clone(), *b"no switch");
        batch
    })
    .await;
    check("a record is unreadable", |_| replaced(b"no record")).await;
}

#[tokio::test]
async fn a_listing_of_a_newer_format_stops_the_start() {
    let newer = Format { version: LISTING.version + 1, ..LISTING };
    let store = stored(|_| replaced(&newer.encode(1, GENESIS, &"from the future").unwrap())).await;
    let expected = StoreError::NewerFormat { keyspace: "listing".into(), found: 2, known: 1 };
    assert_eq!(load(&store).await.map(|_| ()), Err(expected));
}
