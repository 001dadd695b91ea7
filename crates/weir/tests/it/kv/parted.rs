//! Three nodes on machines of their own, whose network fails in every way while clients write: one is cut off, in one direction or in
//! both, loses packets, is slow, comes and goes, or stands still. What was acknowledged by a quorum is there, no read goes back
//! behind it, and when all is well again the replicas are the same.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::machines::{Client, Machines};
use crate::harness::wait_until;

const NODES: usize = 3;
/// Clients of each node, each with keys of its own.
const CLIENTS: usize = 2;
const KEYS: usize = 40;
/// How long something is broken: longer than a node may be silent before it is taken for down.
const BROKEN: Duration = Duration::from_millis(1500);
/// Writes that the clients of a node which is well have to get through meanwhile.
const GO_ON: u64 = 25;
/// Younger writes are not compared by a repair.
const SETTLED: Duration = Duration::from_secs(5);

/// What goes wrong with one machine.
#[derive(Debug, Clone, Copy)]
enum Fault {
    CutOff,
    /// Nothing reaches it.
    Deaf,
    /// Nothing that it sends arrives.
    Mute,
    /// Another one does not hear it.
    Unheard,
    Lossy,
    Slow,
    SlowAndLossy,
    Flapping,
    Stopped,
}

const FAULTS: [Fault; 9] = [
    Fault::CutOff,
    Fault::Deaf,
    Fault::Mute,
    Fault::Unheard,
    Fault::Lossy,
    Fault::Slow,
    Fault::SlowAndLossy,
    Fault::Flapping,
    Fault::Stopped,
];

/// Each of them once and then two at once; or as often as the environment says, each time beginning at other machines.
fn rounds() -> u64 {
    let said = std::env::var("WEIR_ROUNDS").ok();
    said.map_or(1, |said| said.parse().expect("WEIR_ROUNDS is a number"))
}

/// What a client knows of a key that nobody else writes. A write is a number; every fifth one is a deletion.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The last number that was acknowledged or read.
    least: u64,
    /// The last one that was sent.
    sent: u64,
}

fn is_deletion(number: u64) -> bool {
    number.is_multiple_of(5)
}

impl Known {
    /// Whether a key may have this value, or none. What is found is known from then on.
    fn finds(&mut self, found: Option<u64>) -> bool {
        let mut since = self.least..=self.sent;
        let number = match found {
            Some(number) if is_deletion(number) => None,
            Some(number) => Some(number).filter(|it| since.contains(it)),
            // The first deletion that it may be; 0 is one, as nothing was ever written.
            None => since.find(|it| is_deletion(*it)),
        };
        self.least = self.least.max(number.unwrap_or_default());
        number.is_some()
    }
}

/// All that the clients of a test do.
#[derive(Default)]
struct Load {
    known: Vec<Mutex<Vec<Known>>>,
    /// Writes that were acknowledged, by the machine of the client.
    acknowledged: [AtomicU64; NODES],
    unknown: AtomicU64,
    reads: AtomicU64,
    wrong: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

fn key(client: usize, key: usize) -> String {
    format!("c{client}k{key:02}")
}

/// Ends the clients, also when something fails.
struct Ends<'l>(&'l Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// One request after the other, until it is over. Keys with an even number are written by `/v0`, the others by `/v1`.
fn work(load: &Load, client: usize) {
    let machine = client % NODES;
    let mut connection = Client::default();
    let mut rng = fastrand::Rng::with_seed(client as u64);
    while !load.is_over.load(Ordering::Relaxed) {
        let number = rng.usize(..KEYS);
        let (name, is_v0) = (key(client, number), number.is_multiple_of(2));
        let target = if is_v0 {
            format!("/v0/entity?id={name}")
        } else {
            format!("/v1/kv/{name}")
        };
        // Nobody else has this client's keys.
        let mut known = load.known[client].lock().expect("no client panics");
        let known = &mut known[number];
        if rng.u8(..3) == 0 {
            let told = connection.ask("GET", &target, "", "");
            let told = told.expect("the node of this machine runs");
            let found = match told.status {
                200 => Some(told.body.trim_end_matches(';').parse().expect("a number")),
                404 => None,
                status => {
                    assert!([503, 504].contains(&status), "{status} {}", told.body);
                    continue;
                }
            };
            load.reads.fetch_add(1, Ordering::Relaxed);
            let before = (known.least, known.sent);
            if !known.finds(found) {
                let mut wrong = load.wrong.lock().expect("no client panics");
                wrong.push(format!("{name} read as {found:?} by {machine}: {before:?}"));
            }
            continue;
        }
        known.sent += 1;
        let (method, body) = if is_deletion(known.sent) {
            ("DELETE", String::new())
        } else {
            // An end that no other value has.
            ("PUT", format!("{};", known.sent))
        };
        let told = connection.ask(method, &target, "", &body);
        let told = told.expect("the node of this machine runs");
        match told.status {
            201 | 202 | 204 => {
                known.least = known.sent;
                load.acknowledged[machine].fetch_add(1, Ordering::Relaxed);
            }
            503 | 504 => {
                load.unknown.fetch_add(1, Ordering::Relaxed);
            }
            status => panic!("{status} {}", told.body),
        }
    }
}

/// Has something go wrong with a machine.
fn begin(machines: &Machines, fault: Fault, which: usize) {
    let next = (which + 1) % NODES;
    match fault {
        Fault::CutOff => machines.cut_off(which),
        Fault::Deaf => others(which).for_each(|other| machines.cut(other, which)),
        Fault::Mute => others(which).for_each(|other| machines.cut(which, other)),
        Fault::Unheard => machines.cut(which, next),
        Fault::Lossy => machines.lose(which, 25),
        Fault::Slow => machines.slow_down(which, 120),
        Fault::SlowAndLossy => {
            machines.slow_down(which, 40);
            machines.lose(next, 10);
        }
        Fault::Flapping => {
            for turn in 0..5 {
                machines.cut_off(which);
                thread::sleep(Duration::from_millis(100 + 300 * turn));
                machines.heal();
                thread::sleep(Duration::from_millis(150));
            }
        }
        Fault::Stopped => machines.signal(which, "STOP"),
    }
}

fn others(which: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |other| *other != which)
}

fn get_over(machines: &Machines) {
    (0..NODES).for_each(|machine| machines.signal(machine, "CONT"));
    machines.heal();
}

/// Breaks one thing for a while. The other nodes are a majority, and go on.
fn one_goes_wrong(machines: &Machines, load: &Load, fault: Fault, which: usize) {
    begin(machines, fault, which);
    let count = |machine: usize| load.acknowledged[machine].load(Ordering::Relaxed);
    let before: Vec<u64> = (0..NODES).map(count).collect();
    let began = Instant::now();
    for other in others(which) {
        wait_until("the others go on", || count(other) >= before[other] + GO_ON);
    }
    thread::sleep(BROKEN.saturating_sub(began.elapsed()));
    get_over(machines);
}

/// Breaks two things at once, on whatever machines. Nobody needs to go on.
fn two_go_wrong(machines: &Machines, rng: &mut fastrand::Rng) {
    for _ in 0..2 {
        let (fault, which) = (FAULTS[rng.usize(..FAULTS.len())], rng.usize(..NODES));
        println!("{fault:?} of {which}, and");
        begin(machines, fault, which);
    }
    thread::sleep(BROKEN);
    get_over(machines);
}

/// What a node itself has: no other one is asked.
fn own(machines: &Machines, machine: usize) -> BTreeMap<String, u64> {
    let told = machines.ask(machine, "GET", "/v0/entities?start=c&end=d", "", "");
    let told = told.expect("it runs").body;
    let entries = told.split_terminator(';').map(|entry| {
        let (key, number) = entry.split_once('\n').expect("a key and its value");
        (key.to_owned(), number.parse().expect("a number"))
    });
    entries.collect()
}

/// When nothing more is written: hints first, then repair, which then finds nothing that differs.
fn get_well(machines: &Machines) {
    machines.wait_for_all();
    let last_write = Instant::now();
    for machine in 0..NODES {
        wait_until("hints are taken", || machines.hints(machine) == 0);
    }
    thread::sleep((SETTLED + Duration::from_secs(1)).saturating_sub(last_write.elapsed()));
    let repairs = |told: &str| {
        (0..NODES)
            .map(|machine| machines.repair(machine))
            .inspect(|repair| {
                println!("{told}: {repair}");
                assert!(repair["missing"].is_null(), "{repair}");
                assert!(repair["compared"].as_u64() > Some(0), "{repair}");
            })
            .collect::<Vec<_>>()
    };
    repairs("repair");
    for repair in repairs("again") {
        for count in ["differed", "sent", "received"] {
            assert_eq!(repair[count], 0, "{repair}");
        }
    }
}

#[test]
fn no_fault_of_the_network_loses_what_a_quorum_acknowledged() {
    let machines = Machines::start(NODES);
    let load = Load {
        known: (0..CLIENTS * NODES)
            .map(|_| Mutex::new(vec![Known::default(); KEYS]))
            .collect(),
        ..Load::default()
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS * NODES {
            let (machines, load) = (&machines, &load);
            scope.spawn(move || {
                machines.enter(client % NODES);
                work(load, client);
            });
        }
        let _ends = Ends(&load);
        let mut rng = fastrand::Rng::with_seed(17);
        for _ in 0..rounds() {
            for fault in FAULTS {
                let which = rng.usize(..NODES);
                let (began, unknown) = (Instant::now(), load.unknown.load(Ordering::Relaxed));
                one_goes_wrong(&machines, &load, fault, which);
                let unknown = load.unknown.load(Ordering::Relaxed) - unknown;
                println!(
                    "{fault:?} of {which}: {:?}, {unknown} writes unknown",
                    began.elapsed()
                );
            }
            two_go_wrong(&machines, &mut rng);
        }
    });
    get_well(&machines);
    let found: Vec<_> = (0..NODES).map(|machine| own(&machines, machine)).collect();
    let mut wrong = load.wrong.into_inner().expect("no client panicked");
    for (client, known) in load.known.into_iter().enumerate() {
        let known = known.into_inner().expect("no client panicked");
        for (number, mut known) in known.into_iter().enumerate() {
            let (name, before) = (key(client, number), (known.least, known.sent));
            let found = found[0].get(&name).copied();
            if !known.finds(found) {
                wrong.push(format!("{name} is {found:?} in the end: {before:?}"));
            }
        }
    }
    let acknowledged = load.acknowledged.map(AtomicU64::into_inner);
    println!(
        "{} rounds, {acknowledged:?} writes acknowledged, {} unknown, {} reads, {} wrong",
        rounds(),
        load.unknown.into_inner(),
        load.reads.into_inner(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}
