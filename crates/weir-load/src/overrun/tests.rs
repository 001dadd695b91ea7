use std::time::Duration;

use crate::arrivals::{Arrivals, Share, Step};
use crate::outcome::{histogram, record};
use crate::plan::{End, Plan};
use crate::report::tests::report;
use crate::source::{Next, Source};

const MS: u64 = 1_000_000;

/// A server without a network: each answer takes `hold_ns`, and none comes during a pause.
struct Model {
    connections: usize,
    hold_ns: u64,
    /// From and to.
    pauses: &'static [(u64, u64)],
}

impl Model {
    fn ends_ns(&self, sent_ns: u64) -> u64 {
        let ends_ns = sent_ns + self.hold_ns;
        let pause = self
            .pauses
            .iter()
            .find(|(from, to)| (*from..*to).contains(&ends_ns));
        pause.map_or(ends_ns, |(_, to)| *to)
    }

    /// The part of the schedule that counts as sent in time.
    fn sent_in_time(&self, arrivals: Arrivals, end: End) -> f64 {
        let plan = Plan {
            arrivals,
            end,
            ..Plan::clone(&report(&[]).plan)
        };
        let mut source = Source::new(&plan, Share { index: 0, of: 1 }, 0);
        // For each connection: when it is free next, and when the request it carries was due.
        let mut connections = vec![(0, None); self.connections];
        let (mut latencies, mut sent) = (histogram(), 0);
        while let Some(first) = (0..connections.len()).min_by_key(|index| connections[*index].0) {
            let (now_ns, due_ns) = connections[first];
            if let Some(due_ns) = due_ns {
                record(&mut latencies, now_ns - due_ns);
                source.ended(now_ns);
            }
            connections[first] = match source.next(now_ns) {
                Next::Over => {
                    connections.remove(first);
                    continue;
                }
                Next::WaitUntil(due_ns) => (due_ns, None),
                Next::Send(start) => {
                    sent += 1;
                    (self.ends_ns(now_ns), Some(start.intended_ns))
                }
            };
        }
        let not_sent = source.not_sent(u64::MAX);
        let late = source
            .overrun()
            .unexplained(latencies.value_at_quantile(0.5));
        (sent - late) as f64 / (sent + not_sent) as f64
    }
}

/// A server that answers after two milliseconds on four connections could answer 2,000 requests a second.
fn quick(pauses: &'static [(u64, u64)]) -> Model {
    Model {
        connections: 4,
        hold_ns: 2 * MS,
        pauses,
    }
}

fn slow(connections: usize) -> Model {
    Model {
        connections,
        hold_ns: 20 * MS,
        pauses: &[],
    }
}

fn seconds(seconds: u64) -> End {
    End::After(Duration::from_secs(seconds))
}

#[test]
fn a_pause_of_the_server_is_not_the_generators() {
    for (model, rate) in [
        (quick(&[]), 1000.0),
        (quick(&[(1800 * MS, 2000 * MS)]), 1000.0),
        (quick(&[(1990 * MS, 2190 * MS)]), 1000.0),
        (quick(&[(1900 * MS, 2100 * MS)]), 1000.0),
        // The backlog of the pause is worked off slowly, after the end.
        (quick(&[(1700 * MS, 1900 * MS)]), 1600.0),
        (
            quick(&[(300 * MS, 500 * MS), (1800 * MS, 2000 * MS)]),
            1000.0,
        ),
    ] {
        for arrivals in [Arrivals::Constant(rate), Arrivals::Poisson(rate)] {
            let part = model.sent_in_time(arrivals.clone(), seconds(2));
            assert!(part >= 0.99, "{arrivals} {:?}: {part}", model.pauses);
        }
        let requests = End::Requests(2 * rate as u64);
        let part = model.sent_in_time(Arrivals::Constant(rate), requests);
        assert!(part >= 0.99, "{:?}: {part}", model.pauses);
    }
}

/// They fail although all requests are sent in the end.
#[test]
fn connections_that_cannot_keep_the_rate_are() {
    let steps = |steps: &[(f64, u64)]| {
        let step = |&(rate, seconds)| Step {
            rate,
            lasts: Duration::from_secs(seconds),
        };
        Arrivals::Steps(steps.iter().map(step).collect())
    };
    let ramp = Arrivals::Ramp {
        from: 100.0,
        to: 2500.0,
        over: Duration::from_secs(4),
    };
    for (model, arrivals, end) in [
        (slow(1), Arrivals::Constant(1000.0), End::Requests(100)),
        (slow(1), Arrivals::Constant(80.0), seconds(1)),
        (slow(1), Arrivals::Poisson(80.0), seconds(1)),
        (slow(1), Arrivals::Poisson(80.0), End::Requests(80)),
        (slow(4), Arrivals::Constant(206.0), seconds(2)),
        (quick(&[]), steps(&[(100.0, 9), (2500.0, 1)]), seconds(10)),
        (quick(&[]), ramp, seconds(4)),
        // A pause at the end does not hide what was missing before.
        (
            quick(&[(1800 * MS, 2000 * MS)]),
            Arrivals::Constant(2500.0),
            seconds(2),
        ),
    ] {
        let part = model.sent_in_time(arrivals.clone(), end);
        assert!(part < 0.99, "{arrivals} {end:?}: {part}");
    }
}
