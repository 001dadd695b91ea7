//! The state of a request while it is served, in memory that the next request reuses.
//!
//! A request in progress needs much more memory than a connection that waits for one: nested futures of more than a
//! kilobyte, an [`Exchange`], buffers. So none of that is part of the connection's task. It lives in a coroutine that
//! serves one request after the other, for any connection, and that the connection's task polls like its own future.
//! Idle connections hold no round, and a round in steady state allocates nothing.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::connection::{After, Client};
use crate::exchange::Exchange;
use crate::listener::h1;
use crate::state::worker::Worker;

/// Rounds kept for reuse. As many requests may be in progress at once without allocations.
const KEPT_MAX: usize = 1024;

/// The idle rounds of a worker.
#[derive(Debug, Default)]
pub(crate) struct Rounds(RefCell<Vec<Round>>);

impl Rounds {
    pub(crate) fn take(&self) -> Round {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the memory of a finished request for the next one.
    pub(crate) fn put(&self, round: Round) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(round);
        }
    }
}

/// Serves one request at a time. Dropping it drops the request.
pub(crate) struct Round {
    handover: Rc<Handover>,
    coroutine: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// What a connection's task and the coroutine pass to each other.
#[derive(Default)]
struct Handover {
    request: Cell<Option<(Box<Client>, Rc<Worker>)>>,
    result: Cell<Option<(Box<Client>, After)>>,
}

impl Default for Round {
    fn default() -> Self {
        let handover = Rc::<Handover>::default();
        Self {
            coroutine: Box::pin(serve_requests(Rc::clone(&handover))),
            handover,
        }
    }
}

impl Round {
    /// Takes over a client whose request begins to arrive.
    pub(crate) fn begin(&mut self, client: Box<Client>, worker: &Rc<Worker>) {
        self.handover.request.set(Some((client, Rc::clone(worker))));
    }

    /// Serves the request, as part of the calling task. Ready with the client once the request is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Box<Client>, After)> {
        let Poll::Pending = self.coroutine.as_mut().poll(cx);
        let result = self.handover.result.take();
        result.map_or(Poll::Pending, Poll::Ready)
    }
}

async fn serve_requests(handover: Rc<Handover>) -> Infallible {
    let next = || poll_fn(|_| handover.request.take().map_or(Poll::Pending, Poll::Ready));
    let (mut client, mut worker) = next().await;
    let mut x = Exchange::new(Client::nobody(
        client.address,
        client.scheme,
        &worker.deadlines,
    ));
    loop {
        std::mem::swap(&mut x.client, &mut client);
        let after = h1::serve_request(&mut x, &worker).await;
        x.reset(&worker.buffers);
        x.client.link.release(&worker.buffers);
        std::mem::swap(&mut x.client, &mut client);
        handover.result.set(Some((client, after)));
        (client, worker) = next().await;
    }
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Round")
    }
}
