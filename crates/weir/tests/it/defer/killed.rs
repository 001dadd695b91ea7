//! The process is killed again and again, while it accepts and while it delivers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Queued;
use super::sink::{Answer, Sink};
use crate::harness::{PATIENCE, wait_until};

/// Clients, each with a key of its own.
const CLIENTS: usize = 6;

/// Kills for each durability: a few, or as many as the environment says.
fn rounds() -> u32 {
    let said = std::env::var("WEIR_ROUNDS").ok();
    said.map_or(4, |said| said.parse().expect("WEIR_ROUNDS is a number"))
}

/// Numbers that were acknowledged, by client; and how many each client has sent.
#[derive(Default)]
struct Sent {
    acknowledged: BTreeSet<u64>,
    last: u64,
}

/// Sends one number after the other, until it is told to stop. What is not answered is not sent again.
fn send_all(address: SocketAddr, client: usize, sent: &Mutex<Sent>, is_over: &AtomicBool) {
    let mut connection: Option<TcpStream> = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(stream) = connection
            .take()
            .or_else(|| TcpStream::connect(address).ok())
        else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        let number = {
            let mut sent = sent.lock().expect("no client panics");
            sent.last += 1;
            sent.last
        };
        if post(&stream, client, number).is_some() {
            let mut sent = sent.lock().expect("no client panics");
            sent.acknowledged.insert(number);
            connection = Some(stream);
        }
    }
}

/// `Some` if it is acknowledged.
fn post(mut stream: &TcpStream, client: usize, number: u64) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let body = format!("{client} {number}");
    let length = body.len();
    let request =
        format!("POST /{client} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = [0; 1024];
    let mut length = 0;
    while !answer[..length].ends_with(b"}\n") {
        let read = stream.read(&mut answer[length..]).ok()?;
        if read == 0 {
            return None;
        }
        length += read;
    }
    answer.starts_with(b"HTTP/1.1 202").then_some(())
}

/// What was delivered of what was sent.
struct Delivered {
    acknowledged: usize,
    lost: usize,
    again: usize,
}

/// Waits until all is delivered, for as long as some is.
fn wait_for_all(queued: &Queued) {
    let waiting = || queued.status()["waiting"].as_u64().expect("a number");
    let mut left = waiting();
    while left > 0 {
        wait_until("more is delivered", || waiting() < left);
        left = waiting();
    }
}

fn killed(durability: &str) -> Delivered {
    let sink = Sink::answering(|delivered| {
        Answer(200, "", Duration::from_micros(delivered.offset % 7 * 300))
    });
    let route = "[[route]]\npath = \"/{client}\"\ndefer = { queue = \"events\", key = \"path:client\" }\nupstream = \"sink\"\n";
    let queue = format!("durability = \"{durability}\"\nsize = \"64MiB\"\nkeep = \"0s\"");
    let mut queued = Queued::start(&sink, &queue, route);
    let is_over = Arc::new(AtomicBool::new(false));
    let all: Vec<Arc<Mutex<Sent>>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let clients = all.iter().enumerate().map(|(client, sent)| {
        let (address, sent, is_over) = (queued.address(), Arc::clone(sent), Arc::clone(&is_over));
        std::thread::spawn(move || send_all(address, client, &sent, &is_over))
    });
    let clients: Vec<_> = clients.collect();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..rounds() {
        std::thread::sleep(Duration::from_millis(random.u64(20..200)));
        queued.restart();
    }
    std::thread::sleep(Duration::from_millis(100));
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no client panics");
    }
    wait_for_all(&queued);
    let mut first: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut again = 0;
    for body in sink.bodies() {
        let (client, number) = body.split_once(' ').expect("a client and a number");
        let (client, number) = (
            client.parse().expect("a client"),
            number.parse().expect("a number"),
        );
        if seen.insert((client, number)) {
            first.entry(client).or_default().push(number);
        } else {
            again += 1;
        }
    }
    let (mut acknowledged, mut lost) = (0, 0);
    for (client, sent) in all.iter().enumerate() {
        let sent = sent.lock().expect("no client panics");
        let delivered = first.remove(&client).unwrap_or_default();
        assert!(
            delivered.is_sorted(),
            "{durability}: the order of client {client}: {delivered:?}"
        );
        assert!(
            delivered
                .iter()
                .all(|number| (1..=sent.last).contains(number)),
            "none is invented"
        );
        let delivered: BTreeSet<u64> = delivered.into_iter().collect();
        acknowledged += sent.acknowledged.len();
        lost += sent.acknowledged.difference(&delivered).count();
    }
    assert!(first.is_empty(), "none is invented");
    assert!(acknowledged > 0);
    println!(
        "{durability}: {} kills, {acknowledged} acknowledged, {lost} of them lost, {again} delivered again",
        rounds()
    );
    Delivered {
        acknowledged,
        lost,
        again,
    }
}

#[test]
fn group_loses_nothing() {
    assert_eq!(killed("group").lost, 0);
}

#[test]
fn each_loses_nothing() {
    assert_eq!(killed("each").lost, 0);
}

#[test]
fn os_loses_nothing_to_a_kill() {
    assert_eq!(killed("os").lost, 0);
}

/// What it loses is what was acknowledged in its last moment.
#[test]
fn memory_loses_little() {
    let Delivered {
        acknowledged,
        lost,
        again,
    } = killed("memory");
    let bound = CLIENTS * rounds() as usize;
    assert!(lost <= bound, "{lost} of {acknowledged}, {again} again");
}
