//! Whether files can be written where a configuration says, found out without writing any.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

/// A file can be written to or made at `path`.
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => may_write_in(parent(path)),
        Err(error) => Err(error),
    }
}

/// There is a directory at `path` in which files can be made, or one can be made with all that it is in.
pub(crate) fn may_make_directory(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = parent(path);
            if parent == path {
                Err(error)
            } else {
                may_make_directory(parent)
            }
        }
        _ => may_write_in(path),
    }
}

fn may_write_in(directory: &Path) -> io::Result<()> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
