//! The connections of a thread: how they are opened, and a task for each.

mod h1;
mod h2;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use weir_socket::deadline::Timer;
use weir_socket::{Socket, Stream, tls};

use crate::lane::Lane;
use crate::outcome::Outcome;
use crate::plan::{Plan, Protocol};

/// Opens the connections of a thread before the load starts, so that all of them are there for the first request.
/// One that fails is tried again when it has a request to send. It is an error when all fail.
pub(crate) async fn open_all(
    lane: &Rc<Lane>,
    connections: usize,
) -> Result<Vec<Option<Stream>>, String> {
    // Where each request has a connection of its own, one attempt shows whether anybody is there.
    let opened = if lane.plan.keep_alive { connections } else { 1 };
    let attempts: Vec<_> = (0..opened)
        .map(|_| {
            let lane = Rc::clone(lane);
            spawn_local(async move {
                let timer = Timer::new(&lane.deadlines);
                timer.set_at(lane.now_ns() + lane.timeout_ns);
                open_in_time(&lane, &timer).await
            })
        })
        .collect();
    let (mut streams, mut failure) = (Vec::with_capacity(connections), None);
    for attempt in attempts {
        match attempt.await.expect("opening does not panic") {
            Ok(stream) => streams.push(Some(stream)),
            Err(error) => failure = Some(error),
        }
    }
    if let (true, Some(failure)) = (streams.is_empty(), failure) {
        return Err(failure.told(&lane.plan));
    }
    if !lane.plan.keep_alive {
        streams.clear();
    }
    streams.resize_with(connections, || None);
    Ok(streams)
}

/// Starts the tasks of all connections.
pub(crate) fn spawn_all(lane: &Rc<Lane>, streams: Vec<Option<Stream>>) -> Vec<JoinHandle<()>> {
    let connections = streams.into_iter().enumerate();
    match lane.plan.protocol {
        Protocol::Http1 { pipeline } => connections
            .map(|(id, stream)| spawn_local(h1::run(Rc::clone(lane), id, pipeline, stream)))
            .collect(),
        Protocol::Http2 { streams } => connections
            .flat_map(|(id, stream)| h2::spawn(lane, id, streams, stream))
            .collect(),
    }
}

/// Connects, as far as the first byte of HTTP. Whoever calls sets a deadline.
async fn open(lane: &Lane) -> Result<Stream, OpenFailure> {
    let target = &lane.plan.target;
    let socket = Socket::connect(&target.address).await;
    let socket = socket.map_err(OpenFailure::Connect)?;
    match &target.tls {
        Some(client) => client.connect(socket).await.map_err(OpenFailure::Tls),
        None => Ok(socket.into()),
    }
}

/// Connects within the deadline that `timer` was set to.
async fn open_in_time(lane: &Lane, timer: &Timer) -> Result<Stream, OpenFailure> {
    let mut attempt = pin!(open(lane));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => timer.poll(cx).map(|()| Err(OpenFailure::Timeout)),
    })
    .await
}

/// A closed loop that is refused tries again after this long, twice as long each time, up to the last.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Keeps a closed loop from asking a server that refuses at once as fast as it can. An open loop has its schedule.
async fn pause(lane: &Lane, timer: &Timer, refusals: u32) {
    if lane.plan.arrivals.is_closed() {
        let pause = PAUSE_MIN * 2_u32.saturating_pow(refusals.min(10));
        timer.set_at(lane.now_ns() + pause.min(PAUSE_MAX).as_nanos() as u64);
        poll_fn(|cx| timer.poll(cx)).await;
    }
}

/// Why a connection could not be used.
#[derive(Debug)]
enum OpenFailure {
    /// The server, or this machine, made none.
    Connect(io::Error),
    /// It was made, and no TLS could be spoken on it.
    Tls(tls::Error),
    Timeout,
}

impl OpenFailure {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Connect(_) => Outcome::Refused,
            Self::Tls(_) => Outcome::Reset,
            Self::Timeout => Outcome::Timeout,
        }
    }

    /// Counts it if it is this machine's own failure.
    fn note(&self, lane: &Lane) {
        if self.is_local() {
            lane.recorder.borrow_mut().local_failures += 1;
        }
    }

    /// Whether this machine had no port or descriptor left, which says nothing about the server.
    fn is_local(&self) -> bool {
        const EMFILE: i32 = 24;
        matches!(self, Self::Connect(error)
            if error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EMFILE))
    }

    fn told(&self, plan: &Plan) -> String {
        let address = &plan.target.address;
        match self {
            Self::Connect(error) => format!("cannot connect to {address}: {error}"),
            Self::Tls(tls::Error::NoCommonProtocol) => {
                let protocol = plan.protocol.name();
                format!("cannot speak TLS with {address}: the server does not speak {protocol}")
            }
            Self::Tls(error) => format!("cannot speak TLS with {address}: {error}"),
            Self::Timeout => format!("cannot connect to {address}: no answer in time"),
        }
    }
}
