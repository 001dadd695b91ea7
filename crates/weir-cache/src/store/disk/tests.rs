//! The promises of the disk tier, with the faults that a test can make: damaged files, a full disk, purges that race.
//! The kill -9 loop is in `tests/it/store/killed.rs`.

mod changed;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::format::{HEADER_BYTES, body_end};
use std::path::PathBuf;

use super::*;
use crate::store::purge::{PurgeKind, PurgeScope};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-disk-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let objects = fs::read_dir(self.0.join("objects"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let directories = objects.chain([self.0.join("temporary")]);
        directories
            .flat_map(|path| fs::read_dir(path).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.files()
            .iter()
            .filter_map(|path| fs::metadata(path).ok())
            .map(|metadata| metadata.len())
            .sum()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path, bytes_max: u64) -> (DiskStore, Arc<Purges>) {
    open_with(directory, bytes_max, |file, bytes, offset| {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    })
}

fn open_with(directory: &Path, bytes_max: u64, write_at: WriteAt) -> (DiskStore, Arc<Purges>) {
    let purges = Arc::new(Purges::default());
    let config = DiskConfig::with_budget(directory.to_owned(), bytes_max);
    let store = DiskStore::open_with(config, Arc::clone(&purges), write_at).unwrap();
    wait_until_indexed(&store);
    (store, purges)
}

fn wait_until_indexed(store: &DiskStore) {
    let (reply, answer) = Answer::pair();
    store
        .shared
        .volume
        .when_indexed(Box::new(move |_| reply.send(Ok(()))));
    answer.wait().unwrap();
}

fn body(length: usize, seed: u64) -> Bytes {
    let mut body = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut body);
    body.into()
}

fn put(store: &DiskStore, key: &[u8], ticket: Ticket, body: &Bytes) -> Result<(), StoreError> {
    let mut writer = store.write(key, b"", ticket, None)?;
    for piece in body.chunks(10_000) {
        writer.append(body.slice_ref(piece))?;
        writer.room().wait()?;
    }
    writer
        .commit(
            Bytes::from_static(b"meta"),
            Bytes::from_static(b"head"),
            vec!["tag".into()],
            || true,
        )
        .wait()
        .map(|_| ())
}

fn get(store: &DiskStore, key: &[u8]) -> Result<Vec<u8>, StoreError> {
    let object = store.open_object(key, b"").wait()?;
    assert_eq!(
        (&**object.metadata(), &**object.head()),
        (b"meta".as_slice(), b"head".as_slice())
    );
    let mut body = Vec::new();
    loop {
        let block = object.read(body.len() as u64, Vec::new()).wait()?;
        if block.is_empty() {
            return Ok(body);
        }
        body.extend_from_slice(&block);
    }
}

/// What moves an object to disk counts as under way until lookups find it there; a newer one in RAM would else leave it be.
#[test]
fn what_is_asked_before_a_commit_is_held_until_the_object_is_found() {
    struct Held(
        &'static [u8],
        std::sync::Weak<DiskStore>,
        std::sync::mpsc::Sender<bool>,
    );
    impl Drop for Held {
        fn drop(&mut self) {
            let is_found = |store: Arc<DiskStore>| store.identity(self.0, b"").is_some();
            self.2.send(self.1.upgrade().is_some_and(is_found)).unwrap();
        }
    }
    let directory = Directory::new("held");
    let (store, purges) = open(&directory.0, 64 << 20);
    let store = Arc::new(store);
    let (sender, dropped) = std::sync::mpsc::channel();
    let held = |key| Held(key, Arc::downgrade(&store), sender.clone());
    let is_wanted = |held: Held| {
        move || {
            let _held = &held;
            true
        }
    };
    let writer = store.write(b"key", b"", purges.ticket(), None).unwrap();
    let wanted = is_wanted(held(b"key"));
    let committed = writer.commit(Bytes::new(), Bytes::new(), Vec::new(), wanted);
    assert!(dropped.recv().unwrap(), "it arrived on disk");
    drop(committed.wait().unwrap());
    let bytes = (Bytes::new(), Bytes::new());
    let object = Object::new(b"", purges.ticket(), bytes.0, bytes.1, Vec::new());
    let wanted = is_wanted(held(b"other"));
    let stored = store.store(b"other", &Arc::new(object), purges.ticket(), wanted);
    assert!(dropped.recv().unwrap(), "it was whole in RAM");
    stored.wait().unwrap();
}

#[test]
fn bodies_of_every_shape_come_back_also_after_a_restart() {
    let directory = Directory::new("shapes");
    let lengths = [0_usize, 1, 65_535, 65_536, 65_537, 131_072, 300_000];
    let (store, purges) = open(&directory.0, 64 << 20);
    for length in lengths {
        put(
            &store,
            &length.to_be_bytes(),
            purges.ticket(),
            &body(length, length as u64),
        )
        .unwrap();
    }
    drop(store);
    let (store, _) = open(&directory.0, 64 << 20);
    for length in lengths {
        let wanted = body(length, length as u64);
        assert_eq!(get(&store, &length.to_be_bytes()).unwrap(), wanted);
        let loaded = store.load(&length.to_be_bytes(), b"").wait().unwrap();
        assert_eq!(loaded.body().concat(), wanted);
        let object = store
            .open_object(&length.to_be_bytes(), b"")
            .wait()
            .unwrap();
        for offset in [
            0,
            1,
            length / 2,
            length.saturating_sub(1),
            length,
            length + 9,
        ] {
            let read = object
                .read(offset as u64, Vec::with_capacity(200_000))
                .wait()
                .unwrap();
            let rest = wanted.get(offset..).unwrap_or_default();
            assert!(rest.starts_with(&read) && read.is_empty() == rest.is_empty());
        }
    }
    assert_eq!(store.stats().objects, lengths.len() as u64);
}

#[test]
fn a_damaged_file_is_dropped_and_never_served() {
    let directory = Directory::new("damaged");
    let wanted = body(150_000, 1);
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..200 {
        let (store, purges) = open(&directory.0, 64 << 20);
        put(&store, b"k", purges.ticket(), &wanted).unwrap();
        let path = store.shared.volume.path(b"k", b"");
        let mut bytes = fs::read(&path).unwrap();
        let length = bytes.len();
        let trailer = body_end(wanted.len() as u64) as usize;
        // Header and trailer are a small part of a file, but more of their bytes matter.
        let part = [0..length, 0..HEADER_BYTES, 0..length, trailer..length];
        let at = random.usize(part[round % 4].clone());
        if round % 4 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << random.u8(..8);
        }
        fs::write(&path, &bytes).unwrap();
        let store = if random.bool() {
            drop(store);
            open(&directory.0, 64 << 20).0
        } else {
            store
        };
        // The eight unsummed bytes may change without harm.
        if let Ok(read) = get(&store, b"k") {
            assert_eq!(read, wanted);
        } else {
            assert!(matches!(get(&store, b"k"), Err(StoreError::Gone)));
            assert!(directory.files().is_empty() && store.stats().bytes == 0);
        }
    }
}

#[test]
fn the_file_of_another_object_is_not_served_under_its_name() {
    let directory = Directory::new("swapped");
    let (store, purges) = open(&directory.0, 64 << 20);
    put(&store, b"a", purges.ticket(), &body(10, 1)).unwrap();
    put(&store, b"b", purges.ticket(), &body(10, 2)).unwrap();
    fs::copy(
        store.shared.volume.path(b"a", b""),
        store.shared.volume.path(b"b", b""),
    )
    .unwrap();
    assert!(matches!(get(&store, b"b"), Err(StoreError::Damaged(_))));
    assert_eq!(get(&store, b"a").unwrap(), body(10, 1));
}

#[test]
fn the_budget_holds_while_objects_come_go_and_are_given_up() {
    let directory = Directory::new("budget");
    let bytes_max = 2 << 20;
    let (store, purges) = open(&directory.0, bytes_max);
    let mut random = fastrand::Rng::with_seed(5);
    let mut given_up = Vec::new();
    for round in 0..300_u64 {
        put(
            &store,
            &random.u8(..60).to_be_bytes(),
            purges.ticket(),
            &body(random.usize(..200_000), round),
        )
        .unwrap();
        if round % 10 == 0 {
            let mut writer = store
                .write(b"given up", b"", purges.ticket(), None)
                .unwrap();
            writer.append(body(100_000, round)).unwrap();
            given_up.push(writer);
            given_up.drain(..given_up.len().saturating_sub(3));
        }
        assert!(directory.bytes() <= bytes_max && store.stats().bytes <= bytes_max);
    }
    assert!(store.stats().evicted > 50 && store.stats().bytes > bytes_max / 2);
    let too_large = put(&store, b"large", purges.ticket(), &body(600_000, 1));
    assert!(matches!(too_large, Err(StoreError::NoRoom)));
    drop(given_up);
    drop(store);
    let (store, _) = open(&directory.0, bytes_max / 2);
    assert!(store.stats().bytes <= bytes_max / 2 && directory.bytes() <= bytes_max / 2);
    assert_eq!(directory.files().len() as u64, store.stats().objects);
}

#[test]
fn a_full_file_system_costs_objects_not_the_store() {
    static IS_FULL: AtomicBool = AtomicBool::new(false);
    let directory = Directory::new("full");
    let (store, purges) = open_with(&directory.0, 64 << 20, |file, bytes, offset| {
        if IS_FULL.load(Ordering::Relaxed) {
            // Half of the bytes are written, as on a real disk.
            std::os::unix::fs::FileExt::write_all_at(file, &bytes[..bytes.len() / 2], offset)?;
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        }
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    });
    for key in 0..100_u8 {
        put(&store, &[key], purges.ticket(), &body(1000, u64::from(key))).unwrap();
    }
    IS_FULL.store(true, Ordering::Relaxed);
    assert!(matches!(
        put(&store, b"new", purges.ticket(), &body(70_000, 1)),
        Err(StoreError::Io(_))
    ));
    assert!(store.stats().disk_full >= 1 && store.stats().evicted >= 64);
    IS_FULL.store(false, Ordering::Relaxed);
    assert_eq!(get(&store, &[99]).unwrap(), body(1000, 99));
    put(&store, b"new", purges.ticket(), &body(70_000, 1)).unwrap();
    assert_eq!(directory.files().len() as u64, store.stats().objects);
}

#[test]
fn a_renewed_head_is_found_after_a_restart_and_the_file_does_not_grow_without_end() {
    let directory = Directory::new("renewed");
    let (store, purges) = open(&directory.0, 64 << 20);
    put(&store, b"k", purges.ticket(), &body(70_000, 1)).unwrap();
    for round in 0..50_u8 {
        let metadata = Bytes::from(vec![round; 1 + usize::from(round % 7) * 100]);
        let identity = store.identity(b"k", b"").unwrap();
        let name = DiskName {
            key: b"k",
            variant: b"",
            identity,
        };
        store
            .renew(
                name,
                purges.ticket(),
                metadata,
                Bytes::from_static(b"newer"),
            )
            .wait()
            .unwrap();
    }
    assert!(directory.bytes() < 75_000);
    drop(store);
    let (store, _) = open(&directory.0, 64 << 20);
    let loaded = store.load(b"k", b"").wait().unwrap();
    assert_eq!(
        (&*loaded.head, &*loaded.metadata),
        (b"newer".as_slice(), [49].as_slice())
    );
    assert_eq!(loaded.body().concat(), body(70_000, 1));
}

#[test]
fn purges_cover_stored_and_arriving_objects_and_those_of_a_restart() {
    let directory = Directory::new("purged");
    let (store, purges) = open(&directory.0, 64 << 20);
    for key in ["a/1", "a/2", "b/1", "b/2"] {
        put(&store, key.as_bytes(), purges.ticket(), &body(100, 1)).unwrap();
    }
    let before = purges.ticket();
    let purge = |scope: PurgeScope, kind| {
        purges.begin(&scope, kind);
        store.sweep(scope, kind, ()).wait().unwrap()
    };
    assert_eq!(
        purge(PurgeScope::Prefix((*b"a/").into()), PurgeKind::Hard),
        2
    );
    assert!(matches!(
        put(&store, b"a/1", before, &body(100, 2)),
        Err(StoreError::Purged)
    ));
    assert_eq!(purge(PurgeScope::Key((*b"b/1").into()), PurgeKind::Soft), 1);
    let is_stale = |store: &DiskStore| {
        ["a/1", "a/2", "b/1", "b/2"].map(|key| {
            store
                .find(key.as_bytes())
                .first()
                .map(|stored| stored.is_stale)
        })
    };
    assert_eq!(is_stale(&store), [None, None, Some(true), Some(false)]);
    drop(store);
    let (store, _) = open(&directory.0, 64 << 20);
    assert_eq!(is_stale(&store), [None, None, Some(true), Some(false)]);
    assert!(store.load(b"b/1", b"").wait().unwrap().is_marked_stale());
}

#[test]
fn files_that_are_no_objects_or_cannot_be_read_do_no_harm() {
    let directory = Directory::new("foreign");
    let (store, purges) = open(&directory.0, 64 << 20);
    put(&store, b"k", purges.ticket(), &body(100, 1)).unwrap();
    let in_use = DiskStore::open(
        DiskConfig::with_budget(directory.0.clone(), 1 << 20),
        Arc::default(),
    );
    assert!(matches!(in_use, Err(StoreError::InUse)));
    drop(store);
    fs::write(directory.0.join("objects/00/empty"), "").unwrap();
    fs::write(directory.0.join("objects/01/text"), "hello".repeat(100)).unwrap();
    fs::write(directory.0.join("temporary/left"), "half").unwrap();
    fs::create_dir(directory.0.join("objects/02/directory")).unwrap();
    let (store, _) = open(&directory.0, 64 << 20);
    assert_eq!((store.stats().objects, store.stats().damaged), (1, 3));
    assert_eq!(get(&store, b"k").unwrap(), body(100, 1));
    fs::remove_file(store.shared.volume.path(b"k", b"")).unwrap();
    fs::create_dir(store.shared.volume.path(b"k", b"")).unwrap();
    assert!(get(&store, b"k").is_err() && store.find(b"k").is_empty());
}

#[test]
fn a_start_that_is_short_of_descriptors_waits_for_them() {
    let directory = Directory::new("short");
    let (store, _) = open(&directory.0, 1 << 30);
    let volume = &store.shared.volume;
    let mut failures = vec![24, 23];
    let found = rebuild::patiently(volume, || match failures.pop() {
        Some(error) => Err(std::io::Error::from_raw_os_error(error).into()),
        None => Ok(7),
    });
    assert_eq!(found.unwrap(), 7);
    // A fault of the file itself is not waited for.
    let mut attempts = 0;
    let damaged = rebuild::patiently(volume, || {
        attempts += 1;
        Err::<(), _>(StoreError::Damaged("all of it"))
    });
    assert!(damaged.is_err() && attempts == 1);
}

#[test]
fn the_oldest_variants_make_room_as_in_ram() {
    let directory = Directory::new("variants");
    let (store, purges) = open(&directory.0, 64 << 20);
    let shares = [
        None,
        Some(Arc::new(Share::new(u64::MAX, 3))),
        Some(Arc::new(Share::new(u64::MAX, 0))),
    ];
    for (share, kept) in shares.iter().zip([16, 3, 1]) {
        for number in 0..40_u8 {
            let variant = [number];
            let object = Object::new(
                &variant,
                purges.ticket(),
                Bytes::new(),
                Bytes::new(),
                vec![body(100, 1)],
            );
            if let Some(share) = share {
                object.belongs_to(share);
            }
            let stored = store.store(b"k", &Arc::new(object), purges.ticket(), || true);
            stored.wait().unwrap();
            put(&store, &[b'o', number % 5], purges.ticket(), &body(10, 1)).unwrap();
        }
        let found: Vec<_> = store.find(b"k").iter().map(|one| one.variant[0]).collect();
        assert_eq!(found, (40 - kept..40).rev().collect::<Vec<_>>());
        assert_eq!(directory.files().len(), usize::from(kept) + 5);
        assert_eq!(store.stats().objects, u64::from(kept) + 5);
    }
}
