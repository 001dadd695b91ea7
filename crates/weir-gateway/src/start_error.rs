//! Why a gateway does not start, or does not take up another configuration.

use std::io;
use std::net::SocketAddr;

use crate::names::Unresolved;
use crate::router::RouteConflict;

/// Why a gateway does not start, or does not take up another configuration.
#[derive(Debug)]
pub enum StartError {
    /// Names of servers that have no address.
    Names(Vec<Unresolved>),
    /// Two routes that no request can tell apart.
    Routes(RouteConflict),
    /// An address that cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// A log that cannot be opened.
    AccessLog(String, io::Error),
    /// A directory of the cache that cannot be used.
    Cache(String, String),
    /// Apps of guard's interface that were saved and cannot be read.
    Apps(String),
    /// A service that cannot be opened, and why.
    Service(String, String),
    /// A thread or runtime that cannot be made.
    Thread(io::Error),
    /// A key that a gateway which runs cannot take up.
    NeedsRestart(&'static str),
    /// The gateway is ending.
    Draining,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Names(names) => {
                let names: Vec<_> = names.iter().map(ToString::to_string).collect();
                f.write_str(&names.join("\n"))
            }
            Self::NeedsRestart(key) => write!(
                f,
                "needs a restart: {key} is not changed in a gateway that runs"
            ),
            Self::Draining => f.write_str("the gateway is ending"),
            Self::Routes(conflict) => {
                write!(f, "route[{}]: {}", conflict.route + 1, conflict.reason)
            }
            Self::Listen(address, error) => match error.kind() {
                io::ErrorKind::AddrInUse => {
                    write!(
                        f,
                        "cannot listen on {address}: another process does; stop it or choose another address"
                    )
                }
                io::ErrorKind::PermissionDenied => {
                    write!(
                        f,
                        "cannot listen on {address}: ports below 1024 need CAP_NET_BIND_SERVICE or root"
                    )
                }
                _ => write!(f, "cannot listen on {address}: {error}"),
            },
            Self::AccessLog(name, error) => write!(f, "cannot open the access log {name}: {error}"),
            Self::Cache(path, error) => write!(f, "cannot cache in {path}: {error}"),
            Self::Apps(error) => f.write_str(error),
            Self::Service(name, error) => write!(f, "cannot open {name}: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
