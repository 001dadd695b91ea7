//! The limiter as a state machine. `tests/it/overload` simulates the adaptive limit over time.

use super::*;
use crate::balance::tests::start;
use proptest::prelude::*;

fn ms(ms: u64) -> Instant {
    start() + Duration::from_millis(ms)
}

fn fixed(limit: u32) -> Limiter<u32> {
    let settings = Settings {
        limit: Limit::Fixed(limit),
        ..Settings::default()
    };
    Limiter::new(&settings, start(), start())
}

fn acquire(limiter: &mut Limiter<u32>, now: Instant, waiter: u32) -> Acquired<u32> {
    limiter.acquire(now, Priority::Normal, || waiter)
}

#[test]
fn a_place_goes_to_a_waiter_before_a_new_request() {
    let mut limiter = fixed(2);
    let (Acquired::Admitted(first), Acquired::Admitted(_second)) = (
        acquire(&mut limiter, ms(0), 1),
        acquire(&mut limiter, ms(0), 2),
    ) else {
        panic!("two fit");
    };
    let Acquired::Queued(third) = acquire(&mut limiter, ms(1), 3) else {
        panic!("one may wait");
    };
    assert_eq!(
        acquire(&mut limiter, ms(1), 4),
        Acquired::Refused(Refusal::QueueFull),
        "no more wait than half of the limit"
    );
    limiter.release(ms(10), first, Outcome::Ignored);
    assert_eq!(
        acquire(&mut limiter, ms(10), 5),
        Acquired::Refused(Refusal::QueueFull),
        "the place is the third's"
    );
    let Some(Decision::Admitted(3, permit)) = limiter.decide(ms(10)) else {
        panic!("the third is next");
    };
    assert_eq!(limiter.decide(ms(10)), None);
    assert_eq!(limiter.cancel(third.ticket), None, "it is decided");

    // The third left meanwhile, so its permit comes back.
    limiter.release(ms(11), permit, Outcome::Ignored);
    assert!(matches!(
        acquire(&mut limiter, ms(11), 6),
        Acquired::Admitted(_)
    ));
}

#[test]
fn an_optional_place_is_not_taken_from_waiters() {
    let mut limiter = fixed(2);
    let first = limiter.try_acquire(ms(0)).expect("there is a place");
    let Acquired::Admitted(second) = acquire(&mut limiter, ms(0), 1) else {
        panic!("there is another")
    };
    assert!(limiter.try_acquire(ms(0)).is_none(), "there are two");
    assert!(matches!(
        acquire(&mut limiter, ms(1), 2),
        Acquired::Queued(_)
    ));
    limiter.release(ms(2), first, Outcome::Ignored);
    assert!(limiter.try_acquire(ms(2)).is_none(), "it is for who waits");
    assert!(matches!(
        limiter.decide(ms(2)),
        Some(Decision::Admitted(2, _))
    ));
    limiter.release(ms(3), second, Outcome::Ignored);
    assert!(limiter.try_acquire(ms(3)).is_some());
}

#[test]
fn a_request_that_waits_too_long_is_refused_in_time() {
    let mut limiter = fixed(1);
    let Acquired::Admitted(_permit) = acquire(&mut limiter, ms(0), 1) else {
        panic!("one fits");
    };
    assert!(matches!(
        acquire(&mut limiter, ms(0), 2),
        Acquired::Queued(_)
    ));
    assert_eq!(limiter.next_deadline(ms(0)), Some(ms(100)));
    assert_eq!(limiter.decide(ms(99)), None);
    assert_eq!(
        limiter.decide(ms(100)),
        Some(Decision::Refused(2, Refusal::WaitedTooLong))
    );
}

/// 64 clients ask again as soon as they are answered, and a service answers one after the other, in 50 µs.
#[test]
fn a_service_that_answers_at_once_gets_all_there_is() {
    serve_64_clients(queue::Settings::TARGET_DEFAULT);
    // Even if requests may wait long in the queue, they must not wait inside the service.
    serve_64_clients(Duration::from_secs(1));
}

fn serve_64_clients(target: Duration) {
    let mut settings = Settings::default();
    settings.queue.target = target;
    let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
    let mut in_flight = std::collections::VecDeque::new();
    let (mut waiting, mut answers) = (0, 0);
    let mut now = start();
    while answers < 20_000 {
        while in_flight.len() + waiting < 64 {
            match acquire(&mut limiter, now, 0) {
                Acquired::Admitted(permit) => in_flight.push_back(permit),
                Acquired::Queued(_) => waiting += 1,
                Acquired::Refused(_) => break,
            }
        }
        now += Duration::from_micros(50);
        let permit = in_flight.pop_front().expect("some are in flight");
        limiter.release(now, permit, Outcome::Success(Duration::ZERO));
        answers += 1;
        while let Some(decision) = limiter.decide(now) {
            waiting -= 1;
            if let Decision::Admitted(_, permit) = decision {
                in_flight.push_back(permit);
            }
        }
    }
    assert_eq!(limiter.limit(), AdaptiveSettings::MAX_DEFAULT);
    assert_eq!(
        (in_flight.len(), waiting),
        (63, 0),
        "nobody is refused, and nobody waits"
    );
}

#[test]
fn failures_and_clients_that_leave_teach_an_adaptive_limit_nothing() {
    for outcome in [Outcome::Failure(Duration::ZERO), Outcome::Ignored] {
        let mut limiter: Limiter<u32> = Limiter::new(&Settings::default(), start(), start());
        let before = limiter.limit();
        let mut permits = std::collections::VecDeque::new();
        for now_ms in 0..10_000 {
            // The maximum is always in flight, and each request ends after a while.
            while let Acquired::Admitted(permit) = acquire(&mut limiter, ms(now_ms), 0) {
                permits.push_back(permit);
            }
            let permit = permits.pop_front().expect("some are in flight");
            limiter.release(ms(now_ms), permit, outcome);
            while let Some(decision) = limiter.decide(ms(now_ms)) {
                if let Decision::Admitted(_, permit) = decision {
                    permits.push_back(permit);
                }
            }
        }
        assert_eq!(limiter.limit(), before, "{outcome:?}");
        assert_eq!(limiter.status(ms(10_000)).base_latency, None);
    }
}

/// Admits one more, or returns `None`.
fn admit(limiter: &mut Limiter<u32>) -> Option<Permit> {
    match acquire(limiter, ms(0), 0) {
        Acquired::Admitted(permit) => Some(permit),
        Acquired::Queued(queued) => {
            limiter.cancel(queued.ticket);
            None
        }
        Acquired::Refused(_) => None,
    }
}

#[test]
fn streams_are_counted_apart_and_crowd_out_nobody_but_streams() {
    let settings = Settings {
        limit: Limit::Fixed(2),
        streams_max: 3,
        ..Settings::default()
    };
    let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
    let mut streams = Vec::new();
    for number in 1..=3 {
        let mut permit = admit(&mut limiter).expect("streams leave the places free");
        assert_eq!(limiter.set_apart(&mut permit), Ok(()));
        assert_eq!(limiter.set_apart(&mut permit), Ok(()), "once is enough");
        let status = limiter.status(ms(0));
        assert_eq!((status.in_flight, status.streams), (0, number));
        streams.push(permit);
    }
    let mut fourth = admit(&mut limiter).expect("there is a place");
    assert_eq!(limiter.set_apart(&mut fourth), Err(Refusal::StreamsFull));
    assert_eq!(limiter.status(ms(0)).in_flight, 1, "it has its place still");
    limiter.release(ms(0), fourth, Outcome::Ignored);

    // A stream that is work again is in flight, although all places are taken.
    let (first, second) = (admit(&mut limiter), admit(&mut limiter));
    let mut back = streams.pop().expect("there are three");
    limiter.bring_back(ms(0), &mut back);
    limiter.bring_back(ms(0), &mut back);
    let status = limiter.status(ms(0));
    assert_eq!((status.in_flight, status.streams), (3, 2));
    limiter.release(ms(1), first.expect("there was a place"), Outcome::Ignored);
    assert!(admit(&mut limiter).is_none(), "two are in flight");
    for permit in [second.expect("there was another"), back] {
        limiter.release(ms(1), permit, Outcome::Ignored);
    }
    for permit in streams {
        limiter.release(ms(1), permit, Outcome::Ignored);
    }
    let status = limiter.status(ms(1));
    assert_eq!((status.in_flight, status.streams), (0, 0));
}

#[test]
fn where_no_streams_are_set_apart_each_keeps_its_place() {
    let settings = Settings {
        limit: Limit::Fixed(1),
        streams_max: 0,
        ..Settings::default()
    };
    let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
    let mut permit = admit(&mut limiter).expect("there is a place");
    assert_eq!(limiter.set_apart(&mut permit), Ok(()));
    limiter.bring_back(ms(0), &mut permit);
    assert_eq!(limiter.status(ms(0)).in_flight, 1);
    assert!(admit(&mut limiter).is_none());
}

#[test]
fn a_stream_teaches_an_adaptive_limit_nothing() {
    let mut limiter: Limiter<u32> = Limiter::new(&Settings::default(), start(), start());
    for now_ms in 0..1_000 {
        let Acquired::Admitted(mut permit) = acquire(&mut limiter, ms(now_ms), 0) else {
            panic!("nothing is in flight");
        };
        assert_eq!(limiter.set_apart(&mut permit), Ok(()));
        limiter.release(ms(now_ms), permit, Outcome::Success(Duration::ZERO));
    }
    assert_eq!(limiter.status(ms(1_000)).base_latency, None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, each request counts in one class and leaves it once.
    #[test]
    fn places_and_streams_come_back(seed: u64, limit in 1u32..10, streams_max in 0u32..10) {
        let mut random = fastrand::Rng::with_seed(seed);
        let settings = Settings { limit: Limit::Fixed(limit), streams_max, ..Settings::default() };
        let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
        let mut permits: Vec<Permit> = Vec::new();
        for number in 0..2_000 {
            let now = ms(number);
            let some = (!permits.is_empty()).then(|| random.usize(..permits.len()));
            match (random.u8(..5), some) {
                (0 | 1, _) | (_, None) => permits.extend(limiter.try_acquire(now)),
                (2, Some(which)) => {
                    let full = limiter.set_apart(&mut permits[which]).is_err();
                    prop_assert!(!full || limiter.status(now).streams == streams_max);
                }
                (3, Some(which)) => limiter.bring_back(now, &mut permits[which]),
                (_, Some(which)) => limiter.release(now, permits.swap_remove(which), Outcome::Ignored),
            }
            let status = limiter.status(now);
            let apart = permits.iter().filter(|permit| permit.is_apart).count();
            prop_assert_eq!(status.streams as usize, apart);
            prop_assert_eq!(status.in_flight as usize, permits.len() - apart);
            prop_assert!(status.streams <= streams_max);
            prop_assert!(permits.len() <= (limit + streams_max) as usize);
        }
    }

    /// Lost requests leave their places to others. Once all are recovered, it is as if none had been lost.
    #[test]
    fn lost_requests_leave_their_places_to_others(limit in 1u32..20, lost in 0u32..20) {
        let lost = lost.min(limit);
        let settings = Settings { limit: Limit::Fixed(limit), ..Settings::default() };
        let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
        let mut permits: Vec<Permit> = Vec::new();
        permits.extend(std::iter::from_fn(|| limiter.try_acquire(start())));
        prop_assert_eq!(permits.len(), limit as usize);
        limiter.lose(lost);
        permits.extend(std::iter::from_fn(|| limiter.try_acquire(start())));
        prop_assert_eq!(permits.len(), (limit + lost) as usize);
        for _ in 0..lost {
            limiter.recover();
            let permit = permits.remove(0);
            limiter.release(start(), permit, Outcome::Ignored);
        }
        prop_assert_eq!(limiter.status(start()).in_flight, limit);
        prop_assert!(limiter.try_acquire(start()).is_none());
    }

    /// The seed is part of the input, which proptest prints on failure.
    #[test]
    fn never_more_in_flight_than_the_limit_allows_at_an_admission(
        seed: u64, min in 0u32..10, max in 0u32..100, is_fixed: bool,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let limit = if is_fixed {
            Limit::Fixed(max)
        } else {
            Limit::Adaptive(AdaptiveSettings { min, max })
        };
        let settings = Settings { limit, ..Settings::default() };
        let mut limiter: Limiter<u32> = Limiter::new(&settings, start(), start());
        let mut permits: Vec<Permit> = Vec::new();
        let mut now = start();
        for number in 0..5_000 {
            now += Duration::from_micros(random.u64(0..3_000));
            if random.bool() {
                let priority = Priority::ALL[random.usize(..4)];
                if let Acquired::Admitted(permit) = limiter.acquire(now, priority, || number) {
                    prop_assert!(permits.len() < limiter.limit().max(min.max(1)) as usize);
                    permits.push(permit);
                }
            } else if !permits.is_empty() {
                let permit = permits.swap_remove(random.usize(..permits.len()));
                limiter.release(now, permit, Outcome::Success(Duration::ZERO));
            }
            while let Some(decision) = limiter.decide(now) {
                if let Decision::Admitted(_, permit) = decision {
                    prop_assert!(permits.len() < limiter.limit().max(1) as usize);
                    permits.push(permit);
                }
            }
            let status = limiter.status(now);
            prop_assert_eq!(status.in_flight as usize, permits.len());
            prop_assert!(status.limit >= 1);
            prop_assert!(status.waiting == 0 || status.in_flight >= limiter.limit());
        }
    }
}

fn adaptive() -> Limiter<u32> {
    Limiter::new(&Settings::default(), start(), start())
}

/// One answer after another, each after 10 ms, until `until_ms`.
fn answers_in_ten_ms(limiter: &mut Limiter<u32>, until_ms: u64) {
    for at in (0..until_ms).step_by(10) {
        let Acquired::Admitted(permit) = acquire(limiter, ms(at), 0) else {
            panic!("nothing is held");
        };
        limiter.release(ms(at + 10), permit, Outcome::Success(Duration::ZERO));
    }
}

/// `per_ms` requests come each millisecond, and none is answered. Returns who waits, by when they came.
fn surge(limiter: &mut Limiter<u32>, from_ms: u64, to_ms: u64, per_ms: u32) -> Vec<u32> {
    let mut waiting = Vec::new();
    for at in from_ms..to_ms {
        for _ in 0..per_ms {
            match acquire(limiter, ms(at), at as u32) {
                Acquired::Admitted(permit) => drop(permit),
                Acquired::Queued(queued) => {
                    assert_eq!(queued.displaced, None);
                    let ends = limiter.hold_ends(ms(at)).expect("for a moment");
                    assert!(ends <= ms(from_ms + 100));
                    waiting.push(at as u32);
                }
                Acquired::Refused(refusal) => panic!("{refusal:?} at {at} ms"),
            }
        }
    }
    waiting
}

#[test]
fn held_requests_go_on_soon_if_the_service_is_silent() {
    let mut limiter = adaptive();
    answers_in_ten_ms(&mut limiter, 1_000);
    let waiting = surge(&mut limiter, 1_000, 1_060, 2);
    assert!(waiting.len() > 40, "{waiting:?}");
    let ends = limiter.next_deadline(ms(1_060)).expect("somebody waits");
    assert!(ends <= ms(1_100), "before anybody has waited for 100 ms");
    assert_eq!(limiter.decide(ms(1_060)), None, "not yet");

    // The latest that a timer may be.
    let late = ends + Duration::from_millis(300);
    for came in waiting {
        assert!(
            matches!(limiter.decide(late), Some(Decision::Admitted(who, _)) if who == came),
            "in order, and nobody is refused"
        );
    }
    assert_eq!(limiter.decide(late), None);
    assert!(matches!(
        acquire(&mut limiter, late, 0),
        Acquired::Admitted(_)
    ));
}

#[test]
fn more_than_can_be_held_are_not_refused() {
    let mut limiter = adaptive();
    answers_in_ten_ms(&mut limiter, 1_000);
    let waiting = surge(&mut limiter, 1_000, 1_040, 100);
    let held = queue::Settings::WAITERS_MAX_DEFAULT;
    assert_eq!(waiting.len(), held, "as many as fit, the others went on");
    for came in waiting {
        assert!(
            matches!(limiter.decide(ms(1_040)), Some(Decision::Admitted(who, _)) if who == came)
        );
    }
}

#[test]
fn a_burst_is_not_held() {
    let mut limiter = adaptive();
    answers_in_ten_ms(&mut limiter, 1_000);
    assert_eq!(surge(&mut limiter, 1_000, 1_005, 100), Vec::<u32>::new());
}

#[test]
fn without_waits_there_is_no_hold() {
    let queues = [
        queue::Settings {
            waiters_max: 0,
            ..queue::Settings::default()
        },
        queue::Settings {
            interval: Duration::from_millis(5),
            ..queue::Settings::default()
        },
    ];
    for queue in queues {
        let settings = Settings {
            queue,
            ..Settings::default()
        };
        let mut limiter = Limiter::new(&settings, start(), start());
        answers_in_ten_ms(&mut limiter, 1_000);
        assert_eq!(surge(&mut limiter, 1_000, 1_060, 2), Vec::<u32>::new());
    }
}
