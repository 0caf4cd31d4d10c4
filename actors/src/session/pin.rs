//! The surface that a topic's turn has pinned, and when its session pins it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_adapters::model::Model;
use pilothouse_messages::id::{ServerId, StepId, StepRef};
use pilothouse_messages::model::Dialect;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::topic::TopicConfig;
use pilothouse_rules::registry::ToolTable;
use pilothouse_rules::surface::{Surface, Terms};
use pilothouse_rules::tokens::{Bytes4, TokenCounter};

use crate::tasks::caught_now;
use crate::wiring::{CatalogPlace, ServerPlace, TopicPlace, Wiring};

/// The pinned surface of a topic, over its turns.
#[derive(Default)]
pub(super) struct Pin {
    surface: Option<Surface>,
    /// What was last said about late tools, and of which table: looked through once for each.
    late: Option<(Arc<ToolTable>, Option<String>)>,
    /// The servers that were cold when it was last looked.
    cold: Option<Cold>,
}

/// The tenant's servers that have never been listed, as they were when the maps were these. A topic has one tenant.
struct Cold {
    places: Arc<BTreeMap<ServerId, Arc<ServerPlace>>>,
    listings: Arc<BTreeMap<ServerId, Arc<CatalogPlace>>>,
    servers: Arc<BTreeSet<ServerId>>,
}

impl Pin {
    /// The surface for this step, and what its request says about late tools. It is pinned anew only at the first step
    /// of a turn, and only for a reason.
    pub(super) fn for_step(
        &mut self,
        wiring: &Wiring,
        place: &TopicPlace,
        (config, dialect): (&TopicConfig, Dialect),
        at: StepRef,
        now: Timestamp,
    ) -> (Surface, Option<String>) {
        let table = wiring.registry.table.load_full();
        let mut surface = match self.surface.take() {
            Some(surface) if at.step != StepId(1) => surface,
            last => {
                let cold = self.cold(wiring, config);
                let is_due = place.take_repin();
                let kept = last.filter(|surface| {
                    !is_due
                        && surface.view().dialect == dialect
                        && surface.must_repin(&table, config, now, &cold, &wiring.limits).is_none()
                });
                kept.unwrap_or_else(|| {
                    self.late = None;
                    pinned(wiring, &table, (config, dialect), &cold, now)
                })
            }
        };
        surface.used(now);
        let late = match &self.late {
            Some((seen, late)) if Arc::ptr_eq(seen, &table) => late.clone(),
            Some(_) | None => surface.late(&table),
        };
        self.late = Some((table, late.clone()));
        self.surface = Some(surface.clone());
        (surface, late)
    }

    /// The cold servers: looked for among all of them only when a definition or a listing has changed.
    fn cold(&mut self, wiring: &Wiring, config: &TopicConfig) -> Arc<BTreeSet<ServerId>> {
        let (places, listings) = (wiring.servers.places.load_full(), wiring.catalog.places.load_full());
        match &self.cold {
            Some(seen) if Arc::ptr_eq(&seen.places, &places) && Arc::ptr_eq(&seen.listings, &listings) => {
                seen.servers.clone()
            }
            Some(_) | None => {
                let servers = cold_servers(wiring, &places, config);
                self.cold = Some(Cold { places, listings, servers: servers.clone() });
                servers
            }
        }
    }
}

/// What the topic would show if a turn began now.
pub fn surface_now(wiring: &Wiring, config: &TopicConfig, now: Timestamp) -> Surface {
    let model = caught_now(|| wiring.models.resolve(&config.model)).ok().flatten();
    let (config, dialect) = match model {
        Some(model) => (windowed(config.clone(), model.as_ref()), dialect_of(model.as_ref())),
        None => (config.clone(), Dialect::default()),
    };
    let cold = cold_servers(wiring, &wiring.servers.places.load(), &config);
    pinned(wiring, &wiring.registry.table.load(), (&config, dialect), &cold, now)
}

/// Whose rules the model's tool block keeps. A model that panics is shown what most take.
pub(super) fn dialect_of(model: &dyn Model) -> Dialect {
    caught_now(|| model.dialect()).unwrap_or_default()
}

/// The configuration with the window of its model, where it names none. A model that panics has none.
pub(super) fn windowed(mut config: TopicConfig, model: &dyn Model) -> TopicConfig {
    config.context_window =
        config.context_window.or_else(|| caught_now(|| model.limits()).unwrap_or_default().context_window);
    config
}

/// A counter of the embedder's that panics counts nothing: the default takes its place.
fn pinned(
    wiring: &Wiring,
    table: &ToolTable,
    (config, dialect): (&TopicConfig, Dialect),
    cold: &Arc<BTreeSet<ServerId>>,
    now: Timestamp,
) -> Surface {
    let pin = |counter: &dyn TokenCounter| {
        let terms = Terms { limits: &wiring.limits, counter, shown: &wiring.shown, dialect };
        Surface::pin(table, config, cold, now, terms)
    };
    caught_now(|| pin(wiring.counter.as_ref())).unwrap_or_else(|words| {
        tracing::warn!(target: "pilothouse", %words, "the token counter panicked: tools are counted by the default");
        pin(&Bytes4)
    })
}

/// The tenant's servers that have never been listed. Looking is a read, so each is listed once in the background.
fn cold_servers(
    wiring: &Wiring,
    places: &BTreeMap<ServerId, Arc<ServerPlace>>,
    config: &TopicConfig,
) -> Arc<BTreeSet<ServerId>> {
    let theirs = places
        .values()
        .filter(|place| place.definition.tenant.as_ref().is_none_or(|tenant| *tenant == config.tenant));
    let cold = theirs.filter(|place| match wiring.catalog.read(&place.definition.id) {
        Some(listing) => listing.view.listing.is_none(),
        None => true,
    });
    Arc::new(cold.map(|place| place.definition.id.clone()).collect())
}
