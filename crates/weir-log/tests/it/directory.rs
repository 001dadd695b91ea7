//! Real files.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs, process};

use weir_log::{Directory, Error, Log, Readable, Settings};

const SETTINGS: Settings = Settings {
    segment_bytes: 100_000,
    readable: Readable::Durable,
    seed: 0x5eed,
};

/// A directory that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("weir-log-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_log_is_there_again() {
    let directory = Temporary::new("again");
    let path = directory.0.join("deep/events");
    for round in 0..5u64 {
        let disk = Directory::open(&path).expect("it can be created");
        let (mut log, _) = Log::open(Arc::new(disk), SETTINGS).expect("it is whole");
        assert_eq!(log.next_offset(), round * 100);
        for number in 0..100u64 {
            log.append(round, b"head", &number.to_le_bytes().repeat(60))
                .expect("it is taken");
            log.write().expect("there is room");
            if number % 3 == 0 {
                log.sync().expect("it works");
            }
        }
    }
    let disk = Directory::open(&path).expect("it is there");
    let (log, recovered) = Log::open(Arc::new(disk), SETTINGS).expect("it is whole");
    assert_eq!(recovered.torn_bytes, 0);
    let mut cursor = log.read_from(0);
    for offset in 0..500 {
        let record = cursor.read().expect("it is whole").expect("it is there");
        assert_eq!((record.offset, record.time_ms), (offset, offset / 100));
        assert_eq!(record.body, (offset % 100).to_le_bytes().repeat(60));
    }
}

#[test]
fn a_directory_has_one_log_at_a_time() {
    let directory = Temporary::new("lock");
    let first = Directory::open(&directory.0).expect("it can be created");
    let second = Directory::open(&directory.0).expect_err("it is in use");
    assert!(matches!(second, Error::InUse(_)), "{second}");
    assert!(second.to_string().contains("in use by another process"));
    drop(first);
    Directory::open(&directory.0).expect("it is free again");
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let directory = Temporary::new("file");
    fs::write(&directory.0, b"").expect("it can be written");
    let error = Directory::open(&directory.0)
        .expect_err("it is a file")
        .to_string();
    assert!(error.contains(&*directory.0.to_string_lossy()), "{error}");
    fs::remove_file(&directory.0).expect("it is there");
}
