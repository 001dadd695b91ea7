//! The files that a configuration was read from, and whether they have changed since.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How each file and directory looked before it was read: the config file, what it includes, directories in which files
/// to include were looked for, and files with values. `None` where there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inputs(BTreeMap<PathBuf, Option<Stamp>>);

impl Inputs {
    /// Must be called before the file is read, so that a later change is seen.
    pub(super) fn note(&mut self, path: &Path) {
        let before = || Stamp::of(path);
        let _ = self.0.entry(path.to_owned()).or_insert_with(before);
    }

    /// The same files and directories as they look now.
    pub(crate) fn now(&self) -> Self {
        let paths = self.0.keys();
        let stamps = paths.map(|path| (path.clone(), Stamp::of(path)));
        Self(stamps.collect())
    }

    /// Whether there is a file at `path`.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(Option::is_some)
    }

    /// Whether it is one of these files.
    pub(super) fn is_one(&self, path: &Path) -> bool {
        let Some(Stamp { file, .. }) = Stamp::of(path) else {
            return false;
        };
        let mut files = self.0.values().flatten();
        files.any(|stamp| stamp.file == file)
    }
}

/// Tells a changed file from an unchanged one. It also sees when another file took its name, or when a symbolic link
/// changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
