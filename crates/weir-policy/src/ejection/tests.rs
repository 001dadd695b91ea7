//! What stands out, as a table of replicas; and the cap under any history.

use super::*;
use crate::balance::tests::start;
use proptest::prelude::*;

/// How an endpoint answers: after this many milliseconds, with a failure in this many of ten cases. `None`: never.
type Behaviour = Option<(u64, u64)>;

const GOOD: Behaviour = Some((20, 0));

/// Sends thirty requests a second to each admitted endpoint for some seconds. Returns why each was ejected.
fn ejected(settings: Settings, behaviours: &[Behaviour], seconds: u64) -> Vec<Option<Reason>> {
    ejected_beside(settings, behaviours, seconds, 0)
}

/// The same when the last `away` endpoints go away after two seconds, during which all were good. That they are gone is known
/// half a second later.
fn ejected_beside(
    settings: Settings,
    behaviours: &[Behaviour],
    seconds: u64,
    away: usize,
) -> Vec<Option<Reason>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut ejection = Ejection::new(settings, behaviours.len(), start());
    let left = behaviours.len() - away;
    let goes_ms = if away > 0 { 2_000 } else { 0 };
    // (when it ends in milliseconds, number, token)
    let mut open: Vec<(u64, u64, Token)> = Vec::new();
    for now_ms in 0..seconds * 1_000 {
        let now = start() + Duration::from_millis(now_ms);
        while let Some(index) = open.iter().position(|&(ends_ms, ..)| ends_ms <= now_ms) {
            let (_, number, token) = open.swap_remove(index);
            let behaviour = if token.started_at < start() + Duration::from_millis(goes_ms) {
                GOOD
            } else {
                behaviours[token.endpoint]
            };
            let (ms, bad_of_ten) = behaviour.expect("it answers");
            let latency = Duration::from_millis(ms);
            let outcome = if number % 10 < bad_of_ten {
                Outcome::Failure(latency)
            } else {
                Outcome::Success(latency)
            };
            ejection.finish(now, token, outcome, &mut random);
        }
        for (endpoint, &behaviour) in behaviours.iter().enumerate() {
            let is_gone = endpoint >= left && now_ms >= goes_ms;
            if is_gone && now_ms == goes_ms + 500 {
                ejection.attend(endpoint, false);
            }
            let is_due = now_ms % 33 == endpoint as u64 && !is_gone;
            if is_due && ejection.admits(endpoint, now, 0.5) {
                let token = ejection.start(endpoint, random.u64(..), now, &mut random);
                let behaviour = if now_ms < goes_ms { GOOD } else { behaviour };
                let ends_ms = behaviour.map_or(u64::MAX, |(ms, _)| now_ms + ms);
                // A stride of three meets good and bad ones in turn.
                open.push((ends_ms, now_ms / 33 * 3, token));
            }
        }
    }
    let now = start() + Duration::from_secs(seconds);
    let status = |endpoint| ejection.status(endpoint, now).reason;
    (0..behaviours.len()).map(status).collect()
}

#[test]
fn what_stands_out() {
    use Reason::{ConsecutiveFailures, FailureShare, Silent, Slow};
    const BAD: Behaviour = Some((20, 10));
    let slow = |ms| Some((ms, 0));
    // (case, endpoints, why the first one is ejected within three seconds)
    let table: &[(&str, &[Behaviour], Option<Reason>)] = &[
        ("all good", &[GOOD, GOOD, GOOD], None),
        (
            "fails always",
            &[BAD, GOOD, GOOD],
            Some(ConsecutiveFailures),
        ),
        ("of two", &[BAD, GOOD], Some(ConsecutiveFailures)),
        ("alone", &[BAD], None),
        (
            "fails four times in ten",
            &[Some((20, 4)), GOOD, GOOD],
            Some(FailureShare),
        ),
        (
            "as its siblings do",
            &[Some((20, 4)), Some((20, 4)), Some((20, 4))],
            None,
        ),
        ("fails twice in ten", &[Some((20, 2)), GOOD, GOOD], None),
        (
            "fails twice in ten among many",
            &[Some((20, 2)), GOOD, GOOD, GOOD, GOOD, GOOD],
            Some(FailureShare),
        ),
        ("ten times slower", &[slow(200), GOOD, GOOD], Some(Slow)),
        ("ten times slower, of two", &[slow(200), GOOD], Some(Slow)),
        ("four times slower", &[slow(80), GOOD, GOOD], None),
        (
            "ten times slower, but fast",
            &[slow(50), slow(5), slow(5)],
            None,
        ),
        ("all slow", &[slow(900), slow(900), slow(900)], None),
        ("takes 2 s", &[slow(2_000), GOOD, GOOD], Some(Silent)),
        ("hangs", &[None, GOOD, GOOD], Some(Silent)),
    ];
    for (case, behaviours, expected) in table {
        let reasons = ejected(Settings::default(), behaviours, 3);
        assert_eq!(reasons[0], *expected, "{case}");
        assert!(
            reasons[1..].iter().all(Option::is_none),
            "{case}: {reasons:?}"
        );
    }
}

/// Whoever carries the load of those that are away is slower for that, and who is left is needed.
#[test]
fn nobody_is_compared_with_those_that_are_away() {
    const BAD: Behaviour = Some((20, 10));
    const LOADED: Behaviour = Some((400, 0));
    // (endpoints, how many of the last are away, whether the first one is ejected)
    let table: &[(&[Behaviour], usize, bool)] = &[
        (&[LOADED, GOOD], 1, false),
        (&[BAD, GOOD], 1, false),
        (&[BAD, GOOD, GOOD], 2, false),
        (&[LOADED, LOADED, GOOD], 1, false),
        (&[LOADED, LOADED, GOOD, GOOD], 2, false),
        // One of four may still go when another one is away.
        (&[BAD, LOADED, LOADED, GOOD], 1, true),
        (&[BAD, GOOD, GOOD, GOOD, GOOD], 1, true),
    ];
    for (behaviours, away, expected) in table {
        let reasons = ejected_beside(Settings::default(), behaviours, 12, *away);
        assert_eq!(
            reasons[0].is_some(),
            *expected,
            "{behaviours:?}, {away} away: {reasons:?}"
        );
        assert!(
            reasons[1..].iter().all(Option::is_none),
            "{behaviours:?}, {away} away: {reasons:?}"
        );
    }
}

/// Its client left, or another copy was faster: a trial that took long until then did not go well.
#[test]
fn a_trial_that_is_given_up_fails_if_it_was_slow() {
    let mut random = fastrand::Rng::with_seed(1);
    let success = Outcome::Success(Duration::from_millis(20));
    let failure = Outcome::Failure(Duration::ZERO);
    // (when the trial is, in seconds: after a minute nobody knows what is slow; how long it waited; whether it is out)
    let table = [(6, 50, false), (6, 1_500, true), (90, 1_500, false)];
    for (tried_s, waited_ms, is_out) in table {
        let mut ejection = Ejection::new(Settings::default(), 3, start());
        for _ in 0..6 {
            for (endpoint, outcome) in [(0, failure), (1, success), (2, success), (1, success)] {
                let token = ejection.start(endpoint, random.u64(..), start(), &mut random);
                ejection.finish(start(), token, outcome, &mut random);
            }
        }
        let sent_at = start() + Duration::from_secs(tried_s);
        let token = ejection.start(0, random.u64(..), sent_at, &mut random);
        let given_up_at = sent_at + Duration::from_millis(waited_ms);
        ejection.finish(given_up_at, token, Outcome::Ignored, &mut random);
        let found = ejection.status(0, given_up_at).place;
        assert_eq!(
            matches!(found, Place::Out(_)),
            is_out,
            "after {waited_ms} ms at {tried_s} s"
        );
    }
}

#[test]
fn the_cap_leaves_at_least_one_and_takes_at_least_one() {
    // (endpoints, share, cap)
    let table = [
        (1, 1.0, 0),
        (2, 0.5, 1),
        (2, 0.1, 1),
        (2, 1.0, 1),
        (3, 0.5, 1),
        (4, 0.5, 2),
        (10, 0.1, 1),
        (10, 1.0, 9),
        (10, 0.0, 0),
    ];
    for (endpoints, max_ejected, cap) in table {
        let settings = Settings {
            max_ejected,
            ..Settings::default()
        };
        let ejection = Ejection::new(settings, endpoints, start());
        assert_eq!(ejection.cap(), cap, "{endpoints} endpoints, {max_ejected}");
    }
}

/// Plays whole requests, such as "0:bad" for endpoint 0, or "0:bad/ok": each other endpoint whose last answer was good
/// then answers twice. Numbers are seconds that pass. "=1,_" changes the endpoints: the second one stays and one comes.
/// A request is sent whether it is admitted or not. Returns where each endpoint is.
fn play(endpoints: usize, history: &str) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let mut ejection = Ejection::new(Settings::default(), endpoints, start());
    let mut endpoints = endpoints;
    let mut is_bad = [false; 9];
    let mut now = start();
    for event in history.split_whitespace() {
        if let Some(places) = event.strip_prefix('=') {
            let places: Vec<_> = places.split(',').map(|place| place.parse().ok()).collect();
            ejection = ejection.succeed(&places, now);
            endpoints = places.len();
            continue;
        }
        let Some((endpoint, answer)) = event.split_once(':') else {
            now += Duration::from_secs_f64(event.parse().expect("seconds"));
            continue;
        };
        let (answer, times) = answer.split_once('x').unwrap_or((answer, "1"));
        let endpoint: usize = endpoint.parse().expect("an endpoint");
        for _ in 0..times.parse().expect("a number") {
            let (answer, of_others) = answer.split_once('/').unwrap_or((answer, ""));
            let mut answers = vec![(endpoint, answer)];
            if !of_others.is_empty() {
                let others = (0..endpoints).filter(|&other| other != endpoint && !is_bad[other]);
                answers.extend(others.flat_map(|other| [(other, of_others); 2]));
            }
            for (endpoint, answer) in answers {
                let token = ejection.start(endpoint, random.u64(..), now, &mut random);
                let outcome = match answer {
                    "ok" => Outcome::Success(Duration::from_millis(10)),
                    "slow" => Outcome::Success(Duration::from_secs(2)),
                    "bad" => Outcome::Failure(Duration::from_millis(10)),
                    "gone" => Outcome::Ignored,
                    _ => continue,
                };
                is_bad[endpoint] = answer == "bad";
                ejection.finish(now, token, outcome, &mut random);
            }
        }
    }
    // This call makes the changes that time alone causes.
    now += SWEEP_EVERY;
    let token = ejection.start(endpoints - 1, 0, now, &mut random);
    ejection.finish(now, token, Outcome::Ignored, &mut random);
    let place = |endpoint| match ejection.status(endpoint, now).place {
        Place::In => "in",
        Place::Out(_) => "out",
        Place::Trial => "trial",
        Place::Rising(_) => "rising",
    };
    let places: Vec<&str> = (0..endpoints).map(place).collect();
    let suspended = if ejection.is_suspended() {
        " suspended"
    } else {
        ""
    };
    places.join(" ") + suspended
}

#[test]
fn an_endpoint_leaves_and_comes_back() {
    let table = [
        ("0:bad/okx4", "in in in"),
        ("0:bad/okx5", "out in in"),
        ("0:bad/okx4 0:ok 0:bad/okx4", "in in in"),
        ("0:bad/okx4 0:gone 0:bad", "out in in"),
        // No other endpoint has answered meanwhile.
        ("1:okx99 2:okx99 0:badx9", "in in in"),
        // Requests from before its last answer wait as well, while its siblings answer all of theirs.
        (
            "1:okx40 2:okx40 0:okx20 0:hangx4 0:ok 0.2 1:okx400 2:okx400 0.4 1:okx20 0.4 1:ok",
            "out in in",
        ),
        // One request a second is enough, given time.
        (
            "0:okx9 1:okx9 2:okx9 0:hang 1:okx3 2:okx3 1 0:hang 1:okx3 2:okx3 1 0:hang 1:okx3 2:okx3 \
             1 0:hang 1:okx3 2:okx3 1 0:hang 1:okx3 2:okx3 2 1:okx3 2:ok",
            "out in in",
        ),
        // What is sent to an endpoint that is out counts for nothing.
        ("0:bad/okx5 0:okx9", "out in in"),
        // After its time it gets a trial: three good ones bring it back, one bad or slow one does not.
        ("0:bad/okx5 5 0:okx2", "trial in in"),
        ("0:bad/okx5 5 0:okx3", "rising in in"),
        ("0:bad/okx5 5 0:okx3 0.8", "rising in in"),
        ("0:bad/okx5 5 0:okx3 1", "in in in"),
        ("0:bad/okx5 5 0:okx2 0:bad", "out in in"),
        ("0:bad/okx5 5 0:okx2 0:slow", "out in in"),
        // When it is as bad and as slow as its siblings, that says nothing.
        (
            "0:bad/okx5 5 1:okx9 1:badx9 0.2 0:okx2 0:bad",
            "trial in in",
        ),
        (
            "0:bad/okx5 5 1:okx9 1:badx9 0.2 0:okx2 0:badx9",
            "out in in",
        ),
        (
            "0:bad/okx5 5 1:okx9 1:slowx5 0.2 0:okx2 0:slow",
            "trial in in",
        ),
        // Slow means longer than its siblings take, and that is forgotten by now.
        ("0:bad/okx5 90 0:okx2 0:slow", "rising in in"),
        ("0:bad/okx5 5 0:gonex9", "trial in in"),
        // A trial that hangs has failed: soon, if the latency of its siblings is known.
        ("0:bad/okx5 5 0:hang 0.1", "trial in in"),
        ("0:bad/okx5 5 0:hang 0.3", "out in in"),
        ("0:bad/slowx5 5 0:hang 9", "trial in in"),
        ("0:bad/slowx5 5 1:slowx9 0:hang 12", "out in in"),
        ("0:bad/okx5 90 0:hang 59", "trial in in"),
        ("0:bad/okx5 90 0:hang 60", "out in in"),
        // The wait grows to thirteen seconds.
        ("0:bad/okx5 5 0:bad 7.8 0:ok", "out in in"),
        ("0:bad/okx5 5 0:bad 10 0:ok", "trial in in"),
        ("0:bad/okx5 5 0:bad 10 0:bad 13 0:ok", "trial in in"),
        (
            "0:bad/okx5 5 0:bad 10 0:bad 13 0:bad 13 0:ok",
            "trial in in",
        ),
        // One of three may leave; if two look bad, they are not the cause.
        ("0:bad/okx5 1:bad/okx9", "in in in suspended"),
        ("0:bad/okx5 1:bad/okx9 0.2 1:badx9", "in in in suspended"),
        ("0:bad/okx5 1:bad/okx9 0.2 1:ok", "in in in"),
        ("0:bad/okx5 1:bad/okx9 0.2 0:ok", "in out in"),
        ("0:bad/okx5 1:bad/okx9 0.2 0:ok 1:ok", "in in in"),
    ];
    for (history, expected) in table {
        assert_eq!(play(3, history), expected, "{history}");
    }
}

#[test]
fn what_is_known_of_endpoints_that_stay_goes_with_them() {
    let table = [
        // Failures in a row.
        ("0:bad/okx4 =0,1,2,_ 0:bad", "out in in in"),
        ("0:bad/okx4 =1,0,2 1:bad", "in out in"),
        ("0:bad/okx4 =_,1,2 0:bad", "in in in"),
        // Twelve failures of twenty-four.
        (
            "1:okx24 2:okx24 0:badx4 0:okx4 0:badx4 0:okx4 0:badx3 0:okx4 =1,0,2 1:bad",
            "in out in",
        ),
        // Latencies.
        ("1:okx24 2:okx24 0:slowx24 =1,0,2", "in out in"),
        // The typical latency, for a trial.
        ("0:bad/okx5 5 =0,1 0:hang 0.5", "out in"),
        ("0:bad/okx5 5 =0,_ 0:hang 0.5", "out in"),
        // An endpoint that is out stays out; if the cap is now lower, all that look bad are used.
        ("0:bad/okx5 =1,0,2", "in out in"),
        ("0:bad/okx5 =_,1,2", "in in in"),
        ("0:bad/okx5 =0,1,2,_ 1:bad/okx9 =0,1", "out in"),
        // A suspension goes on until few look bad.
        ("0:bad/okx5 1:bad/okx9 =1,0,2", "in in in suspended"),
        ("0:bad/okx5 1:bad/okx9 =1,0,2 0:ok", "in in in"),
        ("0:bad/okx5 1:bad/okx9 =1,0,2 1:ok", "out in in"),
    ];
    for (history, expected) in table {
        assert_eq!(play(3, history), expected, "{history}");
    }
}

/// A service whose endpoints all answer after `latency_ms`; the first one fails `failures` times before that. Requests
/// come at random times. Returns how often each endpoint is ejected in five minutes, and whether all are in at the end.
fn ejections_of_slow_service(
    endpoints: usize,
    latency_ms: u64,
    per_s: f64,
    failures: u32,
    seed: u64,
) -> (Vec<u64>, bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ejection = Ejection::new(Settings::default(), endpoints, start());
    let latency = Duration::from_millis(latency_ms);
    let mut open = std::collections::VecDeque::new();
    let mut failures_left = failures;
    let mut now = start();
    for turn in 0.. {
        now += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / per_s);
        while let Some((ends_at, _)) = open.front()
            && *ends_at <= now
        {
            let (ends_at, token) = open.pop_front().expect("it is there");
            ejection.finish(ends_at, token, Outcome::Success(latency), &mut random);
        }
        if now > start() + Duration::from_secs(300) {
            break;
        }
        let draw = random.f64();
        let endpoint = (turn..turn + endpoints)
            .map(|turn| turn % endpoints)
            .find(|&endpoint| ejection.admits(endpoint, now, draw))
            .expect("one stays");
        let token = ejection.start(endpoint, random.u64(..), now, &mut random);
        if endpoint == 0 && failures_left > 0 {
            failures_left -= 1;
            let failure = Outcome::Failure(Duration::ZERO);
            ejection.finish(now, token, failure, &mut random);
        } else {
            open.push_back((now + latency, token));
        }
    }
    let status = |endpoint| ejection.status(endpoint, now).ejections_total;
    ((0..endpoints).map(status).collect(), ejection.is_calm())
}

#[test]
fn a_service_that_is_slow_by_nature_keeps_its_endpoints_and_gets_them_back() {
    // (endpoints, latency in ms, requests a second, failures of the first one, how often it is ejected at most)
    let table = [
        (3, 4_000, 3.0, 5, 1),
        (3, 4_000, 30.0, 5, 1),
        (2, 4_000, 1.0, 5, 1),
        // One answer in five seconds: the typical latency stays unknown.
        (2, 4_000, 0.2, 5, 1),
        (2, 2_000, 1.0, 0, 0),
        (2, 2_000, 2.0, 0, 0),
        (2, 2_000, 20.0, 0, 0),
        (3, 15_000, 3.0, 0, 0),
        (3, 15_000, 3.0, 5, 1),
    ];
    for (endpoints, latency_ms, per_s, failures, ejections) in table {
        for seed in 1..=20 {
            let (found, all_are_in) =
                ejections_of_slow_service(endpoints, latency_ms, per_s, failures, seed);
            let case = format!(
                "{endpoints} answer in {latency_ms} ms, {per_s} a second, {failures} failures, seed {seed}"
            );
            assert!(found[0] <= ejections, "{case}: {found:?}");
            assert!(
                found[1..].iter().all(|&ejections| ejections == 0),
                "{case}: {found:?}"
            );
            assert!(all_are_in, "{case}");
        }
    }
}

#[test]
fn a_hanging_endpoint_is_found_after_five_times_the_usual_latency() {
    // (latency of the siblings in ms, seconds, found by then)
    let table = [
        (200, 2, true),
        (1_000, 4, false),
        (1_000, 10, true),
        (4_000, 18, false),
        (4_000, 32, true),
    ];
    for (ms, seconds, is_found) in table {
        let sibling = Some((ms, 0));
        let reasons = ejected(Settings::default(), &[None, sibling, sibling], seconds);
        let expected = is_found.then_some(Reason::Silent);
        assert_eq!(
            reasons,
            [expected, None, None],
            "{ms} ms, after {seconds} s"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The seed is part of the input, which proptest prints on failure.
    #[test]
    fn never_more_out_than_the_cap_and_never_two_trials_at_once(
        seed: u64, endpoints in 1usize..12, max_ejected in 0.0..1.0, bad in 0.0..1.0,
    ) {
        let settings = Settings { max_ejected, ..Settings::default() };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ejection = Ejection::new(settings, endpoints, start());
        // Each endpoint has its own time of being bad.
        let phases: Vec<f64> = (0..endpoints).map(|_| random.f64()).collect();
        let mut open: Vec<Token> = Vec::new();
        let mut now = start();
        for step in 0..3_000 {
            now += Duration::from_millis(random.u64(0..60));
            if random.u8(..50) == 0 {
                ejection.attend(random.usize(..endpoints), random.bool());
            }
            if random.bool() || open.is_empty() {
                let endpoint = random.usize(..endpoints);
                if ejection.admits(endpoint, now, random.f64()) {
                    open.push(ejection.start(endpoint, random.u64(..), now, &mut random));
                }
            } else {
                let token = open.swap_remove(random.usize(..open.len()));
                let phase = (phases[token.endpoint] + f64::from(step) / 1_000.0).fract();
                let latency = Duration::from_millis(random.u64(1..400));
                let outcome = if phase < bad {
                    Outcome::Failure(latency)
                } else {
                    Outcome::Success(latency)
                };
                ejection.finish(now, token, outcome, &mut random);
            }
            let out = |it: &&Endpoint| !it.is_in();
            let out = ejection.endpoints.iter().filter(out).count();
            prop_assert_eq!(out, ejection.ejected);
            prop_assert!(out <= ejection.cap(), "{} of {}", out, endpoints);
            prop_assert!(out < endpoints);
            for (index, it) in ejection.endpoints.iter().enumerate() {
                let is_of_now = |token: &&Token| {
                    token.endpoint == index && token.epoch == Some(it.epoch)
                };
                if matches!(it.state, State::Trial { .. }) {
                    let trials = open.iter().filter(is_of_now).count();
                    prop_assert!(trials <= 1);
                    prop_assert_eq!(ejection.admits(index, now, 0.0), trials == 0);
                }
            }
        }
    }
}
