//! Purges while clients ask without a pause: no request that begins after the answer to a purge gets what was there before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Versions, purge, version_of};
use crate::harness::client::Connection;
use crate::harness::{Directory, Gateway, wait_until};

const CLIENTS: usize = 8;
const PATHS: u64 = 60;
const PURGES: u64 = 120;
/// Requests between two purges.
const REQUESTS: u64 = 150;

#[test]
fn after_its_answer_nobody_gets_an_older_version() {
    // RAM takes a part of it, so that objects move between both tiers all the time.
    let versions = Versions::with_body("Cache-Control: max-age=600\r\n", 40_000);
    let directory = Directory::new();
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 2\n[cache]\nmemory = \"1MiB\"\ndisk = {{ path = \"{}\", size = \"1GiB\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        directory.file("cache").display(),
        versions.origin.address
    ));
    let oldest_allowed = Arc::new(AtomicU64::new(1));
    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS as u64)
        .map(|seed| {
            let (oldest, is_over) = (Arc::clone(&oldest_allowed), Arc::clone(&is_over));
            let answered = Arc::clone(&answered);
            let mut connection = Connection::open(gateway.address);
            thread::spawn(move || {
                let mut number = seed;
                while !is_over.load(Ordering::SeqCst) {
                    number = number
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let path = format!("/p/{}", (number >> 33) % PATHS);
                    answered.fetch_add(1, Ordering::SeqCst);
                    let oldest = oldest.load(Ordering::SeqCst);
                    let found = version_of(&connection.get(&path));
                    assert!(
                        found >= oldest,
                        "{path}: {found}, though {oldest} was purged for"
                    );
                }
            })
        })
        .collect();
    for round in 0..PURGES {
        let due = answered.load(Ordering::SeqCst) + REQUESTS;
        wait_until("the clients have asked for a while", || {
            answered.load(Ordering::SeqCst) >= due
        });
        let version = versions.next();
        purge(
            &gateway,
            match round % 6 {
                0 => "{\"all\": true}",
                1 => "{\"prefix\": \"http://test/p/\"}",
                2 => "{\"prefix\": \"/p\"}",
                3 => "{\"tag\": \"p\"}",
                4 => "{\"tag\": \"p\", \"soft\": true}",
                _ => "{\"all\": true, \"soft\": true}",
            },
        );
        oldest_allowed.store(version, Ordering::SeqCst);
    }
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("no client saw an older version");
    }
    let of = |name: &str| gateway.metric(name);
    assert!(of("weir_cache_hits_total") > 0, "something was stored");
    assert!(
        of("weir_cache_purged_total{tier=\"disk\"}") > 0,
        "something was on disk"
    );
}
