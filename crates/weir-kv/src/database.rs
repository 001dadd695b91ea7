//! Databases outside of the process, and what several engines share.
//!
//! What workers leave waits in an inbox, bounded by its bytes. A few tasks on one thread take it in batches, each with a
//! connection of its own, which it opens when something has come. A database that cannot be reached is asked again after a
//! pause, and until then everything is refused at once.

#[cfg(feature = "cassandra")]
pub(crate) mod cassandra;
pub(crate) mod inbox;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod settings;
pub(crate) mod thread;

pub use self::settings::{CassandraSettings, PostgresSettings};

/// What to do about a database that is not in this build.
#[allow(dead_code, reason = "a build may have all of them")]
pub(crate) fn not_built(what: &str, feature: &str) -> String {
    format!("this weir was built without {what}; build it with `--features {feature}`")
}
