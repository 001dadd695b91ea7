use std::time::Duration;

use super::*;
use crate::audit::Usage;
use crate::outcome::{Outcome, record};
use crate::report::tests::report;

const PROMISES: [Promise; 2] = [
    Promise::Latency {
        quantile: 0.5,
        within: Duration::from_millis(100),
    },
    Promise::Errors(0.1),
];

fn said(report: &Report) -> &'static str {
    match Trial::of(report, &PROMISES) {
        Trial::Kept => "kept",
        Trial::Broken(_) => "broken",
        Trial::SaysNothing(_) => "nothing",
    }
}

/// Makes the generator the limit of a trial.
type Limit = fn(&mut Report);

/// When the generator is the limit, it may have broken the promises itself, but it cannot have kept them for the
/// server. What it cannot have broken is the server's doing all the same.
#[test]
fn only_the_server_breaks_promises() {
    let limits: [(Limit, &str); 5] = [
        (|_| {}, "broken"),
        (|run| run.local_failures = 1, "broken"),
        (|run| record(&mut run.lag_ns, 180_000_000), "broken"),
        (|run| record(&mut run.lag_ns, 210_000_000), "nothing"),
        (
            |run| {
                run.usage = vec![Usage {
                    wall_ns: 100_000_000,
                    cpu_ns: 50_000_000,
                    waited_ns: 49_000_000,
                }];
            },
            "nothing",
        ),
    ];
    for (limit, expected) in limits {
        for (latency_ns, expected) in [(99_000_000, "kept"), (300_000_000, expected)] {
            let mut run = report(&[(Outcome::Success, latency_ns)]);
            limit(&mut run);
            assert_eq!(said(&run), expected);
        }
    }
    assert_eq!(said(&report(&[])), "nothing");
    assert_eq!(said(&report(&[(Outcome::Refused, 1)])), "broken");
    let mut late = report(&[(Outcome::Success, 1), (Outcome::Timeout, 1)]);
    record(&mut late.lag_ns, 210_000_000);
    assert_eq!(said(&late), "broken");
    let mut without_ports = report(&[(Outcome::Success, 1), (Outcome::Success, 1)]);
    without_ports.local_failures = 2;
    assert_eq!(said(&without_ports), "nothing");
}

/// Half of two hundred planned requests were sent in a second. So each held one of eight connections for 80 ms, or one
/// of ten for 100 ms, which is the longest allowed.
#[test]
fn a_rate_that_connections_cannot_carry_says_nothing() {
    let sent = |connections, latency_ns| {
        let mut run = report(&[(Outcome::Success, latency_ns)]);
        std::sync::Arc::make_mut(&mut run.plan).connections = connections;
        (run.not_sent, run.sent_late) = (100, 90);
        run
    };
    for latency_ns in [99_000_000, 900_000_000] {
        assert_eq!(said(&sent(8, latency_ns)), "nothing");
        assert_eq!(said(&sent(10, latency_ns)), "broken");
        // Nobody knows how the server would have done under the full rate.
        let mut busy = sent(10, latency_ns);
        busy.local_failures = 1;
        assert_eq!(said(&busy), "nothing");
    }
}
