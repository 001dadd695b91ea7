//! Writes that go to the table together: of each key only the newest, and every one gets its own answer. Pure.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::cell::Cell;
use crate::engine::Then;
use crate::version::Version;

/// Bytes of a write besides its key and value, about.
const WRITE_BYTES: usize = 128;

/// A write that waits.
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) cell: Cell,
    /// It is written over what is not newer than this; or than itself.
    pub(super) over: Option<Version>,
    pub(super) then: Then<Option<Version>>,
}

impl Write {
    /// The newest version that it is written over.
    pub(super) fn most(&self) -> Version {
        self.over.unwrap_or(self.cell.version)
    }

    pub(super) fn bytes(&self) -> usize {
        let value = self.cell.value.as_ref().map_or(0, Bytes::len);
        WRITE_BYTES + self.key.len() + value
    }
}

/// What becomes of each write among the others.
pub(super) struct Plan<'w> {
    /// The newest of each key. In the order of the keys: every batch locks rows in this order, so none waits for another in a circle.
    newest: BTreeMap<&'w [u8], usize>,
    /// The version of a newer one that came before it in the batch.
    newer: Vec<Option<Version>>,
}

impl<'w> Plan<'w> {
    pub(super) fn of(writes: &'w [Write]) -> Self {
        let mut newest: BTreeMap<&[u8], usize> = BTreeMap::new();
        let mut newer = Vec::with_capacity(writes.len());
        for (index, write) in writes.iter().enumerate() {
            let before = newest.get(&write.key[..]);
            let before = before.map(|&before| &writes[before]);
            // One over a version is alone with its key in a batch: the table has to decide on it. Others are made again.
            let is_alone = |before: &Write| before.over.is_some() || write.over.is_some();
            let is_newer = |before: &Write| before.cell.version > write.cell.version;
            let found = before.filter(|before| is_alone(before) || is_newer(before));
            let found = found.map(|before| before.cell.version);
            if found.is_none() {
                newest.insert(&write.key, index);
            }
            newer.push(found);
        }
        Self { newest, newer }
    }

    /// What is written.
    pub(super) fn newest(
        &self,
        writes: &'w [Write],
    ) -> impl Iterator<Item = (&'w [u8], &'w Write)> {
        let newest = self.newest.iter();
        newest.map(|(key, &index)| (*key, &writes[index]))
    }

    /// What each write finds, when `kept` has the versions that the table has kept instead.
    pub(super) fn results(
        &self,
        writes: &[Write],
        kept: &HashMap<Vec<u8>, Version>,
    ) -> Vec<Option<Version>> {
        let results = writes.iter().zip(&self.newer).map(|(write, newer)| {
            let kept = kept.get(&write.key[..]).copied();
            let kept = kept.filter(|kept| *kept > write.most());
            kept.max(*newer)
        });
        results.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(time: u64) -> Version {
        Version {
            time,
            ..Version::default()
        }
    }

    fn write(key: &'static str, time: u64) -> Write {
        Write {
            over: None,
            key: Bytes::from_static(key.as_bytes()),
            cell: Cell {
                version: version(time),
                expires_ms: None,
                value: None,
            },
            then: Box::new(|_| None),
        }
    }

    /// Keys and versions of what is written, and what each write of the batch finds.
    fn planned(
        writes: &[(&'static str, u64)],
        kept: &[(&str, u64)],
    ) -> (Vec<(String, u64)>, Vec<u64>) {
        let writes: Vec<Write> = writes.iter().map(|&(key, time)| write(key, time)).collect();
        let plan = Plan::of(&writes);
        let newest = plan.newest(&writes);
        let newest = newest.map(|(key, write)| {
            (
                String::from_utf8_lossy(key).into_owned(),
                write.cell.version.time,
            )
        });
        let newest = newest.collect();
        let kept = kept
            .iter()
            .map(|(key, time)| (key.as_bytes().to_vec(), version(*time)));
        let results = plan.results(&writes, &kept.collect());
        let results = results
            .into_iter()
            .map(|newer| newer.map_or(0, |version| version.time));
        (newest, results.collect())
    }

    #[test]
    fn of_each_key_the_newest_is_written_and_older_ones_are_told() {
        for (writes, kept, newest, results) in [
            (
                &[("b", 1), ("a", 2)][..],
                &[][..],
                &[("a", 2), ("b", 1)][..],
                &[0, 0][..],
            ),
            // One that a newer one follows has been written for a moment.
            (&[("a", 1), ("a", 2)], &[], &[("a", 2)], &[0, 0]),
            (&[("a", 2), ("a", 1)], &[], &[("a", 2)], &[0, 2]),
            (
                &[("a", 2), ("a", 1), ("a", 3)],
                &[],
                &[("a", 3)],
                &[0, 2, 0],
            ),
            // The table has a newer one.
            (
                &[("a", 2), ("b", 1), ("a", 1)],
                &[("a", 5)],
                &[("a", 2), ("b", 1)],
                &[5, 0, 5],
            ),
            // Between the two of the batch, or the newest of it itself.
            (&[("a", 1), ("a", 4)], &[("a", 4)], &[("a", 4)], &[4, 0]),
        ] {
            let newest = newest.iter().map(|(key, time)| ((*key).to_owned(), *time));
            let newest: Vec<_> = newest.collect();
            assert_eq!(
                planned(writes, kept),
                (newest, results.to_vec()),
                "{writes:?}"
            );
        }
    }

    #[test]
    fn one_over_a_version_is_alone_with_its_key() {
        let over = |time, base| Write {
            over: Some(version(base)),
            ..write("a", time)
        };
        let results = |writes: &[Write], kept: Option<u64>| -> Vec<_> {
            let kept = kept.map(|time| (b"a".to_vec(), version(time)));
            let found = Plan::of(writes).results(writes, &kept.into_iter().collect());
            found
                .into_iter()
                .map(|newer| newer.map(|newer| newer.time))
                .collect()
        };
        // The table has refused it: what it has is newer than what it was to go over.
        assert_eq!(results(&[over(9, 2)], Some(5)), [Some(5)]);
        assert_eq!(results(&[over(9, 2)], None), [None]);
        // Whatever is newer, only the first one of both goes to the table.
        assert_eq!(
            results(&[over(9, 2), write("a", 10)], None),
            [None, Some(9)]
        );
        assert_eq!(results(&[write("a", 3), over(9, 3)], None), [None, Some(3)]);
        assert_eq!(results(&[over(9, 2), over(10, 2)], None), [None, Some(9)]);
    }
}
