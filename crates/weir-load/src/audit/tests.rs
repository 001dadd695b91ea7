use super::*;
use crate::outcome::{Outcome, Outcomes, histogram, record};
use crate::overrun::Overrun;
use crate::report::tests::report;

const SECOND: u64 = 1_000_000_000;

/// Spoils one thing in a run.
type Spoil = fn(&mut Report);

fn used(computing: f64, waiting: f64) -> Usage {
    Usage {
        wall_ns: SECOND,
        cpu_ns: (computing * SECOND as f64) as u64,
        waited_ns: (waiting * SECOND as f64) as u64,
    }
}

/// The first words of each sentence, for a run with one thing wrong.
#[test]
fn each_reason_and_its_remedy() {
    let valid = || report(&[(Outcome::Success, 2_000_000)]);
    assert_eq!(verdict(&valid()), [""; 0]);
    let cases: [(Spoil, &str, &str); 9] = [
        (
            |run| run.outcomes = Outcomes::default(),
            "No request ended",
            "",
        ),
        (
            |run| run.not_sent = 2,
            "Only 100 of 102 planned",
            "raise --connections",
        ),
        (
            |run| (run.not_sent, run.sent_late) = (50, 40),
            "Only 100 of 150 planned requests were sent by the end of their schedule (66.7 %)",
            "raise --connections",
        ),
        (
            |run| run.local_failures = 3,
            "3 connections could not be made",
            "ulimit -n",
        ),
        (
            |run| run.usage = vec![used(0.3, 0.0), used(0.95, 0.0)],
            "The generator was the bottleneck",
            "--threads",
        ),
        // It computed little, but the server had its CPU.
        (
            |run| run.usage = vec![used(0.4, 0.55)],
            "The generator was held up",
            "taskset",
        ),
        (
            |run| record(&mut run.lag_ns, 30_000_000),
            "The generator sent late",
            "taskset",
        ),
        (|run| run.usage = vec![used(0.85, 0.04)], "", ""),
        // Over before it can be told.
        (
            |run| {
                run.usage = vec![Usage {
                    wall_ns: 800_000,
                    cpu_ns: 790_000,
                    waited_ns: 0,
                }];
            },
            "",
            "",
        ),
    ];
    for (spoil, begins, remedy) in cases {
        let mut run = valid();
        spoil(&mut run);
        let reasons = verdict(&run);
        if begins.is_empty() {
            assert_eq!(reasons, [""; 0]);
            continue;
        }
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(
            reasons[0].starts_with(begins) && reasons[0].contains(remedy),
            "{reasons:?}"
        );
    }
}

/// The median is 2 ms; a pause makes twenty requests due.
#[test]
fn a_pause_excuses_requests_that_became_due_in_it() {
    for (requests, pause_ns, is_valid) in [
        (1, 0, true),
        (2, 0, false),
        // This pause is no longer than a slow answer.
        (20, 3_000_000, false),
        (20, 200_000_000, true),
        (21, 200_000_000, true),
        (22, 200_000_000, false),
    ] {
        let mut run = report(&[(Outcome::Success, 2_000_000)]);
        run.overruns = vec![Overrun {
            requests,
            pause_ns,
            due_in_pause: 20,
        }];
        let reasons = verdict(&run);
        assert_eq!(reasons.is_empty(), is_valid, "{requests}: {reasons:?}");
    }
}

/// The median is 2 ms.
#[test]
fn a_median_that_is_lag_is_not_the_servers() {
    // (lag of half of the requests, whether it is valid)
    for (lag_ns, is_valid) in [(90_000, true), (490_000, true), (600_000, false)] {
        // One in fifty answers is slow, so lag of this size does not matter at the 99th percentile.
        let mut run = report(&[(Outcome::Success, 60_000_000); 2]);
        for _ in 0..98 {
            run.outcomes.record(Outcome::Success, 2_000_000);
        }
        run.lag_ns = histogram();
        for _ in 0..100 {
            record(&mut run.lag_ns, lag_ns);
        }
        let reasons = verdict(&run);
        assert_eq!(reasons.is_empty(), is_valid, "{lag_ns}: {reasons:?}");
        let names_it = |reason: &String| reason.contains("at its median");
        assert!(reasons.iter().all(names_it), "{reasons:?}");
    }
}

#[test]
fn waits_for_connections_are_reported() {
    let mut run = report(&[(Outcome::Success, 2_000_000)]);
    assert_eq!(remarks(&run), [""; 0]);
    for (sent_late, from) in [(1, "p99.9 "), (2, "p99 "), (30, "p75 "), (100, "p50 ")] {
        run.sent_late = sent_late;
        let remarks = remarks(&run);
        assert_eq!(remarks.len(), 1);
        let begins = format!("{sent_late} of 100 requests");
        assert!(remarks[0].starts_with(&begins), "{remarks:?}");
        assert!(
            remarks[0].contains(&format!("from {from}on")),
            "{remarks:?}"
        );
    }
}

/// A closed loop has no schedule to miss.
#[test]
fn one_request_of_a_hundred_may_be_missing() {
    let mut run = report(&[(Outcome::Success, 2_000_000)]);
    run.not_sent = 1;
    assert_eq!(verdict(&run), [""; 0]);
    run.lag_ns = histogram();
    assert_eq!(verdict(&run), [""; 0]);
}

/// The remedy fits the reason: no free connection, or a thread that is late although connections are free.
#[test]
fn requests_that_were_not_sent_wait_for_a_connection_or_a_thread() {
    let mut run = report(&[(Outcome::Success, 2_000_000)]);
    run.not_sent = 50;
    record(&mut run.lag_ns, 30_000_000);
    let reasons = verdict(&run);
    assert!(reasons[0].contains("raise --threads"), "{reasons:?}");
    run.sent_late = 40;
    let reasons = verdict(&run);
    assert!(reasons[0].contains("raise --connections"), "{reasons:?}");
}
