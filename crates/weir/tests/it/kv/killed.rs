//! The process is killed again and again while clients write: what was acknowledged is there, and what was deleted stays so.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Node;
use crate::harness::PATIENCE;

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
