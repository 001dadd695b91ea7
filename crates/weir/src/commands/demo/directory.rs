//! Where a demo keeps what it writes.

use std::io;
use std::path::{Path, PathBuf};

/// A directory that is gone when this is dropped.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// One of this process; it is made by who needs it.
    pub(super) fn new() -> Self {
        let name = format!("weir-demo-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it, and says where that is.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(&self.0)?;
        let path = self.0.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
