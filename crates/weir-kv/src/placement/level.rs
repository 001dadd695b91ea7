//! Takes the few percent away that chance leaves between nodes.

use super::SLOTS;

/// Gives every node the same number of slots at a rank, give or take one. Two nodes change places in the ranking of a slot,
/// and those that are ranked closest to each other do so first; ranks before this one stay.
pub(super) fn level(ranking: &mut [u8], nodes: usize, rank: usize) {
    let mut counts = vec![0; nodes];
    for order in ranking.chunks_exact(nodes) {
        counts[usize::from(order[rank])] += 1;
    }
    let quotas = quotas(&counts);
    for distance in 1..nodes - rank {
        for order in ranking.chunks_exact_mut(nodes) {
            let (has, takes) = (
                usize::from(order[rank]),
                usize::from(order[rank + distance]),
            );
            if counts[has] > quotas[has] && counts[takes] < quotas[takes] {
                order.swap(rank, rank + distance);
                counts[has] -= 1;
                counts[takes] += 1;
            }
        }
    }
}

/// How many slots each node is to have: the same number, and one more for those that have most, as far as there are some left.
fn quotas(counts: &[usize]) -> Vec<usize> {
    let (each, left) = (SLOTS / counts.len(), SLOTS % counts.len());
    let mut by_count: Vec<usize> = (0..counts.len()).collect();
    by_count.sort_by_key(|&node| (std::cmp::Reverse(counts[node]), node));
    let mut quotas = vec![each; counts.len()];
    for node in by_count.into_iter().take(left) {
        quotas[node] += 1;
    }
    quotas
}
