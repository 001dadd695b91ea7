//! Who goes when: the rules as a table, and a model with which random histories are compared.

use super::super::priority::Priority::{self, Critical, High, Low, Normal};
use super::*;
use crate::balance::tests::start;
use proptest::prelude::*;

const SETTINGS: Settings = Settings {
    waiters_max: 4,
    target: Duration::from_millis(5),
    interval: Duration::from_millis(100),
};

fn ms(ms: u64) -> Instant {
    start() + Duration::from_millis(ms)
}

/// Plays a history such as "0 +a 1 +b 2 pop": a time in milliseconds, then what happens. `+` adds a waiter of normal
/// priority, `^` a high one and `_` a low one. Returns what came out: `a` popped, `a!` expired, `a<` displaced, `a-`
/// not accepted.
fn play(history: &str) -> String {
    let mut queue = Queue::new(SETTINGS);
    let mut out = Vec::new();
    let mut words = history.split_whitespace();
    while let (Some(time), Some(event)) = (words.next(), words.next()) {
        let now = ms(time.parse().expect("a time in milliseconds"));
        while let Some(waiter) = queue.pop_expired(now) {
            out.push(format!("{waiter}!"));
        }
        let (kind, name) = event.split_at(1);
        let priority = match kind {
            "+" => Normal,
            "^" => High,
            "_" => Low,
            _ => {
                out.push(queue.pop(now).unwrap_or("nobody".to_owned()));
                continue;
            }
        };
        match queue.push(now, priority, usize::MAX, || name.to_owned()) {
            Some(queued) => out.extend(queued.displaced.map(|waiter| format!("{waiter}<"))),
            None => out.push(format!("{name}-")),
        }
    }
    out.join(" ")
}

#[test]
fn who_goes_when() {
    let table = [
        // The patient go in order, and wait for an interval.
        ("0 +a 1 +b 2 pop 3 pop", "a b"),
        ("0 +a 99 pop", "a"),
        ("0 +a 50 +b 100 pop", "a! b"),
        // A queue that was not empty for an interval is overloaded: waits are 5 ms, the newest goes first, after the
        // patient.
        (
            "0 +a 90 +b 99 pop 105 +c 106 +d 107 pop 108 pop 109 pop",
            "a b d c",
        ),
        (
            "0 +a 90 +b 99 pop 105 +c 106 +d 110 pop 111 pop 112 pop",
            "a c! b d! nobody nobody",
        ),
        // The queue was empty for a moment, so there is no overload.
        ("0 +a 90 +b 91 pop 92 pop 105 +c 150 pop", "a b c"),
        // An overload goes on through such moments while a third are refused ...
        (
            "0 +a 90 +b 99 pop 105 pop 110 +c 120 +d 150 +e 250 +f 300 pop 300 pop",
            "a b c! d! e! f! nobody nobody",
        ),
        // ... and ends with the first interval in which fewer are.
        (
            "0 +a 90 +b 99 pop 105 +c 106 pop 107 pop 120 +d 121 pop 150 +e 160 +f 161 pop 300 +g 390 pop",
            "a b c d e! f g",
        ),
        // Short waits are no overload, even if somebody always waits: the service is fast.
        (
            "0 +a 90 +b 91 pop 92 +c 93 pop 105 +d 150 pop 151 pop",
            "a b c d",
        ),
        // The higher priority goes first.
        ("0 _a 1 +b 2 ^c 3 +d 4 pop 5 pop 6 pop 7 pop", "c b d a"),
        // Full: a new waiter displaces the newest patient one of a lower priority, but not of its own.
        ("0 +a 1 +b 2 +c 3 +d 4 +e 5 ^f 6 _g", "e- d< g-"),
        // Full and overloaded: the hurried waiter that has waited longest leaves, even for its own priority.
        (
            "0 +a 90 +b 99 pop 105 +c 106 +d 107 +e 108 +f 109 pop 109 pop",
            "a c< b f",
        ),
        // The overload of the low priority is not that of the high: its waiters stay patient.
        ("0 _a 90 _b 99 pop 105 _c 106 ^d 112 pop", "a c! d"),
    ];
    for (history, expected) in table {
        assert_eq!(play(history), expected, "{history}");
    }
}

#[test]
fn a_ticket_finds_its_waiter_once_and_nobody_else() {
    let mut queue = Queue::new(SETTINGS);
    let push = |queue: &mut Queue<u32>, waiter| {
        queue
            .push(ms(0), Normal, 4, || waiter)
            .expect("there is room")
            .ticket
    };
    let (first, second) = (push(&mut queue, 1), push(&mut queue, 2));
    assert_eq!(queue.remove(first), Some(1));
    assert_eq!(queue.remove(first), None);
    let third = push(&mut queue, 3);
    assert_eq!(queue.remove(first), None, "the slot is another's now");
    assert_eq!(queue.pop(ms(1)), Some(2));
    assert_eq!(queue.remove(second), None);
    assert_eq!(queue.remove(third), Some(3));
    assert!(queue.is_empty());
}

#[test]
fn a_queue_without_places_takes_nobody() {
    let settings = Settings {
        waiters_max: 0,
        ..SETTINGS
    };
    let mut queue = Queue::new(settings);
    assert_eq!(queue.push(ms(0), Critical, 9, || ()), None);
    assert_eq!(queue.next_deadline(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The seed is part of the input, which proptest prints on failure.
    #[test]
    fn everybody_leaves_once_within_their_time_and_never_behind_a_lower_priority(
        seed: u64, capacity in 1usize..=4,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queue = Queue::new(SETTINGS);
        // (number, priority, since when, its ticket)
        let mut waiting: Vec<(u32, Priority, u64, Ticket)> = Vec::new();
        let mut now_ms = 0;
        for number in 0..500 {
            now_ms += random.u64(0..4);
            let now = ms(now_ms);
            while let Some(number) = queue.pop_expired(now) {
                let index = waiting.iter().position(|waiter| waiter.0 == number);
                let (_, _, since_ms, _) = waiting.remove(index.expect("it was waiting"));
                prop_assert!(now_ms - since_ms >= 5);
            }
            let oldest_ms = waiting.iter().map(|waiter| waiter.2).min();
            prop_assert!(oldest_ms.is_none_or(|since_ms| now_ms - since_ms < 100));
            match random.u8(0..4) {
                0 => {
                    let popped = queue.pop(now);
                    let index = waiting.iter().position(|waiter| Some(waiter.0) == popped);
                    prop_assert_eq!(index.is_none(), waiting.is_empty());
                    if let Some(index) = index {
                        let (_, priority, _, _) = waiting.remove(index);
                        prop_assert!(waiting.iter().all(|waiter| waiter.1 <= priority));
                    }
                }
                1 if !waiting.is_empty() => {
                    let (number, _, _, ticket) = waiting.swap_remove(random.usize(..waiting.len()));
                    prop_assert_eq!(queue.remove(ticket), Some(number));
                }
                _ => {
                    let priority = Priority::ALL[random.usize(..4)];
                    let is_full = waiting.len() >= capacity;
                    if let Some(queued) = queue.push(now, priority, capacity, || number) {
                        prop_assert_eq!(queued.displaced.is_some(), is_full);
                        waiting.retain(|waiter| Some(waiter.0) != queued.displaced);
                        waiting.push((number, priority, now_ms, queued.ticket));
                    } else {
                        prop_assert!(is_full);
                        prop_assert!(waiting.iter().all(|waiter| waiter.1 >= priority));
                    }
                }
            }
            prop_assert_eq!(queue.len(), waiting.len());
            prop_assert_eq!(queue.next_deadline().is_some(), !waiting.is_empty());
        }
    }
}
