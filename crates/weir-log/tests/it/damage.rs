//! What was durable and is not there, or is another, is told: at once, or by whoever reads it.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use weir_log::{Disk, Error, Log, Readable, Settings};

use crate::crashing::Crashing;

const SETTINGS: Settings = Settings {
    segment_bytes: 2000,
    readable: Readable::Durable,
    seed: 0x5eed,
};

/// A disk with a log of 60 records, each synced, and the bodies that they have.
fn written() -> (Crashing, Vec<Vec<u8>>) {
    let disk = Crashing::default();
    let (mut log, _) = Log::open(Arc::new(disk.clone()), SETTINGS).expect("it is empty");
    let mut rng = Rng::with_seed(1);
    let bodies: Vec<Vec<u8>> = (0..60)
        .map(|_| vec![rng.u8(..); rng.usize(..200)])
        .collect();
    for body in &bodies {
        log.append(0, b"head", body).expect("it is taken");
        log.write()
            .and_then(|()| log.sync())
            .expect("it is durable");
    }
    (disk, bodies)
}

fn is_a(name: &str, extension: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|end| end == extension)
}

/// All that can be read; or what is wrong.
fn read(disk: &Crashing) -> Result<Vec<Vec<u8>>, Error> {
    let (log, _) = Log::open(Arc::new(disk.clone()), SETTINGS)?;
    let mut cursor = log.read_from(0);
    let mut bodies = Vec::new();
    while let Some(record) = cursor.read()? {
        bodies.push(record.body.to_vec());
    }
    Ok(bodies)
}

/// Any byte of any file. Only in the last record it passes for an end that a crash has torn.
#[test]
fn a_byte_that_has_changed_is_found() {
    let (disk, bodies) = written();
    let names = disk.names().expect("it works");
    let last = names.iter().filter(|name| is_a(name, "log")).max();
    let last = last.expect("there is one");
    let mut rng = Rng::with_seed(2);
    for name in &names {
        let mut length = 0;
        disk.edit(name, |bytes| length = bytes.len());
        for at in 0..length {
            let damaged = disk.left_behind();
            damaged.edit(name, |bytes| bytes[at] ^= rng.u8(1..));
            let is_in_last = name == last && at >= length - 4 - 36 - bodies[59].len();
            match read(&damaged) {
                Err(Error::Damaged(damage)) => {
                    assert_eq!(&damage.name, name, "{at}");
                    assert!(damage.position <= at as u64, "{at}: {damage}");
                }
                Err(error) => panic!("{name}, {at}: {error}"),
                Ok(found) if is_in_last => assert_eq!(found, bodies[..59]),
                Ok(found) => {
                    assert!(is_a(name, "index"), "{name}, {at}");
                    assert_eq!(found, bodies);
                }
            }
        }
    }
}

#[test]
fn a_segment_that_is_missing_or_cut_is_found() {
    let (disk, bodies) = written();
    let names = disk.names().expect("it works");
    let mut logs: Vec<&String> = names.iter().filter(|name| is_a(name, "log")).collect();
    logs.sort();
    assert!(logs.len() > 3);
    for name in &logs[1..logs.len() - 1] {
        let damaged = disk.left_behind();
        damaged.remove(name).expect("it is there");
        let error = read(&damaged).expect_err("a part is missing").to_string();
        assert!(error.contains("missing"), "{error}");
        for has_index in [true, false] {
            let damaged = disk.left_behind();
            damaged.edit(name, |bytes| bytes.truncate(bytes.len() - 1));
            if !has_index {
                let index = name.replace(".log", ".index");
                damaged.remove(&index).expect("it is there");
            }
            let error = read(&damaged).expect_err("a part is missing").to_string();
            assert!(
                error.contains(&**name) && error.contains("without its end"),
                "{error}"
            );
        }
    }
    // Nothing is wrong with one whose beginning was no longer needed.
    let shorter = disk.left_behind();
    shorter.remove(logs[0]).expect("it is there");
    assert_eq!(
        read(&shorter).expect("the rest is whole"),
        bodies[60 - read(&shorter).expect("so it is").len()..]
    );
}

/// A client sends what looks like a record that vouches for what precedes it, and the crash keeps that part alone.
#[test]
fn nobody_can_send_a_record() {
    let (other, _) = written();
    let mut forged = Vec::new();
    other.edit("00000000000000000000.log", |bytes| forged.clone_from(bytes));
    let disk = Crashing::default();
    let settings = Settings {
        seed: 0xacc,
        ..SETTINGS
    };
    let open = |disk: &Crashing| Log::open(Arc::new(disk.clone()), settings);
    let (mut log, _) = open(&disk).expect("it is empty");
    log.append(0, b"", &forged).expect("it is taken");
    log.write().expect("it is written");
    drop(log);
    // Its head is lost.
    disk.edit("00000000000000000000.log", |bytes| bytes[40] ^= 1);
    let (log, recovered) = open(&disk).expect("it is a torn end, and no damage");
    assert!(recovered.torn_bytes > 1000);
    assert_eq!(log.next_offset(), 0);
}
