//! Where the requests of a thread come from: in a closed loop from free connections, in an open loop from the schedule.
//! Pure: the time is an argument.

use std::time::Duration;

use crate::arrivals::{Arrival, Schedule, Share};
use crate::overrun::{Overrun, OverrunWatch};
use crate::plan::{End, Plan};
use crate::trend::Third;

/// How long after its end an open loop of fixed duration may still send what was due before. It measures the latencies
/// of a pause of the server up to the last one. `overrun` judges whether the loop kept its rate.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Its number in the run, over all threads.
    pub(crate) number: u64,
    /// When it was meant to be sent: latency counts from here.
    pub(crate) intended_ns: u64,
    /// Whether it belongs to the run and not to its warm-up.
    pub(crate) is_counted: bool,
    /// When it is sent; its deadline counts from here, so that a server can catch up.
    pub(crate) sent_ns: u64,
    /// Requests of its thread in flight at that time, itself included. The lane counts them.
    pub(crate) in_flight: usize,
}

/// What a free connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send this, now.
    Send(Start),
    /// Wait: the next request is due then.
    WaitUntil(u64),
    /// There is nothing more to send.
    Over,
}

/// The requests of a thread, in sending order.
#[derive(Debug)]
pub(crate) struct Source {
    loop_: Loop,
    start_ns: u64,
    /// When requests begin to count.
    counted_from_ns: u64,
    /// The end of the planned time; never for a number of requests.
    time_is_over_ns: u64,
    /// When nothing more is sent.
    closes_ns: u64,
}

#[derive(Debug)]
enum Loop {
    Closed {
        /// The number of the next request, and the distance to the one after it.
        number: u64,
        stride: u64,
        /// Counted requests left.
        left: u64,
    },
    Open(Box<OpenLoop>),
}

#[derive(Debug)]
struct OpenLoop {
    schedule: Schedule,
    /// The first arrival not taken yet; none when there is no more.
    head: Option<Arrival>,
    watch: OverrunWatch,
}

impl Source {
    /// The part `share` of a run that starts at `start_ns` on the run's clock.
    pub(crate) fn new(plan: &Plan, share: Share, start_ns: u64) -> Self {
        let counted_from_ns = start_ns + plan.warm_up.as_nanos() as u64;
        let is_closed = plan.arrivals.is_closed();
        let time_is_over_ns = match plan.end {
            End::Requests(_) => u64::MAX,
            End::After(lasts) => counted_from_ns + lasts.as_nanos() as u64,
        };
        let catch_up = if is_closed {
            Duration::ZERO
        } else {
            CATCH_UP_MAX.min(plan.timeout)
        };
        let closes_ns = time_is_over_ns.saturating_add(catch_up.as_nanos() as u64);
        let loop_ = if is_closed {
            Loop::Closed {
                number: share.index,
                stride: share.of,
                left: match plan.end {
                    End::After(_) => u64::MAX,
                    End::Requests(all) => all / share.of + u64::from(share.index < all % share.of),
                },
            }
        } else {
            let lasts_ns = match plan.end {
                End::After(lasts) => lasts.as_nanos() as u64,
                End::Requests(all) => plan.arrivals.lasts_ns(all),
            };
            let mut schedule = Schedule::new(plan, share);
            Loop::Open(Box::new(OpenLoop {
                head: schedule.next(),
                schedule,
                watch: OverrunWatch::new(counted_from_ns.saturating_add(lasts_ns)),
            }))
        };
        Self {
            loop_,
            start_ns,
            counted_from_ns,
            time_is_over_ns,
            closes_ns,
        }
    }

    /// Takes what a connection that is free at `now_ns` does next.
    pub(crate) fn next(&mut self, now_ns: u64) -> Next {
        let next = self.look(now_ns);
        match (next, &mut self.loop_) {
            (Next::Send(start), _) => self.advance(start, now_ns),
            (Next::WaitUntil(_), Loop::Open(open)) => open.watch.catch_up(),
            _ => {}
        }
        next
    }

    /// The same, without taking it.
    pub(crate) fn look(&self, now_ns: u64) -> Next {
        if now_ns >= self.closes_ns {
            return Next::Over;
        }
        if now_ns < self.start_ns {
            return Next::WaitUntil(self.start_ns);
        }
        match &self.loop_ {
            Loop::Closed { left: 0, .. } => Next::Over,
            Loop::Closed { number, .. } => Next::Send(Start {
                number: *number,
                intended_ns: now_ns,
                is_counted: now_ns >= self.counted_from_ns,
                sent_ns: now_ns,
                in_flight: 0,
            }),
            Loop::Open(open) => match open.head {
                None => Next::Over,
                Some(Arrival {
                    number,
                    at_ns,
                    is_counted,
                }) => {
                    let intended_ns = self.start_ns.saturating_add(at_ns);
                    if intended_ns > now_ns {
                        return Next::WaitUntil(intended_ns);
                    }
                    Next::Send(Start {
                        number,
                        intended_ns,
                        is_counted,
                        sent_ns: now_ns,
                        in_flight: 0,
                    })
                }
            },
        }
    }

    /// When the planned time is over: what ends later is in no rate.
    pub(crate) fn time_is_over_ns(&self) -> u64 {
        self.time_is_over_ns
    }

    /// Whether a request was due in the first third or the last third of the planned time.
    pub(crate) fn third_of(&self, due_ns: u64) -> Option<Third> {
        let lasts_ns = match &self.loop_ {
            Loop::Closed { .. } => return None,
            Loop::Open(open) => open.watch.ends_ns().saturating_sub(self.counted_from_ns),
        };
        let after_ns = due_ns.saturating_sub(self.counted_from_ns);
        if after_ns < lasts_ns / 3 {
            Some(Third::First)
        } else {
            (after_ns >= lasts_ns - lasts_ns / 3).then_some(Third::Last)
        }
    }

    /// A request has ended, and its connection has not taken the next one yet.
    pub(crate) fn ended(&mut self, now_ns: u64) {
        let due_ns = match self.look(now_ns) {
            Next::Send(start) => Some(start.intended_ns),
            Next::WaitUntil(_) | Next::Over => None,
        };
        if let Loop::Open(open) = &mut self.loop_ {
            open.watch.ended(due_ns, now_ns);
        }
    }

    /// What an open loop has sent after the end of its schedule.
    pub(crate) fn overrun(&self) -> Overrun {
        match &self.loop_ {
            Loop::Closed { .. } => Overrun::default(),
            Loop::Open(open) => open.watch.overrun(),
        }
    }

    /// Whether requests sent now are counted.
    pub(crate) fn is_counting(&self, now_ns: u64) -> bool {
        now_ns >= self.counted_from_ns
    }

    /// Requests of an open loop that were due by `now_ns` and were not sent.
    pub(crate) fn not_sent(&self, now_ns: u64) -> u64 {
        match &self.loop_ {
            Loop::Closed { .. } => 0,
            Loop::Open(open) => {
                let until_ns = now_ns.saturating_sub(self.start_ns);
                match open.head {
                    Some(head) if head.at_ns <= until_ns => {
                        u64::from(head.is_counted) + open.schedule.counted_left(until_ns)
                    }
                    _ => 0,
                }
            }
        }
    }

    fn advance(&mut self, start: Start, now_ns: u64) {
        match &mut self.loop_ {
            Loop::Closed {
                number,
                stride,
                left,
            } => {
                *number += *stride;
                if start.is_counted && *left != u64::MAX {
                    *left -= 1;
                }
            }
            Loop::Open(open) => {
                open.head = open.schedule.next();
                open.watch.sent(start, now_ns);
            }
        }
    }
}
