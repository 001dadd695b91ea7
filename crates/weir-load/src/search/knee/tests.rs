use super::*;

fn step(rate: f64, passed: u32, trials: u32) -> Step {
    Step {
        rate,
        passed,
        broken: trials - passed,
        ..Step::default()
    }
}

/// The rate, and the band in which trials disagree.
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
        // A rate passed by luck above one that failed: nothing is certain beyond the first failure.
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

/// Each trial that says nothing has a generator that was too slow.
fn unsaid(rate: f64, passed: u32, said_nothing: u32) -> Step {
    Step {
        rate,
        passed,
        said_nothing,
        reasons: vec!["Too slow.".to_owned()],
        ..Step::default()
    }
}

/// The knee is the server's only if the server broke its promises at the next higher rate.
#[test]
fn a_knee_is_the_servers_or_the_generators() {
    let cases = [
        (
            vec![step(100.0, 3, 3), step(200.0, 0, 2)],
            None,
            (100.0, Some(200.0), ""),
        ),
        (
            vec![step(100.0, 3, 3), unsaid(200.0, 0, 2)],
            None,
            (
                100.0,
                None,
                "at least 100/s: the generator could not send more. Too slow.",
            ),
        ),
        // Two thirds of the trials passed, which is enough.
        (
            vec![unsaid(100.0, 2, 1), step(200.0, 0, 2)],
            None,
            (100.0, Some(200.0), ""),
        ),
        // A failure of the server at a lower rate outweighs a higher rate that says nothing, but not the reverse.
        (
            vec![step(100.0, 3, 3), unsaid(400.0, 0, 2), step(200.0, 0, 2)],
            None,
            (100.0, Some(200.0), ""),
        ),
        (
            vec![step(100.0, 3, 3), step(400.0, 0, 2), unsaid(200.0, 1, 2)],
            None,
            (100.0, Some(400.0), "the generator could not send more"),
        ),
        (
            vec![step(100.0, 3, 3)],
            Some("ended early, as told"),
            (
                100.0,
                None,
                "ended early, as told before a promise was broken",
            ),
        ),
        (vec![unsaid(1.0, 0, 2)], None, (0.0, None, "at least 0/s")),
        (vec![step(1.0, 0, 2)], None, (0.0, Some(1.0), "")),
    ];
    for (steps, cut_short, (rate, high, why)) in cases {
        let knee = Knee::of(steps, cut_short.map(str::to_owned));
        let (text, json) = (knee.to_text(), knee.to_json());
        assert_eq!((knee.rate, knee.high), (rate, high), "{text}");
        assert_eq!(json["valid"], why.is_empty(), "{text}");
        assert_eq!(
            json["why_invalid"].as_array().map(Vec::len),
            Some(usize::from(!why.is_empty()))
        );
        assert!(text.contains(why), "{text}");
    }
}
