//! The URLs that requests have changed while files of the last run were not all indexed. If the process is killed
//! before it has met them all, the next one reads this, and removes what it finds of them.
//!
//! Only the hash of each URL is kept, 16 bytes (xxh3, little-endian), one after another in the file `ended`. An
//! incomplete one at the end belongs to a request that was not answered. Two URLs with one hash end together, which
//! costs a miss.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::key::url_of;
use crate::store::purge::PurgeScope;

/// URLs that are kept apart. With more, everything that is not indexed yet ends.
const URLS_MAX: usize = 1 << 16;
const HASH_BYTES: usize = 16;
/// Stands for all URLs, in place of a hash. A URL with this hash would end the others with it.
const ALL: u128 = u128::MAX;

#[derive(Debug)]
pub(super) struct Ended {
    file: File,
    /// How many hashes are in the file.
    hashes: usize,
    urls: HashSet<u128>,
}

/// What to write, and where.
pub(super) struct Note {
    pub(super) bytes: [u8; HASH_BYTES],
    pub(super) offset: u64,
}

impl Ended {
    /// Reads what the last run has left.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut bytes = Vec::new();
        io::Read::take(&mut file, ((URLS_MAX + 1) * HASH_BYTES) as u64).read_to_end(&mut bytes)?;
        let hashes = bytes.as_chunks::<HASH_BYTES>().0;
        let urls = hashes.iter().map(|hash| u128::from_le_bytes(*hash));
        Ok(Self {
            file,
            hashes: hashes.len(),
            urls: urls.collect(),
        })
    }

    /// Whether a file of the last run with this primary key must be removed.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        !self.urls.is_empty()
            && (self.urls.contains(&xxh3_128(url_of(key))) || self.urls.contains(&ALL))
    }

    /// What to write so that the next run ends `scope`, if anything.
    pub(super) fn note(&self, scope: &PurgeScope) -> Option<Note> {
        let hash = match scope {
            _ if self.hashes >= URLS_MAX => ALL,
            PurgeScope::Key(name) | PurgeScope::FirstLine(name) => xxh3_128(url_of(name)),
            _ => ALL,
        };
        if self.urls.contains(&hash) || self.urls.contains(&ALL) {
            return None;
        }
        // An incomplete entry is overwritten.
        Some(Note {
            bytes: hash.to_le_bytes(),
            offset: (self.hashes * HASH_BYTES) as u64,
        })
    }

    pub(super) fn noted(&mut self, note: &Note) {
        self.hashes += 1;
        self.urls.insert(u128::from_le_bytes(note.bytes));
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Every file has been met.
    pub(super) fn clear(&mut self) {
        if !self.urls.is_empty() {
            // If this fails, the next start ends responses stored since then: a miss each.
            _ = self.file.set_len(0);
            (self.hashes, self.urls) = (0, HashSet::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn end(ended: &mut Ended, url: &[u8]) -> bool {
        let Some(note) = ended.note(&PurgeScope::FirstLine(url.into())) else {
            return false;
        };
        ended.file().write_all_at(&note.bytes, note.offset).unwrap();
        ended.noted(&note);
        true
    }

    #[test]
    fn the_next_run_ends_what_was_noted_until_every_file_was_met() {
        let path = std::env::temp_dir().join(format!("weir-ended-{}", std::process::id()));
        let open = || Ended::open(&path).unwrap();
        let mut ended = open();
        assert!(end(&mut ended, b"http://h/a") && end(&mut ended, b"http://h/b"));
        assert!(!end(&mut ended, b"http://h/a"), "it is noted already");
        ended.file().write_all_at(&[7; 9], 32).unwrap();
        let mut ended = open();
        let covers = |ended: &Ended| {
            [
                "http://h/a",
                "http://h/a\nheader b:c",
                "http://h/b",
                "http://h/",
            ]
            .map(|key| ended.covers(key.as_bytes()))
        };
        assert_eq!(covers(&ended), [true, true, true, false]);
        assert!(end(&mut ended, b"http://h/"), "over what was torn");
        assert_eq!(covers(&open()), [true; 4]);
        ended.clear();
        assert_eq!((covers(&ended), covers(&open())), ([false; 4], [false; 4]));
        for number in 0..URLS_MAX {
            assert!(end(&mut ended, number.to_string().as_bytes()));
        }
        assert!(!ended.covers(b"none of them"));
        assert!(end(&mut ended, b"one more") && !end(&mut ended, b"and another"));
        assert!(ended.covers(b"none of them") && open().covers(b"none of them"));
        std::fs::remove_file(&path).unwrap();
    }
}
