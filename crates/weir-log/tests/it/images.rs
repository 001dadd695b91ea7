//! Crash images: a machine ends at every operation of its disk, and what is found afterwards is a beginning of what was appended
//! that has all that was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use weir_log::{Log, Readable, Settings};

use crate::crashing::Crashing;

/// What a log was told, and what it has promised.
#[derive(Debug, Default)]
struct Oracle {
    /// All that was appended under each offset: after a write that failed, an offset is given again.
    appended: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    /// What was appended last under each.
    last: BTreeMap<u64, Vec<u8>>,
    /// Offsets before this one are durable.
    durable: u64,
    /// Offsets before this one were removed or left out.
    removed: u64,
    skipped: BTreeSet<u64>,
    serial: u64,
}

fn settings(rng: &mut Rng) -> Settings {
    Settings {
        segment_bytes: 600,
        readable: if rng.bool() {
            Readable::Written
        } else {
            Readable::Durable
        },
        seed: rng.u64(..),
    }
}

impl Oracle {
    /// Does something at random with the log; `false` when the disk has refused.
    fn step(&mut self, log: &mut Log, rng: &mut Rng) -> bool {
        match rng.u8(..14) {
            0..=6 => {
                self.serial += 1;
                let mut body = self.serial.to_le_bytes().to_vec();
                let more = rng.usize(..150);
                body.extend(std::iter::repeat_with(|| rng.u8(..)).take(more));
                let Ok(offset) = log.append(self.serial / 3, b"head", &body) else {
                    return false;
                };
                self.appended
                    .entry(offset)
                    .or_default()
                    .insert(body.clone());
                self.last.insert(offset, body);
                true
            }
            7..=9 => log.write().is_ok(),
            10..=11 => {
                let is_synced = log.write().and_then(|()| log.sync()).is_ok();
                if is_synced {
                    self.durable = log.durable();
                }
                is_synced
            }
            12 => {
                let consumed = rng.u64(..=self.durable);
                let is_done = log.drop_oldest(consumed, 0, 0).is_ok();
                // What was refused is gone, or not.
                self.removed = if is_done {
                    log.first_offset()
                } else {
                    consumed
                };
                is_done
            }
            _ if rng.u8(..4) == 0 => {
                if log.write().is_err() {
                    return false;
                }
                let next = log.next_offset();
                let to = next + rng.u64(..5);
                self.skipped.extend(next..to);
                log.skip_to(to).is_ok()
            }
            _ => true,
        }
    }

    /// What the log has now is right.
    fn judge(&self, log: &Log, what: &str) {
        let mut cursor = log.read_from(0);
        let mut expected = log.first_offset();
        let mut before = self.removed.max(self.first_durable())..expected;
        assert!(
            before.all(|offset| self.skipped.contains(&offset)),
            "{what}: starts at {expected}"
        );
        while let Some(record) = cursor
            .read()
            .unwrap_or_else(|error| panic!("{what}: {error}"))
        {
            while expected < record.offset {
                assert!(
                    self.skipped.contains(&expected),
                    "{what}: {expected} is missing"
                );
                expected += 1;
            }
            assert_eq!(record.offset, expected, "{what}");
            let known = &self.appended[&expected];
            assert!(
                known.contains(record.body),
                "{what}: {expected} is invented"
            );
            if expected < self.durable {
                assert_eq!(
                    record.body, self.last[&expected],
                    "{what}: {expected} is another"
                );
            }
            expected += 1;
        }
        while self.skipped.contains(&expected) {
            expected += 1;
        }
        assert!(
            expected >= self.durable,
            "{what}: ends at {expected}, and {} was durable",
            self.durable
        );
    }

    /// The least offset that must be there.
    fn first_durable(&self) -> u64 {
        self.last.keys().next().copied().unwrap_or(0)
    }
}

/// Does the same things as ever with this seed, until the disk ends.
fn script(disk: &Crashing, seed: u64, oracle: &mut Oracle) -> Option<Log> {
    let mut rng = Rng::with_seed(seed);
    let (mut log, _) = Log::open(Arc::new(disk.clone()), settings(&mut rng)).ok()?;
    for _ in 0..30 {
        if !oracle.step(&mut log, &mut rng) {
            return None;
        }
    }
    Some(log)
}

#[test]
fn every_crash_leaves_a_beginning_that_has_what_was_acknowledged() {
    let seeds = std::env::var("WEIR_SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        let whole = Crashing::default();
        script(&whole, seed, &mut Oracle::default()).expect("this disk does not end");
        for operation in 0..whole.operations() {
            let disk = Crashing::that_crashes_at(operation);
            let mut oracle = Oracle::default();
            let log = script(&disk, seed, &mut oracle);
            drop(log);
            let mut rng = Rng::with_seed(seed ^ (operation as u64) << 32);
            for image in 0..3 {
                let found = if image == 0 {
                    disk.left_behind()
                } else {
                    disk.image(&mut rng)
                };
                let what = format!("seed {seed}, operation {operation}, image {image}");
                go_on(&found, (&mut oracle, &mut rng), &what);
            }
        }
    }
}

/// Opens what was found, looks at it, and goes on with it; then again after another crash at any moment.
fn go_on(found: &Crashing, (before, rng): (&mut Oracle, &mut Rng), what: &str) {
    let open = |disk: &Crashing, rng: &mut Rng| {
        let opened = Log::open(Arc::new(disk.clone()), settings(rng));
        opened.unwrap_or_else(|error| panic!("{what}: {error}")).0
    };
    let mut log = open(found, rng);
    before.judge(&log, what);
    let mut oracle = Oracle {
        appended: before.appended.clone(),
        last: before.last.clone(),
        skipped: before.skipped.clone(),
        durable: log.durable(),
        removed: log.first_offset(),
        serial: before.serial,
    };
    // What was found is durable from now on, whichever of several it was.
    let mut cursor = log.read_from(0);
    while let Some(record) = cursor.read().expect("it was read before") {
        oracle.last.insert(record.offset, record.body.to_vec());
    }
    for _ in 0..rng.u8(..12) {
        assert!(oracle.step(&mut log, rng), "{what}: a disk that works");
    }
    let again = found.image(rng);
    drop(log);
    oracle.judge(&open(&again, rng), what);
}

/// A disk that is full now and then: what was taken is there, and what was refused is not.
#[test]
fn a_full_disk_loses_nothing_that_was_taken() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let disk = Crashing::default();
        let (mut log, _) =
            Log::open(Arc::new(disk.clone()), settings(&mut rng)).expect("it is empty");
        let mut oracle = Oracle::default();
        let mut refusals = 0;
        for step in 0..120 {
            if step % 20 == 0 {
                disk.hold_at_most((step % 40 == 20).then(|| rng.usize(500..3000)));
            }
            if !oracle.step(&mut log, &mut rng) {
                refusals += 1;
                let next = log.written();
                oracle.last.retain(|&offset, _| offset < next);
            }
        }
        disk.hold_at_most(None);
        log.write()
            .and_then(|()| log.sync())
            .expect("there is room again");
        oracle.durable = log.durable();
        oracle.judge(&log, &format!("seed {seed}"));
        drop(log);
        let image = disk.image(&mut rng);
        let (log, _) = Log::open(Arc::new(image), settings(&mut rng)).expect("it is whole");
        oracle.judge(&log, &format!("seed {seed} after a crash"));
        assert!(refusals > 0 || seed > 0, "the disk was never full");
    }
}

/// After a sync that failed nothing is taken, however well the disk is then.
#[test]
fn a_sync_that_fails_is_the_end() {
    let mut rng = Rng::with_seed(7);
    let disk = Crashing::default();
    let (mut log, _) = Log::open(Arc::new(disk.clone()), settings(&mut rng)).expect("it is empty");
    log.append(1, b"", b"one").expect("it is taken");
    log.write()
        .and_then(|()| log.sync())
        .expect("it is durable");
    log.append(2, b"", b"two").expect("it is taken");
    log.write().expect("it is written");
    disk.fail_to_sync(true);
    log.sync().expect_err("the disk refuses");
    assert_eq!(log.durable(), 1);
    disk.fail_to_sync(false);
    let refused = log.append(3, b"", b"three").expect_err("it has failed");
    assert!(
        refused.to_string().contains("has failed before"),
        "{refused}"
    );
    log.write().expect_err("it has failed");
    log.sync().expect_err("it has failed");
    log.skip_to(9).expect_err("it has failed");
    drop(log);
    let (mut log, _) =
        Log::open(Arc::new(disk.image(&mut rng)), settings(&mut rng)).expect("it is whole");
    assert!(log.durable() >= 1);
    log.append(4, b"", b"four").expect("it is taken again");
}
