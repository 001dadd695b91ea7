//! The disk tier, killed. This test binary runs itself as a process that writes, renews, replaces, purges and evicts, and kills it
//! at a random moment, again and again in the same directory. Each body says which key it belongs to and carries its own
//! checksum, so whatever the next process serves can be judged without knowing what the killed one had done.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_cache::store::disk::{DiskName, DiskSync};
use weir_cache::store::{DiskConfig, DiskStore, PurgeKind, PurgeScope, Purges, StoreError};
use xxhash_rust::xxh3::xxh3_64;

use super::Directory;

const ROUNDS: usize = 120;
const KEYS: u64 = 40;
const DIRECTORY: &str = "WEIR_CACHE_KILLED_DIRECTORY";
const SEED: &str = "WEIR_CACHE_KILLED_SEED";
const BYTES_MAX: u64 = 4 << 20;

fn open(directory: &Path) -> (DiskStore, Arc<Purges>) {
    let purges = Arc::new(Purges::default());
    let sync = DiskSync::Never;
    let config = DiskConfig {
        sync,
        ..DiskConfig::with_budget(directory.to_owned(), BYTES_MAX)
    };
    let store = DiskStore::open(config, Arc::clone(&purges)).unwrap();
    // A purge of nothing is answered once everything is indexed.
    store
        .sweep(PurgeScope::Tag("none".into()), PurgeKind::Hard, ())
        .wait()
        .unwrap();
    (store, purges)
}

/// Key, the version of it, noise, and the sum of all that.
fn body(key: u64, version: u64, length: usize) -> Bytes {
    let mut body = [key.to_be_bytes(), version.to_be_bytes()].concat();
    let mut random = fastrand::Rng::with_seed(version);
    body.extend(std::iter::repeat_with(|| random.u8(..)).take(length));
    let sum = xxh3_64(&body);
    body.extend_from_slice(&sum.to_be_bytes());
    body.into()
}

fn is_right(key: u64, head: &[u8], body: &[u8]) -> bool {
    let Some((content, sum)) = body.split_last_chunk::<8>() else {
        return false;
    };
    content.starts_with(&key.to_be_bytes())
        && xxh3_64(content).to_be_bytes() == *sum
        && content.get(8..16) == Some(head)
}

/// Runs until it is killed; the parent says when. Says "ready" once it writes, and then each purge that was answered.
#[test]
fn writer() {
    let (Ok(directory), Ok(seed)) = (std::env::var(DIRECTORY), std::env::var(SEED)) else {
        return;
    };
    let (store, purges) = open(Path::new(&directory));
    let mut random = fastrand::Rng::with_seed(seed.parse().unwrap());
    println!("\nready");
    loop {
        let (key, version) = (random.u64(..KEYS), random.u64(..));
        let name = key.to_be_bytes();
        if random.u8(..20) == 0 {
            let scope = PurgeScope::Key(name.into());
            let purge = purges.begin(&scope, PurgeKind::Hard);
            store.sweep(scope, PurgeKind::Hard, ()).wait().unwrap();
            purges.finish(purge);
            println!("purged {key}");
            // What is purged last must still be gone after the kill.
            std::thread::park_timeout(Duration::from_millis(random.u64(..3)));
            continue;
        }
        let body = body(key, version, random.usize(..200_000));
        let mut writer = store.write(&name, b"", purges.ticket(), None).unwrap();
        for piece in body.chunks(20_000) {
            writer.append(body.slice_ref(piece)).unwrap();
            writer.room().wait().unwrap();
        }
        let head = Bytes::copy_from_slice(&version.to_be_bytes());
        println!("writing {key}");
        let committed = writer.commit(Bytes::new(), head.clone(), Vec::new(), || true);
        if random.bool() {
            let object = DiskName {
                key: &name,
                variant: b"",
                identity: committed.wait().unwrap().identity(),
            };
            let renewed = store.renew(
                object,
                purges.ticket(),
                Bytes::from_static(b"renewed"),
                head,
            );
            if random.bool() {
                assert!(matches!(renewed.wait(), Ok(()) | Err(StoreError::Gone)));
            }
        }
    }
}

/// Runs the writer for so long, kills it, and says which keys it was last heard to have purged and not written since.
fn run_and_kill(directory: &Path, seed: u64, time: Duration) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::killed::writer", "--nocapture"])
        .envs([
            (DIRECTORY, directory.to_str().unwrap()),
            (SEED, &seed.to_string()),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(
        lines.any(|line| line == "ready"),
        "the writer has not started"
    );
    let killer = std::thread::spawn(move || {
        std::thread::sleep(time);
        child.kill().unwrap();
        child.wait().unwrap()
    });
    let mut purged = Vec::new();
    for line in lines {
        if let Some((what, key)) = line.split_once(' ')
            && let Ok(key) = key.parse::<u64>()
        {
            purged.retain(|purged| *purged != key);
            purged.extend((what == "purged").then_some(key));
        }
    }
    assert!(!killer.join().unwrap().success());
    purged
}

#[test]
fn after_a_kill_every_object_is_right_or_not_there() {
    let directory = Directory::new("killed");
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let (mut served, mut left_by_kill, mut purged_total) = (0, 0, 0);
    for round in 0..ROUNDS {
        // The writer takes some milliseconds for an object: a kill hits it anywhere between.
        let time = Duration::from_micros(random.u64(..30_000));
        let purged = run_and_kill(directory.path(), round as u64, time);
        left_by_kill += std::fs::read_dir(directory.path().join("temporary"))
            .unwrap()
            .count();
        let (store, _) = open(directory.path());
        assert_eq!(
            store.stats().damaged,
            0,
            "a file had its name before it was complete"
        );
        assert!(store.stats().bytes <= BYTES_MAX);
        purged_total += purged.len();
        for key in purged {
            assert!(
                store.find(&key.to_be_bytes()).is_empty(),
                "round {round}: {key} came back after its purge"
            );
        }
        for key in 0..KEYS {
            let name = key.to_be_bytes();
            if store.find(&name).is_empty() {
                continue;
            }
            let object = store.load(&name, b"").wait().unwrap();
            assert!(
                is_right(key, &object.head, &object.body().concat()),
                "round {round}, key {key}"
            );
            served += 1;
        }
    }
    println!(
        "{ROUNDS} kills, {left_by_kill} half-written files, {served} right bodies, {purged_total} purges"
    );
    assert!(
        served > ROUNDS && left_by_kill > ROUNDS / 4 && purged_total > 0,
        "the kills must hit something"
    );
}
