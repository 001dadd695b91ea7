//! Crowds: many clients on two workers, origins that frame their bodies in every way, and fills that come to nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::{caching, patient};
use crate::harness::client::{Connection, get};
use crate::harness::origin::{Origin, Peer};

const WAITING: usize = 200;

/// A body that no other number has, longer than what one read brings.
fn body_of(number: usize) -> Vec<u8> {
    let bytes = (0..90_000 + 7 * number).map(|at| (at / 11 + number * 31) as u8);
    bytes.collect()
}

fn number_in(head: &str) -> usize {
    let digits = head.trim_start_matches("GET /").split(' ').next();
    digits
        .and_then(|digits| digits.parse().ok())
        .expect("a path that is a number")
}

/// Sends the body in chunks, with its length, or up to the end of the connection; half of them are not to be stored. Says
/// whether the connection goes on.
fn answer_in_its_own_way(peer: &mut Peer, number: usize) -> bool {
    let (body, control) = (body_of(number), ["max-age=60", "no-store"][number / 3 % 2]);
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\n");
    match number % 3 {
        0 => {
            peer.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
            for piece in body.chunks(10_000 + 37 * number) {
                peer.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            }
            peer.send("0\r\n\r\n");
        }
        1 => {
            peer.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
            peer.send(&body);
        }
        _ => {
            peer.send(format!("{head}Connection: close\r\n\r\n"));
            peer.send(&body);
        }
    }
    number % 3 < 2
}

#[test]
fn everybody_gets_the_body_that_was_asked_for() {
    const NUMBERS: usize = 12;
    const CLIENTS: usize = 48;
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if !answer_in_its_own_way(&mut peer, number_in(&head)) {
                return peer.close();
            }
        }
    });
    let gateway = caching(origin.address, "true");
    let (address, together) = (gateway.address, Arc::new(Barrier::new(CLIENTS)));
    in_crowd(CLIENTS, move |client| {
        let mut connection = Connection::open(address);
        for round in 0..NUMBERS {
            together.wait();
            // Two numbers at once, so that half of the clients meet in one fill.
            let number = (round + client % 2) % NUMBERS;
            let response = connection.get(&format!("/{number}"));
            assert_eq!(response.status, 200);
            assert!(response.body == body_of(number), "the body of {number}");
            if response.field("transfer-encoding").is_none()
                && response.field("content-length").is_none()
            {
                connection = Connection::open(address);
            }
        }
    });
    let mut asked = [0; NUMBERS];
    for head in origin.heads() {
        asked[number_in(&head)] += 1;
    }
    for (number, count) in asked.into_iter().enumerate() {
        let is_stored = number / 3 % 2 == 0;
        assert!(!is_stored || count == 1, "{number} of {asked:?}");
    }
}

#[test]
fn an_answer_that_is_not_for_others_releases_all_who_waited_at_once() {
    // All but the first are answered when the last of them has asked: behind each other they would wait for ever.
    let others = Arc::new(Barrier::new(WAITING - 1));
    let asked = Arc::new(AtomicUsize::new(0));
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                let _ = wait.lock().expect("one at a time").recv();
            } else {
                others.wait();
            }
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 3\r\n\r\nown");
        }
    });
    let gateway = patient(origin.address);
    let address = gateway.address;
    let crowd = thread::spawn(move || {
        in_crowd(WAITING, move |_| {
            assert_eq!(get(address, "/").text(), "own");
        });
    });
    gateway.wait_for_metric("weir_cache_waits_total", WAITING as u64 - 1);
    go.send(()).expect("the origin waits");
    crowd.join().expect("all are answered");
    assert_eq!(origin.heads_waiting(), WAITING);
}

#[test]
fn an_origin_that_fails_is_asked_twice_for_all_who_wait() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        if peer.head().is_some() {
            let _ = wait.lock().expect("one at a time").recv();
            peer.send("nonsense\r\n\r\n");
        }
    });
    let gateway = patient(origin.address);
    let address = gateway.address;
    let crowd = thread::spawn(move || {
        in_crowd(WAITING, move |_| {
            assert_eq!(get(address, "/").status, 502);
        });
    });
    let waits = WAITING as u64 - 1;
    gateway.wait_for_metric("weir_cache_waits_total", waits);
    go.send(()).expect("the origin waits");
    // One of those who waited asks again, and the others wait for that.
    gateway.wait_for_metric("weir_cache_waits_total", waits + waits - 1);
    go.send(()).expect("the origin waits");
    crowd.join().expect("all are answered");
    assert_eq!(origin.heads_waiting(), 2);
}

#[test]
fn a_body_that_breaks_off_is_whole_for_nobody() {
    const READING: usize = 20;
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        peer.head();
        peer.send(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        peer.send("4\r\nhalf\r\n");
        if number == 0 {
            let _ = wait.lock().expect("one at a time").recv();
        } else {
            peer.send("5\r\nwhole\r\n0\r\n\r\n");
        }
        peer.close();
    });
    let gateway = caching(origin.address, "true");
    let address = gateway.address;
    let mut readers: Vec<_> = (0..READING).map(|_| Connection::open(address)).collect();
    for reader in &mut readers {
        reader.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        reader.until(b"4\r\nhalf\r\n");
    }
    go.send(()).expect("the origin waits");
    for mut reader in readers {
        assert_eq!(reader.rest().escape_ascii().to_string(), "");
    }
    assert_eq!(get(address, "/").text(), "halfwhole");
    assert_eq!(get(address, "/").text(), "halfwhole");
    assert_eq!(origin.heads_waiting(), 2);
}

/// Runs so many clients at once, each with its number, until all are done.
fn in_crowd(clients: usize, run: impl Fn(usize) + Send + Sync + 'static) {
    let run = Arc::new(run);
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let run = Arc::clone(&run);
            thread::spawn(move || run(client))
        })
        .collect();
    for client in clients {
        client.join().expect("every client gets what it asked for");
    }
}

#[test]
fn a_crowd_waits_for_what_is_not_asked_for_often_enough_yet() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                let _ = wait.lock().expect("one at a time").recv();
            }
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx");
        }
    });
    let gateway = caching(origin.address, "{ min_uses = 2, collapse_wait = \"1m\" }");
    let address = gateway.address;
    let clients: Vec<_> = (0..WAITING)
        .map(|_| thread::spawn(move || get(address, "/").text()))
        .collect();
    gateway.wait_for_metric("weir_cache_waits_total", WAITING as u64 - 1);
    go.send(()).expect("the origin waits");
    for client in clients {
        assert_eq!(client.join().expect("it is answered"), "x");
    }
    assert_eq!(origin.heads_waiting(), 2, "the second answer is stored");
}

#[test]
fn variants_that_come_and_go_keep_no_worker() {
    // By which field the origin chooses differs from answer to answer, and its bodies take their time.
    const SLOW: usize = 4;
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        while peer.head().is_some() {
            let vary = ["Accept-Encoding", "Origin"][number % 2];
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: {vary}\r\nContent-Length: 4\r\n\r\nha"
            ));
            if number < SLOW {
                let _ = wait.lock().expect("one at a time").recv();
            }
            peer.send("lf");
        }
    });
    let gateway = caching(origin.address, "true");
    let ask = |coding: &str, site: &str| {
        let mut connection = Connection::open(gateway.address);
        connection.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\nOrigin: https://{site}\r\n\r\n"
        ));
        connection.until(b"\r\n\r\nha");
        connection
    };
    // Each learns from those before it which variant it wants, and finds nobody who asks for that.
    let slow = [("gzip", "a"), ("br", "b"), ("br", "c"), ("zstd", "d")];
    let slow = slow.map(|(coding, site)| ask(coding, site));
    assert_eq!(origin.heads_waiting(), SLOW);
    // This one is sent from each of the last three to another one of them.
    let mut last = ask("zstd", "c");
    assert_eq!(last.exactly(2), b"lf");
    drop((slow, go));
    // Both workers still turn.
    for _ in 0..8 {
        assert_eq!(get(gateway.address, "/").text(), "half");
    }
}
