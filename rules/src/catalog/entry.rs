//! One server's place in the catalog: what it offers, whether it is being listed, and when it has to be.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{Revision, ServerId};
use pilothouse_messages::listing::{
    CacheScope, ListedTools, Listing, ListingState, ListingView, RefreshTicket,
};
use pilothouse_messages::time::Timestamp;

/// One server's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) definition: Digest,
    pub(super) offer: Offer,
    pub(super) refresh: Refresh,
    /// The newest revision under any definition, so that no two listings of a server share one.
    pub(super) revision: Revision,
    /// For whom the listing holds.
    pub(super) cache: CacheScope,
    /// When it has to be listed again; counts only while it is warm.
    pub(super) expires: Option<Timestamp>,
    /// When it is asked again, after it was connected and did not list its tools.
    pub(super) retry_at: Option<Timestamp>,
    /// How often in a row that happened, on this connection.
    pub(super) failures: u32,
}

/// How long after a refresh that failed a server that is connected is asked again; doubles each time.
const RETRY_FIRST: Duration = Duration::from_secs(5);
/// The longest such delay.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// What a server is known to offer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Cold,
    Warm(Arc<Listing>),
    Stale { listing: Arc<Listing>, reason: String },
}

/// Whether the server is being listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    Idle,
    UnderWay { ticket: RefreshTicket, then: Then },
}

/// What follows the refresh under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Rest,
    Again,
}

impl Entry {
    pub(super) fn new(definition: Digest) -> Self {
        Self {
            definition,
            offer: Offer::Cold,
            refresh: Refresh::Idle,
            revision: Revision::default(),
            cache: CacheScope::Public,
            expires: None,
            retry_at: None,
            failures: 0,
        }
    }

    /// When a server that is not being listed has to be.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        let retry = match self.refresh {
            Refresh::Idle => self.retry_at,
            Refresh::UnderWay { .. } => None,
        };
        self.expires_at().into_iter().chain(retry).min()
    }

    /// How long to leave a server in peace that did not list its tools.
    pub(super) fn retry_after(&self) -> Duration {
        RETRY_FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(RETRY_MAX)
    }

    pub(super) fn no_retry(&mut self) {
        (self.retry_at, self.failures) = (None, 0);
    }

    /// When a listing that is fresh, and not being listed again, has to be.
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        match (&self.offer, &self.refresh) {
            (Offer::Warm(_), Refresh::Idle) => self.expires,
            (Offer::Warm(_) | Offer::Cold | Offer::Stale { .. }, Refresh::UnderWay { .. })
            | (Offer::Cold | Offer::Stale { .. }, Refresh::Idle) => None,
        }
    }

    pub(super) fn under_way(&self) -> Option<(RefreshTicket, Then)> {
        match self.refresh {
            Refresh::Idle => None,
            Refresh::UnderWay { ticket, then } => Some((ticket, then)),
        }
    }

    pub(super) fn listing(&self) -> Option<&Arc<Listing>> {
        match &self.offer {
            Offer::Cold => None,
            Offer::Warm(listing) | Offer::Stale { listing, reason: _ } => Some(listing),
        }
    }

    pub(super) fn view(&self, server: &ServerId) -> ListingView {
        let state = match &self.offer {
            Offer::Cold => ListingState::Cold,
            Offer::Warm(_) => ListingState::Warm,
            Offer::Stale { listing: _, reason } => ListingState::Stale { reason: reason.clone() },
        };
        ListingView::new(server.clone(), state, self.listing().cloned())
    }

    /// Whether an answer says nothing new.
    pub(super) fn says(&self, listed: &ListedTools) -> bool {
        self.listing().is_some_and(|last| {
            last.tools == listed.tools && last.dropped == listed.dropped && self.cache == listed.cache
        })
    }

    /// The listing that an answer makes.
    pub(super) fn listing_of(&self, now: Timestamp, listed: &ListedTools) -> Listing {
        let ListedTools { tools, dropped, ttl: _, cache: _ } = listed.clone();
        Listing {
            definition: self.definition,
            revision: self.revision.next(),
            listed_at: now,
            tools,
            dropped,
        }
    }
}
