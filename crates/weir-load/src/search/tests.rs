use super::*;
use crate::outcome::Outcome;
use crate::report::tests::report;

fn step(rate: f64, passed: u32, trials: u32) -> Step {
    Step {
        rate,
        passed,
        trials,
        reasons: Vec::new(),
    }
}

/// The rate, and the band in which trials disagreed.
#[test]
fn the_band_is_where_trials_disagree() {
    let cases = [
        (
            vec![step(100.0, 3, 3), step(200.0, 3, 3), step(400.0, 0, 2)],
            (200.0, 200.0, Some(400.0)),
        ),
        (
            vec![
                step(100.0, 3, 3),
                step(200.0, 2, 3),
                step(400.0, 0, 2),
                step(300.0, 1, 3),
            ],
            (200.0, 100.0, Some(400.0)),
        ),
        (
            vec![step(100.0, 0, 2), step(25.0, 3, 3)],
            (25.0, 25.0, Some(100.0)),
        ),
        // A rate that passed by luck above one that failed: nothing is sure beyond the first failure.
        (
            vec![step(100.0, 3, 3), step(200.0, 1, 3), step(150.0, 0, 2)],
            (100.0, 100.0, None),
        ),
        (vec![step(100.0, 0, 2)], (0.0, 0.0, Some(100.0))),
        (vec![], (0.0, 0.0, None)),
    ];
    for (steps, expected) in cases {
        let knee = Knee::of(steps, None);
        assert_eq!(
            (knee.rate, knee.low, knee.high),
            expected,
            "{:?}",
            knee.steps
        );
    }
}

/// A request without a good answer has not come in time, however fast its failure was.
#[test]
fn quantiles_are_those_of_all_requests() {
    let ended = |good: usize, outcome, bad: usize| {
        let good = std::iter::repeat_n((Outcome::Success, 5_000_000), good);
        let bad = std::iter::repeat_n((outcome, 1_000), bad);
        report(&good.chain(bad).collect::<Vec<_>>())
    };
    let within = Duration::from_millis(10);
    for (quantile, report, is_kept) in [
        (0.99, ended(100, Outcome::Success, 0), true),
        (0.99, ended(99, Outcome::Timeout, 1), true),
        (0.99, ended(98, Outcome::Timeout, 2), false),
        (0.99, ended(98, Outcome::ServerError, 2), false),
        (0.99, ended(98, Outcome::Redirection, 2), true),
        (0.9, ended(90, Outcome::Refused, 10), true),
        (0.9, ended(89, Outcome::Refused, 11), false),
        (1.0, ended(999, Outcome::Reset, 1), false),
        (0.0, ended(1, Outcome::Reset, 9), true),
        (0.5, ended(0, Outcome::Timeout, 9), false),
        (0.5, ended(0, Outcome::Timeout, 0), false),
    ] {
        let promise = Promise::Latency { quantile, within };
        let broken = promise.broken_by(&report);
        assert_eq!(broken.is_none(), is_kept, "{quantile}: {broken:?}");
    }
}
