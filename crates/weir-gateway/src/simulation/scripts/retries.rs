//! What is sent again, how often, and when (RFC 9110 §9.2.2 says of what that may be done).

use std::time::Duration;

use weir_policy::breaker;
use weir_policy::retry::{BudgetSettings, FullJitter};

use crate::settings::{BreakerRule, RetryRule, StatusSet};
use crate::simulation::scripts::asking::{Ask, GET, ask};
use crate::simulation::scripts::endpoint::{Act, CLOSES, CLOSES_IN_HEAD, HANGS, NONSENSE, says};
use crate::simulation::scripts::{Played, RESPONSE_MS, Scene};

/// When an attempt is given up that another one may follow.
const PER_TRY_MS: u64 = 500;
const IDEMPOTENT: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];
const OTHERS: [&str; 3] = ["POST", "PATCH", "LOCK"];

/// A route that sends again without a wait.
fn retrying(endpoints: usize, acts: &[Act], attempts: u32) -> Scene {
    let mut scene = Scene::new(endpoints, acts);
    let now = FullJitter {
        first: Duration::ZERO,
        max: Duration::ZERO,
    };
    scene.rule().care.retry = RetryRule {
        attempts,
        backoff: now,
        ..RetryRule::default()
    };
    scene
}

/// One client gets this status, after so long, and `app` was asked so often.
#[track_caller]
fn assert_one(played: &Played, (status, ms, asked): (u16, u64, usize), row: impl std::fmt::Debug) {
    let got = &played.got[0];
    assert_eq!((got.status, played.asked.len()), (status, asked), "{row:?}");
    assert!(got.came_after(ms), "{row:?}: after {} ms", got.ms);
    assert_eq!(played.retries, asked.saturating_sub(1) as u64, "{row:?}");
}

#[test]
fn what_acts_twice_like_once_is_sent_again_and_nothing_else() {
    // What the first attempt meets, and what a client gets, and when, whose request is not sent again.
    let table = [
        (says(503), 0, 503, 0),
        (CLOSES, 0, 502, 0),
        (CLOSES_IN_HEAD, 0, 502, 0),
        (HANGS, PER_TRY_MS, 504, RESPONSE_MS),
    ];
    for (first, again_after_ms, otherwise, otherwise_ms) in table {
        let play = |method| {
            let mut scene = retrying(2, &[first, says(200)], 3);
            scene.rule().care.retry.per_try = Some(Duration::from_millis(PER_TRY_MS));
            scene.play(&[ask(method)])
        };
        for method in IDEMPOTENT {
            let played = play(method);
            assert_one(&played, (200, again_after_ms, 2), (method, first));
            let [one, two] = [0, 1].map(|number: usize| played.asked[number].endpoint);
            assert_ne!(one, two, "another endpoint is asked: {method} {first:?}");
        }
        for method in OTHERS {
            assert_one(&play(method), (otherwise, otherwise_ms, 1), (method, first));
        }
    }
}

#[test]
fn an_answer_that_is_no_response_or_breaks_off_is_an_answer() {
    for (act, status, is_whole) in [(NONSENSE, 502, true), (says(200).broken(), 200, false)] {
        let played = retrying(2, &[act, says(200)], 3).play(&[GET]);
        assert_one(&played, (status, 0, 1), act);
        assert_eq!(played.got[0].is_whole, is_whole, "{act:?}");
    }
}

#[test]
fn without_a_rule_what_changes_nothing_is_sent_once_more_when_a_fresh_connection_dies() {
    for (method, asked) in [
        ("GET", 2),
        ("HEAD", 2),
        ("OPTIONS", 2),
        ("PUT", 1),
        ("DELETE", 1),
        ("POST", 1),
    ] {
        let played = Scene::new(1, &[CLOSES]).play(&[ask(method)]);
        assert_one(&played, (502, 0, asked), method);
    }
    for act in [says(503), NONSENSE] {
        let played = Scene::new(1, &[act, says(200)]).play(&[GET]);
        assert_eq!(played.asked.len(), 1, "{act:?}");
    }
}

#[test]
fn without_a_rule_what_meets_the_end_of_a_kept_connection_is_sent_once_more() {
    let play = |method| {
        let asks = [GET, ask(method).body("body").at(100)];
        Scene::new(1, &[says(200), CLOSES, says(200)]).play(&asks)
    };
    for method in IDEMPOTENT {
        let played = play(method);
        let body = if method == "HEAD" { "" } else { "3" };
        assert_eq!(played.got[1].said(), (200, body), "{method}");
        assert_eq!(played.asked.len(), 3, "{method}");
        assert_eq!(played.asked[2].body, "body", "{method}: it goes along");
    }
    for method in ["POST", "PATCH", "SUBSCRIBE"] {
        let played = play(method);
        assert_eq!((played.got[1].status, played.asked.len()), (502, 2));
    }
}

#[test]
fn only_statuses_of_the_rule_are_asked_for_again() {
    let table = [
        (500, 2),
        (501, 1),
        (503, 1),
        (519, 1),
        (520, 2),
        (529, 2),
        (404, 1),
    ];
    for (status, asked) in table {
        let mut scene = retrying(1, &[says(status)], 2);
        scene.rule().care.retry.statuses = StatusSet(vec![500..=500, 520..=529]);
        assert_one(&scene.play(&[GET]), (status, 0, asked), status);
    }
}

#[test]
fn a_body_goes_along_when_all_of_it_is_here_still() {
    let whole = |method| ask(method).body("whole");
    let arriving = |method| ask(method).body("half").then(1_000, "half");
    // What is asked, and what the attempts were sent. Where the body still arrives, the first answers without it.
    let table: [(Ask, Act, &[&str]); 4] = [
        (whole("PUT"), says(503), &["whole", "whole"]),
        (whole("GET"), says(503), &["whole", "whole"]),
        (arriving("PUT"), says(503).rashly(), &[""]),
        (arriving("GET"), says(503).rashly(), &[""]),
    ];
    for (request, first, bodies) in table {
        let played = retrying(2, &[first, says(200)], 3).play(&[request]);
        let sent: Vec<_> = played.asked.iter().map(|asked| &*asked.body).collect();
        assert_eq!(sent, bodies, "{request:?}");
        let status = if bodies.len() > 1 { 200 } else { 503 };
        assert_eq!(played.got[0].status, status, "{request:?}");
    }
}

/// An interim response is bytes that the client has; one of HTTP/1.0 cannot read them, and has not.
#[test]
fn nothing_is_sent_again_once_the_client_has_heard_of_it() {
    for (version, hints, status, asked) in [("1.1", 1, 503, 1), ("1.0", 0, 200, 2)] {
        let acts = [says(503).hinted(0), says(200)];
        let played = retrying(2, &acts, 3).play(&[GET.version(version)]);
        assert_one(&played, (status, 0, asked), version);
        assert_eq!(played.got[0].hints, hints, "HTTP/{version}");
    }
}

#[test]
fn the_last_of_the_attempts_is_what_the_client_gets() {
    for (attempts, body) in [(1, "1"), (2, "2"), (3, "3"), (5, "5")] {
        for endpoints in [1, 2] {
            let played = retrying(endpoints, &[says(503)], attempts).play(&[GET]);
            assert_eq!(played.got[0].said(), (503, body));
            assert_eq!(played.asked.len(), attempts as usize);
        }
    }
    // A connection that closes is an attempt too.
    let played = retrying(2, &[CLOSES], 3).play(&[ask("PUT")]);
    assert_one(&played, (502, 0, 3), "PUT");
}

/// When the bad answer itself is the reason why there is nobody left to ask, it is better than none.
#[test]
fn an_answer_is_kept_until_there_is_a_better_one() {
    let mut scene = retrying(1, &[says(503)], 3);
    scene.care().breaker = Some(BreakerRule {
        breaker: breaker::Settings {
            consecutive_failures: Some(1),
            ..breaker::Settings::default()
        },
        failures: StatusSet::server_errors(),
    });
    let played = scene.play(&[GET, GET.at(100)]);
    assert_eq!(played.got[0].said(), (503, "1"));
    assert_eq!(played.got[1].said(), (503, "503 Service Unavailable\n"));
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn an_attempt_has_a_time_of_its_own_if_another_one_may_follow() {
    let late = says(200).after(2_000);
    // Attempts, retries in the budget, what happens; and when the client has its answer, and of which attempt.
    let table: [(u32, u32, &[Act], u64, &str); 5] = [
        (2, 9, &[HANGS, late], PER_TRY_MS + 2_000, "2"),
        (3, 9, &[HANGS, HANGS, late], 2 * PER_TRY_MS + 2_000, "3"),
        (3, 9, &[HANGS, says(200).after(400)], PER_TRY_MS + 400, "2"),
        (1, 9, &[late], 2_000, "1"),
        (3, 0, &[late], 2_000, "1"),
    ];
    for (attempts, retries, acts, ms, body) in table {
        let mut scene = retrying(2, acts, attempts);
        scene.rule().care.retry.per_try = Some(Duration::from_millis(PER_TRY_MS));
        scene.care().retry_budget = budget(0.0, f64::from(retries));
        let played = scene.play(&[GET]);
        assert_eq!(played.got[0].said(), (200, body), "{acts:?}");
        assert!(played.got[0].came_after(ms), "{acts:?}");
        let refused = u64::from(attempts > 1 && retries == 0);
        assert_eq!(played.retries_refused, refused, "{acts:?}");
    }
}

/// So many retries for each request, and so many besides.
fn budget(ratio: f64, besides: f64) -> BudgetSettings {
    let ttl = Duration::from_secs(60);
    BudgetSettings {
        ratio,
        min_per_s: besides / ttl.as_secs_f64(),
        ttl,
    }
}

#[test]
fn the_budget_says_how_many_are_sent_again() {
    // For each request, and besides; and how often fifty requests are sent, whose upstream fails all.
    for (ratio, besides, asked) in [
        (0.0, 0.0, 50),
        (0.0, 3.0, 53),
        (0.2, 0.0, 60),
        (0.2, 15.0, 75),
    ] {
        for act in [says(503), CLOSES] {
            let mut scene = retrying(2, &[act], 3);
            scene.care().retry_budget = budget(ratio, besides);
            let asks: Vec<_> = (0..50).map(|number| GET.at(20 * number)).collect();
            let played = scene.play(&asks);
            assert_eq!(played.asked.len(), asked, "{ratio} {besides} {act:?}");
        }
    }
}

#[test]
fn who_refuses_is_passed_over_whatever_is_asked() {
    for method in ["GET", "POST"] {
        for (refusing, endpoints, status) in [(2, 1, 200), (2, 0, 502)] {
            let mut scene = Scene::new(endpoints, &[says(200)]);
            scene.add_refusing(refusing);
            let played = scene.play(&[ask(method).body("body")]);
            let told = (played.got[0].status, played.asked.len());
            assert_eq!(told, (status, endpoints), "{method} {refusing}");
        }
    }
}
