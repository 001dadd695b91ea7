//! Cursors: from an offset, from a time, while the log grows and while its beginning is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use weir_log::{Cursor, Log, Readable, Settings};

use crate::crashing::Crashing;

const SETTINGS: Settings = Settings {
    segment_bytes: 200_000,
    readable: Readable::Durable,
    seed: 0x5eed,
};

/// A log of so many records, each with its offset as the body and ten times the third of that as its time.
fn log_of(records: u64) -> Log {
    let (mut log, _) = Log::open(Arc::new(Crashing::default()), SETTINGS).expect("it is empty");
    add(&mut log, records);
    log
}

fn add(log: &mut Log, records: u64) {
    for _ in 0..records {
        let next = log.next_offset();
        let head = vec![7; head_bytes(next)];
        let added = log.append(time_of(next), &head, &next.to_le_bytes());
        assert_eq!(added.expect("it is taken"), next);
        if next.is_multiple_of(10) {
            log.write()
                .and_then(|()| log.sync())
                .expect("there is room");
        }
    }
    log.write()
        .and_then(|()| log.sync())
        .expect("there is room");
}

/// The same with nothing but bodies.
fn add_short(log: &mut Log, records: u64) {
    for _ in 0..records {
        let next = log.next_offset();
        let added = log.append(time_of(next), b"", &next.to_le_bytes());
        assert_eq!(added.expect("it is taken"), next);
    }
    log.write()
        .and_then(|()| log.sync())
        .expect("there is room");
}

fn head_bytes(offset: u64) -> usize {
    (offset % 4000) as usize
}

fn time_of(offset: u64) -> u64 {
    offset / 3 * 10
}

fn next_of(cursor: &mut Cursor) -> Option<u64> {
    let record = cursor.read().expect("it is whole")?;
    assert_eq!(record.body, record.offset.to_le_bytes());
    assert_eq!(record.time_ms, time_of(record.offset));
    assert!([head_bytes(record.offset), 0].contains(&record.head.len()));
    Some(record.offset)
}

#[test]
fn a_cursor_begins_where_it_is_told() {
    let log = log_of(1000);
    let mut cursor = log.read_from(0);
    for offset in (0..1000).step_by(7).chain([999, 0, 500]) {
        cursor.go_to(offset);
        assert_eq!(next_of(&mut cursor), Some(offset));
        assert_eq!(cursor.offset(), offset + 1);
        let followed = (offset + 1 < 1000).then_some(offset + 1);
        assert_eq!(next_of(&mut cursor), followed);
        let time_ms = time_of(offset);
        cursor.go_to_time(time_ms).expect("it is whole");
        assert_eq!(next_of(&mut cursor), Some(offset / 3 * 3), "{offset}");
    }
    cursor.go_to_time(time_of(1000) + 1).expect("it is whole");
    assert_eq!(next_of(&mut cursor), None);
}

#[test]
fn a_cursor_at_the_end_goes_on_when_there_is_more() {
    let mut log = log_of(0);
    let mut cursor = log.read_from(0);
    let mut rng = Rng::with_seed(3);
    let mut expected = 0;
    for _ in 0..60 {
        assert_eq!(next_of(&mut cursor), None);
        add(&mut log, rng.u64(1..40));
        while expected < log.durable() {
            assert_eq!(next_of(&mut cursor), Some(expected));
            expected += 1;
        }
    }
}

#[test]
fn a_cursor_that_is_ahead_waits() {
    let mut log = log_of(10);
    let mut cursor = log.read_from(15);
    for records in [0, 2, 3] {
        add(&mut log, records);
        assert_eq!(next_of(&mut cursor), None);
        assert_eq!(cursor.offset(), 15);
    }
    add(&mut log, 2);
    assert_eq!(next_of(&mut cursor), Some(15));
}

#[test]
fn nobody_reads_what_is_not_durable_unless_he_may() {
    for (readable, is_read) in [(Readable::Durable, false), (Readable::Written, true)] {
        let settings = Settings {
            readable,
            ..SETTINGS
        };
        let (mut log, _) = Log::open(Arc::new(Crashing::default()), settings).expect("it is empty");
        let mut cursor = log.read_from(0);
        log.append(0, b"", &0u64.to_le_bytes())
            .expect("it is taken");
        assert_eq!(next_of(&mut cursor), None);
        log.write().expect("there is room");
        assert_eq!(next_of(&mut cursor).is_some(), is_read);
        log.sync().expect("it works");
        assert_eq!(next_of(&mut cursor).is_some(), !is_read);
    }
}

#[test]
fn what_nobody_needs_is_removed_segment_by_segment() {
    let mut log = log_of(1000);
    let bytes = log.bytes();
    assert_eq!(
        log.drop_oldest(0, 0, u64::MAX).expect("it works"),
        None,
        "it is needed"
    );
    assert_eq!(
        log.drop_oldest(1000, bytes, 0).expect("it works"),
        None,
        "it is neither long nor old"
    );
    let mut behind = log.read_from(0);
    assert_eq!(next_of(&mut behind), Some(0));
    let removed = log
        .drop_oldest(1000, bytes - 1, 0)
        .expect("it works")
        .expect("it is too long");
    assert_eq!(log.bytes(), bytes - removed);
    let first = log.first_offset();
    assert!(first > 0);
    // Who is in it reads it to its end, and whoever comes later begins behind.
    assert_eq!(next_of(&mut behind), Some(1));
    assert_eq!(next_of(&mut log.read_from(0)), Some(first));
    while log
        .drop_oldest(1000, u64::MAX, time_of(900))
        .expect("it works")
        .is_some()
    {}
    let left = log.first_offset();
    assert!(first < left && left <= 900, "{left}");
    while log.drop_oldest(1000, 0, 0).expect("it works").is_some() {}
    assert!(
        log.first_offset() < 1000,
        "the segment that is written stays"
    );
}

/// Readers on other threads, one of which begins anew all the time, miss nothing that is there while a writer adds and removes.
#[test]
fn many_read_what_one_writes_and_removes() {
    let settings = Settings {
        segment_bytes: 3000,
        ..SETTINGS
    };
    let (mut log, _) = Log::open(Arc::new(Crashing::default()), settings).expect("it is empty");
    let is_over = AtomicBool::new(false);
    let mut followers: Vec<Cursor> = (0..2).map(|_| log.read_from(0)).collect();
    let mut beginner = log.read_from(0);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        for cursor in &mut followers {
            scope.spawn(move || {
                let mut last = None;
                while !is_over.load(Ordering::Acquire) || last != Some(3999) {
                    if let Some(offset) = next_of(cursor) {
                        assert!(last.is_none_or(|last| offset > last), "{offset} again");
                        last = Some(offset);
                    }
                }
            });
        }
        scope.spawn(move || {
            let mut rng = Rng::with_seed(5);
            while !is_over.load(Ordering::Acquire) {
                let first = rng.u64(..4000);
                beginner.go_to(first);
                let found = next_of(&mut beginner);
                assert!(found.is_none_or(|found| found >= first));
                let went = beginner.go_to_time(time_of(first));
                went.expect("it is whole");
                next_of(&mut beginner);
            }
        });
        for round in 0..800 {
            add_short(&mut log, 5);
            if round % 3 == 0 {
                let consumed = log.durable();
                log.drop_oldest(consumed, 20_000, 0).expect("it works");
            }
        }
        is_over.store(true, Ordering::Release);
    });
    assert!(log.first_offset() > 3000);
}

/// A clock that is set back takes no record behind another: what is found by time is a beginning and a rest.
#[test]
fn times_never_go_back() {
    let settings = Settings {
        segment_bytes: 300,
        ..SETTINGS
    };
    let (mut log, _) = Log::open(Arc::new(Crashing::default()), settings).expect("it is empty");
    for (number, time_ms) in [5, 9, 3, 9, 1, 12, 11].into_iter().enumerate() {
        log.append(time_ms, b"", &[0; 100]).expect("it is taken");
        if number % 2 == 1 {
            log.write()
                .and_then(|()| log.sync())
                .expect("there is room");
        }
    }
    log.write()
        .and_then(|()| log.sync())
        .expect("there is room");
    let mut cursor = log.read_from(0);
    let next = || Some(cursor.read().expect("it is whole")?.time_ms);
    let times: Vec<u64> = std::iter::from_fn(next).collect();
    assert_eq!(times, [5, 9, 9, 9, 9, 12, 12]);
    assert!(log.first_offset() == 0 && log.bytes() > 700);
}

#[test]
fn offsets_can_be_left_out() {
    let mut log = log_of(10);
    log.skip_to(7).expect("it works");
    assert_eq!(log.next_offset(), 10);
    log.skip_to(500).expect("it works");
    log.skip_to(600).expect("it works");
    add(&mut log, 3);
    let mut cursor = log.read_from(9);
    assert_eq!(next_of(&mut cursor), Some(9));
    assert_eq!(next_of(&mut cursor), Some(600));
    assert_eq!(next_of(&mut log.read_from(550)), Some(600));
    let mut cursor = log.read_from(0);
    cursor.go_to_time(time_of(599)).expect("it is whole");
    assert_eq!(next_of(&mut cursor), Some(600));
}
