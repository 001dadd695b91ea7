//! Why a gateway does not start, or does not take up another configuration.

use std::io;
use std::net::SocketAddr;

use crate::names::Unresolved;
use crate::router::RouteConflict;

/// A server that is a listener of the gateway whose upstream it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnUpstream {
    /// The name of the upstream.
    pub upstream: String,
    /// The server's label.
    pub server: String,
    /// Where its connections would end.
    pub listener: SocketAddr,
}

impl std::fmt::Display for OwnUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "expected the address of the service, since this one leads back to the listener on {}: requests would go round in \
             circles",
            self.listener
        )
    }
}

/// Why a gateway does not start, or does not take up another configuration.
#[derive(Debug)]
pub enum StartError {
    /// Names of servers that have no address.
    Names(Vec<Unresolved>),
    /// Servers that are listeners of the same gateway.
    OwnUpstream(Vec<OwnUpstream>),
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
    /// Changes of servers that were kept and cannot be read.
    Changes(String),
    /// A service that cannot be opened, and why.
    Service(String, String),
    /// A thread or runtime that cannot be made.
    Thread(io::Error),
    /// A key that a gateway which runs cannot take up, and without which the rest makes no sense.
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
            Self::OwnUpstream(servers) => {
                let line = |own: &OwnUpstream| {
                    let OwnUpstream {
                        upstream, server, ..
                    } = own;
                    format!("upstream {upstream}: found \"{server}\", {own}")
                };
                let lines: Vec<_> = servers.iter().map(line).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::NeedsRestart(key) => write!(
                f,
                "needs a restart: {key} is not changed in a gateway that runs, and the rest makes no sense without it"
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
            Self::Apps(error) | Self::Changes(error) => f.write_str(error),
            Self::Service(name, error) => write!(f, "cannot open {name}: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
