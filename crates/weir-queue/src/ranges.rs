//! Sets of offsets that are mostly next to each other.

use std::collections::BTreeMap;

/// A set of offsets, kept as ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ends: BTreeMap<u64, u64>,
    /// How many offsets it has.
    offsets: u64,
}

impl Ranges {
    /// The offsets of these ranges.
    pub(crate) fn of(ranges: Vec<(u64, u64)>) -> Self {
        let mut all = Self::default();
        for (first, end) in ranges {
            all.insert(first, end);
        }
        all
    }

    /// Adds the offsets from `first` to before `end`.
    pub(crate) fn insert(&mut self, mut first: u64, mut end: u64) {
        if first >= end {
            return;
        }
        // Those that it touches become one with it; the last of them first.
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= first
        {
            self.ends.remove(&from);
            self.offsets -= to - from;
            (first, end) = (first.min(from), end.max(to));
        }
        self.ends.insert(first, end);
        self.offsets += end - first;
    }

    /// Whether it has this offset.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        let before = self.ends.range(..=offset).next_back();
        before.is_some_and(|(_, &end)| end > offset)
    }

    /// If it begins at `offset` or before, takes its first range out and says where that has ended.
    pub(crate) fn take_first_from(&mut self, offset: u64) -> Option<u64> {
        let first = self.ends.first_entry();
        let (from, end) = first.filter(|first| *first.key() <= offset)?.remove_entry();
        self.offsets -= end - from;
        Some(end.max(offset))
    }

    /// How many offsets it has.
    pub(crate) fn offsets(&self) -> u64 {
        self.offsets
    }

    /// The offset behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The ranges, from the first on: where each begins, and the offset behind its last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().map(|(&first, &end)| (first, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_set(inserted in prop::collection::vec((0..60u64, 0..12u64), 0..30), from in 0..70u64) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for (first, length) in inserted {
                ranges.insert(first, first + length);
                set.extend(first..first + length);
            }
            for offset in 0..80 {
                prop_assert_eq!(ranges.contains(offset), set.contains(&offset), "{}", offset);
            }
            let listed: Vec<(u64, u64)> = ranges.iter().collect();
            prop_assert!(listed.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", listed);
            prop_assert_eq!(listed.len(), ranges.len());
            prop_assert_eq!(set.len() as u64, ranges.offsets());
            prop_assert_eq!(set.last().map_or(0, |last| last + 1), ranges.end());
            let begins = listed.first().filter(|first| first.0 <= from);
            prop_assert_eq!(ranges.take_first_from(from), begins.map(|first| first.1.max(from)));
        }
    }
}
