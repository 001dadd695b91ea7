//! What the cache has to do with an exchange.

use weir_cache::cache_status::{CacheStatus, Forwarded};
use weir_http::Field;

use crate::connection::AddressText;

/// What a request and the cache have to do with each other; memory that the next request uses again.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    pub(crate) key: Vec<u8>,
    /// The key, and behind it what tells variants apart whose fills are under way at once.
    pub(crate) fill_key: Vec<u8>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) sent: Sent,
    /// Conditions that are sent in the place of the client's, if they are.
    pub(crate) conditions: Vec<u8>,
    pub(crate) replaces_conditions: bool,
    pub(crate) is_conditional: bool,
    /// The part of the key that the request body makes.
    pub(crate) body_digest: Option<u128>,
    pub(crate) disk: Disk,
    /// To be said in the response's head.
    pub(crate) status: Option<CacheStatus>,
    /// For the log.
    pub(crate) outcome: Option<&'static str>,
}

impl Recall {
    /// What to ask in the place of the client's own conditions.
    pub(crate) fn conditions(&self) -> Option<&[u8]> {
        self.replaces_conditions.then_some(&self.conditions[..])
    }

    /// From here on the client's own conditions are sent, since nothing is stored of what comes of it.
    pub(crate) fn asks_as_client(&mut self) {
        self.replaces_conditions = false;
    }

    pub(crate) fn reset(&mut self) {
        for kept in [&mut self.key, &mut self.fill_key, &mut self.conditions] {
            kept.clear();
            kept.shrink_to(16 << 10);
        }
        self.replaces_conditions = false;
        self.is_conditional = false;
        self.body_digest = None;
        self.disk = Disk::default();
        self.status = None;
        self.outcome = None;
    }

    /// Whether the request is looked up by its body: a POST that its route names.
    pub(crate) fn is_keyed_by_body(&self) -> bool {
        self.body_digest.is_some()
    }

    pub(crate) fn says(&mut self, outcome: &'static str, forwarded: Forwarded) {
        self.outcome = Some(outcome);
        self.status = Some(CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        });
    }
}

/// Whether a request looks for something on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Disk {
    #[default]
    MayHaveIt,
    /// Something from there was damaged, so it looks there no more.
    HasFailed,
}

/// The head that the origin is sent, where that matters.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Of whoever asks.
    pub(crate) client: Option<AddressText>,
    pub(crate) head: Vec<u8>,
    pub(crate) table: Vec<Field>,
}

impl Sent {
    /// The request comes from `client`.
    pub(crate) fn begin(&mut self, client: AddressText) {
        self.client = Some(client);
        self.head.clear();
        self.head.shrink_to(16 << 10);
        self.table.clear();
    }
}
