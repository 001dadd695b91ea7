use super::*;
use proptest::prelude::*;

fn known() -> Known {
    Known {
        checkpoint: Checkpoint {
            low: 5,
            settled: vec![(7, 9), (11, 12)],
            tried: vec![(6, 3, 99), (10, 1, 50)],
        },
        gone: vec![(0, 2)],
        dropped: vec![(3, 4)],
        is_paused: true,
        mark: Mark { file: 7, bytes: 8 },
    }
}

fn round_trip(entry: &Entry) -> Option<Entry> {
    let mut body = Vec::new();
    let kind = entry.write(&mut body);
    Entry::read(&[kind], &body)
}

#[test]
fn what_was_written_is_read() {
    for entry in [
        Entry::Checkpoint(known()),
        Entry::Checkpoint(Known::default()),
        Entry::Settled(vec![1, u64::MAX]),
        Entry::Tried {
            offset: 7,
            attempts: 2,
            due_ms: 8,
        },
        Entry::Gone(vec![4]),
        Entry::Dropped(vec![9, 8]),
        Entry::Paused(true),
        Entry::Paused(false),
        Entry::Written(3, Mark { file: 1, bytes: 2 }),
    ] {
        assert_eq!(round_trip(&entry), Some(entry));
    }
}

#[test]
fn a_checkpoint_says_everything_that_came_before() {
    let mut read = Replay::default();
    read.apply(Entry::Settled(vec![1, 2, 100]));
    read.apply(Entry::Paused(false));
    read.apply(Entry::Checkpoint(known()));
    assert_eq!(read.into_known(), known());
}

#[test]
fn entries_come_to_what_they_say() {
    let mut read = Replay::default();
    for entry in [
        Entry::Checkpoint(known()),
        Entry::Settled(vec![5, 6]),
        Entry::Tried {
            offset: 9,
            attempts: 1,
            due_ms: 70,
        },
        Entry::Gone(vec![2, 7]),
        Entry::Dropped(vec![4]),
        Entry::Written(9, Mark { file: 1, bytes: 2 }),
        Entry::Paused(false),
    ] {
        read.apply(entry);
    }
    let expected = Known {
        checkpoint: Checkpoint {
            low: 9,
            settled: vec![(11, 12)],
            tried: vec![(9, 1, 70), (10, 1, 50)],
        },
        gone: vec![(0, 3), (7, 8)],
        dropped: vec![(3, 5)],
        is_paused: false,
        mark: Mark { file: 1, bytes: 2 },
    };
    assert_eq!(read.into_known(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(kind in 0..8u8, body: Vec<u8>, cut: prop::sample::Index) {
        let _ = Entry::read(&[kind], &body);
        let mut body = Vec::new();
        let kind = Entry::Checkpoint(known()).write(&mut body);
        body.truncate(cut.index(body.len()));
        prop_assert_eq!(Entry::read(&[kind], &body), None);
    }
}
