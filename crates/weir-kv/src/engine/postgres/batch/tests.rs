//! Rounds against a table in memory that decides as the real one does.

use proptest::prelude::*;

use super::*;

fn version(time: u64) -> Version {
    Version {
        time,
        ..Version::default()
    }
}

fn write(key: &'static str, time: u64, over: Option<u64>) -> Write {
    Write {
        over: over.map(version),
        key: Bytes::from_static(key.as_bytes()),
        cell: Cell {
            version: version(time),
            expires_ms: None,
            value: None,
        },
        then: Box::new(|_| None),
    }
}

#[derive(Default)]
struct Table {
    rows: HashMap<Bytes, Version>,
    /// It refuses these.
    refused: Vec<Version>,
}

impl Table {
    fn insert(&mut self, write: &Write) -> Outcome {
        let version = write.cell.version;
        if self.refused.contains(&version) {
            let why = "it breaks a constraint".to_owned();
            return Outcome::Failed(EngineError::Refused(why));
        }
        match self.rows.get(&write.key) {
            Some(kept) if *kept > write.most() => Outcome::Kept(*kept),
            _ => {
                self.rows.insert(write.key.clone(), version);
                Outcome::Written
            }
        }
    }

    fn has(&mut self, key: &'static str, time: u64) {
        self.insert(&write(key, time, None));
    }

    /// Carries out a batch; what each write finds, how many rounds there were, and how many rows went to the table.
    fn carry_out(&mut self, writes: Vec<Write>) -> (Vec<Found>, usize, usize) {
        let mut all: Vec<Option<Found>> = vec![None; writes.len()];
        let mut left: Vec<(usize, Write)> = writes.into_iter().enumerate().collect();
        let (mut known, mut rounds, mut rows) = (Known::new(), 0, 0);
        while !left.is_empty() {
            let (places, writes): (Vec<usize>, Vec<Write>) = left.into_iter().unzip();
            let round = Round::of(&writes, &known);
            let sent = round.rows(&writes);
            let outcomes: Vec<_> = sent.iter().map(|write| self.insert(write)).collect();
            (rounds, rows) = (rounds + 1, rows + sent.len());
            let found = round.found(&writes, &outcomes, &mut known);
            for (place, found) in places.iter().zip(&found) {
                all[*place].clone_from(found);
            }
            let writes = places.into_iter().zip(writes).zip(found);
            left = writes
                .filter_map(|(write, found)| found.is_none().then_some(write))
                .collect();
        }
        let all = all.into_iter().map(|found| found.expect("it is decided"));
        (all.collect(), rounds, rows)
    }
}

#[test]
fn of_each_key_the_newest_is_written_and_older_ones_are_told() {
    for (writes, kept, newest, found) in [
        (&[("b", 1), ("a", 2)][..], 0, &[2, 1][..], &[0, 0][..]),
        // One that a newer one follows has been written for a moment.
        (&[("a", 1), ("a", 2)], 0, &[2], &[0, 0]),
        (&[("a", 2), ("a", 1)], 0, &[2], &[0, 2]),
        (&[("a", 2), ("a", 1), ("a", 3)], 0, &[3], &[0, 2, 0]),
        // The table has a newer one.
        (&[("a", 2), ("b", 1), ("a", 1)], 5, &[2, 1], &[5, 0, 5]),
    ] {
        let writes: Vec<Write> = writes
            .iter()
            .map(|(key, time)| write(key, *time, None))
            .collect();
        let round = Round::of(&writes, &Known::new());
        let rows = round.rows(&writes).into_iter();
        let times: Vec<u64> = rows.map(|write| write.cell.version.time).collect();
        assert_eq!(times, newest);
        let mut table = Table::default();
        table.has("a", kept);
        let (all, rounds, _) = table.carry_out(writes);
        let times = all.into_iter().map(|found| found.expect("it is taken"));
        let times: Vec<u64> = times
            .map(|newer| newer.map_or(0, |newer| newer.time))
            .collect();
        assert_eq!((&times[..], rounds), (found, 1));
    }
}

/// What the table refuses of one write is no reason to leave out those behind it.
#[test]
fn one_behind_a_write_over_a_version_is_written_whatever_becomes_of_that() {
    let mut table = Table::default();
    table.has("a", 5);
    let writes = vec![
        write("a", 9, Some(2)),
        write("a", 10, None),
        write("a", 11, Some(5)),
        write("a", 12, None),
    ];
    let (found, ..) = table.carry_out(writes);
    let newer = |time| Ok(Some(version(time)));
    assert_eq!(found, [newer(5), Ok(None), newer(10), Ok(None)]);
    assert_eq!(table.rows[&b"a"[..]], version(12));
    let writes = vec![write("b", 9, Some(0)), write("b", 10, None)];
    assert_eq!(table.carry_out(writes).0, [Ok(None), Ok(None)]);
    assert_eq!(table.rows[&b"b"[..]], version(10));
}

/// Of a thousand over one version, the first wins, and the others need no round of their own.
#[test]
fn a_crowd_over_one_version_takes_two_rounds() {
    let mut table = Table::default();
    table.has("a", 5);
    let writes = (0..1000).map(|number| write("a", 10 + number, Some(5)));
    let (found, rounds, rows) = table.carry_out(writes.collect());
    assert_eq!((rounds, rows), (2, 1));
    let newer = found[1..]
        .iter()
        .all(|found| *found == Ok(Some(version(10))));
    assert!(found[0] == Ok(None) && newer, "{found:?}");
}

/// One that breaks a constraint takes no other of its key with it.
#[test]
fn one_that_is_refused_is_told_alone() {
    let mut table = Table {
        refused: vec![version(3)],
        ..Table::default()
    };
    let writes = [1, 3, 2].map(|time| write("a", time, None));
    let (found, ..) = table.carry_out(writes.into());
    assert!(
        matches!(found[1], Err(EngineError::Refused(_))),
        "{found:?}"
    );
    assert_eq!((&found[0], &found[2]), (&Ok(None), &Ok(None)));
    assert_eq!(table.rows[&b"a"[..]], version(2));
}

#[test]
fn what_is_open_is_for_the_next_round_and_what_has_failed_is_told() {
    let writes = [write("a", 1, None), write("b", 1, None)];
    let round = Round::of(&writes, &Known::new());
    let failed = Outcome::Failed(EngineError::Busy);
    let found = round.found(&writes, &[Outcome::Open, failed], &mut Known::new());
    assert_eq!(found, [None, Some(Err(EngineError::Busy))]);
}

fn batches() -> impl Strategy<Value = Vec<(bool, u64, Option<u64>)>> {
    // A write over a version has seen it, so its own is newer.
    let write = (any::<bool>(), 1..12_u64, any::<bool>(), 0..12_u64);
    let write = write.prop_map(|(is_a, time, is_over, over)| {
        let over = is_over.then(|| over.min(time - 1));
        (is_a, time, over)
    });
    proptest::collection::vec(write, 0..14)
}

proptest! {
    /// The table ends as if the writes had come one by one, and no write is told of a newer one that is not there.
    #[test]
    fn a_batch_is_as_good_as_its_writes_one_by_one(batch in batches(), kept in 0..12_u64) {
        let writes = || batch.iter().map(|(is_a, time, over)| {
            let key = if *is_a { "a" } else { "b" };
            write(key, *time, *over)
        });
        let (mut one_by_one, mut table) = (Table::default(), Table::default());
        one_by_one.has("a", kept);
        table.has("a", kept);
        let outcomes: Vec<Outcome> = writes().map(|write| one_by_one.insert(&write)).collect();
        let (found, ..) = table.carry_out(writes().collect());
        prop_assert_eq!(&table.rows, &one_by_one.rows);
        for ((write, found), outcome) in writes().zip(found).zip(outcomes) {
            let newer = found.expect("nothing is refused");
            if write.over.is_some() {
                prop_assert_eq!(newer.is_none(), outcome == Outcome::Written);
            }
            match newer {
                Some(newer) => {
                    prop_assert!(newer > write.most());
                    prop_assert!(table.rows[&write.key] >= newer);
                }
                None => prop_assert!(table.rows[&write.key] >= write.cell.version),
            }
        }
    }
}
