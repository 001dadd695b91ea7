//! Whether files can be written where a configuration says, found out without writing any.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// A file can be written to or made at `path`.
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.file_type().is_socket() => Err(io::Error::other("it is a socket")),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        // A link to nothing is followed when a file is made: where it leads to the end, one has to be made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(leads_to) => may_write(&parent(path).join(leads_to)),
            Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => {
                Err(io::ErrorKind::IsADirectory.into())
            }
            Err(_) => may_write_in(parent(path)),
        },
        Err(error) => Err(error),
    }
}

/// Opens a file for lines that are added to it. A pipe has to have a reader: to wait for one would be to wait for ever.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            io::Error::other("it is a pipe that nobody reads, or no file at all")
        }
        _ => error,
    })?;
    // From here on whoever writes waits.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Where `path` leads, through links and what is yet to be made: the same for all spellings of a place.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    const LINKS_MAX: u32 = 40;
    fn follow(path: &Path, links_left: u32) -> PathBuf {
        if let Ok(found) = fs::canonicalize(path) {
            return found;
        }
        match (fs::read_link(path), path.file_name()) {
            (Ok(leads_to), _) if links_left > 0 => {
                follow(&parent(path).join(leads_to), links_left - 1)
            }
            (_, Some(name)) if parent(path) != path => follow(parent(path), links_left).join(name),
            _ => path.to_owned(),
        }
    }
    follow(path, LINKS_MAX)
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
