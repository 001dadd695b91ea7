//! Reading a file that a user names. Something else than a file might never end: a pipe that nobody writes to, a device.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// No file that says what to do is longer.
const BYTES_MAX: u64 = 16 << 20;

/// All of a file.
///
/// # Errors
/// It is no file, cannot be read, or has more than 16 MiB.
pub(crate) fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = beginning(path, BYTES_MAX + 1)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    Ok(bytes)
}

/// The first bytes of a file, so many at most.
///
/// # Errors
/// It is no file, or cannot be read.
pub(super) fn beginning(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() {
        let found = if kind.is_dir() {
            "a directory"
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        return Err(io::Error::other(format!("it is {found}, not a file")));
    }
    let mut read = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}
