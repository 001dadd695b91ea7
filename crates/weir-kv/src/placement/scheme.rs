//! Other ways to place keys, to compare the map of slots with; a [`Map`] may be told to follow one. They place by the hash of a key,
//! which is chosen apart.
//!
//! - a ring with virtual nodes (Karger et al., 1997), searched in a tree or in a sorted array
//! - rendezvous hashing for each key (Thaler and Ravishankar, 1998)
//! - jump (Lamping and Veach, 2014): no memory, but only the last node can leave
//! - Maglev's table (Eisenbud et al., 2016)

use std::collections::BTreeMap;
use std::ops::Bound;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{Map, MapError, Slot};

/// The size of Maglev's table, a prime.
const MAGLEV_SIZE: usize = 65_537;

/// What a key is hashed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// XXH3-64.
    Xxh3,
    /// The first eight bytes of MD5.
    Md5,
}

impl Hash {
    /// Its names in configurations.
    pub const NAMES: &[(&str, Self)] = &[("xxh3", Self::Xxh3), ("md5", Self::Md5)];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Md5 => "md5",
        }
    }

    /// The hash of `bytes`.
    pub fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Xxh3 => xxh3_64(bytes),
            Self::Md5 => {
                let digest = md5::compute(bytes).0;
                let first: [u8; 8] = std::array::from_fn(|index| digest[index]);
                u64::from_be_bytes(first)
            }
        }
    }
}

/// A way to place keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Slots and a map of them.
    Slots,
    /// A ring with so many virtual nodes for each node, in a tree.
    RingTree(usize),
    /// The same, in a sorted array.
    RingArray(usize),
    /// The highest draw for the key itself.
    Rendezvous,
    /// Jump.
    Jump,
    /// Maglev's table.
    Maglev,
}

impl Scheme {
    /// Its names in configurations, with the usual number of virtual nodes.
    pub const NAMES: &[(&str, Self)] = &[
        ("slots", Self::Slots),
        ("ring", Self::RingArray(Self::VIRTUAL_NODES_USUAL)),
        ("ring-tree", Self::RingTree(Self::VIRTUAL_NODES_USUAL)),
        ("rendezvous", Self::Rendezvous),
        ("jump", Self::Jump),
        ("maglev", Self::Maglev),
    ];
    /// Virtual nodes of each node on a ring, if nobody says otherwise.
    pub const VIRTUAL_NODES_USUAL: usize = 256;
    /// At most so many.
    pub const VIRTUAL_NODES_MAX: usize = 4096;

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::RingArray(_) => "ring",
            Self::RingTree(_) => "ring-tree",
            Self::Rendezvous => "rendezvous",
            Self::Jump => "jump",
            Self::Maglev => "maglev",
        }
    }

    /// The same ring with so many virtual nodes; `None` for what is no ring.
    pub fn with_virtual_nodes(self, each: usize) -> Option<Self> {
        match self {
            Self::RingArray(_) => Some(Self::RingArray(each)),
            Self::RingTree(_) => Some(Self::RingTree(each)),
            _ => None,
        }
    }
}

/// A scheme made for some nodes. Nodes are numbers, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locator {
    nodes: usize,
    scheme: Made,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Made {
    Slots(Map),
    RingTree(BTreeMap<u64, u8>),
    RingArray(Vec<(u64, u8)>),
    /// The hashes of the addresses.
    Rendezvous(Vec<u64>),
    Jump,
    Maglev(Vec<u8>),
}

impl Locator {
    /// Makes `scheme` for the nodes at `addresses`.
    ///
    /// # Errors
    /// Addresses that make no cluster, see [`Map::new`].
    pub fn new(scheme: Scheme, addresses: &[&str]) -> Result<Self, MapError> {
        let map = Map::new(addresses)?;
        let points = |each: usize| {
            let nodes = addresses.iter().enumerate();
            nodes.flat_map(move |(node, address)| {
                (0..each).map(move |n| {
                    let point = xxh3_64_with_seed(address.as_bytes(), n as u64 + 1);
                    (point, node as u8)
                })
            })
        };
        let scheme = match scheme {
            Scheme::Slots => Made::Slots(map),
            Scheme::RingTree(each) => Made::RingTree(points(each.max(1)).collect()),
            Scheme::RingArray(each) => {
                let mut ring: Vec<(u64, u8)> = points(each.max(1)).collect();
                ring.sort_unstable();
                Made::RingArray(ring)
            }
            Scheme::Rendezvous => {
                let hashes = addresses.iter().map(|address| xxh3_64(address.as_bytes()));
                Made::Rendezvous(hashes.collect())
            }
            Scheme::Jump => Made::Jump,
            Scheme::Maglev => Made::Maglev(maglev(addresses)),
        };
        Ok(Self {
            nodes: addresses.len(),
            scheme,
        })
    }

    /// The owner of the key with this hash.
    pub fn owner(&self, hash: u64) -> usize {
        usize::from(match &self.scheme {
            Made::Slots(map) => map.ranked(Slot::of_hash(hash))[0],
            Made::RingTree(ring) => {
                let after = ring.range((Bound::Included(hash), Bound::Unbounded));
                let next = after.chain(ring.iter()).next();
                next.map_or(0, |(_, node)| *node)
            }
            Made::RingArray(ring) => {
                let next = ring.partition_point(|(point, _)| *point < hash);
                ring[if next < ring.len() { next } else { 0 }].1
            }
            Made::Rendezvous(nodes) => {
                let drawn = nodes.iter().map(|node| mixed(hash ^ node));
                let highest = drawn.zip(0..).max();
                highest.map_or(0, |(_, node)| node)
            }
            Made::Jump => jump(hash, self.nodes) as u8,
            Made::Maglev(table) => table[(hash % MAGLEV_SIZE as u64) as usize],
        })
    }

    /// The first `count` replicas of the key with this hash, the owner first. Those for fewer are among those for more.
    pub fn replicas(&self, hash: u64, count: usize) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::with_capacity(count.min(self.nodes));
        let mut add = |node: u8| {
            let node = usize::from(node);
            if !found.contains(&node) {
                found.push(node);
            }
            found.len() >= count.min(self.nodes)
        };
        match &self.scheme {
            Made::Slots(map) => {
                let _ = map
                    .ranked(Slot::of_hash(hash))
                    .iter()
                    .any(|node| add(*node));
            }
            Made::RingTree(ring) => {
                let after = ring.range((Bound::Included(hash), Bound::Unbounded));
                let _ = after.chain(ring.iter()).any(|(_, node)| add(*node));
            }
            Made::RingArray(ring) => {
                let next = ring.partition_point(|(point, _)| *point < hash);
                let around = ring[next..].iter().chain(ring);
                let _ = around.into_iter().any(|(_, node)| add(*node));
            }
            Made::Rendezvous(nodes) => {
                let drawn = nodes.iter().map(|node| mixed(hash ^ node));
                let mut drawn: Vec<(u64, u8)> = drawn.zip(0..).collect();
                drawn.sort_unstable_by(|one, other| other.cmp(one));
                let _ = drawn.into_iter().any(|(_, node)| add(node));
            }
            Made::Jump => {
                let first = jump(hash, self.nodes);
                let around = (first..self.nodes).chain(0..first);
                let _ = around.into_iter().any(|node| add(node as u8));
            }
            Made::Maglev(table) => {
                let first = (hash % MAGLEV_SIZE as u64) as usize;
                let around = table[first..].iter().chain(table);
                let _ = around.into_iter().any(|node| add(*node));
            }
        }
        found
    }
}

/// Mixes all bits into all others (the finalizer of `MurmurHash3`).
fn mixed(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

fn jump(mut key: u64, nodes: usize) -> usize {
    let (mut bucket, mut next) = (0_u64, 0_u64);
    while next < nodes as u64 {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let drawn = ((key >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * ((1_u64 << 31) as f64 / drawn)) as u64;
    }
    bucket as usize
}

/// Every node has an order of its own in which it wants the places of the table; they take turns.
fn maglev(addresses: &[&str]) -> Vec<u8> {
    let size = MAGLEV_SIZE as u64;
    let wishes = addresses.iter().map(|address| {
        let offset = xxh3_64_with_seed(address.as_bytes(), 1) % size;
        let skip = xxh3_64_with_seed(address.as_bytes(), 2) % (size - 1) + 1;
        (offset, skip)
    });
    let mut wishes: Vec<(u64, u64)> = wishes.collect();
    let mut table: Vec<Option<u8>> = vec![None; MAGLEV_SIZE];
    let mut filled = 0;
    loop {
        for (node, (place, skip)) in wishes.iter_mut().enumerate() {
            // The size is a prime, so a walk comes to every place.
            while table[*place as usize].is_some() {
                *place = (*place + *skip) % size;
            }
            table[*place as usize] = Some(node as u8);
            filled += 1;
            if filled == MAGLEV_SIZE {
                return table.into_iter().flatten().collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Scheme; 7] = [
        Scheme::Slots,
        Scheme::RingTree(30),
        Scheme::RingArray(30),
        Scheme::RingArray(256),
        Scheme::Rendezvous,
        Scheme::Jump,
        Scheme::Maglev,
    ];
    const KEYS: u64 = 200_000;

    fn locator(scheme: Scheme, nodes: usize) -> Locator {
        let addresses: Vec<String> = (0..nodes).map(|n| format!("10.0.0.{n}:8081")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        Locator::new(scheme, &addresses).expect("they make a cluster")
    }

    fn hashes() -> impl Iterator<Item = u64> {
        (0..KEYS).map(|n| Hash::Xxh3.of(&n.to_be_bytes()))
    }

    fn peak(locator: &Locator) -> f64 {
        let mut counts = vec![0_u64; locator.nodes];
        for hash in hashes() {
            counts[locator.owner(hash)] += 1;
        }
        let max = counts.into_iter().max().unwrap_or(0);
        max as f64 * locator.nodes as f64 / KEYS as f64
    }

    /// Peak over mean for ten nodes, as known from random rings and from the papers.
    #[test]
    fn each_scheme_is_as_level_as_it_is_known_to_be() {
        for (scheme, range) in [
            (Scheme::Slots, 1.0..1.03),
            (Scheme::RingTree(1), 1.5..6.0),
            (Scheme::RingTree(30), 1.05..1.7),
            (Scheme::RingArray(30), 1.05..1.7),
            (Scheme::RingArray(256), 1.02..1.3),
            (Scheme::Rendezvous, 1.0..1.03),
            (Scheme::Jump, 1.0..1.03),
            (Scheme::Maglev, 1.0..1.03),
        ] {
            let peak = peak(&locator(scheme, 10));
            assert!(range.contains(&peak), "{scheme:?}: {peak}");
        }
    }

    #[test]
    fn a_tree_and_an_array_are_the_same_ring() {
        let (tree, array) = (
            locator(Scheme::RingTree(30), 5),
            locator(Scheme::RingArray(30), 5),
        );
        for hash in hashes().take(10_000).chain([0, u64::MAX]) {
            assert_eq!(tree.owner(hash), array.owner(hash));
            assert_eq!(tree.replicas(hash, 3), array.replicas(hash, 3));
        }
    }

    #[test]
    fn replicas_are_nested_and_begin_with_the_owner() {
        for scheme in ALL {
            let locator = locator(scheme, 5);
            for hash in hashes().take(2_000).chain([0, u64::MAX]) {
                let all = locator.replicas(hash, 5);
                let mut sorted = all.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, [0, 1, 2, 3, 4], "{scheme:?}");
                assert_eq!(all[0], locator.owner(hash), "{scheme:?}");
                for count in 1..5 {
                    assert_eq!(locator.replicas(hash, count), all[..count], "{scheme:?}");
                }
            }
        }
    }

    /// A node more takes its part; a ring and Maglev move a little more than that, the others nothing.
    #[test]
    fn a_node_that_joins_moves_its_part() {
        for (scheme, more) in [
            (Scheme::RingTree(30), 0.1),
            (Scheme::RingArray(256), 0.04),
            (Scheme::Rendezvous, 0.005),
            (Scheme::Jump, 0.005),
            (Scheme::Maglev, 0.04),
        ] {
            let (before, after) = (locator(scheme, 10), locator(scheme, 11));
            let moved = hashes().filter(|hash| before.owner(*hash) != after.owner(*hash));
            let moved = moved.count() as f64 / KEYS as f64;
            let part = 1.0 / 11.0;
            assert!((moved - part).abs() <= more, "{scheme:?}: {moved}");
        }
    }

    #[test]
    fn md5_is_the_one_of_the_rfc() {
        // RFC 1321, A.5.
        assert_eq!(Hash::Md5.of(b"abc"), 0x9001_5098_3cd2_4fb0);
        assert_eq!(Hash::Xxh3.of(b""), 0x2d06_8005_38d3_94c2);
    }
}
