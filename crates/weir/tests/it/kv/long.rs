//! Batches and ranges that take long, or have much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Node;
use super::client::over_http;
use super::cluster::several;
use super::v1::lines;
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

fn batch(node: &Node, lines_of_it: &str) -> Vec<Value> {
    lines(&node.ask("POST", "/v1/batch", lines_of_it.as_bytes()))
}

fn keys(lines: &[Value]) -> Vec<&str> {
    let keys = lines.iter().filter_map(|line| line["key"].as_str());
    keys.collect()
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
