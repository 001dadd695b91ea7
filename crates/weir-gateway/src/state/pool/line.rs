//! The requests of one worker that wait for a connection to one endpoint, and what each gets.
//!
//! weir-policy decides who is next and when a connect begins ([`Connects`]); `connect.rs` makes the connects.

use std::cell::RefCell;
use std::task::Waker;
use std::time::{Duration, Instant};

use weir_policy::connects::{Connects, Seat};
use weir_socket::Stream;

use crate::failure::Failure;
use crate::time;

/// How long a request without a connect of its own waits for a free connection before it gets a connect. It is longer
/// than a busy endpoint lets requests wait, and short beside the answers of a slow one.
pub(crate) const PATIENCE: Duration = Duration::from_millis(10);

/// The waiting requests.
#[derive(Debug, Default)]
pub(crate) struct Line(RefCell<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    connects: Connects,
    /// By [`Seat::index`].
    seated: Vec<Seated>,
    /// Whether a task makes sure that nobody waits for long.
    is_watched: bool,
}

#[derive(Debug, Default)]
struct Seated {
    given: Option<Given>,
    waker: Option<Waker>,
    /// Who sits here, and since when it waits, if the seat is taken.
    waits: Option<(Seat, Instant)>,
}

/// What a waiter gets.
#[derive(Debug)]
pub(crate) enum Given {
    /// A connection that has served before.
    Kept(Stream),
    /// A new connection. [`Line::proven`] must be called for it.
    New(Stream),
    /// The connect that it waited for has failed.
    Failed(Failure),
}

impl Line {
    pub(crate) fn join(&self) -> Seat {
        let waiting = &mut *self.0.borrow_mut();
        let seat = waiting.connects.wait();
        if waiting.seated.len() <= seat.index() {
            waiting.seated.push(Seated::default());
        }
        waiting.seated[seat.index()].waits = Some((seat, time::now()));
        seat
    }

    /// What has come for a waiter, if anything. Until then, `waker` is woken when something does.
    pub(crate) fn take(&self, seat: Seat, waker: &Waker) -> Option<Given> {
        let seated = &mut self.0.borrow_mut().seated[seat.index()];
        if seated.given.is_none() {
            match &mut seated.waker {
                Some(known) => known.clone_from(waker),
                unknown => *unknown = Some(waker.clone()),
            }
        }
        seated.given.take()
    }

    /// What a waiter took was of no use.
    pub(crate) fn join_again(&self, seat: Seat) {
        let waiting = &mut *self.0.borrow_mut();
        waiting.connects.wait_again(seat);
        waiting.owe_to_late(|other| other == seat);
    }

    /// Gives a connect to those that have waited for long.
    pub(crate) fn owe_to_late(&self) {
        self.0.borrow_mut().owe_to_late(|_| true);
    }

    /// Begins the watch that lets nobody wait for long, if requests wait and no task watches. Returns whether the
    /// caller is to watch.
    pub(crate) fn begin_watch(&self) -> bool {
        let waiting = &mut *self.0.borrow_mut();
        waiting.connects.is_short() && !std::mem::replace(&mut waiting.is_watched, true)
    }

    /// Ends the watch, if connects are in progress for all that wait. Returns whether it has ended.
    pub(crate) fn end_watch(&self) -> bool {
        let waiting = &mut *self.0.borrow_mut();
        waiting.is_watched = waiting.connects.is_short();
        !waiting.is_watched
    }

    /// A waiter leaves. Returns what it was given and did not take.
    pub(crate) fn leave(&self, seat: Seat) -> Option<Given> {
        let waiting = &mut *self.0.borrow_mut();
        waiting.connects.leave(seat);
        std::mem::take(&mut waiting.seated[seat.index()]).given
    }

    /// Gives a free connection to the first waiter. Without waiters it is returned.
    pub(super) fn offer(&self, stream: Stream) -> Option<Stream> {
        let waiting = &mut *self.0.borrow_mut();
        let Some(seat) = waiting.connects.freed() else {
            return Some(stream);
        };
        waiting.give(seat, Given::Kept(stream));
        None
    }

    /// The same for a new connection.
    pub(crate) fn connected(&self, stream: Stream) -> Option<Stream> {
        let waiting = &mut *self.0.borrow_mut();
        let Some(seat) = waiting.connects.connected() else {
            return Some(stream);
        };
        waiting.give(seat, Given::New(stream));
        None
    }

    /// A connect has failed.
    pub(crate) fn failed(&self, failure: Failure) {
        let waiting = &mut *self.0.borrow_mut();
        for _ in 0..waiting.connects.failed() {
            let Some(seat) = waiting.connects.fail() else {
                break;
            };
            waiting.give(seat, Given::Failed(failure));
        }
    }

    /// Whether to begin another connect; it then counts as in progress.
    pub(crate) fn begin(&self) -> bool {
        self.0.borrow_mut().connects.begin()
    }

    /// A new connection has carried an answer, or is gone.
    pub(crate) fn proven(&self) {
        self.0.borrow_mut().connects.proven();
    }

    /// A connection was opened that nobody in the line waited for.
    pub(crate) fn stood(&self) {
        self.0.borrow_mut().connects.stood();
    }
}

impl Waiters {
    fn owe_to_late(&mut self, is_meant: impl Fn(Seat) -> bool) {
        let now = time::now();
        let waits = self.seated.iter().filter_map(|seated| seated.waits);
        for (seat, since) in waits.filter(|(seat, _)| is_meant(*seat)) {
            if now.saturating_duration_since(since) >= PATIENCE {
                self.connects.owe(seat);
            }
        }
    }

    /// Waking only marks the task as ready: it runs nothing that could come back here.
    fn give(&mut self, seat: Seat, given: Given) {
        let seated = &mut self.seated[seat.index()];
        seated.given = Some(given);
        if let Some(waker) = seated.waker.take() {
            waker.wake();
        }
    }
}
