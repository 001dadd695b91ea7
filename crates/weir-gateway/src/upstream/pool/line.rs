//! The requests of one worker that wait for a connection to one endpoint, and what each is given.
//!
//! Who is next, and when a connect is begun, is weir-policy's to say ([`Connects`]); the connects are `connect.rs`'s.

use std::cell::RefCell;
use std::task::Waker;

use weir_policy::connects::{Connects, Seat};

use crate::failure::Failure;
use crate::io::Stream;

/// Who waits.
#[derive(Debug, Default)]
pub(crate) struct Line(RefCell<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    connects: Connects,
    /// By [`Seat::index`].
    seated: Vec<Seated>,
}

#[derive(Debug, Default)]
struct Seated {
    given: Option<Given>,
    waker: Option<Waker>,
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
        self.0.borrow_mut().connects.wait_again(seat);
    }

    pub(crate) fn owe(&self, seat: Seat) {
        self.0.borrow_mut().connects.owe(seat);
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
    /// Waking only marks the task as ready: it runs nothing that could come back here.
    fn give(&mut self, seat: Seat, given: Given) {
        let seated = &mut self.seated[seat.index()];
        seated.given = Some(given);
        if let Some(waker) = seated.waker.take() {
            waker.wake();
        }
    }
}
