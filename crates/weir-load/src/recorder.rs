//! What a thread records, and how the coordinator gets it: by a swap, a few times a second, never per request.

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::held::Held;
use crate::lapse::Lapses;
use crate::outcome::{Outcomes, histogram, merge, record};
use crate::trend::Trend;

/// What happened since the last hand-over. It leaves out the requests of the warm-up.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) outcomes: Outcomes,
    pub(crate) lapses: Lapses,
    pub(crate) held: Held,
    pub(crate) trend: Trend,
    /// Nanoseconds from the moment a request was due, with a connection free, to its sending; open loop only.
    pub(crate) lag_ns: Histogram<u64>,
    /// Requests sent, or tried.
    pub(crate) sent: u64,
    /// How many of these were due before any connection was free.
    pub(crate) sent_late: u64,
    /// Bytes received, warm-up included.
    pub(crate) bytes_received: u64,
    /// Connections that failed for lack of local ports or descriptors.
    pub(crate) local_failures: u64,
    /// Requests that ended after the planned time was over.
    pub(crate) overtime: u64,
    pub(crate) overtime_good: u64,
    /// When the last request was sent, in nanoseconds of the run's clock.
    pub(crate) last_sent_ns: u64,
    /// When the last request ended.
    pub(crate) last_ended_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            outcomes: Outcomes::default(),
            lapses: Lapses::default(),
            held: Held::default(),
            trend: Trend::default(),
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
        self.held.merge(&other.held);
        self.trend.merge(&other.trend);
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

    /// Forgets everything but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.outcomes.clear();
        self.lapses.clear();
        self.held.clear();
        self.trend.clear();
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
    /// Leaves `own` and takes an empty recorder in its place, unless the last one has not been collected yet.
    pub(crate) fn offer(&self, own: &mut Recorder) {
        // A thread never waits for the coordinator.
        if let Ok(mut slot) = self.slot.try_lock()
            && !slot.is_full
        {
            std::mem::swap(&mut slot.recorder, own);
            slot.is_full = true;
        }
    }

    /// Adds what was left, if anything, to `sum`.
    pub(crate) fn collect(&self, sum: &mut Recorder) {
        let mut slot = self.slot.lock().expect("no thread panics while it swaps");
        if slot.is_full {
            sum.merge(&slot.recorder);
            slot.recorder.clear();
            slot.is_full = false;
        }
    }
}
