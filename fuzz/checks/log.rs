//! What must hold of every log, whatever its files have become: the first byte chooses what is done to them, and the rest says how.
//!
//! With an even first byte, a log of records is written whose lengths are the next bytes up to a zero, and then each four bytes change
//! a byte of a file, or cut one off. With an odd one, the rest takes the place of what follows the header of its last segment.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_log::{Disk, DiskFile, Error, Log, Readable, Settings};

const SETTINGS: Settings = Settings {
    segment_bytes: 1000,
    readable: Readable::Durable,
    seed: 0x5eed,
};
/// Bytes of a segment before its first record.
const HEADER_BYTES: usize = 36;

/// Panics if opening and reading what `data` describes breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let [first, rest @ ..] = data else {
        return;
    };
    let disk = Held::default();
    let ends = rest.iter().position(|&byte| byte == 0);
    let (lengths, edits) = rest.split_at(ends.unwrap_or(rest.len().min(8)));
    let is_edited = first % 2 == 0;
    let written = write(
        &disk,
        if is_edited {
            lengths
        } else {
            &[200, 9, 200, 7, 200]
        },
    );
    if is_edited {
        for edit in edits.get(1..).unwrap_or_default().chunks_exact(4) {
            disk.edit([edit[0], edit[1], edit[2], edit[3]]);
        }
    } else {
        disk.replace_last(rest);
    }
    let Some(found) = read(&disk) else {
        return;
    };
    if is_edited {
        for (offset, body) in &found {
            assert_eq!(
                written.get(*offset as usize),
                Some(body),
                "a record is invented"
            );
        }
    }
    assert_eq!(read(&disk), Some(found), "opening it again finds the same");
}

/// Writes records of these lengths, each synced, and says their bodies.
fn write(disk: &Held, lengths: &[u8]) -> Vec<Vec<u8>> {
    let (mut log, _) = Log::open(Arc::new(disk.clone()), SETTINGS).expect("it is empty");
    let mut bodies = Vec::new();
    for (number, &length) in lengths.iter().enumerate() {
        let body = vec![number as u8; usize::from(length) * 2];
        let offset = log.append(number as u64, b"head", &body);
        assert_eq!(offset.expect("it is short"), number as u64);
        log.write()
            .and_then(|()| log.sync())
            .expect("there is room");
        bodies.push(body);
    }
    bodies
}

/// The records that can be read, up to the first that is damaged; `None` when the log is refused.
fn read(disk: &Held) -> Option<Vec<(u64, Vec<u8>)>> {
    let log = match Log::open(Arc::new(disk.clone()), SETTINGS) {
        Ok((log, _)) => log,
        Err(Error::Damaged(_)) => return None,
        Err(error) => panic!("this disk refuses nothing: {error}"),
    };
    let mut records: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut cursor = log.read_from(0);
    loop {
        match cursor.read() {
            Ok(Some(record)) => {
                let last = records.last().map(|(offset, _)| *offset);
                assert!(last.is_none_or(|last| last < record.offset));
                assert!(record.offset < log.next_offset());
                records.push((record.offset, record.body.to_vec()));
            }
            Ok(None) => return Some(records),
            Err(Error::Damaged(damage)) => {
                assert!(records.iter().all(|(offset, _)| *offset < damage.offset));
                return Some(records);
            }
            Err(error) => panic!("this disk refuses nothing: {error}"),
        }
    }
}

/// Files in memory.
#[derive(Debug, Clone, Default)]
struct Held(Arc<Mutex<BTreeMap<String, File>>>);

#[derive(Debug, Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    fn edit(&self, [which, low, high, how]: [u8; 4]) {
        let files = lock(&self.0);
        let Some(file) = files.values().nth(usize::from(which) % files.len()) else {
            return;
        };
        let mut bytes = lock(&file.0);
        let at = usize::from(u16::from_le_bytes([low, high]));
        match how {
            0 => bytes.truncate(at),
            _ => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= how),
        }
    }

    fn replace_last(&self, content: &[u8]) {
        let files = lock(&self.0);
        let last = files.iter().rev().find(|(name, _)| name.contains(".log"));
        let mut bytes = lock(&last.expect("there is a segment").1.0);
        bytes.truncate(HEADER_BYTES);
        bytes.extend(content);
    }
}

impl Disk for Held {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = File::default();
        lock(&self.0).insert(name.to_owned(), file.clone());
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = lock(&self.0).get(name).cloned();
        Ok(Arc::new(file.ok_or(io::ErrorKind::NotFound)?))
    }

    fn open_afresh(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = lock(&self.0).remove(name);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let bytes = lock(&self.0);
        let there = bytes.get(position as usize..).unwrap_or_default();
        let read = buffer.len().min(there.len());
        buffer[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut held = lock(&self.0);
        let ends = position as usize + bytes.len();
        if held.len() < ends {
            held.resize(ends, 0);
        }
        held[position as usize..ends].copy_from_slice(bytes);
        Ok(())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        lock(&self.0).truncate(bytes as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
