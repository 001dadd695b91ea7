//! An HTTP/2 connection. Each request that may be on its way has a task, and all of them share one session of the `h2` crate.
//!
//! That crate does the reading, flow control and HPACK. This file says when a request is sent, what became of it, and what
//! happens when the connection ends.

mod request;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, SendRequest};
use tokio::task::{JoinHandle, spawn_local};
use weir_socket::Stream;
use weir_socket::deadline::Timer;

use super::{open, pause};
use crate::lane::Lane;
use crate::outcome::Outcome;
use crate::source::{Next, Start};
use request::Requests;

/// Large enough that a server never waits for us to allow more.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;
/// Attempts to send one request on a connection that turns out to have ended.
const ATTEMPTS_MAX: u32 = 3;

/// Starts the tasks of connection `id`.
pub(super) fn spawn(
    lane: &Rc<Lane>,
    id: usize,
    streams: usize,
    stream: Option<Stream>,
) -> Vec<JoinHandle<()>> {
    let session = Rc::new(Session {
        lane: Rc::clone(lane),
        opened: RefCell::new(stream),
        sender: RefCell::new(None),
        generation: Cell::new(0),
        is_opening: Cell::new(false),
        waiting: RefCell::default(),
    });
    let tasks = (0..streams).map(|slot| {
        let slot = Slot {
            id: id * streams + slot,
            timer: Timer::new(&lane.deadlines),
            requests: Requests::new(&lane.plan),
            session: Rc::clone(&session),
            refusals: 0,
        };
        spawn_local(slot.run())
    });
    tasks.collect()
}

/// The connection as its tasks see it.
struct Session {
    lane: Rc<Lane>,
    /// Connected before the run, not spoken on yet.
    opened: RefCell<Option<Stream>>,
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// Counts connections, so that a task which sees one fail does not end the next.
    generation: Cell<u64>,
    is_opening: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// One request at a time.
struct Slot {
    id: usize,
    timer: Timer,
    requests: Requests,
    session: Rc<Session>,
    refusals: u32,
}

/// How an attempt to send a request failed.
enum Failure {
    /// It ended like this.
    Ended(Outcome),
    /// The server did not look at it, so it may be sent again.
    Unsent,
}

impl Slot {
    async fn run(mut self) {
        while let Some(start) = poll_fn(|cx| self.poll_begin(cx)).await {
            let lane = Rc::clone(&self.session.lane);
            let outcome = self.ask(start).await;
            if outcome == Outcome::Timeout && lane.is_halted() {
                lane.abandon(start);
            } else {
                lane.record(start, outcome, lane.now_ns());
            }
            if outcome == Outcome::Refused {
                pause(&lane, &self.timer, self.refusals).await;
                self.refusals += 1;
            } else {
                self.refusals = 0;
            }
        }
    }

    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<Option<Start>> {
        let lane = &self.session.lane;
        let now_ns = lane.now_ns();
        match lane.next(self.id, now_ns, cx) {
            Next::Over => Poll::Ready(None),
            Next::WaitUntil(_) => Poll::Pending,
            Next::Send(start) => {
                self.timer.set_at(now_ns + lane.timeout_ns);
                Poll::Ready(Some(start))
            }
        }
    }

    /// Sends a request and reads its answer within its deadline. A request that was sent in vain is sent again.
    async fn ask(&mut self, start: Start) -> Outcome {
        let Self {
            timer,
            requests,
            session,
            ..
        } = self;
        let mut attempts = pin!(async {
            for _ in 0..ATTEMPTS_MAX {
                match session.attempt(start, requests).await {
                    Ok(status) => return Outcome::of_status(status),
                    Err(Failure::Ended(outcome)) => return outcome,
                    Err(Failure::Unsent) => {}
                }
            }
            Outcome::Reset
        });
        // Dropping the attempt cancels its stream, and the connection goes on.
        poll_fn(|cx| match attempts.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => timer.poll(cx).map(|()| Outcome::Timeout),
        })
        .await
    }
}

impl Session {
    async fn attempt(&self, start: Start, requests: &mut Requests) -> Result<u16, Failure> {
        let (sender, generation) = self.sender().await?;
        let exchange = self.exchange(sender, start, requests).await;
        exchange.map_err(|error| {
            if error.is_go_away() || error.is_io() || !error.is_reset() {
                self.forget(generation);
            }
            // Both say that the server did not act on it (RFC 9113 §6.8, §8.7).
            let is_unsent = matches!(
                error.reason(),
                Some(Reason::REFUSED_STREAM | Reason::NO_ERROR)
            );
            if is_unsent {
                Failure::Unsent
            } else {
                Failure::Ended(Outcome::Reset)
            }
        })
    }

    async fn exchange(
        &self,
        sender: SendRequest<Bytes>,
        start: Start,
        requests: &mut Requests,
    ) -> Result<u16, h2::Error> {
        // Nothing was sent while this fails.
        let unsent = |_| h2::Error::from(Reason::REFUSED_STREAM);
        let mut sender = sender.ready().await.map_err(unsent)?;
        let (request, body) = requests.fill(start.number);
        let (response, mut stream) = sender.send_request(request, body.is_empty())?;
        drop(sender);
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        let response = response.await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            let bytes = data?.len();
            body.flow_control().release_capacity(bytes)?;
            self.lane.recorder.borrow_mut().bytes_received += bytes as u64;
        }
        Ok(status)
    }

    /// The connection, opened by the first task that needs it.
    async fn sender(&self) -> Result<(SendRequest<Bytes>, u64), Failure> {
        loop {
            if let Some(sender) = &*self.sender.borrow() {
                return Ok((sender.clone(), self.generation.get()));
            }
            if !self.is_opening.get() {
                let opening = Opening::begin(self);
                let sender = self.connect().await?;
                *self.sender.borrow_mut() = Some(sender);
                self.generation.set(self.generation.get() + 1);
                drop(opening);
                continue;
            }
            poll_fn(|cx| {
                if !self.is_opening.get() {
                    return Poll::Ready(());
                }
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, Failure> {
        let opened = self.opened.borrow_mut().take();
        let stream = match opened {
            Some(stream) => stream,
            None => match open(&self.lane).await {
                Ok(stream) => stream,
                Err(failure) => {
                    failure.note(&self.lane);
                    return Err(Failure::Ended(failure.outcome()));
                }
            },
        };
        let sender = shake_hands(stream).await;
        sender.map_err(|_| Failure::Ended(Outcome::Reset))
    }

    /// The connection of this generation is of no more use.
    fn forget(&self, generation: u64) {
        if self.generation.get() == generation {
            self.sender.borrow_mut().take();
        }
    }
}

/// While it lives, a task opens the connection. A task that its deadline cuts off leaves that to the next.
struct Opening<'s>(&'s Session);

impl<'s> Opening<'s> {
    fn begin(session: &'s Session) -> Self {
        session.is_opening.set(true);
        Self(session)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        for waker in self.0.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}

async fn shake_hands(stream: Stream) -> Result<SendRequest<Bytes>, h2::Error> {
    let (sender, connection) = Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .enable_push(false)
        .handshake(stream)
        .await?;
    // It ends with the connection. The requests on it are told as well what broke it.
    spawn_local(async {
        let _ = connection.await;
    });
    Ok(sender)
}
