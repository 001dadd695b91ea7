//! What is kept of a key: its newest write.
//!
//! ```text
//!  0       1       2                  10      12      14                   22
//! +-------+-------+------------------+-------+-------+--------------------+----------
//! | 1     | flags | time             | node  | run   | expires, if flag 2 | value ...
//! +-------+-------+------------------+-------+-------+--------------------+----------
//! flags: 1 deleted (there is no value)   2 expires (milliseconds since 1970)
//! ```
//!
//! Numbers are big-endian. A deletion is kept as well, a tombstone: without it, a replica that missed it would bring the
//! value back.

use bytes::Bytes;

use crate::version::Version;

const FORMAT: u8 = 1;
const DELETED: u8 = 1;
const EXPIRES: u8 = 2;
const HEAD: usize = 14;

/// The newest write of a key that somebody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// When it was made, and where.
    pub version: Version,
    /// When the value is no longer there, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The value; `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// Why bytes are no cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellError {
    /// They end within it.
    Short,
    /// A later version of weir wrote it, or nobody.
    Format(u8),
    /// Flags that this version does not know, or a tombstone with a value.
    Flags(u8),
}

impl Cell {
    /// The value, if there is one at this time.
    pub fn at(&self, unix_ms: u64) -> Option<&Bytes> {
        let is_over = self.expires_ms.is_some_and(|expires| expires <= unix_ms);
        self.value.as_ref().filter(|_| !is_over)
    }

    /// The same without a value that has expired.
    #[must_use]
    pub fn live_at(mut self, unix_ms: u64) -> Self {
        if self.at(unix_ms).is_none() {
            self.value = None;
        }
        self
    }

    /// Appends the bytes of this cell.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        if self.value.is_none() {
            flags |= DELETED;
        }
        if self.expires_ms.is_some() {
            flags |= EXPIRES;
        }
        out.extend([FORMAT, flags]);
        out.extend(self.version.time.to_be_bytes());
        out.extend(self.version.node.to_be_bytes());
        out.extend(self.version.run.to_be_bytes());
        if let Some(expires) = self.expires_ms {
            out.extend(expires.to_be_bytes());
        }
        out.extend(self.value.as_deref().unwrap_or_default());
    }

    /// Reads a cell, which is all of `bytes`; the value is a part of them.
    ///
    /// # Errors
    /// They are no cell.
    pub fn decode(bytes: &Bytes) -> Result<Self, CellError> {
        let (version, flags, expires_ms, begin) = head(bytes)?;
        let is_deleted = flags & DELETED != 0;
        if is_deleted && bytes.len() > begin {
            return Err(CellError::Flags(flags));
        }
        Ok(Self {
            version,
            expires_ms,
            value: (!is_deleted).then(|| bytes.slice(begin..)),
        })
    }

    /// Only the version of a cell.
    ///
    /// # Errors
    /// They are no cell.
    pub fn version_of(bytes: &[u8]) -> Result<Version, CellError> {
        head(bytes).map(|(version, ..)| version)
    }
}

/// Version, flags, expiry, and where the value begins.
fn head(bytes: &[u8]) -> Result<(Version, u8, Option<u64>, usize), CellError> {
    let &[format, flags, ref rest @ ..] = bytes else {
        return Err(CellError::Short);
    };
    if format != FORMAT {
        return Err(CellError::Format(format));
    }
    if flags & !(DELETED | EXPIRES) != 0 {
        return Err(CellError::Flags(flags));
    }
    let (time, rest) = rest.split_first_chunk().ok_or(CellError::Short)?;
    let (node, rest) = rest.split_first_chunk().ok_or(CellError::Short)?;
    let (run, rest) = rest.split_first_chunk().ok_or(CellError::Short)?;
    let version = Version {
        time: u64::from_be_bytes(*time),
        node: u16::from_be_bytes(*node),
        run: u16::from_be_bytes(*run),
    };
    if flags & EXPIRES == 0 {
        return Ok((version, flags, None, HEAD));
    }
    let (expires, _) = rest.split_first_chunk().ok_or(CellError::Short)?;
    let expires = u64::from_be_bytes(*expires);
    Ok((version, flags, Some(expires), HEAD + size_of::<u64>()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells() -> impl Strategy<Value = Cell> {
        let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
        let numbers = (
            any::<u64>(),
            any::<u16>(),
            any::<u16>(),
            any::<Option<u64>>(),
        );
        (numbers, value).prop_map(|((time, node, run, expires_ms), value)| Cell {
            version: Version { time, node, run },
            expires_ms,
            value: value.map(Bytes::from),
        })
    }

    proptest! {
        #[test]
        fn a_cell_is_read_as_it_was_written(cell in cells()) {
            let mut bytes = Vec::new();
            cell.encode(&mut bytes);
            prop_assert_eq!(Cell::version_of(&bytes), Ok(cell.version));
            prop_assert_eq!(Cell::decode(&bytes.into()), Ok(cell));
        }

        #[test]
        fn whatever_is_read_is_a_cell_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes = Bytes::from(bytes);
            if let Ok(cell) = Cell::decode(&bytes) {
                let mut again = Vec::new();
                cell.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_value_is_there_until_it_expires_and_an_empty_one_is_one() {
        let mut cell = Cell {
            version: Version::default(),
            expires_ms: Some(100),
            value: Some(Bytes::new()),
        };
        assert_eq!((cell.at(99), cell.at(100)), (Some(&Bytes::new()), None));
        assert_eq!(cell.clone().live_at(99), cell);
        assert_eq!(cell.clone().live_at(100).value, None);
        cell.expires_ms = None;
        assert!(cell.at(u64::MAX).is_some());
        cell.value = None;
        assert_eq!(cell.at(0), None);
    }

    #[test]
    fn what_is_no_cell_is_told() {
        for (bytes, error) in [
            (&b""[..], CellError::Short),
            (b"\x01", CellError::Short),
            (b"\x01\x00abc", CellError::Short),
            (b"\x02\x00aaaaaaaabbcc", CellError::Format(2)),
            (b"\x01\x04aaaaaaaabbcc", CellError::Flags(4)),
            (b"\x01\x01aaaaaaaabbccvalue", CellError::Flags(1)),
            (b"\x01\x02aaaaaaaabbccshort", CellError::Short),
        ] {
            let decoded = Cell::decode(&Bytes::from_static(bytes));
            assert_eq!(decoded, Err(error), "{bytes:?}");
        }
    }
}
