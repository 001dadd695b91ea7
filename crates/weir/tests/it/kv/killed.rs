//! The process is killed again and again while clients write: what was acknowledged is there, and what was deleted stays so.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Node;
use crate::harness::{PATIENCE, wait_until};

/// Clients, each with keys of its own.
const CLIENTS: u64 = 4;
/// Keys of a client.
const KEYS: u64 = 8;

/// Kills for each durability: a few, or as many as the environment says.
fn rounds() -> u64 {
    let said = std::env::var("WEIR_ROUNDS").ok();
    said.map_or(4, |said| said.parse().expect("WEIR_ROUNDS is a number"))
}

/// What a client knows of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The last number that was acknowledged; an odd one is a deletion.
    acknowledged: u64,
    /// The last one that was sent. What is between the two may be there or not.
    sent: u64,
}

/// Puts and deletes in turn, until it is told to stop or nobody answers.
fn write_all(node: &Node, client: u64, known: &Mutex<Vec<Known>>, is_over: &AtomicBool) {
    let Ok(stream) = TcpStream::connect(node.address) else {
        return;
    };
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let key = turn % KEYS;
        let number = {
            let mut known = known.lock().expect("no client panics");
            known[key as usize].sent += 1;
            known[key as usize].sent
        };
        let (method, body, status) = if number % 2 == 1 {
            ("DELETE", String::new(), 202)
        } else {
            ("PUT", number.to_string(), 201)
        };
        let length = body.len();
        let request = format!(
            "{method} /v0/entity?id=c{client}k{key} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let Some(answered) = ask(&stream, &request) else {
            return;
        };
        assert_eq!(answered, status);
        known.lock().expect("no client panics")[key as usize].acknowledged = number;
    }
}

/// The status of an answer without content; `None` when the node is gone before that.
fn ask(mut stream: &TcpStream, request: &str) -> Option<u16> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    head.split(' ').nth(1)?.parse().ok()
}

/// Kills a node while clients write; how many writes were acknowledged, and how many of these are lost.
fn kill_often(durability: &str) -> (u64, u64) {
    let mut node = Node::alone(&format!(", durability = \"{durability}\""));
    let clients: Vec<Mutex<Vec<Known>>> = (0..CLIENTS)
        .map(|_| Mutex::new(vec![Known::default(); KEYS as usize]))
        .collect();
    let (mut acknowledged, mut lost) = (0, 0);
    for round in 0..rounds() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (client, known) in (0..).zip(&clients) {
                let (node, is_over) = (&node, &is_over);
                scope.spawn(move || write_all(node, client, known, is_over));
            }
            std::thread::sleep(Duration::from_millis(60 + round % 7 * 10));
            node.process.signal("KILL");
        });
        node.restart();
        for (client, known) in (0..).zip(&clients) {
            let mut known = known.lock().expect("no client panics");
            for (key, known) in (0..).zip(known.iter_mut()) {
                let found = node.get(&format!("c{client}k{key}"));
                // A value says which write it is; an absence may be any deletion.
                let number: Option<u64> = (found.status == 200)
                    .then(|| found.text().parse().expect("a number that was put"));
                let is_sound = match number {
                    Some(number) => (known.acknowledged..=known.sent).contains(&number),
                    None => {
                        known.acknowledged % 2 == 1
                            || known.sent > known.acknowledged
                            || known.sent == 0
                    }
                };
                lost += u64::from(!is_sound);
                acknowledged += 1;
                // From here on, what is there is what is known.
                known.sent += known.sent % 2;
                let next = known.sent + 2;
                assert_eq!(
                    node.put(&format!("c{client}k{key}"), next.to_string().as_bytes()),
                    201
                );
                *known = Known {
                    acknowledged: next,
                    sent: next,
                };
            }
        }
    }
    let totals: u64 = clients
        .iter()
        .flat_map(|known| known.lock().expect("no client panics").clone())
        .map(|known| known.acknowledged)
        .sum();
    println!(
        "{durability}: {} kills, {totals} writes, {acknowledged} keys looked at, {lost} wrong",
        rounds()
    );
    (totals, lost)
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for durability in ["os", "group", "each"] {
        let (acknowledged, lost) = kill_often(durability);
        assert!(acknowledged > 100, "{durability}: {acknowledged}");
        assert_eq!(lost, 0, "{durability}");
    }
}

#[test]
fn without_durability_a_node_comes_back_all_the_same() {
    let (acknowledged, _) = kill_often("memory");
    assert!(acknowledged > 100, "{acknowledged}");
}

/// The last number of each key that was acknowledged, and the last that was sent.
type Puts = Mutex<Vec<(u64, u64)>>;

/// Puts one number after the other to the keys of a client, at one node after the other, until it is told to stop.
fn put_all(nodes: &[SocketAddr], client: usize, puts: &Puts, is_over: &AtomicBool) {
    let mut connections: Vec<Option<TcpStream>> = nodes.iter().map(|_| None).collect();
    for turn in client.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let (node, key) = (turn % nodes.len(), turn % KEYS as usize);
        let connection = &mut connections[node];
        let stream = connection
            .take()
            .or_else(|| TcpStream::connect(nodes[node]).ok());
        let Some(stream) = stream else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let number = {
            let mut puts = puts.lock().expect("no client panics");
            puts[key].1 += 1;
            puts[key].1
        };
        let body = number.to_string();
        let length = body.len();
        let request = format!(
            "PUT /v0/entity?id=c{client}k{key} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        // What is not acknowledged may be there or not. The rest of such an answer is not read.
        if ask(&stream, &request) == Some(201) {
            puts.lock().expect("no client panics")[key].0 = number;
            *connection = Some(stream);
        }
    }
}

/// Nodes of three are killed and come back while clients write at all of them: with two of three, nothing that was acknowledged is
/// lost, and nothing older comes back. In the end all three have the same.
#[test]
fn a_quorum_loses_nothing_that_it_acknowledged() {
    let mut nodes = Node::several(3);
    super::cluster::wait_for(&nodes);
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let clients: Vec<Puts> = (0..CLIENTS)
        .map(|_| Mutex::new(vec![(0, 0); KEYS as usize]))
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (client, puts) in clients.iter().enumerate() {
            let (addresses, is_over) = (&addresses, &is_over);
            scope.spawn(move || put_all(addresses, client, puts, is_over));
        }
        let mut rng = fastrand::Rng::with_seed(17);
        for _ in 0..2 * rounds() {
            std::thread::sleep(Duration::from_millis(rng.u64(50..200)));
            let which = rng.usize(..nodes.len());
            nodes[which].kill();
            std::thread::sleep(Duration::from_millis(rng.u64(0..150)));
            nodes[which].restart();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    super::cluster::wait_for(&nodes);
    let mut total = 0;
    for (client, puts) in clients.iter().enumerate() {
        for (key, (acknowledged, sent)) in puts.lock().expect("no client panics").iter().enumerate()
        {
            let key = format!("c{client}k{key}");
            total += acknowledged;
            let read = |node: &Node| -> u64 {
                let found = node
                    .value(&key)
                    .unwrap_or_else(|status| panic!("{key}: {status}"));
                found.parse().expect("a number that was put")
            };
            let found = nodes.iter().map(read).collect::<Vec<_>>();
            assert!(
                (acknowledged..=sent).contains(&&found[0]),
                "{key}: {found:?}, {acknowledged}..={sent}"
            );
            assert_eq!(found, [found[0]; 3], "{key}");
        }
    }
    println!("{} kills, {total} acknowledged", 2 * rounds());
    assert!(total > 100, "{total}");
    let ranges = || {
        nodes
            .iter()
            .map(|node| node.ask("GET", "/v0/entities?start=c", b"").text())
    };
    wait_until("all nodes have the same", || {
        let ranges: Vec<String> = ranges().collect();
        ranges.iter().all(|range| *range == ranges[0])
    });
}
