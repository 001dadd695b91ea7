//! Situations that are told rather than drawn: a leader that is late or that fails, and the crowd behind it.

use weir_policy::limit::concurrency::{self, Limit};

use crate::cache::join::PATIENCE_AT_FIRST;
use crate::settings::Action;
use crate::simulation::plan::{AskPlan, ClientPlan, End, HOST, Plan, Resource};
use crate::simulation::world::World;
use crate::simulation::{Gateway, PATIENCE, client, in_simulated_time, origin};
use crate::time;

/// How long the first answer takes; the others take [`USUAL_MS`].
const LATE_MS: u64 = 8_000;
const USUAL_MS: u64 = 50;
/// When the first of those who wait asks in the place of a leader that is late, on a route that has not answered yet.
const RELIEF_MS: u64 = PATIENCE_AT_FIRST.as_millis() as u64;
/// What the machinery may take: a tick of the deadlines, and steps of simulated time.
const SLACK_MS: u64 = 500;

/// A crowd of clients that ask for one page, at once.
fn crowd(control: &'static str, clients: usize) -> Plan {
    let mut plan = Plan::draw(&mut fastrand::Rng::with_seed(1));
    plan.resources = vec![Resource {
        path: "/".to_owned(),
        vary: vec![""],
        first_vary: Vec::new(),
        control: vec![control],
        status: vec![200],
        body_bytes: vec![100],
        head_ms: vec![USUAL_MS],
        first: vec![(LATE_MS, 200)],
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
    plan.settings.upstreams[0].care.concurrency = None;
    plan.purges.clear();
    plan
}

/// What came of it.
struct Told {
    /// Each client's status, and when it had it; the leader's first.
    answers: Vec<(u16, u64)>,
    /// How often the origin was asked.
    asked: usize,
    /// The most that waited for a place at once.
    queued_max: usize,
}

impl Told {
    /// The longest that any but the leader waited.
    fn slowest(&self) -> u64 {
        let others = self.answers[1..].iter().map(|&(_, ms)| ms);
        others.max().unwrap_or_default()
    }

    fn count(&self, status: u16) -> usize {
        let with = self.answers.iter().filter(|(own, _)| *own == status);
        with.count()
    }
}

fn tell(plan: Plan) -> Told {
    let mut told = None;
    in_simulated_time("a crowd", async || {
        let world = World::new(plan);
        origin::listen(&world);
        let gateway = Gateway::start(&world.plan.settings);
        client::send_all(&world, &gateway);
        let mut queued_max = 0;
        let watch = || {
            let view = gateway.workers[0].view();
            let gate = view.snapshot.upstreams[0].gate.as_ref();
            let queued = gate.map_or(0, |gate| gate.status(time::now()).waiting);
            queued_max = queued_max.max(queued);
        };
        assert!(world.tasks.run(PATIENCE, watch).await, "all are answered");
        let requests = world.requests.borrow();
        let answers = requests.iter().map(|request| {
            let got = request.got.as_ref().expect("it is answered");
            (got.status, got.head_at - request.sent_at)
        });
        told = Some(Told {
            answers: answers.collect(),
            asked: world.answers.borrow().len(),
            queued_max,
        });
        gateway.workers.iter().for_each(|worker| worker.end());
    });
    told.expect("it has run")
}

#[track_caller]
fn assert_within(ms: u64, bound: u64) {
    assert!(ms <= bound + SLACK_MS, "{ms} ms of at most {bound}");
}

#[test]
fn a_private_page_is_not_waited_for_behind_one_who_is_late() {
    let told = tell(crowd("private", 40));
    assert!(told.answers[0].1 >= LATE_MS);
    assert_within(told.slowest(), RELIEF_MS);
    assert_eq!((told.asked, told.count(200)), (40, 40), "each by itself");
}

#[test]
fn what_may_be_shared_is_asked_for_once_more_when_its_leader_is_late() {
    let told = tell(crowd("max-age=60", 40));
    assert_within(told.slowest(), RELIEF_MS);
    assert_eq!(told.asked, 2, "by the one who was late, and in its place");
    assert_within(told.answers[0].1, RELIEF_MS);
}

/// Even one that is stale when it comes: it was asked for while they waited.
#[test]
fn an_answer_that_nobody_may_use_again_is_for_all_who_waited_for_it() {
    let mut plan = crowd("max-age=0", 40);
    plan.resources[0].has_etag = true;
    let told = tell(plan);
    assert_eq!((told.asked, told.count(200)), (2, 40));
    assert_within(told.slowest().max(told.answers[0].1), RELIEF_MS);
}

#[test]
fn all_who_ask_go_by_whichever_answer_comes_first() {
    let mut plan = crowd("max-age=60", 40);
    plan.resources[0].first = vec![(LATE_MS, 200); 2];
    let told = tell(plan);
    assert_eq!((told.asked, told.count(200)), (3, 40));
    // They ask after once and twice the patience.
    assert_within(told.slowest().max(told.answers[0].1), 2 * RELIEF_MS);
}

#[test]
fn what_is_stale_is_there_at_once_for_all_when_somebody_asks_in_vain() {
    let mut plan = crowd("max-age=1, stale-if-error=60", 40);
    for client in &mut plan.clients[1..] {
        client.asks[0].after_ms = 3_000;
    }
    plan.resources[0].first = vec![(USUAL_MS, 200), (LATE_MS, 200)];
    plan.resources[0].first.extend([(USUAL_MS, 0); 6]);
    let mut told = tell(plan);
    assert_eq!(told.count(200), 40);
    told.answers.sort_by_key(|&(_, ms)| ms);
    // Only the leader waits on.
    assert_within(told.answers[38].1, 0);
}

#[test]
fn an_origin_that_is_slow_for_all_is_asked_by_a_few_and_nobody_waits_for_two_answers() {
    for control in ["max-age=60", "private"] {
        let mut plan = crowd(control, 200);
        plan.resources[0].head_ms = vec![LATE_MS];
        let told = tell(plan);
        let (asked, bound) = match control {
            "private" => (200..=200, 2 * LATE_MS),
            _ => (2..=5, LATE_MS),
        };
        assert!(asked.contains(&told.asked), "asked {} times", told.asked);
        assert_within(told.slowest(), bound);
        assert_eq!(told.count(200), 200);
    }
}

#[test]
fn who_asks_in_the_place_of_a_leader_and_gets_an_error_releases_nobody() {
    let mut plan = crowd("max-age=60", 40);
    plan.resources[0].status = vec![503];
    let told = tell(plan);
    assert_eq!((told.asked, told.count(503)), (3, 2), "{:?}", told.answers);
    assert_within(told.slowest(), LATE_MS);
}

#[test]
fn who_waits_is_not_given_what_only_the_leader_takes_stale() {
    let mut plan = crowd("max-age=1", 3);
    let takes_stale = ("cache-control".to_owned(), "stale-if-error=60".to_owned());
    let leader = &mut plan.clients[0].asks;
    leader[0].fields.push(takes_stale);
    leader.push(AskPlan {
        after_ms: 3_000,
        ..leader[0].clone()
    });
    for client in &mut plan.clients[1..] {
        client.asks[0].after_ms = 3_200;
    }
    plan.resources[0].status = vec![503];
    plan.resources[0].first = vec![(USUAL_MS, 200), (1_000, 503)];
    let told = tell(plan);
    let counts = (told.count(200), told.count(503));
    assert_eq!(counts, (2, 2), "{:?}", told.answers);
}

/// Each learns from those before it by which field the origin chooses, and finds nobody who asks for its variant; the last is
/// sent from each of the others to another one.
#[test]
fn variants_that_come_and_go_keep_nobody() {
    let mut plan = crowd("max-age=60", 5);
    let page = &mut plan.resources[0];
    page.first_vary = ["Accept-Encoding", "Origin"].repeat(3);
    (page.first, page.body_bytes, page.piece_ms) = (vec![], vec![100_000], vec![1_000]);
    let wants = [
        ("gzip", "a"),
        ("br", "b"),
        ("br", "c"),
        ("zstd", "d"),
        ("zstd", "c"),
    ];
    for (number, (coding, site)) in wants.into_iter().enumerate() {
        let ask = &mut plan.clients[number].asks[0];
        ask.after_ms = 200 * number as u64;
        ask.fields
            .push(("accept-encoding".to_owned(), coding.to_owned()));
        ask.fields
            .push(("origin".to_owned(), format!("https://{site}")));
    }
    let told = tell(plan);
    assert_eq!((told.asked, told.count(200)), (5, 5));
}

#[test]
fn who_asks_in_the_place_of_a_leader_in_vain_waits_on_with_the_others() {
    let mut plan = crowd("max-age=60", 40);
    // A connection that closes without a word is asked again, once.
    plan.resources[0].first.extend([(USUAL_MS, 0); 2]);
    let told = tell(plan);
    assert_eq!(told.count(200), 40, "{:?}", told.answers);
    assert_within(told.slowest(), 2 * RELIEF_MS);
}

#[test]
fn an_error_is_waited_for_once() {
    for status in [500, 503] {
        let mut plan = crowd("", 30);
        plan.resources[0].status = vec![status];
        plan.resources[0].head_ms = vec![1_000];
        plan.resources[0].first = vec![];
        let told = tell(plan);
        assert_eq!((told.asked, told.count(status)), (30, 30));
        assert_within(told.slowest(), 2_000);
    }
}

#[test]
fn an_origin_that_says_nothing_is_waited_for_once() {
    let mut plan = crowd("max-age=60", 30);
    plan.resources[0].head_ms = vec![100_000];
    plan.resources[0].first = vec![];
    let told = tell(plan);
    assert_eq!(told.count(504), 30);
    // The route's deadline is ten seconds; that of the others begins with their own request.
    assert_within(told.slowest(), 15_000);
    assert!(told.asked <= 5, "asked {} times", told.asked);
}

#[test]
fn nobody_asks_in_the_place_of_a_leader_where_that_takes_a_place_that_others_want() {
    let mut plan = crowd("max-age=60", 40);
    plan.settings.upstreams[0].care.concurrency = Some(concurrency::Settings {
        limit: Limit::Fixed(1),
        ..concurrency::Settings::default()
    });
    let told = tell(plan);
    assert_eq!((told.asked, told.queued_max), (1, 0));
    assert_within(told.slowest(), LATE_MS);
}
