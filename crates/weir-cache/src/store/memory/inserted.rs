//! What happens to an object that is to be stored in RAM.

use std::sync::Arc;

use crate::store::object::Entry;

/// The result of an insert.
#[derive(Debug)]
pub enum Inserted {
    /// It is stored. Contains the entries that made room for it, without objects that variants of the same key
    /// replaced or pushed out.
    Stored(Vec<Arc<Entry>>),
    /// It is not stored, and why.
    Refused(Refusal),
}

/// Why an object is not in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is larger than one object may be.
    TooLarge,
    /// The store is full, and an object of this size needs more misses first.
    TooRare,
    /// Clients hold too much that is not stored.
    Crowded,
    /// It was purged while it was on its way.
    Purged,
    /// It comes from disk or from before a purge, and a newer one is stored.
    Superseded,
}
