//! A file that is replaced as a whole: it holds one complete state, however the process dies.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What is in the file at `path`, and nothing when there is none.
///
/// # Errors
/// It is something else than a file, or cannot be read.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a file")),
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Writes `bytes` into a file beside the one at `path`.
pub(super) fn draft(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut name = path.to_owned().into_os_string();
    name.push(".draft");
    let draft = PathBuf::from(name);
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(draft)
}

/// Replaces the file at `path` with a draft, durably.
pub(super) fn publish(path: &Path, draft: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|at| !at.as_os_str().is_empty());
    // Whatever can fail here comes before the new file is in place.
    let directory = File::open(directory.unwrap_or(Path::new(".")))?;
    fs::rename(draft, path)?;
    directory.sync_all()
}
