//! What keeps cells: the seam between the store and the place where its data is.
//!
//! An engine answers from whatever thread has the result, and never makes a worker wait for a disk or a database.

#[cfg(feature = "cassandra")]
mod cassandra;
pub mod lsm;
#[cfg(feature = "postgres")]
mod postgres;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use weir_gateway::service::{Answer, Replier};

use self::lsm::{Lsm, LsmSettings};
use crate::cell::Cell;
use crate::database::{CassandraSettings, OpenError, PostgresSettings};
use crate::version::Version;

/// Where the data of a store is.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineSettings {
    /// On the disk of this machine.
    Embedded(LsmSettings),
    /// In a table of Postgres.
    Postgres(PostgresSettings),
    /// In a table of Cassandra.
    Cassandra(CassandraSettings),
}

impl EngineSettings {
    /// Whether the data is in a database, which may be away.
    pub fn are_of_a_database(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }
}

/// Opens what keeps the data.
///
/// # Errors
/// The disk refuses, the database cannot be reached, or this build does not know it.
pub fn open(settings: &EngineSettings) -> Result<Arc<dyn Engine>, OpenError> {
    Ok(match settings {
        EngineSettings::Embedded(settings) => Lsm::open(settings)?,
        #[cfg(feature = "postgres")]
        EngineSettings::Postgres(settings) => postgres::Postgres::open(settings)?,
        #[cfg(not(feature = "postgres"))]
        EngineSettings::Postgres(_) => {
            return Err(crate::database::not_built("Postgres", "postgres").into());
        }
        #[cfg(feature = "cassandra")]
        EngineSettings::Cassandra(settings) => cassandra::Cassandra::open(settings)?,
        #[cfg(not(feature = "cassandra"))]
        EngineSettings::Cassandra(_) => {
            return Err(crate::database::not_built("Cassandra", "cassandra").into());
        }
    })
}

/// What is done with a result, on the thread that has it, so it must not wait. If a client gets an answer by it, that is
/// returned: an engine gives the answers of many writes at once.
pub type Then<T> = Box<dyn FnOnce(Result<T, EngineError>) -> Option<(Replier, Answer)> + Send>;

/// What takes the cells of a scan one by one, in the order of their keys, and says whether it wants more. It may wait.
pub type Each = Box<dyn FnMut(&[u8], Cell) -> bool + Send>;

/// Why something could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// Too much waits already. It may be tried again in a moment.
    Busy,
    /// It failed, and what it said.
    Failed(String),
    /// It does not take what is written, however often it is tried.
    Refused(String),
    /// It does not keep keys in their order.
    NoRanges,
    /// It does not write under a condition.
    NoConditions,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too much waits for the disk, the database or other nodes"),
            Self::Failed(why) | Self::Refused(why) => f.write_str(why),
            Self::NoConditions => f.write_str("this engine has no conditional writes"),
            Self::NoRanges => f.write_str("this engine has no ranges: it keeps keys in no order"),
        }
    }
}

impl std::error::Error for EngineError {}

/// What [`Engine::claim`] notes is noted under this name.
pub(crate) const OWNER: &str = "node";

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the process may lose what it wrote in the last moments.
    Memory,
    /// The end of the process.
    Os,
    /// A crash of the machine: writes that come together are synced together, before they are acknowledged.
    Group,
    /// The same, each write for itself.
    Each,
}

/// Keeps the newest cell of each key.
pub trait Engine: fmt::Debug + Send + Sync {
    /// The cell of a key, if it is in memory; `None` if the disk has to be asked.
    fn at_hand(&self, key: &[u8]) -> Option<Cell>;

    /// Finds the cell of a key.
    fn read(&self, key: Bytes, then: Then<Option<Cell>>);

    /// Writes a cell, unless there is a newer one, whose version is the result then. It is durable when that is known. With `over`,
    /// "newer" is newer than this version.
    fn write(&self, key: Bytes, cell: Cell, over: Option<Version>, then: Then<Option<Version>>);

    /// Forgets a key, if what is kept of it is a tombstone of this version, or has expired with it; otherwise the version of what is
    /// kept is the result.
    /// Engines that see to their own keep it.
    fn forget(&self, key: Bytes, version: Version, then: Then<Option<Version>>) {
        let _ = key;
        Replier::answer_all(then(Ok(Some(version))).into_iter());
    }

    /// Takes a key away, whatever its value, if what is kept of it has this version; otherwise the version of what is kept is the result.
    /// Engines that see to their own keep it.
    fn remove(&self, key: Bytes, version: Version, then: Then<Option<Version>>) {
        let _ = key;
        Replier::answer_all(then(Ok(Some(version))).into_iter());
    }

    /// Goes through the cells from a key on, up to another one without it, as they are at this moment. `then` comes at the end, also
    /// when nobody wants more.
    fn scan(&self, from: Bytes, to: Option<Bytes>, each: Each, then: Then<()>);

    /// The newest version that it had when it was opened, and how often it has been opened.
    fn opened(&self) -> (Version, u16);

    /// Notes which node of which cluster the data is of, if that is not noted yet.
    ///
    /// # Errors
    /// It is of another one.
    fn claim(&self, node: &str) -> Result<(), String>;

    /// Whose data it is, if that is noted.
    ///
    /// # Errors
    /// The disk refuses.
    fn owner(&self) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// What was noted under a name.
    ///
    /// # Errors
    /// The disk refuses.
    fn noted(&self, name: &str) -> Result<Option<Bytes>, String> {
        let _ = name;
        Ok(None)
    }

    /// Notes something beside the data, all of it or nothing. It is on the disk when this returns.
    ///
    /// # Errors
    /// The disk refuses, or the engine is none of a node among others.
    fn note(&self, notes: &[(&str, Bytes)]) -> Result<(), String> {
        let _ = notes;
        Err("this engine keeps no notes".to_owned())
    }

    /// Why nothing is written since a write to the disk has failed; `None` if none has, or another one was made since. It is not asked of
    /// a database.
    fn failing(&self) -> Option<String> {
        None
    }

    /// Whether nothing is under way any more.
    fn is_idle(&self) -> bool;
}
