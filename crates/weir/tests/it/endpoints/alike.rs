//! Endpoints are compared by what they have in common: nobody is left for what is asked of him alone.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::status_of;
use crate::harness::client::{self, Connection};
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Gateway, forward_everything, wait_until};

const FOR_GOOD: &str = "ejection = { eject_for = \"1h\", eject_for_max = \"1h\" }\n";

/// A replica of a service: `/poll` waits until it is told, requests with the key `bad` fail, `/healthz` says how it is, and
/// everything else is answered at once, while it does not hang.
struct Replica {
    origin: Origin,
    inside: Arc<Inside>,
}

#[derive(Default)]
struct Inside {
    hangs: AtomicBool,
    /// Instead of 200.
    status: AtomicU16,
    is_ill: AtomicBool,
    /// Requests that wait, and those with the bad key, ever.
    waiting: AtomicUsize,
    bad: AtomicUsize,
    told: Mutex<bool>,
    is_told: Condvar,
}

impl Replica {
    fn start() -> Self {
        let inside = Arc::new(Inside::default());
        let handler = Arc::clone(&inside);
        let origin = Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                handler.answer(&mut peer, &head);
            }
        });
        Self { origin, inside }
    }

    fn waiting(&self) -> usize {
        self.inside.waiting.load(Ordering::SeqCst)
    }

    /// All that wait may go on.
    fn tell(&self) {
        *self.inside.told.lock().expect("no handler panics") = true;
        self.inside.is_told.notify_all();
    }
}

impl Inside {
    fn answer(&self, peer: &mut Peer, head: &str) {
        let is_check = head.starts_with("GET /healthz ");
        if head.starts_with("GET /poll ") || (self.hangs.load(Ordering::SeqCst) && !is_check) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let told = self.told.lock().expect("no handler panics");
            let waited = self.is_told.wait_while(told, |told| !*told);
            drop(waited.expect("no handler panics"));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        let is_bad = head.to_ascii_lowercase().contains("\r\nx-key: bad\r\n");
        let status = match self.status.load(Ordering::SeqCst) {
            _ if is_check => 200 + 300 * u16::from(self.is_ill.load(Ordering::SeqCst)),
            _ if is_bad => 500,
            0 => 200,
            status => status,
        };
        self.bad.fetch_add(usize::from(is_bad), Ordering::SeqCst);
        peer.send(format!("HTTP/1.1 {status} \r\nContent-Length: 2\r\n\r\nok"));
    }
}

fn gateway(replicas: &[Replica], upstream_keys: &str) -> Gateway {
    let addresses: Vec<SocketAddr> = replicas.iter().map(|it| it.origin.address).collect();
    let forward = forward_everything(&addresses, upstream_keys);
    Gateway::start(&format!("[server]\nworkers = 1\n{forward}"))
}

fn send(gateway: &Gateway, path: &str) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    connection
}

fn ejections(gateway: &Gateway, replicas: &[Replica]) -> u64 {
    let of = |replica: &Replica| {
        let status = status_of(gateway, replica.origin.address);
        status["place"]["ejections"]
            .as_u64()
            .expect("it is watched")
    };
    replicas.iter().map(of).sum()
}

#[test]
fn who_is_waited_for_by_long_polls_stays() {
    let replicas = [(); 3].map(|()| Replica::start());
    let gateway = gateway(&replicas, FOR_GOOD);
    let mut quick = Connection::open(gateway.address);
    for _ in 0..30 {
        assert_eq!(quick.get("/").status, 200);
    }
    let until = Instant::now() + Duration::from_secs(3);
    let mut polls = Vec::new();
    while Instant::now() < until {
        polls.push(send(&gateway, "/poll"));
        if polls.len().is_multiple_of(10) {
            assert_eq!(quick.get("/").status, 200);
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    assert_eq!(ejections(&gateway, &replicas), 0);
    replicas.iter().for_each(Replica::tell);
    for poll in &mut polls {
        assert_eq!(poll.response().status, 200);
    }
}

/// Most requests are of one key, whose answers are bad wherever they come from.
#[test]
fn who_has_the_key_that_fails_stays() {
    let replicas = [(); 3].map(|()| Replica::start());
    let hash = format!("balance = \"hash\"\nhash_on = \"header:x-key\"\n{FOR_GOOD}");
    let gateway = gateway(&replicas, &hash);
    let mut connection = Connection::open(gateway.address);
    for number in 0..1_000 {
        let key = if number % 10 < 8 {
            "bad".to_owned()
        } else {
            format!("k{number}")
        };
        connection.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nX-Key: {key}\r\n\r\n"
        ));
        let status = connection.response().status;
        assert_eq!(status, if key == "bad" { 500 } else { 200 });
    }
    let bad = replicas
        .each_ref()
        .map(|it| it.inside.bad.load(Ordering::SeqCst));
    assert!(bad.contains(&800), "{bad:?}");
    assert_eq!(ejections(&gateway, &replicas), 0);
}

/// One client in step with the turn of two: what it writes comes to one of them, what it reads to the other.
#[test]
fn who_gets_the_requests_that_fail_by_turns_stays() {
    let replicas = [(); 2].map(|()| Replica::start());
    let gateway = gateway(&replicas, FOR_GOOD);
    let mut connection = Connection::open(gateway.address);
    for number in 0..400 {
        let (method, key, status) = [("GET", "good", 200), ("DELETE", "bad", 500)][number % 2];
        connection.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nX-Key: {key}\r\n\r\n"
        ));
        assert_eq!(connection.response().status, status);
    }
    assert_eq!(ejections(&gateway, &replicas), 0);
}

#[test]
fn who_fails_as_often_as_the_others_stays() {
    let replicas = [(); 4].map(|()| Replica::start());
    let gateway = gateway(&replicas, FOR_GOOD);
    let mut connection = Connection::open(gateway.address);
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..4_000 {
        let key = if random.f64() < 0.35 { "bad" } else { "good" };
        connection.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nX-Key: {key}\r\n\r\n"
        ));
        let status = connection.response().status;
        assert_eq!(status, if key == "bad" { 500 } else { 200 });
    }
    assert_eq!(ejections(&gateway, &replicas), 0);
}

/// Whoever hangs is found though nobody is asked any more, and what it holds is for the others.
#[test]
fn who_hangs_and_is_taken_out_holds_no_places() {
    let replicas = [(); 2].map(|()| Replica::start());
    let [hangs, works] = &replicas;
    let limit = format!("concurrency = {{ limit = 8, queue = 0 }}\n{FOR_GOOD}");
    let gateway = gateway(&replicas, &limit);
    let mut quick = Connection::open(gateway.address);
    for _ in 0..30 {
        assert_eq!(quick.get("/").status, 200);
    }
    hangs.inside.hangs.store(true, Ordering::SeqCst);
    let mut asked: Vec<_> = (0..12).map(|_| send(&gateway, "/")).collect();
    wait_until("it is out", || {
        // It has six places of eight at most: there are always some to ask the other one with.
        asked.push(send(&gateway, "/"));
        ejections(&gateway, &replicas) == 1
    });
    let held = hangs.waiting();
    assert!((3..=6).contains(&held), "{held}");
    let mut quick = Connection::open(gateway.address);
    let in_flight = || {
        let status = client::ask_admin(gateway.admin, "/status").text();
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["upstreams"][0]["concurrency"]["in_flight"].clone()
    };
    wait_until("its places are free", || in_flight() == 0);
    let mut polls: Vec<_> = (0..8).map(|_| send(&gateway, "/poll")).collect();
    wait_until("all eight places are the other's", || works.waiting() == 8);
    assert_eq!(quick.get("/").status, 503);

    // What comes back was given up before, and gives nothing back.
    hangs.tell();
    wait_until("nobody waits there", || hangs.waiting() == 0);
    let answered = asked
        .iter_mut()
        .filter_map(|it| match it.response().status {
            200 => Some(()),
            status => (status != 503).then(|| panic!("{status}")),
        });
    assert!(answered.count() >= held);
    assert_eq!(in_flight(), 8);
    assert_eq!(quick.get("/").status, 503);
    works.tell();
    assert!(polls.iter_mut().all(|it| it.response().status == 200));
    wait_until("all places are free", || in_flight() == 0);
}

#[test]
fn who_stands_out_goes_before_who_is_down() {
    let replicas = [(); 2].map(|()| Replica::start());
    let [fails, is_down] = &replicas;
    let health = "health = { path = \"/healthz\", interval = \"100ms\", rise = 2, fall = 2 }\n";
    let gateway = gateway(&replicas, &format!("{health}{FOR_GOOD}"));
    let mut connection = Connection::open(gateway.address);
    fails.inside.status.store(500, Ordering::SeqCst);
    wait_until("it is out", || {
        let _ = connection.get("/");
        ejections(&gateway, &replicas) == 1
    });
    assert_eq!(connection.get("/").status, 200);
    is_down.inside.is_ill.store(true, Ordering::SeqCst);
    wait_until("the other one is down", || {
        status_of(&gateway, is_down.origin.address)["up"] == false
    });
    for _ in 0..10 {
        assert_eq!(connection.get("/").status, 500);
    }
}
