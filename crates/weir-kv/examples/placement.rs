//! What it costs to find the node of a key, and how level the slots are: the figures of `docs/shard.md`.
//!
//! ```text
//! cargo run --release --package weir-kv --example placement
//! ```

#![expect(clippy::disallowed_methods, reason = "a measurement has a clock")]

use std::hint::black_box;
use std::time::Instant;

use weir_kv::placement::{Map, REPLICAS_MAX, SLOTS, Slot};

const KEYS: usize = 1 << 16;
const ROUNDS: usize = 64;
const NODES: [usize; 8] = [3, 5, 7, 9, 10, 33, 64, 100];

fn main() {
    println!("| nodes | lookup ns | owners | any rank but the last | the last rank |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for nodes in NODES {
        let map = map(nodes);
        let levelled = 0..nodes.min(REPLICAS_MAX);
        let inner = levelled.clone().take(nodes - 1);
        let worst = inner.map(|rank| peak(&map, rank)).fold(0.0, f64::max);
        let last = if nodes <= REPLICAS_MAX {
            format!("{:.4}", peak(&map, nodes - 1))
        } else {
            "not levelled".to_owned()
        };
        let (lookup, owners) = (lookup_ns(&map), peak(&map, 0));
        println!("| {nodes} | {lookup:.1} | {owners:.4} | {worst:.4} | {last} |");
    }
    let all = (3..=100).map(|nodes| (peak_of_levelled(&map(nodes)), nodes));
    let (worst, nodes) = all.fold(
        (0.0, 0),
        |most, one| if one.0 > most.0 { one } else { most },
    );
    println!(
        "\n3 to 100 nodes, all ranks that are levelled: at most {worst:.4}, with {nodes} nodes"
    );
}

fn map(nodes: usize) -> Map {
    let addresses: Vec<String> = (0..nodes).map(|n| format!("10.0.0.{n}:8081")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    Map::new(&addresses).expect("they make a cluster")
}

/// The most slots that a node has at a rank, as a multiple of the mean.
fn peak(map: &Map, rank: usize) -> f64 {
    let mut counts = vec![0_usize; map.nodes().len()];
    for slot in Slot::all() {
        counts[usize::from(map.ranked(slot)[rank])] += 1;
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    most as f64 * counts.len() as f64 / SLOTS as f64
}

fn peak_of_levelled(map: &Map) -> f64 {
    let ranks = 0..map.nodes().len().min(REPLICAS_MAX);
    ranks.map(|rank| peak(map, rank)).fold(0.0, f64::max)
}

/// From a key to the number of its node: the fastest of the rounds, since others share the machine.
fn lookup_ns(map: &Map) -> f64 {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("user/{n:08}/cart")).collect();
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        for key in &keys {
            let first = map.ranked(Slot::of(black_box(key.as_bytes())))[0];
            black_box(map.nodes()[usize::from(first)].id);
        }
        began.elapsed().as_secs_f64() * 1e9 / KEYS as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}
