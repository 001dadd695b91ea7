//! What is asked for once for all who want it, what they get meanwhile, and what is stale (RFC 5861).

use std::time::Duration;

use weir_cache::CachePolicy;

use crate::simulation::scripts::asking::{Ask, GET, Got, ask};
use crate::simulation::scripts::endpoint::{Act, CLOSES, HANGS, NONSENSE, says};
use crate::simulation::scripts::{Played, Scene};

const FRESH: Act = says(200).with("Cache-Control: max-age=60\r\n");
/// How many ask at once.
const CROWD: usize = 20;

/// An origin that cannot be reached is like one that fails, and nobody asks in the place of another (`late.rs` has that).
fn policy() -> CachePolicy {
    CachePolicy {
        stale_if_unreachable: Duration::ZERO,
        collapse_wait: Some(Duration::from_secs(60)),
        ..CachePolicy::default()
    }
}

fn play(acts: &[Act], asks: &[Ask]) -> Played {
    Scene::caching(acts, policy()).play(asks)
}

/// Each who asked got this, after so long.
#[track_caller]
fn assert_all(all: &[Got], table: &[(u16, &str, u64)], row: &str) {
    assert_eq!(all.len(), table.len());
    for (number, (got, &(status, body, ms))) in all.iter().zip(table).enumerate() {
        assert_eq!(got.said(), (status, body), "{row}, {number}");
        assert!(got.came_after(ms), "{row}, {number}: after {} ms", got.ms);
    }
}

#[test]
fn what_may_be_stored_is_asked_for_once() {
    for (fields, asked) in [
        ("Cache-Control: max-age=60\r\n", 1),
        ("Cache-Control: max-age=1\r\n", 3),
        ("Cache-Control: no-store\r\n", 3),
        ("Cache-Control: private, max-age=60\r\n", 3),
        ("Cache-Control: max-age=60\r\nVary: *\r\n", 3),
    ] {
        let asks = [GET, GET.at(5_000), GET.at(10_000)];
        let played = play(&[says(200).with(fields)], &asks);
        assert_eq!(played.asked.len(), asked, "{fields}");
    }
    let only_stored = GET.with("Cache-Control: only-if-cached\r\n");
    let played = play(&[FRESH], &[only_stored, GET.at(100), only_stored.at(200)]);
    let statuses: Vec<_> = played.got.iter().map(|got| got.status).collect();
    assert_eq!((&*statuses, played.asked.len()), (&[504, 200, 200][..], 1));
}

#[test]
fn what_is_asked_for_often_enough_is_stored() {
    let policy = CachePolicy {
        uses_min: 3,
        ..policy()
    };
    let asks: Vec<_> = (0..5).map(|number| GET.at(100 * number)).collect();
    let played = Scene::caching(&[FRESH], policy).play(&asks);
    let bodies: Vec<_> = played.got.iter().map(|got| &*got.body).collect();
    assert_eq!(bodies, ["1", "2", "3", "3", "3"]);
}

#[test]
fn a_crowd_waits_for_one_answer() {
    let crowd = [GET; CROWD];
    let played = play(&[FRESH.after(500)], &crowd);
    assert_all(&played.got, &[(200, "1", 500); CROWD], "a miss");
    assert_eq!(played.asked.len(), 1);
    // What is stale is confirmed once for all.
    let acts = [
        says(200).with("Cache-Control: max-age=1\r\nETag: \"1\"\r\n"),
        says(304)
            .with("Cache-Control: max-age=60\r\nETag: \"1\"\r\n")
            .after(500),
    ];
    let asks = [&[GET][..], &crowd.map(|one| one.at(5_000))].concat();
    let played = play(&acts, &asks);
    assert_all(&played.got[1..], &[(200, "1", 500); CROWD], "stale");
    assert_eq!(played.asked.len(), 2);
    assert!(played.asked[1].head.contains("If-None-Match: \"1\""));
}

#[test]
fn what_is_for_one_alone_makes_no_queue() {
    for fields in ["Cache-Control: no-store\r\n", "Cache-Control: private\r\n"] {
        let asks = [&[GET][..], &[GET.at(1_000); CROWD]].concat();
        let played = play(&[says(200).with(fields).after(500)], &asks);
        assert_eq!(played.asked.len(), CROWD + 1, "{fields}");
        for got in &played.got {
            assert!(got.came_after(500), "{fields}: after {} ms", got.ms);
        }
    }
}

#[test]
fn when_a_leader_fails_one_of_the_others_asks() {
    let nonsense = NONSENSE.after(500);
    // What the first is told, and what the next; how many get an answer, and how often the origin was asked.
    for (acts, good, asked) in [
        ([nonsense, FRESH], CROWD - 1, 2),
        ([nonsense, nonsense], 0, 2),
        ([says(503).after(500), FRESH], CROWD - 1, CROWD),
    ] {
        let played = play(&acts, &[GET; CROWD]);
        let count = played.got.iter().filter(|got| got.status == 200).count();
        assert_eq!((count, played.asked.len()), (good, asked), "{acts:?}");
    }
}

#[test]
fn who_joins_reads_along_and_the_leader_may_leave() {
    let act = FRESH.saying("halfhalf").pausing(1_000);
    let asks = [
        GET.leaving_after(300),
        GET.at(100),
        GET.at(200),
        GET.at(5_000),
    ];
    let played = play(&[act], &asks);
    assert!(!played.got[0].is_whole, "it has left");
    for (number, ms) in [(1, 900), (2, 800), (3, 0)] {
        let got = &played.got[number];
        assert_eq!(got.said(), (200, "halfhalf"));
        assert!(got.came_after(ms), "{number}: after {} ms", got.ms);
    }
    assert_eq!(played.asked.len(), 1);
}

#[test]
fn a_body_that_breaks_off_is_whole_for_nobody_and_stored_for_nobody() {
    let broken = FRESH.saying("half-half").broken();
    let asks = [&[GET; 5][..], &[GET.at(1_000)]].concat();
    let played = play(&[broken.after(500), FRESH], &asks);
    for got in &played.got[..5] {
        assert!(!got.is_whole, "{got:?}");
    }
    assert_eq!(played.got[5].said(), (200, "2"));
}

/// A part is sent as soon as it is here, whatever is missing of the rest (RFC 9110 §14.2).
#[test]
fn a_part_of_what_arrives_is_sent_when_it_is_here() {
    let act = FRESH.saying("0123456789").pausing(2_000);
    for (range, body, ms) in [
        ("Range: bytes=0-3\r\n", "0123", 0),
        ("Range: bytes=1-4\r\n", "1234", 0),
        ("Range: bytes=3-6\r\n", "3456", 1_500),
        ("Range: bytes=8-\r\n", "89", 1_500),
    ] {
        let asks = [GET, GET.with(range).at(500), GET.with(range).at(5_000)];
        let played = play(&[act], &asks);
        let expected = [(200, "0123456789", 2_000), (206, body, ms), (206, body, 0)];
        assert_all(&played.got, &expected, range);
        assert_eq!(played.asked.len(), 1, "{range}");
    }
}

/// RFC 5861 §3: within its time, what is stale is used while it is asked for in the background; after it, it is waited for.
#[test]
fn stale_while_revalidate() {
    let stale = says(200).with("Cache-Control: max-age=1, stale-while-revalidate=5\r\n");
    let acts = [stale, FRESH.after(1_000)];
    let asks = [0, 3_000, 3_500, 5_000].map(|ms| GET.at(ms));
    let played = play(&acts, &asks);
    let expected = [(200, "1", 0), (200, "1", 0), (200, "1", 0), (200, "2", 0)];
    assert_all(&played.got, &expected, "within");
    assert_eq!(played.asked.len(), 2);
    let played = play(&acts, &[GET, GET.at(10_000)]);
    assert_all(&played.got, &[(200, "1", 0), (200, "2", 1_000)], "after");
}

/// An origin that fails in the background is not asked at each hit.
#[test]
fn who_asks_in_the_background_in_vain_is_not_followed_at_once() {
    let stale = says(200).with("Cache-Control: max-age=1, stale-while-revalidate=600\r\n");
    for act in [
        says(500),
        FRESH.with("Cache-Control: no-store\r\n"),
        NONSENSE,
    ] {
        let asks: Vec<_> = (0..20).map(|number| GET.at(3_000 + 10 * number)).collect();
        let asks = [&[GET][..], &asks].concat();
        let played = play(&[stale, act], &asks);
        assert_all(&played.got, &[(200, "1", 0); 21], "nobody waits");
        assert_eq!(played.asked.len(), 2, "{act:?}");
    }
}

/// RFC 5861 §4: an error is 500, 502, 503 or 504, or no answer.
#[test]
fn stale_if_error() {
    let stale = says(200).with("Cache-Control: max-age=1, stale-if-error=10\r\n");
    let table = [
        (says(500), 200),
        (says(502), 200),
        (says(503), 200),
        (says(504), 200),
        (CLOSES, 200),
        (NONSENSE, 200),
        (HANGS, 200),
        (says(404), 404),
        (says(501), 501),
    ];
    for (act, status) in table {
        let played = play(&[stale, act], &[GET, GET.at(3_000)]);
        assert_eq!(played.got[1].status, status, "{act:?}");
        // Its time is over.
        let played = play(&[stale, act], &[GET, GET.at(20_000)]);
        assert_ne!(played.got[1].status, 200, "{act:?}");
    }
    // Without it, an error is passed on.
    let only_fresh = says(200).with("Cache-Control: max-age=1\r\n");
    let played = play(&[only_fresh, says(503)], &[GET, GET.at(3_000)]);
    assert_eq!(played.got[1].said(), (503, "2"));
}

#[test]
fn a_write_ends_what_is_stored() {
    for (method, act, asked) in [
        ("DELETE", says(204), 3),
        ("PUT", says(200), 3),
        ("POST", says(200), 3),
        ("DELETE", says(404), 2),
        ("OPTIONS", says(200), 2),
    ] {
        let asks = [GET, ask(method).at(100), GET.at(200)];
        let played = play(&[FRESH, act, FRESH], &asks);
        assert_eq!(played.asked.len(), asked, "{method} {act:?}");
    }
}
