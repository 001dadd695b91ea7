//! What a thread of an open loop sends only after the end of its schedule, and how much of that a pause of the server
//! explains. Pure: the time is an argument.
//!
//! With too few or too slow connections, a thread is behind from beginning to end. After a pause of the server just
//! before the end, only what became due in the pause is left. This module tells the two apart.

use crate::source::Start;

/// Counted requests that one thread sent after the end of its schedule though they were due by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrun {
    /// How many.
    pub requests: u64,
    /// The longest time in which requests were due and no answer came, since the thread was last on schedule.
    pub pause_ns: u64,
    /// Requests that became due in that time.
    pub due_in_pause: u64,
}

/// A pause lasts longer than this many times the median latency; anything shorter is an ordinary answer.
const PAUSE_IN_MEDIANS: u64 = 2;

impl Overrun {
    /// How many of these requests no pause of the server explains, given the median latency.
    pub(crate) fn unexplained(&self, median_ns: u64) -> u64 {
        if median_ns > 0 && self.pause_ns > median_ns.saturating_mul(PAUSE_IN_MEDIANS) {
            self.requests.saturating_sub(self.due_in_pause)
        } else {
            self.requests
        }
    }
}

/// Follows the sending of a thread.
#[derive(Debug)]
pub(crate) struct OverrunWatch {
    /// The end of the schedule.
    ends_ns: u64,
    last_ended_ns: u64,
    pause_from_ns: u64,
    pause_to_ns: u64,
    overrun: Overrun,
}

impl OverrunWatch {
    pub(crate) fn new(ends_ns: u64) -> Self {
        Self {
            ends_ns,
            last_ended_ns: 0,
            pause_from_ns: 0,
            pause_to_ns: 0,
            overrun: Overrun::default(),
        }
    }

    /// The end of the schedule.
    pub(crate) fn ends_ns(&self) -> u64 {
        self.ends_ns
    }

    /// A connection is free and nothing is due: the delay is over.
    pub(crate) fn catch_up(&mut self) {
        (self.pause_from_ns, self.pause_to_ns) = (0, 0);
        (self.overrun.pause_ns, self.overrun.due_in_pause) = (0, 0);
    }

    /// A request has ended. `due_ns` is when the next request became due, if one is.
    pub(crate) fn ended(&mut self, due_ns: Option<u64>, now_ns: u64) {
        let from_ns = due_ns.map(|due_ns| due_ns.max(self.last_ended_ns));
        self.last_ended_ns = now_ns;
        if let Some(from_ns) = from_ns
            && now_ns - from_ns > self.overrun.pause_ns
        {
            (self.pause_from_ns, self.pause_to_ns) = (from_ns, now_ns);
            self.overrun.pause_ns = now_ns - from_ns;
            // Requests are sent in the order of their schedule, so none that was due in this time has been sent yet.
            self.overrun.due_in_pause = 0;
        }
    }

    /// Counts a request that is sent now.
    pub(crate) fn sent(&mut self, start: Start, now_ns: u64) {
        if !start.is_counted || start.intended_ns > self.ends_ns {
            return;
        }
        self.overrun.requests += u64::from(now_ns > self.ends_ns);
        let in_pause = self.pause_from_ns..=self.pause_to_ns;
        self.overrun.due_in_pause += u64::from(in_pause.contains(&start.intended_ns));
    }

    pub(crate) fn overrun(&self) -> Overrun {
        self.overrun
    }
}

#[cfg(test)]
mod tests;
