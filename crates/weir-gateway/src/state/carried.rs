//! What goes on under another configuration.

use std::sync::Arc;

/// What goes by one identity is what it was `before`, if there was one: the one rule by which state outlives a
/// configuration. State that was made for some settings is taken over only while these are the same; filter `before`.
pub(crate) fn carried<T>(before: Option<&Arc<T>>, fresh: impl FnOnce() -> T) -> Arc<T> {
    before.map_or_else(|| Arc::new(fresh()), Arc::clone)
}
