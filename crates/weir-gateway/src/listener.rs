//! Accepts connections: who may come in, and which worker gets them.
//!
//! Every worker has its own socket on every address (`SO_REUSEPORT`), so accepting needs no coordination. The kernel
//! spreads connections by a hash, which can put a handful of long-lived ones all on one worker. So a worker with
//! more than its share passes a new connection on to the least loaded one.
//!
//! Addresses may come and go while the gateway runs. Those that stay are not touched, so they accept without a gap.

use std::borrow::Borrow;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use weir_http::Scheme;

use crate::connection::link::Link;
use crate::connection::{self, AddressText, Client};
use crate::deadline::{TICK, Timer};
use crate::listener::round::Rounds;
use crate::state::listening::{BACKLOG, Listening};
use crate::state::worker::Worker;

pub(crate) mod h1;
pub(crate) mod round;

/// Connections on their way to another worker.
pub(crate) const HANDOVER_QUEUE: usize = 1024;
/// A worker passes a connection on if it has more than the least loaded one, by more than this part of that one's
/// load (a sixteenth).
const SLACK_SHARE: usize = 16;
/// How long accepting pauses when the process is out of descriptors or the kernel out of memory.
const PAUSE: Duration = Duration::from_millis(100);
/// What a client reads when there are too many.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// An accepted connection on its way to the worker that will serve it.
#[derive(Debug)]
pub(crate) struct Arrival {
    stream: std::net::TcpStream,
    address: IpAddr,
    listening: Arc<Listening>,
}

/// Where a worker's connections go: to itself, or to one of the others.
#[derive(Debug, Clone)]
pub(crate) struct Reception {
    pub(crate) worker: Rc<Worker>,
    pub(crate) others: Rc<Vec<mpsc::Sender<Arrival>>>,
    pub(crate) rounds: Rc<Rounds>,
}

impl Reception {
    /// Takes up each configuration when it comes, until the worker has stopped accepting because it drains.
    pub(crate) async fn follow(self) {
        let worker = &self.worker;
        let mut changes = worker.shared.current.subscribe();
        let mut accepting = Vec::new();
        while !worker.is_draining() {
            let snapshot = Arc::clone(&changes.borrow_and_update());
            worker.take_up(&snapshot);
            self.open(&mut accepting);
            // The sender is part of what this worker shares, so it exists.
            let _ = changes.changed().await;
        }
        for accept in accepting {
            let _ = accept.await;
        }
    }

    /// Begins to accept on the configured addresses on which it does not yet.
    fn open(&self, accepting: &mut Vec<JoinHandle<()>>) {
        accepting.retain(|task| !task.is_finished());
        for listening in &self.worker.view().snapshot.listeners {
            if let Some(socket) = listening.take(self.worker.index) {
                let accept = accept(socket, Arc::clone(listening), self.clone());
                accepting.push(self.worker.begin(accept));
            }
        }
    }
}

/// Accepts until the worker drains or the address is given up. Connections that the kernel had accepted by then are
/// served too.
async fn accept(socket: StdListener, listening: Arc<Listening>, reception: Reception) {
    let socket = TcpListener::from_std(socket).expect("the socket belongs to this runtime");
    let worker = &reception.worker;
    let mut tick = tokio::time::interval(TICK);
    loop {
        let accepted = poll_fn(|cx| {
            loop {
                if worker.is_draining() || listening.is_closing() {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(accepted) = socket.poll_accept(cx) {
                    return Poll::Ready(Some(accepted));
                }
                std::task::ready!(tick.poll_tick(cx));
            }
        })
        .await;
        match accepted {
            None => break,
            Some(Ok((stream, address))) => {
                place(stream, address.ip().to_canonical(), &listening, &reception);
            }
            // The client gave up while it waited.
            Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Some(Err(_)) => tokio::time::sleep(PAUSE).await,
        }
    }
    accept_rest(socket, &listening, &reception);
    listening.closed();
}

/// Accepts what the kernel still holds for a socket that is about to close; the runtime may not know of it yet.
fn accept_rest(socket: TcpListener, listening: &Arc<Listening>, reception: &Reception) {
    let Ok(socket) = socket.into_std() else {
        return;
    };
    for _ in 0..BACKLOG {
        let Ok((stream, address)) = socket.accept() else {
            return;
        };
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(stream));
        if let Ok(stream) = stream {
            place(stream, address.ip().to_canonical(), listening, reception);
        }
    }
}

/// Serves connections from other workers. A draining worker takes no more, so that the others serve what they still
/// accept.
pub(crate) async fn receive(mut arrivals: mpsc::Receiver<Arrival>, reception: Reception) {
    let worker = &reception.worker;
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
        let Some(Arrival {
            stream,
            address,
            listening,
        }) = arrival
        else {
            return;
        };
        match TcpStream::from_std(stream) {
            Ok(stream) => serve(stream, address, listening, &reception),
            Err(_) => leave(address, worker),
        }
    }
}

/// Admits a connection, here or on the least loaded worker.
fn place(stream: TcpStream, address: IpAddr, listening: &Arc<Listening>, reception: &Reception) {
    let Reception { worker, others, .. } = reception;
    if !worker.shared.admission.enter(address) {
        worker.view().metrics.connections_refused.add(1);
        // A fresh socket takes this much; if not, the close says it too. Over TLS nobody could read it.
        if listening.scheme == Scheme::Http {
            let _ = stream.try_write(OVERLOADED);
        }
        return;
    }
    let open = &worker.shared.open;
    let chosen = least_loaded(open, worker.index);
    open[chosen].fetch_add(1, Ordering::Relaxed);
    if chosen == worker.index {
        return serve(stream, address, Arc::clone(listening), reception);
    }
    let Ok(stream) = stream.into_std() else {
        return forget(chosen, address, worker);
    };
    let arrival = Arrival {
        stream,
        address,
        listening: Arc::clone(listening),
    };
    if let Err(refused) = others[chosen].try_send(arrival) {
        // The other worker has not yet taken what it was given, so it is not less loaded after all.
        open[chosen].fetch_sub(1, Ordering::Relaxed);
        open[worker.index].fetch_add(1, Ordering::Relaxed);
        match TcpStream::from_std(refused.into_inner().stream) {
            Ok(stream) => serve(stream, address, Arc::clone(listening), reception),
            Err(_) => leave(address, worker),
        }
    }
}

/// This worker, unless another one is clearly less loaded.
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

/// Starts the task that owns the connection from now on. Such tasks begin only here.
fn serve(
    stream: TcpStream,
    address: IpAddr,
    listening: Arc<Listening>,
    Reception { worker, rounds, .. }: &Reception,
) {
    let view = worker.view();
    let metrics = &view.metrics;
    metrics.accepted.add(1);
    metrics.open.add(1);
    let client = Box::new(Client {
        link: Link::H1(connection::h1::Link::new(stream.into())),
        address: AddressText::new(address),
        scheme: listening.scheme,
        listening: Some(listening),
        timer: Timer::new(&worker.deadlines),
    });
    let presence = Presence {
        worker: Rc::clone(worker),
        octets: octets(address),
    };
    tokio::task::spawn_local(h1::serve(client, presence, Rc::clone(rounds)));
}

/// Counts a connection as long as its task lives, however it ends.
struct Presence {
    worker: Rc<Worker>,
    /// The address of the client, an IPv4 address as a mapped one.
    octets: [u8; 16],
}

impl Borrow<Rc<Worker>> for Presence {
    fn borrow(&self) -> &Rc<Worker> {
        &self.worker
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.worker.shared.metrics[self.worker.index].open.sub(1);
        leave(IpAddr::from(self.octets).to_canonical(), &self.worker);
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn leave(address: IpAddr, worker: &Worker) {
    forget(worker.index, address, worker);
}

fn forget(index: usize, address: IpAddr, worker: &Worker) {
    worker.shared.open[index].fetch_sub(1, Ordering::Relaxed);
    worker.shared.admission.leave(address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stay_where_they_arrive_until_the_difference_counts() {
        let open: Vec<_> = [2, 1, 40, 38].into_iter().map(AtomicUsize::new).collect();
        assert_eq!(least_loaded(&open[..2], 0), 1);
        assert_eq!(least_loaded(&open[..2], 1), 1);
        assert_eq!(least_loaded(&open[2..], 0), 0);
    }
}
