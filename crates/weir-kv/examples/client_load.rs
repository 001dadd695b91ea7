//! Reads keys of a cluster with the client that knows the map, as fast as so many requests at once do; for `bench/kv.py`.
//!
//! ```text
//! client_load NODE KEYS CONCURRENCY SECONDS     prints how many reads succeeded
//! ```
//!
//! Keys are `key1` to `keyKEYS` at random, and one replica of each is asked. A read that fails ends it.

#![expect(clippy::disallowed_methods, reason = "a load has a clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_kv::client::{Client, ClientSettings};
use weir_kv::coordinator::Quorum;

const USAGE: &str = "usage: client_load NODE KEYS CONCURRENCY SECONDS";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [node, numbers @ ..] = &arguments[..] else {
        panic!("{USAGE}");
    };
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|number| number.parse().expect(USAGE))
        .collect();
    let &[keys, concurrency, seconds] = &numbers[..] else {
        panic!("{USAGE}");
    };
    let settings = ClientSettings {
        nodes: vec![node.parse().expect(USAGE)],
        secret: String::new(),
        timeout: Duration::from_secs(5),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let done = runtime.block_on(async {
        let client = Arc::new(Client::connect(settings).await.expect("a node answers"));
        let until = Instant::now() + Duration::from_secs(seconds);
        let readers =
            (0..concurrency).map(|_| tokio::spawn(read(Arc::clone(&client), keys, until)));
        let readers: Vec<_> = readers.collect();
        let mut done = 0;
        for reader in readers {
            done += reader.await.expect("it ends");
        }
        done
    });
    println!("{done}");
}

/// Reads until then, one after the other.
async fn read(client: Arc<Client>, keys: u64, until: Instant) -> u64 {
    let of_one = Some(Quorum { ack: 1, from: 1 });
    let mut done = 0;
    while Instant::now() < until {
        let key = format!("key{}", fastrand::u64(1..=keys));
        let entry = client.get(key.clone(), of_one).await.expect("an answer");
        assert!(entry.is_some(), "there is no {key}");
        done += 1;
    }
    done
}
