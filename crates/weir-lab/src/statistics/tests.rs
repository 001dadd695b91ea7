use super::*;

/// A standard normal variable, by Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The share of intervals of `count` values that hold `truth`.
fn coverage(count: usize, truth: f64, draw: impl Fn(&mut Rng) -> f64) -> f64 {
    const EXPERIMENTS: usize = 600;
    let mut rng = Rng::with_seed(count as u64);
    let holds = |_: &usize| {
        let values: Vec<f64> = (0..count).map(|_| draw(&mut rng)).collect();
        let interval = mean_interval(&values, &mut rng).expect("two values or more");
        interval.low <= truth && truth <= interval.high
    };
    (0..EXPERIMENTS).filter(holds).count() as f64 / EXPERIMENTS as f64
}

#[test]
fn an_interval_of_95_percent_holds_the_truth_in_95_percent() {
    for count in [2, 3, 5, 8, 10, 16] {
        let share = coverage(count, 0.0, normal);
        assert!((0.92..=0.98).contains(&share), "{count} values: {share}");
    }
}

#[test]
fn skewed_values_make_it_less_but_not_useless() {
    let truth = 0.5_f64.exp();
    for count in [10, 16] {
        let share = coverage(count, truth, |rng| normal(rng).exp());
        assert!(share >= 0.86, "{count} values: {share}");
    }
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let values = [1.0, 2.0, 4.0, 3.0, 2.5, 1.5, 2.2];
    let once = || mean_interval(&values, &mut Rng::with_seed(7));
    assert_eq!(once(), once());
}

#[test]
fn verdicts_follow_from_interval_and_minimum() {
    let compare = |pairs: &[(f64, f64)]| {
        let bars = Bars {
            of_interest: 0.02,
            noise: 0.0,
        };
        let found = compare(pairs, bars, &mut Rng::with_seed(1)).expect("enough pairs");
        (
            found.verdict,
            (found.ratio.estimate * 1000.0).round() / 1000.0,
        )
    };
    // 12 % more in every round, whatever the machine did between rounds.
    let steady: Vec<(f64, f64)> = (0..8)
        .map(|n| {
            (
                100.0 + 30.0 * f64::from(n % 3),
                (112.0 + 33.6 * f64::from(n % 3)) * (1.0 + 0.001 * f64::from(n)),
            )
        })
        .collect();
    assert_eq!(compare(&steady), (Verdict::Different, 1.124));
    // Certain, but too small to matter.
    let small: Vec<(f64, f64)> = (0..8)
        .map(|n| (100.0, 101.0 + 0.1 * f64::from(n)))
        .collect();
    assert_eq!(compare(&small), (Verdict::AlikeEnough, 1.013));
    // Large, but rounds disagree.
    let noisy = [(100.0, 150.0), (100.0, 80.0), (100.0, 140.0), (100.0, 70.0)];
    assert_eq!(compare(&noisy).0, Verdict::CannotTell);
    // The same in every round.
    assert_eq!(compare(&[(5.0, 5.0); 7]), (Verdict::AlikeEnough, 1.0));
}

#[test]
fn noise_makes_different_harder_to_say_and_alike_no_easier() {
    let verdict = |percent: f64, noise: f64| {
        let pairs: Vec<(f64, f64)> = (0..8)
            .map(|n| (100.0, 100.0 + percent + 0.1 * f64::from(n)))
            .collect();
        let bars = Bars {
            of_interest: 0.02,
            noise,
        };
        let found = compare(&pairs, bars, &mut Rng::with_seed(1)).expect("enough pairs");
        found.verdict
    };
    for (percent, noise, expected) in [
        (4.0, 0.0, Verdict::Different),
        (4.0, 0.03, Verdict::Different),
        // More than what matters, but within the noise of the machine.
        (4.0, 0.1, Verdict::CannotTell),
        (1.0, 0.0, Verdict::AlikeEnough),
        (1.0, 0.1, Verdict::AlikeEnough),
    ] {
        assert_eq!(verdict(percent, noise), expected, "{percent} % in {noise}");
    }
}

#[test]
fn noise_is_the_far_end_of_the_interval() {
    let far_end = |low: f64, high: f64| {
        let comparison = Comparison {
            ratio: Interval {
                estimate: 1.0,
                low,
                high,
            },
            pairs: 6,
            verdict: Verdict::CannotTell,
        };
        (comparison.far_end() * 1000.0).round() as u32
    };
    assert_eq!(far_end(0.99, 1.05), 50);
    // A fifth less is a quarter more in the other direction.
    assert_eq!(far_end(0.8, 1.05), 250);
}

#[test]
fn too_little_is_not_compared() {
    let rng = &mut Rng::with_seed(1);
    assert_eq!(compare(&[], Bars::USUAL, rng), None);
    assert_eq!(compare(&[(1.0, 2.0)], Bars::USUAL, rng), None);
    // A block without a single answer has no rate to compare.
    assert_eq!(
        compare(
            &[(0.0, 2.0), (1.0, 0.0), (1.0, f64::NAN), (1.0, 2.0)],
            Bars::USUAL,
            rng
        ),
        None
    );
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    assert_eq!(typical(&[4.0], rng), None);
}

#[test]
fn a_comparison_reads_as_a_sentence() {
    let told = |estimate, low, high, verdict, pairs| {
        let ratio = Interval {
            estimate,
            low,
            high,
        };
        Comparison {
            ratio,
            pairs,
            verdict,
        }
        .in_words(["A", "B"], RATE)
    };
    for (told, sentence) in [
        (
            told(1.12, 1.09, 1.15, Verdict::Different, 8),
            "B is 12 % faster than A, 95 % interval 9 – 15 %",
        ),
        (
            told(0.75, 0.70, 0.80, Verdict::Different, 8),
            "A is 33 % faster than B, 95 % interval 25 – 43 %",
        ),
        (
            told(19.0, 17.96, 20.04, Verdict::Different, 8),
            "B is 19 times as fast as A, 95 % interval 18 – 20 times",
        ),
        (
            told(1.001, 0.998, 1.004, Verdict::AlikeEnough, 8),
            "no difference that matters (B is 0.1 % faster than A, 95 % interval −0.2 – 0.4 %)",
        ),
        (
            told(0.99, 0.97, 1.01, Verdict::CannotTell, 8),
            "cannot tell (A is 1.0 % faster than B, 95 % interval −1.0 – 3.1 %)",
        ),
        (
            told(1.1, 0.8, 1.5, Verdict::CannotTell, 2),
            "cannot tell (B is 10 % faster than A, 95 % interval −20 – 50 %); 2 rounds are few, more would tell",
        ),
    ] {
        assert_eq!(told, sentence);
    }
    let cpu = |estimate, low, high| {
        let ratio = Interval {
            estimate,
            low,
            high,
        };
        let found = Comparison {
            ratio,
            pairs: 8,
            verdict: Verdict::Different,
        };
        found.in_words(["A", "B"], CPU_TIME)
    };
    assert_eq!(
        cpu(0.09, 0.08, 0.1),
        "B takes 91 % less CPU time than A, 95 % interval 90 – 92 %"
    );
    assert_eq!(
        cpu(4.0, 2.5, 5.0),
        "A takes 75 % less CPU time than B, 95 % interval 60 – 80 %"
    );
}
