//! What must hold of the map that a node tells a client: the first two bytes say how many come before the ranking, and what is left
//! behind them is repeated until all slots have one.

use weir_kv::placement::{Map, NODES_MAX, SLOTS, Slot};

/// Panics if reading what `data` describes breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let [high, low, rest @ ..] = data else {
        return;
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let (head, ranking) = rest.split_at(length.min(rest.len()));
    let count = head.get(10..12).map_or(0, |count| {
        usize::from(u16::from_be_bytes([count[0], count[1]]))
    });
    let repeated = ranking.iter().cycle().take(SLOTS * count.min(NODES_MAX));
    let bytes: Vec<u8> = head.iter().chain(repeated).copied().collect();
    let Some(map) = Map::decode(bytes.clone().into()) else {
        return;
    };
    assert_eq!(map.encode(), bytes, "it is told as it was");
    let nodes = map.nodes();
    for (index, node) in nodes.iter().enumerate() {
        let others = || {
            nodes
                .iter()
                .enumerate()
                .filter(move |(other, _)| *other != index)
        };
        assert!(
            others().all(|(_, other)| other.id != node.id),
            "one number for two nodes"
        );
        assert_eq!(
            map.node(&node.address),
            Some(node),
            "one address for two nodes"
        );
    }
    for slot in Slot::all().step_by(97) {
        let mut ranked = map.ranked(slot).to_vec();
        ranked.sort_unstable();
        let all: Vec<u8> = (0..nodes.len() as u8).collect();
        assert_eq!(ranked, all, "each node is ranked once");
    }
    // Whoever has it may make the next one of it.
    let addresses = nodes.iter().map(|node| &*node.address);
    let addresses: Vec<&str> = addresses.chain(["a node more:1"]).collect();
    if let Ok(next) = map.successor(&addresses) {
        assert_eq!(next.epoch(), map.epoch() + 1);
        assert!(
            nodes
                .iter()
                .all(|node| next.node(&node.address) == Some(node))
        );
    }
}
