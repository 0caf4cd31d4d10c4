//! A store whose values are sealed: what lies on the disk, and who can read it.

use std::path::Path;
use std::sync::Arc;

use pilothouse::Builder;
use pilothouse::approval::DecideAnswer;
use pilothouse::audit::{AuditFact, audit_store};
use pilothouse::error::{StartError, StoreError};
use pilothouse::model::scripted::Step;
use pilothouse::prelude::*;
use pilothouse::store::sled::SledStore;
use pilothouse::store::{SealedStore, Sealer, Store};
use pilothouse_harness::audit::{AuditError, of_directory, of_sealed_directory};
use serde_json::json;

use crate::stage::{call, peer, plays};

#[path = "../../adapters/tests/sealed_store/keyed.rs"]
mod keyed;

/// Said by the person, sent as an argument, answered by the tool and written by the model.
const CANARY: &str = "correct horse battery staple";

/// One turn in which a person allows a call.
async fn turn(store: SledStore, sealer: Option<Arc<dyn Sealer>>) {
    let peer = peer(json!({"tools": [{"name": "drop", "reply": CANARY}]}));
    let steps = [call("a", "drop", json!({"what": CANARY})), Step::text(CANARY)];
    let setup = plays(steps).peer("a", &peer).store(store.clone());
    let mut stage = setup.build(|builder| sealer.into_iter().fold(builder, Builder::sealer)).raise().await;
    stage.say(CANARY).await;
    let card = stage.until_card().await;
    assert_eq!(stage.decide(&card, Decision::allow(CANARY)).await, DecideAnswer::Applied);
    assert_eq!(stage.until_end().await, StopReason::Completed);
    let report = stage.runtime.audit().await.expect("it reads");
    assert_eq!(report.faults, []);
    stage.runtime.shutdown().await;
    store.close().await.expect("it closes");
}

/// Whether a file of this directory holds the canary.
fn readable(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("it is there").any(|entry| {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            return readable(&path);
        }
        let bytes = std::fs::read(path).expect("it can be read");
        bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    })
}

async fn refused(directory: &Path, sealer: Option<Arc<dyn Sealer>>) -> String {
    let builder = Runtime::builder().data_dir(directory);
    let started = sealer.into_iter().fold(builder, Builder::sealer).start().await.map(drop);
    match started {
        Err(StartError::Store(StoreError::Sealed { reason })) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_on_the_disk_can_be_read_without_the_sealer_and_a_wrong_key_starts_nothing() {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("there is a temporary directory"));
    let [plain, sealed] = [directories[0].path(), directories[1].path()];
    turn(SledStore::open(plain).await.expect("it opens"), None).await;
    turn(SledStore::open(sealed).await.expect("it opens"), Some(keyed::sealer("one"))).await;
    assert_eq!([readable(plain), readable(sealed)], [true, false]);

    assert!(refused(sealed, Some(keyed::sealer("two"))).await.contains("use the key that it was made with"));
    assert!(refused(sealed, None).await.contains("give the sealer that it was made with"));
    assert!(refused(plain, Some(keyed::sealer("one"))).await.contains("kept without a sealer"));

    let report = of_sealed_directory(sealed, keyed::sealer("one")).await.expect("it reads");
    let who = |fact: &AuditFact| matches!(fact, AuditFact::Decided { by, .. } if by == CANARY);
    assert!(report.faults.is_empty() && report.rows.iter().any(|row| who(&row.fact)), "{report:?}");
    for refusal in [of_directory(sealed).await, of_sealed_directory(sealed, keyed::sealer("two")).await] {
        assert!(matches!(refusal, Err(AuditError::Store(StoreError::Sealed { .. }))), "{refusal:?}");
    }
    let store = SledStore::open(sealed).await.expect("it opens");
    assert!(matches!(audit_store(&store).await, Err(StoreError::Sealed { .. })));
    let again = SealedStore::open(Arc::new(store), keyed::sealer("one")).await.expect("it opens");
    assert_eq!(audit_store(&again).await, Ok(report));
}
