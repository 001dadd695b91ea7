//! Why a client has no answer.

use std::fmt;

/// Why nothing came of an operation, and whether it may have been done all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// A key, a value or an option that no node takes; and why. Nothing was sent.
    Invalid(String),
    /// No node could be asked: their addresses, and why. Nothing is done.
    Unreachable(Vec<(Box<str>, String)>),
    /// So many nodes could not be asked for a range that keys might be missing; and why.
    Incomplete(Vec<(Box<str>, String)>),
    /// A write was sent to this node, and no answer came: it is unknown whether it was done.
    Unknown(Box<str>, String),
    /// Too few replicas answered in time. A write may be on some of them, and may win.
    TooFew,
    /// Another write came in between. This one may have reached a replica: read, and try again.
    Conflict,
}

impl ClientError {
    /// Whether a write with this error may be found later. If not, it may be made again.
    pub fn may_be_written(&self) -> bool {
        match self {
            Self::Invalid(_) | Self::Unreachable(_) | Self::Incomplete(_) => false,
            Self::Unknown(..) | Self::TooFew | Self::Conflict => true,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Unreachable(nodes) => {
                f.write_str("no node answers")?;
                write_nodes(nodes, f)
            }
            Self::Incomplete(nodes) => {
                f.write_str("too few nodes answer for a range of all keys")?;
                write_nodes(nodes, f)
            }
            Self::Unknown(address, why) => write!(
                f,
                "it is unknown whether it was written: {address}: {why}; read the key, and try again if it is not there"
            ),
            Self::TooFew => f.write_str(
                "too few replicas answered in time; a write may be on some of them, and may be found later",
            ),
            Self::Conflict => f.write_str(
                "another write came in between, and this one may have reached a replica: read the key, and try again",
            ),
        }
    }
}

fn write_nodes(nodes: &[(Box<str>, String)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (address, why) in nodes {
        write!(f, "\n  {address}: {why}")?;
    }
    Ok(())
}

impl std::error::Error for ClientError {}
