//! The connections of a thread: how they are opened, and a task for each.

mod h1;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::task::{JoinHandle, spawn_local};

use crate::deadline::Timer;
use crate::outcome::Outcome;
use crate::plan::Address;
use crate::stream::{OpenError, Stream};
use crate::thread::Lane;

/// Opens the connections of a thread before the load starts, so that their number is there from the first request on.
/// One that fails is tried again when it has a request to send; that all fail is an error.
pub(crate) async fn open_all(
    lane: &Rc<Lane>,
    connections: usize,
) -> Result<Vec<Option<Stream>>, String> {
    // With a connection for each request one attempt shows whether anybody is there.
    let opened = if lane.plan.keep_alive { connections } else { 1 };
    let attempts: Vec<_> = (0..opened)
        .map(|_| {
            let lane = Rc::clone(lane);
            spawn_local(async move {
                let timer = Timer::new(&lane.deadlines);
                timer.set(lane.now_ns() + lane.timeout_ns);
                open(&lane, &timer).await
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
        return Err(failure.told(&lane.plan.target.address));
    }
    if !lane.plan.keep_alive {
        streams.clear();
    }
    streams.resize_with(connections, || None);
    Ok(streams)
}

/// Starts the task of connection `id`.
pub(crate) fn spawn(lane: &Rc<Lane>, id: usize, stream: Option<Stream>) -> JoinHandle<()> {
    spawn_local(h1::run(Rc::clone(lane), id, stream))
}

/// Connects within the deadline that `timer` was set to.
async fn open(lane: &Lane, timer: &Timer) -> Result<Stream, OpenFailure> {
    let mut attempt = pin!(Stream::open(&lane.plan.target));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result.map_err(OpenFailure::Failed)),
        Poll::Pending => timer.poll(cx).map(|()| Err(OpenFailure::Timeout)),
    })
    .await
}

/// Why a connection could not be used.
#[derive(Debug)]
enum OpenFailure {
    Failed(OpenError),
    Timeout,
}

impl OpenFailure {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Failed(OpenError::Connect(_)) => Outcome::Refused,
            Self::Failed(OpenError::Tls(_)) => Outcome::Reset,
            Self::Timeout => Outcome::Timeout,
        }
    }

    /// Whether this machine had no port or descriptor left, which says nothing about the server.
    fn is_local(&self) -> bool {
        const EMFILE: i32 = 24;
        matches!(self, Self::Failed(OpenError::Connect(error))
            if error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EMFILE))
    }

    fn told(&self, address: &Address) -> String {
        match self {
            Self::Failed(OpenError::Connect(error)) => {
                format!("cannot connect to {address}: {error}")
            }
            Self::Failed(OpenError::Tls(error)) => {
                format!("cannot speak TLS with {address}: {error}")
            }
            Self::Timeout => format!("cannot connect to {address}: no answer in time"),
        }
    }
}
