//! What becomes of an object that is to be stored in RAM.

use std::sync::Arc;

use crate::store::object::Entry;

/// What became of an insert.
#[derive(Debug)]
pub enum Inserted {
    /// It is stored. The entries that made room for it are handed back, with the objects that variants of the same key
    /// replaced or pushed out left out.
    Stored(Vec<Arc<Entry>>),
    /// It is not stored, and why.
    Refused(Refusal),
}

/// Why an object is not in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is larger than one object may be.
    TooLarge,
    /// The store is full, and an object of its size has to be asked for more often first.
    TooRare,
    /// Clients hold more than they may of what is not stored.
    Crowded,
    /// It was purged while it was on its way.
    Purged,
    /// It comes from disk or from before a purge, and a newer one has come meanwhile.
    Superseded,
}
