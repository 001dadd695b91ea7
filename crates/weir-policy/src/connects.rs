//! Which request gets which connection to an endpoint, and when another one is opened.
//!
//! A request that finds no idle connection takes whichever comes first: one that comes free, or a new one. Both go to the
//! request that has waited longest. Opening is done with caution, because an upstream that is slow to accept answers
//! all the slower the more connections it has in front of it, while those that it has accepted come free all the time:
//!
//! - A connect is only begun while more requests wait than connects are under way.
//! - As long as [`Limits::unproven`] connections are being opened or have not been answered on yet, no other one is begun:
//!   a kernel says that a connection stands long before the process behind it has accepted it.
//! - A request that is *overdue*, because nothing has come for a while, is owed a connect all the same: those that hold
//!   the connections may take long, and count no more. Then [`Limits::under_way`] is the bound.
//! - A connect that fails, fails one request. While more wait than connects are under way, each failure in a row fails
//!   twice as many as the one before, and halves how many may be under way: nobody waits long for an endpoint that is
//!   dead, and it is not stormed. A connection that stands or comes free ends the row.
//!
//! The queue does not know what waits: it gives out [`Seat`]s. No call allocates but [`Connects::wait`] when more wait than
//! ever before, and each seat takes 24 bytes.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// How many connections one queue opens at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Those that are being opened or have not been answered on yet.
    pub unproven: usize,
    /// Those that are being opened.
    pub under_way: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unproven: 32,
            under_way: 1024,
        }
    }
}

/// The place of one waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat(usize);

impl Seat {
    /// A number below the most that have waited at once.
    pub fn index(self) -> usize {
        self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Waiting { is_overdue: bool },
    Called,
}

/// Who waits for a connection to one endpoint, and how many are being opened.
#[derive(Debug, Default)]
pub struct Connects {
    limits: Limits,
    seats: Vec<State>,
    free: Vec<Seat>,
    /// In the order in which they are served.
    line: VecDeque<Seat>,
    overdue: usize,
    under_way: usize,
    /// That stand, were given to a request, and have not been answered on.
    unproven: usize,
    failed_in_a_row: u32,
}

impl Connects {
    /// Nobody waits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A request waits from now on, behind all others. [`Connects::begin`] is to be asked next.
    pub fn wait(&mut self) -> Seat {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(State::Free);
            Seat(self.seats.len() - 1)
        });
        self.seats[seat.0] = State::Waiting { is_overdue: false };
        self.line.push_back(seat);
        seat
    }

    /// What a request was called for was of no use: it waits again, before all others.
    pub fn wait_again(&mut self, seat: Seat) {
        debug_assert_eq!(self.seats[seat.0], State::Called, "it was called");
        self.seats[seat.0] = State::Waiting { is_overdue: false };
        self.line.push_front(seat);
    }

    /// A request has waited for so long that it is owed a connect. [`Connects::begin`] is to be asked next.
    pub fn owe(&mut self, seat: Seat) {
        if let State::Waiting { is_overdue } = &mut self.seats[seat.0]
            && !std::mem::replace(is_overdue, true)
        {
            self.overdue += 1;
            // What has not been answered on for so long waits for its answer, and not to be accepted.
            self.unproven = 0;
        }
    }

    /// Whether more requests wait than connects are under way, so that some of them may come to be owed one.
    pub fn is_short(&self) -> bool {
        self.under_way < self.line.len()
    }

    /// A request has what it waited for, or waits no more.
    pub fn leave(&mut self, seat: Seat) {
        if matches!(self.seats[seat.0], State::Waiting { .. })
            && let Some(index) = self.line.iter().position(|&other| other == seat)
        {
            self.line.remove(index);
            self.call(seat);
        }
        self.seats[seat.0] = State::Free;
        self.free.push(seat);
    }

    /// Whether a connect is to be begun now, which then is under way. To be asked until it says no.
    pub fn begin(&mut self) -> bool {
        let opened = self.under_way + self.unproven;
        let may_begin = self.is_short()
            && if self.failed_in_a_row > 0 {
                let halved = self.limits.unproven.checked_shr(self.failed_in_a_row);
                self.under_way < halved.unwrap_or_default().max(1)
            } else {
                opened < self.limits.unproven
                    || self.under_way < self.overdue.min(self.limits.under_way)
            };
        self.under_way += usize::from(may_begin);
        may_begin
    }

    /// A connection has come free: for whom, if anybody waits.
    pub fn freed(&mut self) -> Option<Seat> {
        self.failed_in_a_row = 0;
        let seat = self.line.pop_front()?;
        self.call(seat);
        Some(seat)
    }

    /// A connection stands that was under way: for whom, if anybody waits. Until [`Connects::proven`] it is not known to
    /// have been accepted. [`Connects::begin`] is to be asked next.
    pub fn connected(&mut self) -> Option<Seat> {
        self.under_way -= 1;
        let seat = self.freed();
        self.unproven += usize::from(seat.is_some());
        seat
    }

    /// A connection that [`Connects::connected`] gave to somebody was answered on, or is gone. [`Connects::begin`] is to be
    /// asked next.
    pub fn proven(&mut self) {
        self.unproven = self.unproven.saturating_sub(1);
    }

    /// A connection stands that somebody opened for themselves.
    pub fn stood(&mut self) {
        self.failed_in_a_row = 0;
    }

    /// A connect that was under way failed: so many of those in front fail with it, which [`Connects::fail`] names.
    /// [`Connects::begin`] is to be asked after these.
    pub fn failed(&mut self) -> usize {
        self.under_way -= 1;
        let doubled = 1_usize.checked_shl(self.failed_in_a_row);
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        // Those for whom a connect is under way wait for it.
        let without = self.line.len().saturating_sub(self.under_way);
        doubled.unwrap_or(usize::MAX).min(without.max(1))
    }

    /// Whom a failed connect fails next, if anybody waits.
    pub fn fail(&mut self) -> Option<Seat> {
        let seat = self.line.pop_front()?;
        self.call(seat);
        Some(seat)
    }

    fn call(&mut self, seat: Seat) {
        let was = std::mem::replace(&mut self.seats[seat.0], State::Called);
        self.overdue -= usize::from(was == State::Waiting { is_overdue: true });
    }
}
