//! The stores as the gateway sees them.

// The rules of this crate have no threads and no clock; the stores, and what tests them, do.
#![allow(clippy::disallowed_methods)]

mod hit_ratio;
mod killed;
mod tiers;
mod workers;

use std::path::{Path, PathBuf};

/// A directory of its own for one test, removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-store-{}-{name}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
