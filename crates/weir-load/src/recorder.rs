//! What a thread writes down, and how the coordinator gets it: by swapping, a few times a second, never per request.

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::lapse::Lapses;
use crate::outcome::{Outcomes, histogram, merge, record};

/// What happened since the last handing over. Requests of the warm-up leave no trace here.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) outcomes: Outcomes,
    pub(crate) lapses: Lapses,
    /// Nanoseconds from the moment a request was due, a connection being free, to its sending; open loop only.
    pub(crate) lag_ns: Histogram<u64>,
    /// Requests sent, or tried to.
    pub(crate) sent: u64,
    /// Of these, the ones that were due before any connection was free.
    pub(crate) sent_late: u64,
    /// Bytes that came, warm-up included.
    pub(crate) bytes_received: u64,
    /// Connections that could not be made for want of local ports or descriptors.
    pub(crate) local_failures: u64,
    /// Requests of a closed loop that ended when its time was over: all, and the answers among them.
    pub(crate) overtime: u64,
    pub(crate) overtime_good: u64,
    /// When the last request was sent, in nanoseconds of the run's clock.
    pub(crate) last_sent_ns: u64,
    /// When the last one ended.
    pub(crate) last_ended_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            outcomes: Outcomes::default(),
            lapses: Lapses::default(),
            lag_ns: histogram(),
            sent: 0,
            sent_late: 0,
            bytes_received: 0,
            local_failures: 0,
            overtime: 0,
            overtime_good: 0,
            last_sent_ns: 0,
            last_ended_ns: 0,
        }
    }
}

impl Recorder {
    pub(crate) fn lag(&mut self, lag_ns: u64) {
        record(&mut self.lag_ns, lag_ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.outcomes.merge(&other.outcomes);
        self.lapses.merge(&other.lapses);
        merge(&mut self.lag_ns, &other.lag_ns);
        self.sent += other.sent;
        self.sent_late += other.sent_late;
        self.bytes_received += other.bytes_received;
        self.local_failures += other.local_failures;
        self.overtime += other.overtime;
        self.overtime_good += other.overtime_good;
        self.last_sent_ns = self.last_sent_ns.max(other.last_sent_ns);
        self.last_ended_ns = self.last_ended_ns.max(other.last_ended_ns);
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.outcomes.clear();
        self.lapses.clear();
        self.lag_ns.reset();
        self.sent = 0;
        self.sent_late = 0;
        self.bytes_received = 0;
        self.local_failures = 0;
        self.overtime = 0;
        self.overtime_good = 0;
    }
}

/// Where a thread leaves its recorder and finds an empty one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    recorder: Recorder,
    is_full: bool,
}

impl Handover {
    /// Leaves `own` and takes an empty recorder for it, unless the one left before still lies there.
    pub(crate) fn offer(&self, own: &mut Recorder) {
        // A thread never waits for the coordinator.
        if let Ok(mut slot) = self.slot.try_lock()
            && !slot.is_full
        {
            std::mem::swap(&mut slot.recorder, own);
            slot.is_full = true;
        }
    }

    /// Adds what was left, if anything was, to `sum`.
    pub(crate) fn collect(&self, sum: &mut Recorder) {
        let mut slot = self.slot.lock().expect("no thread panics while it swaps");
        if slot.is_full {
            sum.merge(&slot.recorder);
            slot.recorder.clear();
            slot.is_full = false;
        }
    }
}
