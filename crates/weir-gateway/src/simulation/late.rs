//! Situations that are told rather than drawn: a leader that is late, and the crowd behind it.

use std::time::Duration;

use super::plan::{AskPlan, ClientPlan, End, HOST, Plan, Resource};
use super::world::World;
use super::{Gateway, PATIENCE, client, in_simulated_time, origin, run};
use crate::cache::join::PATIENCE_AT_FIRST;
use crate::settings::Action;

/// How long the first answer takes; the others take [`USUAL_MS`].
const LATE_MS: u64 = 8_000;
const USUAL_MS: u64 = 50;

/// A crowd of clients that ask for one page, at once.
fn crowd(control: &'static str, clients: usize) -> Plan {
    let mut plan = Plan::draw(&mut fastrand::Rng::with_seed(1));
    plan.resources = vec![Resource {
        path: "/".to_owned(),
        vary: vec![""],
        control: vec![control],
        status: vec![200],
        body_bytes: vec![100],
        head_ms: vec![USUAL_MS],
        first_head_ms: Some(LATE_MS),
        piece_ms: vec![0],
        ends: vec![End::Well],
        has_etag: false,
        has_ranges: false,
        sets_cookie: false,
    }];
    let one = |number: usize| ClientPlan {
        address: format!("10.0.0.{number}"),
        worker: 0,
        asks: vec![AskPlan {
            after_ms: if number == 0 { 0 } else { 20 },
            method: "GET",
            resource: 0,
            target: "/".to_owned(),
            fields: vec![("host".to_owned(), HOST.to_owned())],
            body: "",
            leaves_after_ms: None,
            read_ms: 0,
        }],
    };
    plan.clients = (0..clients).map(one).collect();
    for route in &mut plan.settings.routes {
        if let Action::Forward(rule) = &mut route.action {
            rule.cache = rule.cache.is_some().then(Box::default);
        }
    }
    plan.purges.clear();
    plan
}

/// When everybody had an answer, and how often the origin was asked.
fn answered(plan: Plan) -> (Vec<u64>, usize) {
    let mut found = (Vec::new(), 0);
    in_simulated_time("a crowd", async || {
        let world = World::new(plan);
        origin::listen(&world);
        let gateway = Gateway::start(&world.plan.settings);
        client::send_all(&world, &gateway);
        assert!(run(&world, PATIENCE, || ()).await, "all are answered");
        let requests = world.requests.borrow();
        let all = requests.iter().map(|request| {
            let got = request.got.as_ref().expect("it is answered");
            assert_eq!(got.status, 200, "{request:?}");
            got.head_at - request.sent_at
        });
        found = (all.collect(), world.answers.borrow().len());
        gateway.workers.iter().for_each(|worker| worker.end());
    });
    found
}

#[test]
fn a_private_page_is_not_waited_for_behind_one_who_is_late() {
    let (times, asked) = answered(crowd("private", 40));
    let (late, others) = times.split_first().expect("there is a first one");
    assert!(*late >= LATE_MS);
    let slowest = others.iter().max().copied().unwrap_or_default();
    let bound = (PATIENCE_AT_FIRST + Duration::from_millis(500)).as_millis();
    assert!(
        u128::from(slowest) <= bound,
        "{slowest} ms of at most {bound}"
    );
    assert_eq!(asked, 40, "each by itself, once");
}

#[test]
fn what_may_be_shared_is_asked_for_once_more_when_its_leader_is_late() {
    let (times, asked) = answered(crowd("max-age=60", 40));
    let slowest = times[1..].iter().max().copied().unwrap_or_default();
    let bound = (PATIENCE_AT_FIRST + Duration::from_millis(500)).as_millis();
    assert!(
        u128::from(slowest) <= bound,
        "{slowest} ms of at most {bound}"
    );
    assert_eq!(asked, 2, "by the one who was late, and in its place");
}

#[test]
fn an_origin_that_is_slow_for_all_is_asked_by_a_few() {
    let mut plan = crowd("max-age=60", 200);
    plan.resources[0].head_ms = vec![LATE_MS];
    let (times, asked) = answered(plan);
    let waited = times.iter().filter(|&&ms| ms > LATE_MS + 500).count();
    assert!((2..=5).contains(&asked), "asked {asked} times");
    assert!(
        waited < asked,
        "who asks in the place of a leader waits for its own answer"
    );
}
