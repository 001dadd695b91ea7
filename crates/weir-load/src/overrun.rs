//! What a thread of an open loop sends only after the end of its schedule, and how much of that a pause of the server
//! explains. Pure: the time is an argument.
//!
//! Connections that are too few, or too slow, are behind from the beginning and still are at the end; a server that
//! stood still just before the end has left as much as became due meanwhile. This tells the two apart.

use crate::source::Start;

/// Counted requests that one thread sent after the end of its schedule though they were due by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrun {
    /// How many.
    pub requests: u64,
    /// The longest time for which requests were due and no connection was answered, since the thread was last on
    /// schedule.
    pub pause_ns: u64,
    /// Requests that became due in that time.
    pub due_in_pause: u64,
}

/// A pause of the server is longer than this many times the median latency; less is what its answers take.
const PAUSE_IN_MEDIANS: u64 = 2;

impl Overrun {
    /// How many of them no pause of the server explains, beside this median of the latencies.
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

    /// A connection is free and nothing is due: whatever held the thread up is over.
    pub(crate) fn catch_up(&mut self) {
        (self.pause_from_ns, self.pause_to_ns) = (0, 0);
        (self.overrun.pause_ns, self.overrun.due_in_pause) = (0, 0);
    }

    /// A request has ended; the next one to be sent is due since `due_ns`, if it is due.
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

    /// This request is sent.
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
