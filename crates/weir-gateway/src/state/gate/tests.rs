//! Places are neither lost nor given out twice, whichever request leaves when.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};

use weir_policy::limit::concurrency::Limit;
use weir_policy::limit::queue;

use super::*;
use crate::deadline::{self, Timer};

/// A client that never leaves by itself.
struct Nobody(Timer);

impl Waits for Nobody {
    fn timer(&self) -> &Timer {
        &self.0
    }

    fn has_left(&self, _: &mut Context<'_>) -> bool {
        false
    }
}

fn nobody() -> Nobody {
    Nobody(Timer::new(&deadline::table()))
}

fn gate(limit: u32, wait: Duration) -> Arc<Gate> {
    Arc::new(Gate::new(
        &Settings {
            limit: Limit::Fixed(limit),
            queue: queue::Settings {
                target: wait,
                interval: wait,
                ..queue::Settings::default()
            },
            streams_max: 2,
        },
        None,
        1,
    ))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

const LONG: Duration = Duration::from_secs(60);

fn is_pending(future: Pin<&mut impl Future>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    future.poll(&mut context).is_pending()
}

fn now() -> Instant {
    time::now()
}

#[test]
fn a_waiter_that_leaves_before_it_reads_its_admission_gives_the_place_back() {
    runtime().block_on(async {
        let (gate, client) = (gate(2, LONG), nobody());
        let first = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let second = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let mut waits = Box::pin(gate.enter(&client, Priority::Normal, now()));
        assert!(is_pending(waits.as_mut()));
        assert_eq!(gate.status(now()).waiting, 1);
        // The admission is on its way to a request that never reads it.
        drop(first);
        assert_eq!(gate.status(now()).in_flight, 2);
        drop(waits);
        assert_eq!(gate.status(now()).in_flight, 1);
        // A request that leaves while it waits takes no place with it either.
        let third = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let mut waits = Box::pin(gate.enter(&client, Priority::Normal, now()));
        assert!(is_pending(waits.as_mut()));
        drop(waits);
        assert_eq!(gate.status(now()).waiting, 0);
        drop((second, third));
        assert_eq!(gate.status(now()).in_flight, 0);
    });
}

#[test]
fn a_stream_gives_its_place_to_a_waiter_and_comes_back_once() {
    runtime().block_on(async {
        let (gate, client) = (gate(2, LONG), nobody());
        let mut streams = Vec::new();
        for _ in 0..2 {
            let mut place = gate.enter(&client, Priority::Normal, now()).await.unwrap();
            place.set_apart().unwrap();
            streams.push(place);
        }
        let mut first = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let second = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let full = Err(Failure::Shed(Refusal::StreamsFull));
        assert_eq!(first.set_apart(), full);
        let mut waits = Box::pin(gate.enter(&client, Priority::Normal, now()));
        assert!(is_pending(waits.as_mut()));
        drop(streams.pop());
        assert!(is_pending(waits.as_mut()), "a stream had no place to leave");
        first.set_apart().unwrap();
        let third = waits.await.unwrap();
        // The stream is work again, so nobody else is admitted.
        first.bring_back();
        let status = gate.status(now());
        assert_eq!((status.in_flight, status.streams), (3, 1));
        drop(third);
        let mut waits = Box::pin(gate.enter(&client, Priority::Normal, now()));
        assert!(is_pending(waits.as_mut()));
        drop((waits, first, second, streams));
        let status = gate.status(now());
        assert_eq!((status.in_flight, status.streams), (0, 0));
    });
}

#[test]
fn a_wait_ends_by_itself() {
    runtime().block_on(async {
        let (gate, client) = (gate(2, Duration::from_millis(20)), nobody());
        let _first = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let _second = gate.enter(&client, Priority::Normal, now()).await.unwrap();
        let refused = gate.enter(&client, Priority::Normal, now()).await;
        assert_eq!(refused.err(), Some(Failure::Shed(Refusal::WaitedTooLong)));
        assert_eq!(gate.status(now()).waiting, 0);
    });
}

#[test]
fn two_threads_with_impatient_waiters_never_hold_more_than_the_limit() {
    const LIMIT: u32 = 8;
    const TASKS: u64 = 40;
    const TURNS: u32 = 300;
    let gate = gate(LIMIT, Duration::from_millis(5));
    let held = Arc::new(AtomicU32::new(0));
    let admitted = Arc::new(AtomicU32::new(0));
    let thread = |number: u64| {
        let (gate, held, admitted) = (gate.clone(), held.clone(), admitted.clone());
        std::thread::spawn(move || {
            let tasks = tokio::task::LocalSet::new();
            for task in 0..TASKS {
                let (gate, held, admitted) = (gate.clone(), held.clone(), admitted.clone());
                tasks.spawn_local(async move {
                    let mut random = fastrand::Rng::with_seed(number * TASKS + task);
                    let client = nobody();
                    for _ in 0..TURNS {
                        let patience = Duration::from_micros(random.u64(0..2_000));
                        let entering = gate.enter(&client, Priority::Normal, now());
                        let entered = tokio::time::timeout(patience, entering).await;
                        if let Ok(Ok(mut place)) = entered {
                            let others = held.fetch_add(1, Ordering::SeqCst);
                            assert!(others < LIMIT, "{others} others were there");
                            tokio::task::yield_now().await;
                            held.fetch_sub(1, Ordering::SeqCst);
                            admitted.fetch_add(1, Ordering::SeqCst);
                            if random.bool() && place.set_apart().is_ok() {
                                tokio::task::yield_now().await;
                            }
                            drop(place);
                        }
                    }
                });
            }
            runtime().block_on(tasks);
        })
    };
    let threads = [thread(0), thread(1)];
    for thread in threads {
        thread.join().unwrap();
    }
    let status = gate.status(now());
    assert_eq!(
        (status.in_flight, status.streams, status.waiting),
        (0, 0, 0)
    );
    assert!(admitted.load(Ordering::SeqCst) > LIMIT);
}

#[test]
fn without_streams_a_place_stays_at_its_endpoint() {
    runtime().block_on(async {
        let settings = Settings {
            limit: Limit::Fixed(2),
            streams_max: 0,
            ..Settings::default()
        };
        let gate = Arc::new(Gate::new(&settings, Some(1), 1));
        let places = Places::new(&gate);
        let mut place = gate
            .enter(&nobody(), Priority::Normal, now())
            .await
            .unwrap();
        place.stand_at(places.take(1).unwrap());
        place.set_apart().unwrap();
        assert!(!place.is_apart());
        assert_eq!(places.held(), 1, "the service is at work on it as before");
        assert!(places.take(1).is_none());
    });
}

#[test]
fn a_stream_that_is_work_again_counts_at_its_endpoint() {
    runtime().block_on(async {
        let gate = gate(2, LONG);
        let places = Places::new(&gate);
        let mut place = gate
            .enter(&nobody(), Priority::Normal, now())
            .await
            .unwrap();
        place.stand_at(places.take(2).unwrap());
        place.set_apart().unwrap();
        assert_eq!((places.held(), places.kept()), (0, 0));
        place.bring_back();
        assert_eq!((places.held(), places.kept()), (1, 1));
        // So it is given up with the others.
        places.give_up(1);
        assert!(place.was_given_up());
        assert_eq!(gate.status(now()).in_flight, 0);
        drop(place);
        assert_eq!((places.held(), gate.status(now()).in_flight), (0, 0));
    });
}

#[test]
fn places_are_given_up_once_for_each_ejection() {
    runtime().block_on(async {
        let gate = gate(4, LONG);
        let places = Places::new(&gate);
        // The third ejection is number 1 again, of a watch that began from nothing.
        for ejection in [1, 2, 1] {
            let client = nobody();
            let mut place = gate.enter(&client, Priority::Normal, now()).await.unwrap();
            place.stand_at(places.take(4).unwrap());
            places.give_up(ejection);
            places.give_up(ejection);
            assert!(place.was_given_up());
            assert_eq!(gate.status(now()).in_flight, 0);
        }
    });
}

fn care(concurrency: Settings, is_limited_per_endpoint: bool) -> UpstreamCare {
    UpstreamCare {
        concurrency: Some(concurrency),
        is_limited_per_endpoint,
        ..UpstreamCare::default()
    }
}

#[test]
fn another_number_is_taken_up_with_all_that_is_in_flight() {
    runtime().block_on(async {
        let settings = |limit| Settings {
            limit: Limit::Fixed(limit),
            ..Settings::default()
        };
        let client = nobody();
        let first = Gate::succeed(None, &care(settings(1), true), 2).unwrap();
        let _one = first.enter(&client, Priority::Normal, now()).await.unwrap();
        let _two = first.enter(&client, Priority::Normal, now()).await.unwrap();
        let mut waits = Box::pin(first.enter(&client, Priority::Normal, now()));
        assert!(is_pending(waits.as_mut()));
        // A new endpoint brings a place for the waiting request.
        let second = Gate::succeed(Some(&first), &care(settings(1), true), 3).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let _three = waits.await.unwrap();
        let status = second.status(now());
        assert_eq!((status.limit, status.in_flight), (3, 3));
        // Any other change makes another gate.
        let other = Gate::succeed(Some(&first), &care(settings(3), false), 3).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        let adaptive = Gate::succeed(Some(&other), &care(Settings::default(), false), 3).unwrap();
        assert!(!Arc::ptr_eq(&adaptive, &other));
        let same = Gate::succeed(Some(&adaptive), &care(Settings::default(), false), 1).unwrap();
        assert!(Arc::ptr_eq(&adaptive, &same));
    });
}

#[test]
fn no_endpoint_may_hold_all_that_there_is_beside_others() {
    for limit in 2..100 {
        let gate = gate(limit, LONG);
        for (weight, total) in [(2, 3), (1, 2), (9, 10), (99, 100), (1, 100)] {
            let Allowance::Fair(fair) = gate.allowance(weight, total) else {
                panic!("there is no limit for each endpoint");
            };
            assert!((1..limit).contains(&fair), "{fair} of {limit}");
            let share = f64::from(weight * limit) / total as f64;
            assert!(
                f64::from(fair) >= share.floor().min(f64::from(limit - 1)),
                "{fair}"
            );
        }
        assert_eq!(gate.allowance(1, 1), Allowance::Fair(limit), "it is alone");
    }
}
