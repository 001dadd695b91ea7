//! Which request gets which connection to an endpoint, and when a new one is opened.
//!
//! A request without an idle connection takes whichever comes first: one that becomes free, or a new one. Both go to
//! the request that has waited longest. New connections are opened with caution. An upstream that is slow to accept
//! becomes slower with each connection that waits there, while accepted ones become free all the time:
//!
//! - A connect begins only while more requests wait than connects are in progress.
//! - No connect begins while [`Limits::unproven`] connections are being opened or have not carried an answer yet: a
//!   kernel reports a connection long before the process behind it has accepted it.
//! - A request that is *overdue*, because no connection has come for a while, gets a connect all the same. Answers on
//!   the other connections may just take long, so these no longer count. Then [`Limits::under_way`] is the bound.
//! - A connect that fails, fails one request. While more requests wait than connects are in progress, each failure in a
//!   row fails twice as many as the one before, and halves how many connects may be in progress. So nobody waits long
//!   for a dead endpoint, and it is not stormed. A connection that opens or becomes free ends the row.
//!
//! The queue does not know what waits: it hands out [`Seat`]s. Only [`Connects::wait`] allocates, and only when more
//! wait than ever before. Each seat takes 24 bytes.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// How many connections one queue opens at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are being opened or have not carried an answer yet.
    pub unproven: usize,
    /// Connections that are being opened.
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

/// The seat of one waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat(usize);

impl Seat {
    /// A number smaller than the largest number of waiters so far.
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

/// Who waits for a connection to one endpoint, and how many connections are being opened.
#[derive(Debug, Default)]
pub struct Connects {
    limits: Limits,
    seats: Vec<State>,
    free: Vec<Seat>,
    /// In serving order.
    line: VecDeque<Seat>,
    overdue: usize,
    under_way: usize,
    /// Open connections that were given to a request and have not carried an answer.
    unproven: usize,
    failed_in_a_row: u32,
}

impl Connects {
    /// A queue in which nobody waits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// A request begins to wait, behind all others. [`Connects::begin`] must be asked next.
    pub fn wait(&mut self) -> Seat {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(State::Free);
            Seat(self.seats.len() - 1)
        });
        self.seats[seat.0] = State::Waiting { is_overdue: false };
        self.line.push_back(seat);
        seat
    }

    /// The connection that a request was called for was of no use. The request waits again, before all others.
    pub fn wait_again(&mut self, seat: Seat) {
        debug_assert_eq!(self.seats[seat.0], State::Called, "it was called");
        self.seats[seat.0] = State::Waiting { is_overdue: false };
        self.line.push_front(seat);
    }

    /// A request has waited so long that it gets a connect. [`Connects::begin`] must be asked next.
    pub fn owe(&mut self, seat: Seat) {
        if let State::Waiting { is_overdue } = &mut self.seats[seat.0]
            && !std::mem::replace(is_overdue, true)
        {
            self.overdue += 1;
            // A connection without an answer for so long waits for the answer, not to be accepted.
            self.unproven = 0;
        }
    }

    /// Whether more requests wait than connects are in progress, so that some may become overdue.
    pub fn is_short(&self) -> bool {
        self.under_way < self.line.len()
    }

    /// A request has its connection, or stops waiting.
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

    /// Whether to begin a connect now; it then counts as in progress. Ask until the answer is no.
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

    /// A connection has become free. Returns the waiter it goes to, if there is one.
    pub fn freed(&mut self) -> Option<Seat> {
        self.failed_in_a_row = 0;
        let seat = self.line.pop_front()?;
        self.call(seat);
        Some(seat)
    }

    /// A connect has succeeded. Returns the waiter it goes to, if there is one. The connection counts as not accepted
    /// until [`Connects::proven`]. [`Connects::begin`] must be asked next.
    pub fn connected(&mut self) -> Option<Seat> {
        self.under_way -= 1;
        let seat = self.freed();
        self.unproven += usize::from(seat.is_some());
        seat
    }

    /// A connection from [`Connects::connected`] has carried an answer, or is gone. [`Connects::begin`] must be asked
    /// next.
    pub fn proven(&mut self) {
        self.unproven = self.unproven.saturating_sub(1);
    }

    /// A caller outside the queue has opened a connection for itself.
    pub fn stood(&mut self) {
        self.failed_in_a_row = 0;
    }

    /// A connect has failed. Returns how many of the first waiters fail with it; [`Connects::fail`] names them.
    /// [`Connects::begin`] must be asked after these.
    pub fn failed(&mut self) -> usize {
        self.under_way -= 1;
        let doubled = 1_usize.checked_shl(self.failed_in_a_row);
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        // Waiters with a connect in progress still wait for it.
        let without = self.line.len().saturating_sub(self.under_way);
        doubled.unwrap_or(usize::MAX).min(without.max(1))
    }

    /// The next waiter that a failed connect fails, if anybody waits.
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
