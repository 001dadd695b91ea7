//! What keeps a log from being opened, read or written.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;

use crate::RECORD_BYTES_MAX;

/// Why something was not done.
#[derive(Debug)]
pub enum Error {
    /// Another process has this directory open.
    InUse(PathBuf),
    /// The disk has refused.
    Io {
        /// What was to be done, as a verb.
        doing: &'static str,
        /// With which file or directory.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// What was durable is not there, or is another.
    Damaged(Damage),
    /// The record is longer than [`RECORD_BYTES_MAX`].
    TooLong,
    /// The log has failed before, and takes nothing until it is opened again.
    HasFailed,
}

/// Where a log is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub name: String,
    /// Its first byte that makes no sense.
    pub position: u64,
    /// The first offset that cannot be read.
    pub offset: u64,
    /// What is wrong.
    pub what: &'static str,
}

impl Error {
    pub(crate) fn io(doing: &'static str, name: impl Display, error: io::Error) -> Self {
        Self::Io {
            doing,
            name: name.to_string(),
            error,
        }
    }

    /// Whether a file is not there.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether there is no room on the disk, which may pass.
    pub fn is_full(&self) -> bool {
        let Self::Io { error, .. } = self else {
            return false;
        };
        matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(
                f,
                "{} is in use by another process; a log has one at a time",
                path.display()
            ),
            Self::Io { doing, name, error } => write!(f, "cannot {doing} {name}: {error}"),
            Self::Damaged(damage) => damage.fmt(f),
            Self::TooLong => write!(f, "a record has at most {RECORD_BYTES_MAX} bytes"),
            Self::HasFailed => {
                f.write_str("the log has failed before, and takes nothing until it is opened again")
            }
        }
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            position,
            offset,
            what,
        } = self;
        write!(
            f,
            "{name} is damaged at byte {position} (offset {offset}): {what}"
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
