//! What clients of three real nodes saw, key by key, is judged: whether each operation may have happened at one moment.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::checker::{Operation, Verdict, What};
use super::machines::{Client, Machines, Told};

#[path = "../../../../weir-kv/src/simulation/linear.rs"]
mod checker;

const NODES: usize = 3;
const CLIENTS: usize = 6;
const KEYS: u64 = 6;

/// Operations of each client: some hundreds, or as many as the environment says in hundreds.
fn operations() -> u64 {
    let said = std::env::var("WEIR_ROUNDS").ok();
    100 * said.map_or(5, |said| said.parse().expect("WEIR_ROUNDS is a number"))
}

/// What a client saw of an operation.
struct Seen {
    key: u64,
    began: u64,
    ended: u64,
    asked: Asked,
    told: Option<Told>,
}

/// Values are numbers, each of another write.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Read,
    Write(u64),
    Swap { from: u64, to: u64 },
}

/// What clients ask in a part of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// Reads, and writes with and without a condition.
    All,
    /// Reads, and writes with a condition.
    Conditions,
}

struct Part {
    name: &'static str,
    mix: Mix,
    began: Instant,
    numbers: AtomicU64,
    at_work: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
}

impl Part {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// A client of a machine, whose thread is there.
    fn work(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut client, mut mine) = (Client::default(), Vec::new());
        // What it has seen last of each key: a value and its tag.
        let mut last: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for _ in 0..operations() {
            let key = rng.u64(..KEYS);
            let target = format!("/v1/kv/{}{key}", self.name);
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let (from, tag) = last.get(&key).cloned().unwrap_or_default();
            let (asked, method, lines, body) = match rng.u8(..4) {
                0 | 1 => (Asked::Read, "GET", String::new(), String::new()),
                2 if self.mix == Mix::All => {
                    let asked = Asked::Write(number);
                    (asked, "PUT", String::new(), number.to_string())
                }
                _ => {
                    let lines = match from {
                        0 => "If-None-Match: *\r\n".to_owned(),
                        _ => format!("If-Match: {tag}\r\n"),
                    };
                    let to = number;
                    (Asked::Swap { from, to }, "PUT", lines, number.to_string())
                }
            };
            let began = self.now();
            let told = client.ask(method, &target, &lines, &body);
            let ended = self.now();
            match (asked, &told) {
                (Asked::Read, Some(told)) if told.status == 200 => {
                    let value = told.body.parse().expect("a number");
                    last.insert(key, (value, told.etag.clone().expect("a tag")));
                }
                (Asked::Write(to) | Asked::Swap { to, .. }, Some(told)) if told.status == 201 => {
                    last.insert(key, (to, told.etag.clone().expect("a tag")));
                }
                (_, None) => thread::sleep(Duration::from_millis(1)),
                _ => {}
            }
            mine.push(Seen {
                key,
                began,
                ended,
                asked,
                told,
            });
        }
        self.seen.lock().expect("no client panics").extend(mine);
        self.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Operations by key.
fn histories(seen: &[Seen]) -> BTreeMap<u64, Vec<Operation>> {
    let tags = seen.iter().filter_map(|seen| {
        let told = seen.told.as_ref()?;
        let value = match (seen.asked, told.status) {
            (Asked::Read, 200) => told.body.parse().expect("a number"),
            (Asked::Write(to) | Asked::Swap { to, .. }, 201) => to,
            _ => return None,
        };
        Some((told.etag.clone()?, value))
    });
    let tags: BTreeMap<String, u64> = tags.collect();
    let mut histories: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for seen in seen {
        let status = seen.told.as_ref().map_or(0, |told| told.status);
        let tag = seen.told.as_ref().and_then(|told| told.etag.as_ref());
        let (what, is_known) = match (seen.asked, status) {
            (Asked::Read, 200) => (tag.and_then(|tag| tags.get(tag)).copied(), true),
            (Asked::Read, 404) => (Some(0), true),
            // It found something, and says what: it has read.
            (Asked::Swap { .. }, 412) => match tag {
                None => (Some(0), true),
                Some(tag) => (tags.get(tag).copied(), true),
            },
            (_, 201) => (None, true),
            (_, 0 | 503 | 504) => (None, false),
            (asked, status) => panic!("{asked:?} was answered with {status}"),
        };
        let what = match (seen.asked, status, what) {
            (Asked::Read, ..) | (Asked::Swap { .. }, 412, _) => match what {
                Some(value) => What::Read(value),
                // Nothing is known of it.
                None => continue,
            },
            (Asked::Swap { from, to }, ..) if is_known => What::Swap { from, to },
            // One that is not known to be done may come late, and over another value than it was to.
            (Asked::Write(to) | Asked::Swap { to, .. }, ..) => What::Write(to),
        };
        histories.entry(seen.key).or_default().push(Operation {
            began: seen.began,
            ended: is_known.then_some(seen.ended),
            what,
        });
    }
    histories
}

/// Has clients at work while `trouble` is made again and again; the histories that are not linearizable.
fn part(
    machines: &Machines,
    (name, mix): (&'static str, Mix),
    mut trouble: impl FnMut(&mut fastrand::Rng),
) -> Vec<Operation> {
    let part = Part {
        name,
        mix,
        began: Instant::now(),
        numbers: AtomicU64::new(1),
        at_work: AtomicUsize::new(CLIENTS),
        seen: Mutex::default(),
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let part = &part;
            scope.spawn(move || {
                machines.enter(client % NODES);
                part.work(client as u64);
            });
        }
        let mut rng = fastrand::Rng::with_seed(17);
        while part.at_work.load(Ordering::Relaxed) > 0 {
            trouble(&mut rng);
        }
    });
    let seen = part.seen.into_inner().expect("no client panicked");
    let histories = histories(&seen);
    let mut wrong = Vec::new();
    for (key, operations) in &histories {
        match checker::judge(operations) {
            Verdict::Linearizable => {}
            Verdict::Not(operation) => wrong.push(operation),
            Verdict::Unknown => panic!("{name}{key} has too many operations to judge"),
        }
    }
    let is_known = |operation: &&Operation| operation.ended.is_some();
    let all = || histories.values().flatten();
    println!(
        "{name}: {} operations of {} keys, {} of them unknown, in {:?}; {} keys not linearizable",
        all().count(),
        histories.len(),
        all().count() - all().filter(is_known).count(),
        part.began.elapsed(),
        wrong.len()
    );
    assert_one_over_each(&histories);
    wrong
}

/// Whatever happens: of the writes over one value, one is acknowledged.
fn assert_one_over_each(histories: &BTreeMap<u64, Vec<Operation>>) {
    for operations in histories.values() {
        let acknowledged = operations.iter().filter(|seen| seen.ended.is_some());
        let mut over: Vec<u64> = acknowledged
            .filter_map(|seen| match seen.what {
                What::Swap { from, .. } => Some(from),
                _ => None,
            })
            .collect();
        let count = over.len();
        over.sort_unstable();
        over.dedup();
        assert_eq!(over.len(), count, "two writes went over one value");
    }
}

#[test]
fn what_clients_see_may_have_happened_one_after_the_other() {
    let machines = Machines::start(NODES);
    let pause = || thread::sleep(Duration::from_millis(5));
    let calm = part(&machines, ("calm", Mix::All), |_| pause());
    assert!(calm.is_empty(), "{calm:?}");
    let killed = part(&machines, ("killed", Mix::All), |rng| {
        thread::sleep(Duration::from_millis(rng.u64(50..300)));
        machines.restart(rng.usize(..NODES));
    });
    assert!(killed.is_empty(), "{killed:?}");
    machines.wait_for_all();
    // Nothing is promised here but that one at most is acknowledged.
    let _ = part(&machines, ("parted", Mix::Conditions), |rng| {
        let which = rng.usize(..NODES);
        match rng.u8(..4) {
            0 => machines.cut_off(which),
            1 => machines.cut(which, (which + 1) % NODES),
            2 => machines.lose(which, 20),
            _ => machines.signal(which, "STOP"),
        }
        thread::sleep(Duration::from_millis(rng.u64(300..1500)));
        machines.signal(which, "CONT");
        machines.heal();
        thread::sleep(Duration::from_millis(rng.u64(0..500)));
    });
    machines.wait_for_all();
}
