//! Names of messages that nobody can guess: who was told one may ask what became of it.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use siphasher::sip::SipHasher24;

const FILE: &str = "secret";

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The secret of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret([u8; 16]);

impl Secret {
    /// The one in the directory, which is made when there is none.
    pub(crate) fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE);
        let mut secret = [0; 16];
        let kept = fs::File::open(&path).and_then(|mut file| file.read_exact(&mut secret));
        match kept {
            Ok(()) => {}
            // There is none, or a crash has left half of it.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) =>
            {
                secret = random()?;
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(0o600);
                options.open(&path)?.write_all(&secret)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self(secret))
    }

    /// Appends the name of a message: its offset, and what proves that it was told.
    pub(crate) fn write(&self, offset: u64, out: &mut String) {
        let _ = write!(out, "{offset}-{:016x}", self.proof(offset));
    }

    /// The offset of a name.
    pub(crate) fn read(&self, name: &str) -> Option<u64> {
        let (offset, proof) = name.split_once('-')?;
        let offset = offset.parse().ok()?;
        let proof = u64::from_str_radix(proof, 16).ok()?;
        (proof == self.proof(offset)).then_some(offset)
    }

    /// A number that no other directory has.
    pub(crate) fn instance(&self) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(b"instance")
    }

    fn proof(&self, offset: u64) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(&offset.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_by_its_own_queue_alone() {
        let (own, other) = (Secret([1; 16]), Secret([2; 16]));
        let mut name = String::new();
        own.write(1234, &mut name);
        assert_eq!(own.read(&name), Some(1234));
        assert_eq!(other.read(&name), None);
        for wrong in ["", "1234", "1234-", "1234-0", &name.replace("1234", "1235")] {
            assert_eq!(own.read(wrong), None, "{wrong}");
        }
    }
}
