//! Servers that come, go and change while the runtime runs; none of the others notices.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_actors::catalog::CatalogMsg;
use pilothouse_actors::servers::{Added, Power, ServersMsg};
use pilothouse_actors::slot::{Letter, Reply};
use pilothouse_actors::wiring::ServerPlace;
use pilothouse_adapters::server::Connector;
use pilothouse_messages::connection::{ConnectionCommand, ConnectionRejection, Reach};
use pilothouse_messages::id::ServerId;
use pilothouse_messages::listing::CatalogCommand;
use pilothouse_messages::server::ServerDefinition;
use ractor::ActorRef;

use super::server::{Child, Server, power};
use super::{ServersShell, until_gone};

/// Askers that wait for the end of one server's removal.
const WAITERS: usize = 256;

type Changed<T> = Reply<Result<T, ConnectionRejection>>;

impl ServersShell {
    pub(super) fn add(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        place: &Arc<ServerPlace>,
        reply: Reply<Added>,
    ) {
        let id = place.definition.id.clone();
        if self.servers.contains_key(&id) {
            return reply.send(Ok(Added::Duplicate));
        }
        self.take_notes(place);
        self.publish(&id, Some(place.clone()));
        self.define(place);
        self.servers.insert(id.clone(), Server::new(place, self.seed, &self.wiring.limits));
        if place.is_wanted() && self.stopping.is_none() {
            self.report(myself, &id, &ConnectionCommand::Enable);
        }
        reply.send(Ok(Added::Yes));
    }

    /// The old connection ends before a new one starts, and nobody reaches the one by the other's definition: callers
    /// find the new place first.
    pub(super) fn edit(
        &mut self,
        myself: &ActorRef<Letter<ServersMsg>>,
        definition: ServerDefinition,
        connector: Arc<dyn Connector>,
        reply: Changed<Arc<ServerPlace>>,
    ) {
        let id = definition.id.clone();
        let known = self.servers.get_mut(&id).filter(|_| !self.removing.contains_key(&id));
        let Some(server) = known else { return reply.send(Ok(Err(ConnectionRejection::Removed))) };
        let old = server.place.clone();
        let (place, reach) = old.edited(definition, connector);
        let place = Arc::new(place);
        server.place = place.clone();
        self.take_notes(&place);
        self.publish(&id, Some(place.clone()));
        self.listing_follows(&old, &place, reach);
        let idle_stop = place.definition.idle_stop;
        self.report(myself, &id, &ConnectionCommand::Edit { idle_stop, reach });
        if old.definition.enabled != place.definition.enabled && self.stopping.is_none() {
            // A switch that was turned meanwhile stays, unless the definition says something else than before.
            let to = if place.definition.enabled { Power::On } else { Power::Off };
            place.want(to);
            self.report(myself, &id, &power(to));
        }
        reply.send(Ok(Ok(place)));
    }

    fn listing_follows(&self, old: &ServerPlace, place: &ServerPlace, reach: Reach) {
        let server = place.definition.id.clone();
        match (reach, old.fingerprint == place.fingerprint) {
            (_, false) => self.define(place),
            // Only what is secret, or the connector itself, is another one.
            (Reach::Other, true) => {
                self.tell_catalog(CatalogCommand::Recredentialed { server: server.clone() })
            }
            (Reach::Same, true) => {}
        }
        self.wiring.catalog.slot.inform(CatalogMsg::Reoffer { server });
    }

    /// Nobody finds the server from here on; its connection ends as if it were switched off.
    pub(super) fn remove(&mut self, myself: &ActorRef<Letter<ServersMsg>>, id: ServerId, reply: Changed<()>) {
        let Some(server) = self.servers.get(&id) else {
            return reply.send(Ok(Err(ConnectionRejection::Removed)));
        };
        let place = server.place.clone();
        place.want(Power::Off);
        // Those who wait for a place among its calls are told now.
        place.permits.close();
        self.wiring.servers.protocols.forget(&place);
        self.publish(&id, None);
        self.tell_catalog(CatalogCommand::Remove { server: id.clone() });
        let waiting = self.removing.entry(id.clone()).or_default();
        waiting.retain(|reply| !reply.is_closed());
        // Who is too many is told at once that there will be no answer, as the reply is dropped.
        if waiting.len() < WAITERS {
            waiting.push(reply);
        }
        self.report(myself, &id, &ConnectionCommand::Disable);
        self.forget_if_removed(&id);
    }

    /// A server that is being removed is forgotten once its connection is gone.
    pub(super) fn forget_if_removed(&mut self, id: &ServerId) {
        let is_gone = self.servers.get(id).is_none_or(|server| matches!(server.child, Child::None));
        let Some(waiting) = is_gone.then(|| self.removing.remove(id)).flatten() else { return };
        let last = self.servers.remove(id).and_then(|server| {
            server.place.slot.close();
            server.last
        });
        self.tasks.spawn(async move {
            // One that was removed while it waited for its predecessor's end answers after that.
            if let Some(last) = last {
                until_gone(&last).await;
            }
            waiting.into_iter().for_each(|reply| reply.send(Ok(Ok(()))));
        });
    }

    /// Where the server's connector notes the processes that it starts.
    pub(super) fn take_notes(&self, place: &ServerPlace) {
        place.take_notes(self.wiring.servers.processes.clone());
    }

    fn publish(&self, id: &ServerId, place: Option<Arc<ServerPlace>>) {
        let mut places = BTreeMap::clone(&self.wiring.servers.places.load());
        match place {
            Some(place) => places.insert(id.clone(), place),
            None => places.remove(id),
        };
        self.wiring.servers.places.store(Arc::new(places));
    }

    fn define(&self, place: &ServerPlace) {
        let (server, definition) = (place.definition.id.clone(), place.fingerprint);
        self.tell_catalog(CatalogCommand::Define { server, definition });
    }

    fn tell_catalog(&self, command: CatalogCommand) {
        self.wiring.catalog.slot.inform(CatalogMsg::Command { command });
    }
}
