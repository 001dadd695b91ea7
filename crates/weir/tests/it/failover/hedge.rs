//! A second copy of a request, sent when the first is late: who answers, what it may cost, and what is left behind.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::{nothing_is_left, ok, one_worker};
use crate::harness::client::Connection;
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Gateway, wait_until};

const EJECTIONS: &str = "weir_endpoint_ejections_total";
const HEDGE: &str = "hedge = { min = \"5ms\" }\n";
/// Answers after which it is known how long answers take: a hundred, and as many as may pass before that is looked at.
const WARM_UP: usize = 200;
/// Long after a second copy is due.
const LONG: Duration = Duration::from_millis(60);

/// Two origins that count together the requests that are not for `/`, from 0. `/` is answered at once, the others as `act`
/// does it, and the connection ends when it says so.
struct Pair {
    origins: [Origin; 2],
    doors: Arc<Doors>,
}

impl Pair {
    fn start(act: impl Fn(&mut Peer, usize, &Doors) -> bool + Send + Sync + 'static) -> Self {
        let (arrivals, act) = (Arc::<AtomicUsize>::default(), Arc::new(act));
        let doors = Arc::<Doors>::default();
        let origins = [(); 2].map(|()| {
            let (arrivals, act) = (Arc::clone(&arrivals), Arc::clone(&act));
            let doors = Arc::clone(&doors);
            Origin::start(move |mut peer, _| {
                while let Some(head) = peer.head() {
                    if head.starts_with("GET / ") {
                        peer.send(ok("warm"));
                    } else {
                        let number = arrivals.fetch_add(1, Ordering::SeqCst);
                        doors.open(Door::Arrived(number));
                        if !act(&mut peer, number, &doors) {
                            return;
                        }
                    }
                }
            })
        });
        Self { origins, doors }
    }

    /// A gateway in front of them that knows how long answers take.
    fn gateway(&self, upstream_keys: &str, route_keys: &str) -> Gateway {
        let servers = [self.origins[0].address, self.origins[1].address];
        let gateway = one_worker(&servers, upstream_keys, &format!("{HEDGE}{route_keys}"));
        let mut connection = Connection::open(gateway.address);
        for _ in 0..WARM_UP {
            assert_eq!(connection.get("/").text(), "warm");
        }
        gateway
    }

    /// The heads of requests that were not for `/`.
    fn heads(&self) -> Vec<String> {
        let heads = self.origins.iter().flat_map(Origin::heads);
        heads.filter(|head| !head.starts_with("GET / ")).collect()
    }
}

/// What origins and tests wait for each other at.
#[derive(Default)]
struct Doors {
    open: Mutex<HashSet<Door>>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Door {
    /// The request of this number is here.
    Arrived(usize),
    /// Its connection was closed by the gateway.
    Closed(usize),
    /// The request of this number may be answered.
    Answer(usize),
}

impl Doors {
    fn open(&self, door: Door) {
        self.open.lock().expect("nobody panics").insert(door);
        self.changed.notify_all();
    }

    fn wait(&self, door: Door) {
        let open = self.open.lock().expect("nobody panics");
        let wait = self
            .changed
            .wait_timeout_while(open, crate::harness::PATIENCE, |open| !open.contains(&door));
        let (open, _) = wait.expect("nobody panics");
        assert!(open.contains(&door), "in vain waited for {door:?}");
    }
}

/// Answers nothing until the gateway closes.
fn hang(peer: &mut Peer, number: usize, doors: &Doors) -> bool {
    assert!(
        peer.head().is_none(),
        "nothing follows an unanswered request"
    );
    doors.open(Door::Closed(number));
    false
}

fn hold(peer: &mut Peer, number: usize, doors: &Doors) -> bool {
    doors.wait(Door::Answer(number));
    peer.send(ok(&number.to_string()));
    true
}

fn send(gateway: &Gateway, request: &str) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(request);
    connection
}

const GET: &str = "GET /x HTTP/1.1\r\nHost: test\r\n\r\n";

/// One of twenty answers of one of two servers never comes: nobody notices.
#[test]
fn a_server_that_stalls_now_and_then_is_overtaken() {
    let (stalled, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let good = Origin::saying("127.0.0.1:0".parse().expect("an address"), "good");
    let bad = {
        let (stalled, closed) = (Arc::clone(&stalled), Arc::clone(&closed));
        let asked = AtomicUsize::new(0);
        Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                let is_stalled =
                    head.starts_with("GET /x ") && asked.fetch_add(1, Ordering::SeqCst) % 20 == 19;
                if is_stalled {
                    stalled.fetch_add(1, Ordering::SeqCst);
                    assert!(peer.head().is_none(), "it is given up");
                    closed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                peer.send(ok("bad"));
            }
        })
    };
    // To be overtaken is no failure, or it would not be asked any more.
    let breaker = "breaker = { consecutive = 1, open_for = \"60s\" }\n";
    let gateway = one_worker(&[good.address, bad.address], breaker, HEDGE);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..WARM_UP {
        assert_eq!(connection.get("/").status, 200);
    }
    for _ in 0..400 {
        assert_eq!(connection.get("/x").status, 200);
    }
    let count = stalled.load(Ordering::SeqCst);
    assert!(count >= 5, "it stalled {count} times");
    wait_until("what was overtaken is given up", || {
        closed.load(Ordering::SeqCst) == count
    });
    nothing_is_left(&gateway);
    let copies = gateway.metric("weir_upstream_hedges_total") as usize;
    // A fifth of all requests, and thirty.
    assert!((count..=140).contains(&copies), "{copies} copies");
    assert!(gateway.metric("weir_upstream_hedges_won_total") > 0);
}

/// A server that never answers is not hidden by those that overtake it: it is left out all the same.
#[test]
fn a_server_that_hangs_is_found_while_it_is_overtaken() {
    let origins =
        ["one", "two"].map(|name| Origin::saying("127.0.0.1:0".parse().expect("an address"), name));
    let hanging = Origin::start(|mut peer, _| {
        while peer.head().is_some_and(|head| head.starts_with("GET / ")) {
            peer.send(ok("warm"));
        }
        while peer.head().is_some() {}
    });
    let servers = [origins[0].address, origins[1].address, hanging.address];
    let gateway = one_worker(&servers, "ejection = true\n", HEDGE);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..WARM_UP {
        assert_eq!(connection.get("/").status, 200);
    }
    let mut waiting = Vec::new();
    wait_until("it is left out", || {
        waiting.extend([(); 2].map(|()| send(&gateway, GET)));
        gateway.metric(EJECTIONS) > 0
    });
    let endpoint = format!("upstream=\"app\",endpoint=\"{}\"", hanging.address);
    assert_eq!(gateway.metric(&format!("{EJECTIONS}{{{endpoint}")), 1);
}

/// When everything is slow, copies stop instead of doubling the load.
#[test]
fn copies_are_paid_from_the_budget() {
    let pair = Pair::start(hold);
    let six = "retry_budget = { ratio = 0.0, min_per_s = 0.1, ttl = \"60s\" }\n";
    let gateway = pair.gateway(six, "");
    let sent = || gateway.metric("weir_upstream_hedges_total");
    let decided = || sent() + gateway.metric("weir_upstream_retries_refused_total");
    // A warm-up on a machine that has much to do may have needed some.
    let (sent_before, decided_before) = (sent(), decided());
    let mut waiting: Vec<_> = (0..20).map(|_| send(&gateway, GET)).collect();
    wait_until("all were late", || decided() == decided_before + 20);
    assert_eq!(sent(), 6);
    let copies = 6 - sent_before as usize;
    pair.doors.wait(Door::Arrived(20 + copies - 1));
    (0..26).for_each(|number| pair.doors.open(Door::Answer(number)));
    for connection in &mut waiting {
        assert_eq!(connection.response().status, 200);
    }
    nothing_is_left(&gateway);
    assert_eq!(pair.heads().len(), 20 + copies);
}

/// A copy takes a place in the upstream, and gives it back whoever answers.
#[test]
fn a_copy_takes_a_place_of_the_upstream_if_there_is_one() {
    let pair = Pair::start(|peer, number, doors| {
        if number % 2 == 0 {
            return hang(peer, number, doors);
        }
        peer.send(ok("second"));
        true
    });
    let gateway = pair.gateway("concurrency = 2\n", "");
    for number in (0..20).step_by(2) {
        let mut connection = send(&gateway, GET);
        assert_eq!(connection.response().text(), "second");
        pair.doors.wait(Door::Closed(number));
    }
    nothing_is_left(&gateway);

    let pair = Pair::start(hold);
    let gateway = pair.gateway("concurrency = 1\n", "");
    let mut connection = send(&gateway, GET);
    pair.doors.wait(Door::Arrived(0));
    std::thread::sleep(LONG);
    pair.doors.open(Door::Answer(0));
    assert_eq!(connection.response().text(), "0");
    assert_eq!(pair.heads().len(), 1, "there was no place for another");
}

#[test]
fn a_client_that_leaves_ends_both_copies() {
    let pair = Pair::start(hang);
    let gateway = pair.gateway("", "");
    let connection = send(&gateway, GET);
    pair.doors.wait(Door::Arrived(1));
    drop(connection);
    pair.doors.wait(Door::Closed(0));
    pair.doors.wait(Door::Closed(1));
    nothing_is_left(&gateway);
}
