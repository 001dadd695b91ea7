//! What happens in a run, and what nodes say to each other.

use bytes::Bytes;

use crate::cell::Cell;
use crate::version::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum Event {
    /// A client asks.
    Ask,
    /// A message arrives.
    Arrive {
        from: u16,
        to: u16,
        message: Message,
    },
    /// An operation of a node is given up.
    Deadline {
        node: u16,
        run: u16,
        id: u64,
    },
    /// A node tries its hints.
    Hints(u16),
    Crash(u16),
    Start(u16),
    Cut(u16, u16),
    Mend(u16, u16),
    /// Nothing goes wrong any more.
    Calm,
    /// Every key is read from all.
    Settle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum Message {
    Read {
        id: u64,
        key: u8,
    },
    Cell {
        id: u64,
        cell: Option<Written>,
    },
    Write {
        id: u64,
        key: u8,
        cell: Written,
        over: Option<Version>,
    },
    Done {
        id: u64,
        version: Version,
        newer: Option<Version>,
    },
    /// What a node missed, by its number among the hints of the sender.
    Hint {
        number: u64,
        key: u8,
        cell: Written,
    },
    Taken {
        number: u64,
    },
}

/// A cell in a form that can be ordered: its version, and the number of the operation that wrote it.
pub(in crate::simulation) type Written = (Version, u64);

pub(in crate::simulation) fn cell(written: Written) -> Cell {
    Cell {
        version: written.0,
        expires_ms: None,
        value: Some(Bytes::copy_from_slice(&written.1.to_be_bytes())),
    }
}

pub(in crate::simulation) fn written(cell: &Cell) -> Written {
    let bytes = cell.value.as_deref().expect("all cells here have a value");
    let number = bytes.try_into().expect("eight bytes");
    (cell.version, u64::from_be_bytes(number))
}
