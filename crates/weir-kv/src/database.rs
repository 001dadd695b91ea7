//! Databases outside of the process, and what several engines share.
//!
//! What workers leave waits in an inbox, bounded by its bytes. A few tasks on one thread take it in batches, each with a
//! connection of its own, which it opens when something has come. A database that cannot be reached is asked again after a
//! pause, and until then everything is refused at once.

#[cfg(feature = "cassandra")]
pub(crate) mod cassandra;
#[cfg(feature = "postgres")]
pub(crate) mod halves;
pub(crate) mod inbox;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod settings;
pub(crate) mod thread;

use std::fmt;

pub use self::settings::{CassandraSettings, PostgresSettings};

/// Why something was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// What it said.
    pub why: String,
    /// It does not answer, and may do so later. Otherwise somebody has to see to it.
    pub is_away: bool,
}

impl OpenError {
    /// It does not answer.
    #[allow(dead_code, reason = "a build may have no database")]
    pub(crate) fn away(why: String) -> Self {
        Self { why, is_away: true }
    }

    /// The same, said of a database.
    #[allow(dead_code, reason = "a build may have no database")]
    pub(crate) fn of(self, database: &str) -> Self {
        let why = format!("{database}: {}", self.why);
        Self { why, ..self }
    }
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        let is_away = false;
        Self { why, is_away }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for OpenError {}

/// Where the numbers of runs begin when nothing is known of those before. Weirs that run on after their table was lost have such numbers
/// as well, and no two that run at once may have the same one.
#[allow(dead_code, reason = "a build may have no database")]
pub(crate) fn first_run() -> u16 {
    fastrand::u16(1..)
}

/// What to do about a database that is not in this build.
#[allow(dead_code, reason = "a build may have all of them")]
pub(crate) fn not_built(what: &str, feature: &str) -> String {
    format!("this weir was built without {what}; build it with `--features {feature}`")
}
