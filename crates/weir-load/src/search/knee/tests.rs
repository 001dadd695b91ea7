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
        // Nor is one that was kept above one that was broken the highest that the server sustains.
        (
            vec![step(100.0, 3, 3), step(300.0, 3, 3), step(200.0, 0, 2)],
            (100.0, 100.0, None),
        ),
        (vec![step(100.0, 0, 2)], (0.0, 0.0, Some(100.0))),
        (vec![], (0.0, 0.0, None)),
    ];
    for (steps, expected) in cases {
        let knee = Knee::of(Vec::new(), steps, None);
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
                "at least 100/s: 3 of 3 trials kept the promises\nthe generator could not send more. Too slow.\n",
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
        (
            vec![unsaid(1.0, 0, 2)],
            None,
            (
                0.0,
                None,
                "nothing is known of errors 1.00 %: the generator",
            ),
        ),
        // A trial that says nothing was repeated.
        (
            vec![unsaid(100.0, 3, 2), step(200.0, 0, 2)],
            None,
            (100.0, Some(200.0), ""),
        ),
        (vec![step(1.0, 0, 2)], None, (0.0, Some(1.0), "")),
    ];
    for (steps, cut_short, (rate, high, why)) in cases {
        let knee = Knee::of(
            vec![Promise::Errors(0.01)],
            steps,
            cut_short.map(str::to_owned),
        );
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

/// One figure, with the trials that support it and those beside it.
#[test]
fn a_figure_stands_beside_its_trials() {
    let slo = vec![Promise::Errors(0.01)];
    let mut broken = step(200.0, 0, 2);
    broken.reasons = vec!["errors 4.00 %, promised 1.00 %".to_owned()];
    let found = Knee::of(slo.clone(), vec![step(100.0, 3, 3), broken.clone()], None);
    assert_eq!(
        found.to_text(),
        "highest rate that kept errors 1.00 %: 100/s: 3 of 3 trials kept the promises\n\
         the next one tried: 200/s: 0 of 2 trials kept the promises; errors 4.00 %, promised 1.00 %\n"
    );
    let none = Knee::of(slo, vec![broken], None);
    assert_eq!(
        none.line(),
        "no rate kept errors 1.00 %; the lowest one tried: 200/s: 0 of 2 trials kept the promises; errors 4.00 %, \
         promised 1.00 %\n"
    );
}
