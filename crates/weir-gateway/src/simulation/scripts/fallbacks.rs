//! What a client gets whose request was refused or failed: what is stored, what another upstream answers, a fixed answer.

use std::time::Duration;

use weir_cache::CachePolicy;
use weir_policy::breaker;

use crate::settings::{BreakerRule, Fallback, FallbackOn, Respond, StatusSet};
use crate::simulation::scripts::asking::{Ask, GET, ask};
use crate::simulation::scripts::endpoint::{Act, CLOSES, HANGS, NONSENSE, says};
use crate::simulation::scripts::{Played, RESPONSE_MS, Scene};

const OTHER: Act = says(200).saying("other");
const FIXED: (u16, &str) = (418, "calm");
const ELSEWHERE: (u16, &str) = (200, "other");

/// A route that falls back on another upstream, and then on a fixed answer.
fn falling_back(acts: &[Act]) -> Scene {
    let mut scene = Scene::new(1, acts);
    scene.elsewhere(&[OTHER]);
    scene.rule().care.fallback = Some(Box::new(Fallback {
        on: FallbackOn::Any,
        stale: true,
        upstream: Some(1),
        answer: Some(Respond {
            status: FIXED.0,
            body: FIXED.1.into(),
            headers: Vec::new(),
        }),
    }));
    scene
}

/// The same for a route whose breaker opens at the first failure.
fn breaking(acts: &[Act]) -> Scene {
    let mut scene = falling_back(acts);
    scene.rule().care.breaker = Some(BreakerRule {
        breaker: breaker::Settings {
            consecutive_failures: Some(1),
            ..breaker::Settings::default()
        },
        failures: StatusSet::server_errors(),
    });
    scene
}

fn fallback(scene: &mut Scene) -> &mut Fallback {
    let fallback = scene.rule().care.fallback.as_deref_mut();
    fallback.expect("it has one")
}

/// The last who asked got this, and the other upstream was asked so often.
#[track_caller]
fn assert_last(played: &Played, said: (u16, &str), elsewhere: usize, row: impl std::fmt::Debug) {
    let got = played.got.last().expect("somebody asks");
    let told = (got.said(), played.asked_elsewhere.len());
    assert_eq!(told, (said, elsewhere), "{row:?}");
}

/// An endpoint that has heard of a request may have acted on it (RFC 9110 §9.2.2).
#[test]
fn what_may_have_been_acted_on_goes_elsewhere_only_where_that_does_no_harm() {
    // What the upstream does, if it is there at all, and when the client has its answer.
    let table: [(&[Act], u64); 4] = [
        (&[], 0),
        (&[CLOSES], 0),
        (&[NONSENSE], 0),
        (&[HANGS], RESPONSE_MS),
    ];
    for (acts, ms) in table {
        for method in ["GET", "PUT", "DELETE", "POST", "PATCH"] {
            let played = falling_back(acts).play(&[ask(method).body("whole")]);
            let is_harmless = acts.is_empty() || !matches!(method, "POST" | "PATCH");
            let (said, elsewhere) = if is_harmless {
                (ELSEWHERE, 1)
            } else {
                (FIXED, 0)
            };
            assert_last(&played, said, elsewhere, (method, acts));
            assert!(played.got[0].came_after(ms), "{method} {acts:?}");
            for asked in &played.asked_elsewhere {
                assert!(asked.head.starts_with(method));
                assert_eq!(asked.body, "whole", "{method} {acts:?}: all of it");
            }
        }
    }
}

#[test]
fn what_the_service_answers_is_passed_on_whatever_it_says() {
    for status in [404, 500, 502, 503, 504] {
        let played = falling_back(&[says(status)]).play(&[GET]);
        assert_last(&played, (status, "1"), 0, status);
    }
    // Nothing follows the bytes of another response.
    let played = falling_back(&[says(200).saying("half-half").broken()]).play(&[GET]);
    assert_last(&played, (200, "half"), 0, "it breaks off");
    assert!(!played.got[0].is_whole);
}

#[test]
fn a_body_that_is_not_whole_here_goes_nowhere_else() {
    let arriving = ask("PUT").body("half").then(1_000, "half");
    // The client has heard of the first attempt, and its body is not kept for another one.
    let hinted = CLOSES.hinted(0);
    for (act, request) in [
        (CLOSES.rashly(), arriving),
        (hinted, ask("PUT").body("whole")),
    ] {
        let played = falling_back(&[act]).play(&[request]);
        assert_last(&played, FIXED, 0, request);
    }
    // Where nobody has heard of it, it goes there while it arrives.
    let played = falling_back(&[]).play(&[arriving]);
    assert_last(&played, ELSEWHERE, 1, "nobody listens");
    assert_eq!(played.asked_elsewhere[0].body, "halfhalf");
}

#[test]
fn refused_and_failed_requests_are_told_apart() {
    let refused = (503, "503 Service Unavailable\n");
    let failed = (502, "502 Bad Gateway\n");
    for (on, when_refused, when_failed) in [
        (FallbackOn::Any, FIXED, FIXED),
        (FallbackOn::Refused, FIXED, failed),
        (FallbackOn::Failed, refused, FIXED),
    ] {
        for (acts, expected) in [(&[says(500)][..], when_refused), (&[][..], when_failed)] {
            let mut scene = breaking(acts);
            let fallback = fallback(&mut scene);
            (fallback.on, fallback.upstream) = (on, None);
            // Where it is there, its answer to the first opens the breaker.
            let asks = [GET, ask("POST").at(100)];
            let asks = if acts.is_empty() {
                &asks[..1]
            } else {
                &asks[..]
            };
            assert_last(&scene.play(asks), expected, 0, (on, acts));
        }
    }
}

/// Nothing of it was sent, so it may go elsewhere whatever it is; the breaker hears nothing of how it ends there.
#[test]
fn what_was_refused_goes_elsewhere() {
    let asks: Vec<_> = (0..10)
        .map(|number| ask("POST").body("whole").at(100 * number))
        .collect();
    let played = breaking(&[says(500)]).play(&asks);
    assert_last(&played, ELSEWHERE, 9, "the breaker is open");
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn when_the_other_one_fails_too_the_fixed_answer_is_next() {
    let table: [(&[Act], u64); 4] = [
        (&[], 0),
        (&[CLOSES], 0),
        (&[NONSENSE], 0),
        (&[HANGS], RESPONSE_MS),
    ];
    for (elsewhere, ms) in table {
        let mut scene = falling_back(&[CLOSES]);
        scene.elsewhere(elsewhere);
        let played = scene.play(&[GET]);
        assert_eq!(played.got[0].said(), FIXED, "{elsewhere:?}");
        assert!(played.got[0].came_after(ms), "{elsewhere:?}");
    }
    // What it answers is an answer.
    let mut scene = falling_back(&[CLOSES]);
    scene.elsewhere(&[says(500)]);
    assert_last(&scene.play(&[GET]), (500, "1"), 1, "it answers");
}

#[test]
fn what_the_client_did_is_answered_as_ever() {
    let mut scene = falling_back(&[]);
    scene.settings.routes[0].limits.body_bytes = 3;
    let large = ask("POST").body("four");
    let played = scene.play(&[large]);
    assert_eq!(played.got[0].status, 413);
    assert!(played.asked_elsewhere.is_empty());
}

/// A route that stores, where nothing but the fallback lets a stale response be used.
fn storing(acts: &[Act]) -> Scene {
    let mut scene = falling_back(acts);
    scene.rule().cache = Some(Box::new(CachePolicy {
        stale_if_unreachable: Duration::ZERO,
        ..CachePolicy::default()
    }));
    scene
}

/// RFC 9111 §5.2.2 says what must not be used stale.
#[test]
fn what_is_stored_goes_first_however_stale_unless_that_is_forbidden() {
    for (fields, said) in [
        ("Cache-Control: max-age=1\r\n", (200, "1")),
        ("Cache-Control: max-age=1, must-revalidate\r\n", ELSEWHERE),
        ("Cache-Control: max-age=1, proxy-revalidate\r\n", ELSEWHERE),
        ("Cache-Control: s-maxage=1\r\n", ELSEWHERE),
        ("Cache-Control: no-cache\r\nETag: \"1\"\r\n", ELSEWHERE),
        ("Cache-Control: no-store\r\n", ELSEWHERE),
    ] {
        let asks = [GET, GET.at(5_000)];
        let played = storing(&[says(200).with(fields), CLOSES]).play(&asks);
        let elsewhere = usize::from(said == ELSEWHERE);
        assert_last(&played, said, elsewhere, fields);
    }
}

#[test]
fn a_part_and_a_head_of_what_is_stored_do_as_well_but_no_write() {
    let stored = says(200)
        .with("Cache-Control: max-age=1\r\n")
        .saying("stored");
    let table: [(Ask, (u16, &str)); 4] = [
        (GET, (200, "stored")),
        (GET.with("Range: bytes=1-2\r\n"), (206, "to")),
        (ask("HEAD"), (200, "")),
        (ask("PUT"), ELSEWHERE),
    ];
    for (request, said) in table {
        let asks = [GET, request.at(5_000)];
        let played = storing(&[stored, CLOSES]).play(&asks);
        let elsewhere = usize::from(said == ELSEWHERE);
        assert_last(&played, said, elsewhere, request);
    }
    // What the other upstream has changed is not answered as it was before.
    let asks = [GET, ask("PUT").at(5_000), GET.at(5_100)];
    let played = storing(&[stored, CLOSES]).play(&asks);
    assert_last(&played, ELSEWHERE, 2, "after a write");
}
