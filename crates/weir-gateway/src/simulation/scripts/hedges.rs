//! When a second copy of a request is sent because the first is late, and whose answer the client gets.

use std::time::Duration;

use weir_policy::hedge;
use weir_policy::limit::concurrency::{self, Limit};
use weir_policy::retry::BudgetSettings;

use crate::simulation::scripts::asking::{Ask, GET, ask};
use crate::simulation::scripts::endpoint::{Act, CLOSES, HANGS, says};
use crate::simulation::scripts::{Played, Scene};

/// When a copy is due.
const HEDGE_MS: u64 = 100;
/// The answer of the first copy, and of the second: the first request was another one.
const FIRST: &str = "2";
const SECOND: &str = "3";
const LATE: Act = says(200).after(2_000);

/// What becomes of the copies; what the client gets, and when; and how many copies there were.
type Row<'a> = (&'a str, &'a [Act], (u16, &'a str), u64, usize);

/// A route that sends a copy to the other of two endpoints. The acts are for what follows a first request.
fn hedging(acts: &[Act]) -> Scene {
    let mut scene = Scene::new(2, &[&[says(200)], acts].concat());
    scene.rule().care.retry.hedge = Some(hedge::Settings {
        min: Duration::from_millis(HEDGE_MS),
        samples_min: 0,
        ..hedge::Settings::default()
    });
    scene
}

/// Asks this after a first request, from which the route knows how fast answers are.
fn play(scene: Scene, request: Ask) -> Played {
    scene.play(&[GET, request.at(1_000)])
}

/// The client gets this answer, after so long, and so many copies of its request were sent.
#[track_caller]
fn assert_told(played: &Played, said: (u16, &str), ms: u64, copies: usize, row: &str) {
    let got = &played.got[1];
    assert_eq!(
        (got.said(), played.asked.len() - 1),
        (said, copies),
        "{row}"
    );
    assert!(got.came_after(ms), "{row}: after {} ms", got.ms);
}

/// Those of the copies that hang were closed.
#[track_caller]
fn assert_given_up(played: &Played, numbers: &[usize]) {
    for &number in numbers {
        assert!(played.asked[number].was_given_up, "number {number}");
    }
}

#[test]
fn whichever_good_answer_comes_first_is_used() {
    let bad = says(503);
    let after_hedge = HEDGE_MS + 1_000;
    let table: [Row<'_>; 8] = [
        ("in time", &[says(200)], (200, FIRST), 0, 1),
        ("late", &[HANGS, says(200)], (200, SECOND), HEDGE_MS, 2),
        ("both late", &[LATE, LATE], (200, FIRST), 2_000, 2),
        ("the second closes", &[LATE, CLOSES], (200, FIRST), 2_000, 2),
        ("the second is bad", &[LATE, bad], (200, FIRST), 2_000, 2),
        (
            "the first closes",
            &[CLOSES.after(500), says(200).after(1_000)],
            (200, SECOND),
            after_hedge,
            2,
        ),
        (
            "the first is bad",
            &[bad.after(500), says(200).after(1_000)],
            (200, SECOND),
            after_hedge,
            2,
        ),
        (
            "both are bad",
            &[bad.after(1_000), bad.after(500)],
            (503, FIRST),
            1_000,
            2,
        ),
    ];
    for (row, acts, said, ms, copies) in table {
        let played = play(hedging(acts), GET);
        assert_told(&played, said, ms, copies, row);
        if copies > 1 {
            let [one, two] = [1, 2].map(|number: usize| played.asked[number].endpoint);
            assert_ne!(one, two, "{row}: the other endpoint is asked");
        }
        assert_given_up(&played, if row == "late" { &[1] } else { &[] });
    }
}

#[test]
fn only_what_is_safe_and_has_no_body_is_copied() {
    let table = [
        (GET, 2),
        (ask("OPTIONS"), 2),
        (GET.body("body"), 1),
        (ask("POST"), 1),
        (ask("PUT").body("body"), 1),
        (ask("DELETE"), 1),
    ];
    for (request, copies) in table {
        let played = play(hedging(&[LATE, says(200)]), request);
        assert_eq!(played.asked.len() - 1, copies, "{request:?}");
    }
}

/// Whoever says 103 is at work on it: before a copy was due there is none, and afterwards it is given up.
#[test]
fn an_interim_response_ends_the_race() {
    for (hint_ms, copies) in [(0, 1), (500, 2)] {
        let scene = hedging(&[LATE.hinted(hint_ms), HANGS]);
        let played = play(scene, GET);
        assert_told(&played, (200, FIRST), hint_ms + 2_000, copies, "103");
        assert_eq!(played.got[1].hints, 1);
        assert_given_up(&played, if copies > 1 { &[2] } else { &[] });
    }
}

/// The time of an attempt is that of both copies, and a request has one copy at most.
#[test]
fn an_attempt_with_two_copies_is_given_up_as_one() {
    let mut scene = hedging(&[HANGS, HANGS, says(200).after(1_000)]);
    let retry = &mut scene.rule().care.retry;
    retry.attempts = 2;
    retry.per_try = Some(Duration::from_millis(500));
    (retry.backoff.first, retry.backoff.max) = (Duration::ZERO, Duration::ZERO);
    let played = play(scene, GET);
    assert_told(&played, (200, "4"), 1_500, 3, "two attempts");
    assert_given_up(&played, &[1, 2]);
}

#[test]
fn a_copy_takes_a_place_in_the_upstream_and_is_paid_from_the_budget() {
    let none = BudgetSettings {
        ratio: 0.0,
        min_per_s: 0.0,
        ..BudgetSettings::default()
    };
    for (limit, budget, copies) in [
        (Some(2), BudgetSettings::default(), 2),
        (Some(1), BudgetSettings::default(), 1),
        (None, none, 1),
    ] {
        let mut scene = hedging(&[LATE, says(200)]);
        scene.care().retry_budget = budget;
        scene.care().concurrency = limit.map(|limit| concurrency::Settings {
            limit: Limit::Fixed(limit),
            ..concurrency::Settings::default()
        });
        let (body, ms) = if copies > 1 {
            (SECOND, HEDGE_MS)
        } else {
            (FIRST, 2_000)
        };
        let played = play(scene, GET);
        assert_told(&played, (200, body), ms, copies, &format!("{limit:?}"));
    }
}

#[test]
fn a_client_that_leaves_ends_both_copies() {
    let mut scene = hedging(&[HANGS]);
    scene.care().concurrency = Some(concurrency::Settings {
        limit: Limit::Fixed(2),
        ..concurrency::Settings::default()
    });
    let played = play(scene, GET.leaving_after(300));
    assert_told(&played, (0, ""), 300, 2, "it has left");
    assert_given_up(&played, &[1, 2]);
}
