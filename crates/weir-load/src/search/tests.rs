use super::*;

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
