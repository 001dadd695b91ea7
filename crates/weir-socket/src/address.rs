//! Where connections go.

use std::fmt::{Display, Formatter, Result};
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address that needs no lookup.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// An address and port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
