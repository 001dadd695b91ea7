//! The sockets of one listening address: one for each worker, bound before anything else happens.
//!
//! A worker takes its socket when it takes up a configuration with the address. An address that is in no configuration
//! any more is closing: workers stop accepting, and its connections end with their current request.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use socket2::{Domain, Protocol, Socket, Type};
use weir_http::Scheme;

use crate::lock::lock;
use crate::start_error::StartError;

/// Connections that the kernel may hold while a worker is busy.
pub(crate) const BACKLOG: i32 = 4096;

/// An address that clients connect to.
#[derive(Debug)]
pub(crate) struct Listening {
    /// As configured; its port may be 0.
    pub(crate) configured: SocketAddr,
    /// With the port that the kernel chose.
    pub(crate) bound: SocketAddr,
    /// How clients connect to it.
    pub(crate) scheme: Scheme,
    /// The socket of each worker, until the worker has taken it.
    sockets: Vec<Mutex<Option<StdListener>>>,
    open: AtomicUsize,
    is_closing: AtomicBool,
}

impl Listening {
    /// Binds a socket for each worker, to an address that no process uses.
    pub(crate) fn bind(configured: SocketAddr, workers: usize) -> Result<Arc<Self>, StartError> {
        refuse_taken(configured).map_err(|error| StartError::Listen(configured, error))?;
        Self::bind_beside(configured, workers)
    }

    /// The same when this process has an overlapping address that it is about to give up.
    pub(crate) fn bind_beside(
        configured: SocketAddr,
        workers: usize,
    ) -> Result<Arc<Self>, StartError> {
        let fail = |error| StartError::Listen(configured, error);
        // With port 0 the kernel chooses one, which must be the same for all workers.
        let mut bound = configured;
        let mut sockets = Vec::with_capacity(workers);
        for _ in 0..workers {
            let socket = bind(bound).map_err(fail)?;
            bound = socket.local_addr().map_err(fail)?;
            sockets.push(Mutex::new(Some(socket)));
        }
        Ok(Arc::new(Self {
            configured,
            bound,
            scheme: Scheme::Http,
            open: AtomicUsize::new(sockets.len()),
            sockets,
            is_closing: AtomicBool::new(false),
        }))
    }

    /// The socket of a worker, if the worker has not taken it before.
    pub(crate) fn take(&self, worker: usize) -> Option<StdListener> {
        lock(&self.sockets[worker]).take()
    }

    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// A worker has closed its socket.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether no worker accepts here any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }
}

/// Binds one worker's socket on `address`.
fn bind(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit it, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Fails if the address is taken. `SO_REUSEPORT` would let a second gateway of the same user share the address, and
/// silently take half of its traffic.
fn refuse_taken(address: SocketAddr) -> io::Result<()> {
    StdListener::bind(address).map(drop)
}
