//! What goes on under the next configuration.

use std::sync::Arc;

/// The one rule by which state outlives a configuration: what has the same identity as `before` is the same value,
/// otherwise it is new. State that depends on settings is taken over only while these are equal; for that, filter
/// `before`.
pub(crate) fn carried<T>(before: Option<&Arc<T>>, fresh: impl FnOnce() -> T) -> Arc<T> {
    before.map_or_else(|| Arc::new(fresh()), Arc::clone)
}
