//! Batches and ranges that take long, or have much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::Node;
use super::client::over_http;
use super::cluster::{several, wait_for};
use super::v1::lines;
use crate::harness::client::Connection;
use crate::harness::wait_until;

/// Others miss a node that says nothing for a second.
const STANDS_STILL: Duration = Duration::from_millis(600);
const GOES_ON: Duration = Duration::from_millis(5);

/// Has a node stand still most of the time until `then` is over, and never for so long that it is missed; unless the machine is busy.
fn while_slow<T>(node: &Node, then: impl FnOnce() -> T) -> T {
    struct Over<'o>(&'o AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                node.process.signal("STOP");
                thread::sleep(STANDS_STILL);
                node.process.signal("CONT");
                thread::sleep(GOES_ON);
            }
        });
        let _over = Over(&is_over);
        then()
    })
}

/// A batch of so many puts, whose keys begin like this.
fn puts(prefix: &str, count: usize) -> String {
    let line = |number| format!("{{\"put\": \"{prefix}{number:03}\", \"value\": \"v\"}}\n");
    (0..count).map(line).collect()
}

fn batch(node: &Node, lines_of_it: &str) -> Vec<Value> {
    lines(&node.ask("POST", "/v1/batch", lines_of_it.as_bytes()))
}

fn keys(lines: &[Value]) -> Vec<&str> {
    let keys = lines.iter().filter_map(|line| line["key"].as_str());
    keys.collect()
}

/// What has begun is told line by line, and of the rest that it has not.
#[test]
fn a_batch_that_takes_too_long_leaves_the_rest_undone() {
    let nodes = several(2);
    let mut told = Vec::new();
    while_slow(&nodes[1], || {
        let mut attempt = 0;
        wait_until("a batch takes too long", || {
            attempt += 1;
            told = batch(&nodes[0], &puts(&format!("{attempt}/"), 1000));
            assert_eq!(told.len(), 1000);
            told.iter().any(|line| line["status"] == 503)
        });
    });
    wait_for(&nodes);
    let get = |key: &&str| format!("{{\"get\": \"{key}\"}}\n");
    let gets: String = keys(&told).iter().map(get).collect();
    let mut undone = 0;
    for (put, got) in told.iter().zip(batch(&nodes[1], &gets)) {
        match put["status"].as_u64() {
            Some(201) => assert_eq!(got["status"], 200, "{put}"),
            Some(503) => {
                let why = put["error"].as_str().expect("why");
                assert!(why.contains("not begun"), "{put}");
                assert_eq!(got["status"], 404, "{put}");
                undone += 1;
            }
            // It is unknown.
            status => assert_eq!(status, Some(504), "{put}"),
        }
    }
    assert!(undone < 1000, "it has begun with none");
}

/// Nobody is told what comes of it any more, and may write something else meanwhile.
#[test]
fn a_batch_ends_when_its_client_leaves() {
    let mut nodes = several(2);
    let (asked, slow) = nodes.split_at_mut(1);
    let own = |node: &Node, from: &str| {
        let target = format!("/v0/entities?start={from}&end=b~");
        node.ask("GET", &target, b"").text()
    };
    while_slow(&slow[0], || {
        let mut connection = Connection::open(asked[0].address);
        let body = puts("b", 1000);
        let length = body.len();
        connection.send(format!(
            "POST /v1/batch HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        wait_until("it has begun", || !own(&asked[0], "b").is_empty());
        drop(connection);
        // What is under way then is seen to its end.
        asked[0].process.signal("TERM");
        asked[0].process.wait();
    });
    asked[0].restart();
    assert_eq!(own(&asked[0], "b000").lines().next(), Some("b000"));
    assert_eq!(own(&asked[0], "b999"), "");
}

/// It takes longer to go through them than anybody waits for an answer.
#[test]
fn a_range_passes_keys_that_are_deleted_however_many() {
    let nodes = several(2);
    for hundred in 0..60 {
        let delete = |number| format!("{{\"delete\": \"d{hundred:02}{number:03}\"}}\n");
        let deletes: String = (0..1000).map(delete).collect();
        // On a slow disk, one batch has not begun with all of them in its time.
        wait_until("they are deleted", || {
            let told = batch(&nodes[0], &deletes);
            told.iter().all(|line| line["status"] == 204)
        });
    }
    assert_eq!(nodes[0].put("z", b"end"), 201);
    while_slow(&nodes[1], || {
        wait_until("an answer ends before it has found anything", || {
            let (mut start, mut found, mut is_short) = ("d".to_owned(), Vec::new(), false);
            loop {
                let target = format!("/v1/range?start={start}");
                let page = lines(&nodes[0].ask("GET", &target, b""));
                found.extend(keys(&page).iter().map(|key| (*key).to_owned()));
                let Some(next) = page.last().and_then(|last| last["next"].as_str()) else {
                    break;
                };
                is_short |= page.len() == 1;
                assert!(next > &*start, "{next} after {start}");
                start = next.replace('\0', "%00");
            }
            assert_eq!(found, ["ready", "z"]);
            is_short
        });
        // A command goes on where an answer has ended.
        let scanned = over_http(&nodes[0], &["scan", "--start", "d"]);
        assert_eq!(scanned.text(), "ready\t\nz\tend\n");
    });
}

#[test]
fn a_batch_answers_no_more_than_there_is_room_for() {
    let node = Node::alone("");
    let large = vec![0; 16 << 20];
    assert_eq!(node.ask("PUT", "/v1/kv/large", &large).status, 201);
    let get = "{\"get\": \"large\"}\n";
    let more =
        "{\"put\": \"small\", \"value\": \"v\"}\n{\"get\": \"small\"}\n{\"get\": \"none\"}\n";
    let answer = node.ask("POST", "/v1/batch", (get.repeat(32) + more).as_bytes());
    assert!(answer.body.len() < 65 << 20, "{} bytes", answer.body.len());
    let told = lines(&answer);
    let (fits, others): (Vec<&Value>, Vec<&Value>) =
        told[..32].iter().partition(|line| line["status"] == 200);
    assert!((1..=2).contains(&fits.len()), "{} fit", fits.len());
    // Not as text, which would be six times as long.
    for line in &fits {
        let value = BASE64.decode(line["base64"].as_str().expect("a value"));
        assert_eq!(value.as_ref(), Ok(&large));
    }
    for line in others {
        let why = line["error"].as_str().expect("why");
        assert!(line["status"] == 503 && why.contains("no room"), "{line}");
    }
    // Writes take no room, and it is free again with the answer.
    assert_eq!(told[32]["status"], 201);
    let again = batch(&node, &format!("{get}{get}{more}"));
    let statuses: Vec<_> = again.iter().map(|line| &line["status"]).collect();
    assert_eq!(statuses, [200, 200, 201, 200, 404]);
    let range = lines(&node.ask("GET", "/v1/range?prefix=l", b""));
    let value = BASE64.decode(range[0]["base64"].as_str().expect("a value"));
    assert_eq!(value.as_ref(), Ok(&large));
}
