//! Accepting connections: who may come in, and which worker gets them.
//!
//! Every worker has its own socket on every address (`SO_REUSEPORT`), so accepting needs no coordination. The kernel
//! spreads connections by a hash, which for a handful of long-lived ones can put all on one worker; so a worker that
//! has more than its share passes a new connection on to the least loaded one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::buffers::Input;
use crate::connection::{AddressText, Client, h1};
use crate::deadline::{TICK, Timer};
use crate::io::Stream;
use crate::metrics::WorkerMetrics;
use crate::settings::{Limits, PerAddress};
use crate::worker::Worker;

/// Connections the kernel may hold for us while a worker is busy.
const BACKLOG: i32 = 4096;
/// Connections on their way to another worker.
pub(crate) const HANDOVER_QUEUE: usize = 1024;
/// A worker passes a connection on if it has more than the least loaded one, by more than a sixteenth of that.
const SLACK_SHARE: usize = 16;
/// How long accepting pauses when the process is out of descriptors or the kernel out of memory.
const PAUSE: Duration = Duration::from_millis(100);
/// What a client reads that is one too many.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// An accepted connection on its way to the worker that will serve it.
#[derive(Debug)]
pub(crate) struct Arrival {
    stream: std::net::TcpStream,
    address: IpAddr,
}

/// Binds one worker's socket on `address`.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
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

/// Accepts until the worker drains; what the kernel had accepted by then is served too.
pub(crate) async fn accept(
    listener: TcpListener,
    worker: Rc<Worker>,
    others: Rc<Vec<mpsc::Sender<Arrival>>>,
) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        let accepted = poll_fn(|cx| {
            loop {
                if worker.is_draining() {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                    return Poll::Ready(Some(accepted));
                }
                std::task::ready!(tick.poll_tick(cx));
            }
        })
        .await;
        match accepted {
            None => break,
            Some(Ok((stream, address))) => {
                place(stream, address.ip().to_canonical(), &worker, &others);
            }
            // The client gave up while it waited.
            Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Some(Err(_)) => tokio::time::sleep(PAUSE).await,
        }
    }
    accept_rest(listener, &worker, &others);
}

/// Accepts what the kernel holds for a worker that drains, which the runtime may not have heard of yet.
fn accept_rest(listener: TcpListener, worker: &Rc<Worker>, others: &[mpsc::Sender<Arrival>]) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    for _ in 0..BACKLOG {
        let Ok((stream, address)) = listener.accept() else {
            return;
        };
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(stream));
        if let Ok(stream) = stream {
            place(stream, address.ip().to_canonical(), worker, others);
        }
    }
}

/// Serves what other workers pass on. A draining worker takes no more, so that they keep what they still accept.
pub(crate) async fn receive(mut arrivals: mpsc::Receiver<Arrival>, worker: Rc<Worker>) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        let arrival = poll_fn(|cx| {
            loop {
                if let Poll::Ready(arrival) = arrivals.poll_recv(cx) {
                    return Poll::Ready(arrival);
                }
                std::task::ready!(tick.poll_tick(cx));
                if worker.is_draining() {
                    arrivals.close();
                }
            }
        })
        .await;
        let Some(Arrival { stream, address }) = arrival else {
            return;
        };
        match TcpStream::from_std(stream) {
            Ok(stream) => serve(stream, address, &worker),
            Err(_) => leave(address, &worker),
        }
    }
}

/// Lets a connection in, here or on the least loaded worker.
fn place(
    stream: TcpStream,
    address: IpAddr,
    worker: &Rc<Worker>,
    others: &[mpsc::Sender<Arrival>],
) {
    if !worker.shared.admission.enter(address) {
        worker.view().metrics.connections_refused.add(1);
        // A fresh socket takes this much; if not, the close says it too.
        let _ = stream.try_write(OVERLOADED);
        return;
    }
    let open = &worker.shared.open;
    let chosen = least_loaded(open, worker.index);
    open[chosen].fetch_add(1, Ordering::Relaxed);
    if chosen == worker.index {
        return serve(stream, address, worker);
    }
    let Ok(stream) = stream.into_std() else {
        return forget(chosen, address, worker);
    };
    if let Err(refused) = others[chosen].try_send(Arrival { stream, address }) {
        // The other worker is behind with what it was given, so it is not less loaded after all.
        open[chosen].fetch_sub(1, Ordering::Relaxed);
        open[worker.index].fetch_add(1, Ordering::Relaxed);
        match TcpStream::from_std(refused.into_inner().stream) {
            Ok(stream) => serve(stream, address, worker),
            Err(_) => leave(address, worker),
        }
    }
}

/// This worker, unless another has clearly less to do.
fn least_loaded(open: &[AtomicUsize], own: usize) -> usize {
    let load = |worker: usize| open[worker].load(Ordering::Relaxed);
    let least = (0..open.len())
        .min_by_key(|&worker| load(worker))
        .unwrap_or(own);
    if load(own) > load(least) + load(least) / SLACK_SHARE {
        least
    } else {
        own
    }
}

/// Starts the task that owns the connection from here on. This is the only place where such tasks begin.
fn serve(stream: TcpStream, address: IpAddr, worker: &Rc<Worker>) {
    let view = worker.view();
    let metrics = &view.metrics;
    metrics.accepted.add(1);
    metrics.open.add(1);
    let client = Box::new(Client {
        stream: Stream::Tcp(stream),
        address: AddressText::new(address),
        input: Input::default(),
        timer: Timer::new(&worker.deadlines),
    });
    let presence = Presence {
        worker: Rc::clone(worker),
        metrics: Arc::clone(metrics),
        address,
    };
    tokio::task::spawn_local(async move { h1::serve(client, &presence.worker).await });
}

/// Keeps a connection in the counts for as long as its task lives, however it ends.
struct Presence {
    worker: Rc<Worker>,
    metrics: Arc<WorkerMetrics>,
    address: IpAddr,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.metrics.open.sub(1);
        leave(self.address, &self.worker);
    }
}

fn leave(address: IpAddr, worker: &Worker) {
    forget(worker.index, address, worker);
}

fn forget(index: usize, address: IpAddr, worker: &Worker) {
    worker.shared.open[index].fetch_sub(1, Ordering::Relaxed);
    worker.shared.admission.leave(address);
}

/// How many connections there may be, in all and from one address. Consulted once for each connection.
#[derive(Debug)]
pub(crate) struct Admission {
    connections: AtomicUsize,
    connections_max: usize,
    per_address: PerAddress,
    addresses: Mutex<HashMap<IpAddr, u32>>,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            connections_max: limits.connections,
            per_address: limits.connections_per_address,
            addresses: Mutex::default(),
        }
    }

    fn enter(&self, address: IpAddr) -> bool {
        let key = client_of(address);
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.connections_max {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if let Some(limit) = self.limit_of(address) {
            let mut addresses = self
                .addresses
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let open = addresses.entry(key).or_default();
            if *open >= limit {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            *open += 1;
        }
        true
    }

    fn leave(&self, address: IpAddr) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        if self.limit_of(address).is_some() {
            let mut addresses = self
                .addresses
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = addresses.get_mut(&client_of(address)) {
                *open -= 1;
                if *open == 0 {
                    addresses.remove(&client_of(address));
                }
            }
        }
    }

    fn limit_of(&self, address: IpAddr) -> Option<u32> {
        match self.per_address {
            PerAddress::Every(limit) => Some(limit),
            PerAddress::Remote(limit) => (!address.is_loopback()).then_some(limit),
        }
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// What counts as one client: an IPv4 address, or the 64 bits of an IPv6 address that a network hands out whole.
fn client_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn admission(connections: usize, connections_per_address: PerAddress) -> Admission {
        Admission::new(&Limits {
            connections,
            connections_per_address,
            ..Limits::default()
        })
    }

    #[test]
    fn a_place_that_is_left_can_be_taken_again() {
        let admission = admission(2, PerAddress::Every(1));
        assert!(admission.enter(HERE));
        assert!(!admission.enter(HERE), "one per address");
        assert!(admission.enter(THERE));
        admission.leave(HERE);
        assert!(admission.enter(HERE));
        assert!(
            !admission.enter(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2))),
            "two in all"
        );
        assert_eq!(admission.open(), 2);
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_are_one_client() {
        let admission = admission(10, PerAddress::Every(1));
        let address = |last| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        assert!(admission.enter(address(1)) && !admission.enter(address(2)));
        admission.leave(address(1));
        assert!(admission.enter(address(2)));
    }

    #[test]
    fn by_default_only_remote_addresses_are_bounded() {
        let admission = admission(10, PerAddress::Remote(1));
        assert!(admission.enter(HERE) && admission.enter(HERE));
        assert!(admission.enter(THERE) && !admission.enter(THERE));
    }

    #[test]
    fn connections_stay_where_they_arrive_until_the_difference_counts() {
        let open: Vec<_> = [2, 1, 40, 38].into_iter().map(AtomicUsize::new).collect();
        assert_eq!(least_loaded(&open[..2], 0), 1);
        assert_eq!(least_loaded(&open[..2], 1), 1);
        assert_eq!(least_loaded(&open[2..], 0), 0);
    }
}
