//! The requests of one worker that wait for a connection to one endpoint, and what each is given.
//!
//! Who is next, and when a connect is begun, is weir-policy's to say ([`Connects`]); the connects are `connect.rs`'s.

use std::cell::RefCell;
use std::task::Waker;
use std::time::{Duration, Instant};

use weir_policy::connects::{Connects, Seat};
use weir_socket::Stream;

use crate::failure::Failure;
use crate::time;

/// How long a request waits for what comes free before it is owed a connect, if so many are being opened that it has none:
/// longer than a busy endpoint lets them wait, and nothing beside what a slow one takes to answer.
pub(crate) const PATIENCE: Duration = Duration::from_millis(10);

/// Who waits.
#[derive(Debug, Default)]
pub(crate) struct Line(RefCell<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    connects: Connects,
    /// By [`Seat::index`].
    seated: Vec<Seated>,
    /// Whether somebody sees to it that nobody waits for long.
    is_watched: bool,
}

#[derive(Debug, Default)]
struct Seated {
    given: Option<Given>,
    waker: Option<Waker>,
    /// Who sits here, and since when it waits, if anybody does.
    waits: Option<(Seat, Instant)>,
}

/// What a waiter gets.
#[derive(Debug)]
pub(crate) enum Given {
    /// A connection that has served.
    Kept(Stream),
    /// One that has not, which is to be told of with [`Line::proven`].
    New(Stream),
    /// The connect failed that was to be its own.
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

    /// What came for a waiter, if anything did; until then `waker` is woken when something does.
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

    /// Whoever has waited for long is owed a connect.
    pub(crate) fn owe_to_late(&self) {
        self.0.borrow_mut().owe_to_late(|_| true);
    }

    /// Whether somebody is to see to it from now on that nobody waits for long, and nobody does.
    pub(crate) fn is_to_be_watched(&self) -> bool {
        let waiting = &mut *self.0.borrow_mut();
        waiting.connects.is_short() && !std::mem::replace(&mut waiting.is_watched, true)
    }

    /// Whether nobody need see to it any more.
    pub(crate) fn is_watched_no_more(&self) -> bool {
        let waiting = &mut *self.0.borrow_mut();
        waiting.is_watched = waiting.connects.is_short();
        !waiting.is_watched
    }

    /// A waiter leaves, with what it was given and did not take.
    pub(crate) fn leave(&self, seat: Seat) -> Option<Given> {
        let waiting = &mut *self.0.borrow_mut();
        waiting.connects.leave(seat);
        std::mem::take(&mut waiting.seated[seat.index()]).given
    }

    /// Gives a connection that came free to who is first. Without anybody it is handed back.
    pub(super) fn offer(&self, stream: Stream) -> Option<Stream> {
        let waiting = &mut *self.0.borrow_mut();
        let Some(seat) = waiting.connects.freed() else {
            return Some(stream);
        };
        waiting.give(seat, Given::Kept(stream));
        None
    }

    /// The same with one that was under way.
    pub(crate) fn connected(&self, stream: Stream) -> Option<Stream> {
        let waiting = &mut *self.0.borrow_mut();
        let Some(seat) = waiting.connects.connected() else {
            return Some(stream);
        };
        waiting.give(seat, Given::New(stream));
        None
    }

    /// One that was under way does not stand.
    pub(crate) fn failed(&self, failure: Failure) {
        let waiting = &mut *self.0.borrow_mut();
        for _ in 0..waiting.connects.failed() {
            let Some(seat) = waiting.connects.fail() else {
                break;
            };
            waiting.give(seat, Given::Failed(failure));
        }
    }

    /// Whether another connect is to be begun, which then is under way.
    pub(crate) fn begin(&self) -> bool {
        self.0.borrow_mut().connects.begin()
    }

    /// A new connection was answered on, or is gone.
    pub(crate) fn proven(&self) {
        self.0.borrow_mut().connects.proven();
    }

    /// A connection stands that nobody in the line waited for.
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
