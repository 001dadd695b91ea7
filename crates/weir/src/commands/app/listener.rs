//! The socket that the service listens on: TCP or Unix. It binds and accepts; it never reads or writes.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use super::args::Listen;

/// How many connections the system keeps until they are accepted. A load generator opens all its connections at
/// once. Those that do not fit try again a second later and spoil its measurement.
const BACKLOG: u32 = 4096;

/// A bound socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Listen),
}

/// An accepted connection.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Binds with `SO_REUSEADDR`, so that a restarted service does not wait for its old connections. A Unix socket
    /// file without a listener is replaced.
    pub(super) fn bind(listen: &Listen) -> anyhow::Result<Self> {
        let bound = match listen {
            Listen::Tcp(address) => bind_tcp(*address).map(Self::Tcp),
            Listen::Unix(path) => bind_unix(path).map(|socket| Self::Unix(socket, listen.clone())),
        };
        bound.with_context(|| format!("cannot listen on {listen}"))
    }

    /// Where it listens; for port 0, the port that the system chose.
    pub(super) fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(Listen::Tcp),
            Self::Unix(_, listen) => Ok(listen.clone()),
        }
    }

    /// The next connection. An error is about that one connection or a shortage; the listener stays good.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                // A second packet of an answer must not wait for the acknowledgement of the first. If the option
                // cannot be set, the client is gone and its own task finds out.
                let _ = socket.set_nodelay(true);
                Ok(Socket::Tcp(socket))
            }
            Self::Unix(listener, _) => listener
                .accept()
                .await
                .map(|(socket, _)| Socket::Unix(socket)),
        }
    }
}

impl Listen {
    /// Removes the file of a Unix socket that is no longer served; it may be gone already.
    pub(super) fn remove_socket_file(&self) {
        if let Self::Unix(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Whether `path` is a socket whose process is gone. Any other file is left alone.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
