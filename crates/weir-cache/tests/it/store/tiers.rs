//! What moves between RAM and disk.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use weir_cache::store::disk::Stored;
use weir_cache::store::{
    DiskConfig, DiskStore, MemoryConfig, MemoryStore, Object, Placed, PurgeKind, PurgeScope,
    Purges, Tiers,
};

use super::Directory;

/// Any runtime will do; this is the smallest.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

fn open(directory: &Directory) -> Tiers {
    let purges = Arc::new(Purges::default());
    let disk = DiskConfig::with_budget(directory.path().to_owned(), 64 << 20);
    let disk = DiskStore::open(disk, Arc::clone(&purges)).unwrap();
    disk.sweep(PurgeScope::Tag("none".into()), PurgeKind::Hard, ())
        .wait()
        .unwrap();
    // With a seed of its own, each run would let other objects make room.
    let memory = MemoryConfig {
        seed: 1,
        ..MemoryConfig::with_budget(256 << 10)
    };
    let memory = MemoryStore::new(memory, Arc::clone(&purges));
    Tiers::new(memory, Some(disk), purges)
}

fn object(tiers: &Tiers, text: &str, length: usize) -> Arc<Object> {
    let body = vec![Bytes::from(
        text.as_bytes()
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect::<Vec<u8>>(),
    )];
    Arc::new(Object::new(
        b"",
        tiers.ticket(),
        Bytes::new(),
        Bytes::copy_from_slice(text.as_bytes()),
        body,
    ))
}

/// Fills RAM with other objects until `key` has left it.
fn push_out(tiers: &Tiers, key: &[u8]) {
    for number in 0_u32.. {
        if tiers.memory().peek(key).is_none() {
            break;
        }
        let name = number.to_be_bytes();
        tiers.insert(&name, &object(tiers, "other", 4000));
        // Found, so that it stays longer than what is not.
        tiers.find(&name);
        // One at a time, since a disk that is busy is not asked to take what had to leave RAM.
        settle(tiers);
    }
}

/// Waits until the disk has done what it was asked before: a purge of nothing, twice, for two threads.
fn settle(tiers: &Tiers) {
    while tiers.has_demotions() {
        block_on(tiers.purge(PurgeScope::Tag("none".into()), PurgeKind::Hard, || {})).unwrap();
    }
}

fn found(tiers: &Tiers, key: &[u8]) -> Option<Stored> {
    tiers.find_on_disk(key).into_iter().next()
}

#[test]
fn what_was_used_in_ram_goes_to_disk_and_comes_back_on_its_second_use() {
    let directory = Directory::new("moves");
    let tiers = open(&directory);
    tiers.insert(b"used", &object(&tiers, "used", 2000));
    tiers.find(b"used").unwrap().variant(b"").unwrap();
    tiers.insert(b"unused", &object(&tiers, "unused", 2000));
    push_out(&tiers, b"unused");
    push_out(&tiers, b"used");
    assert!(found(&tiers, b"unused").is_none());
    let stored = found(&tiers, b"used").unwrap();
    assert!(!tiers.is_worth_promoting(&stored));
    let opened = tiers
        .disk()
        .unwrap()
        .open_object(b"used", b"")
        .wait()
        .unwrap();
    assert_eq!(opened.body_bytes(), 2000);
    assert!(tiers.is_worth_promoting(&found(&tiers, b"used").unwrap()));
    let promoted = block_on(tiers.promote(b"used", b"", None)).unwrap();
    assert_eq!(
        (
            &*promoted.head,
            promoted.body_bytes(),
            promoted.disk_identity().is_some()
        ),
        (b"used".as_slice(), 2000, true)
    );
    let identity = |stored: Option<Stored>| stored.unwrap().identity;
    let before = identity(found(&tiers, b"used"));
    tiers.find(b"used").unwrap().variant(b"").unwrap();
    push_out(&tiers, b"used");
    assert_eq!(
        identity(found(&tiers, b"used")),
        before,
        "its file was still there and is not written again"
    );
}

#[test]
fn what_is_too_large_for_ram_goes_to_disk_at_once() {
    let directory = Directory::new("large");
    let tiers = open(&directory);
    let Placed::Disk(answer) = tiers.insert(b"large", &object(&tiers, "large", 200_000)) else {
        panic!("200 kB do not fit into an eighth of 256 KiB");
    };
    answer.wait().unwrap();
    assert!(
        tiers.find(b"large").is_none() && found(&tiers, b"large").unwrap().body_bytes == 200_000
    );
}

#[test]
fn a_newer_object_supersedes_the_one_on_disk() {
    let directory = Directory::new("newer");
    let tiers = open(&directory);
    let old = object(&tiers, "old", 1000);
    tiers
        .disk()
        .unwrap()
        .store(b"k", &old, tiers.ticket(), || true)
        .wait()
        .unwrap();
    tiers.insert(b"k", &object(&tiers, "new", 1000));
    while found(&tiers, b"k").is_some() {
        std::thread::yield_now();
    }
    assert_eq!(&*tiers.find(b"k").unwrap().variants()[0].head, b"new");
}

#[test]
fn a_renewed_object_is_renewed_in_both_tiers() {
    let directory = Directory::new("renewed");
    let tiers = open(&directory);
    let old = object(&tiers, "old", 1000);
    tiers
        .disk()
        .unwrap()
        .store(b"k", &old, tiers.ticket(), || true)
        .wait()
        .unwrap();
    assert!(old.disk_identity().is_some());
    let (metadata, head) = (
        Bytes::from_static(b"metadata"),
        Bytes::from_static(b"newer"),
    );
    let renewed = tiers.renew(b"k", &old, tiers.ticket(), metadata, head);
    assert_eq!(&*tiers.find(b"k").unwrap().variants()[0].head, b"newer");
    assert_eq!(renewed.disk_identity(), old.disk_identity());
    while tiers.disk().unwrap().load(b"k", b"").wait().unwrap().head != "newer" {
        std::thread::yield_now();
    }
}

#[test]
fn a_purge_reaches_both_tiers_and_what_moves_between_them() {
    let directory = Directory::new("purge");
    let tiers = open(&directory);
    for number in 0..200_u32 {
        let name = format!("a/{number}");
        tiers.insert(name.as_bytes(), &object(&tiers, &name, 4000));
        if let Some(entry) = tiers.find(name.as_bytes()) {
            entry.variant(b"");
        }
    }
    let purged =
        block_on(tiers.purge(PurgeScope::Prefix((*b"a/").into()), PurgeKind::Hard, || {})).unwrap();
    assert!(purged.in_memory > 10 && tiers.memory().stats().entries == 0);
    settle(&tiers);
    for number in 0..200_u32 {
        assert!(
            found(&tiers, format!("a/{number}").as_bytes()).is_none(),
            "{number} came back"
        );
    }
}

#[test]
fn a_walk_through_both_tiers_meets_each_key_once_and_in_order() {
    let directory = Directory::new("walk");
    let tiers = open(&directory);
    let disk = tiers.disk().unwrap();
    // Of ten keys, those in RAM are not those on disk, and each tier has some that the other one has not come to.
    for number in 0..10_u8 {
        let object = object(&tiers, "walked", 100);
        if [0, 1, 2, 3, 9].contains(&number) {
            tiers.insert(&[number], &object);
        } else {
            let stored = disk.store(&[number], &object, tiers.ticket(), || true);
            stored.wait().unwrap();
        }
    }
    for keys_max in 1..12 {
        let (mut met, mut after) = (Vec::new(), None);
        loop {
            let (held, last) = tiers.step(&PurgeScope::All, after.as_deref(), keys_max);
            met.extend(held.into_keys().map(|key| key[0]));
            after = last;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(met, (0..10).collect::<Vec<_>>(), "in steps of {keys_max}");
    }
}
