//! What nodes say to each other: many requests and answers on one connection, in any order. Pure.
//!
//! ```text
//!  0        4   5      6           14         22
//! +--------+---+------+-----------+----------+------------
//! | length | 3 | kind | epoch     | id       | payload ...       length counts what follows it
//! +--------+---+------+-----------+----------+------------
//!
//! kind 1 read      key
//!      2 write     key length (2), key, cell
//!      3 found     nothing, or a cell
//!      4 written   version (12)                          it was taken
//!      5 older     version (12), newer version (12)      there is a newer one
//!      6 refused   reason (1), text
//!      7 ping      nothing                               8 pong answers it: that it is there, and how
//!      9 over      version (12), key length (2), key, cell       write, unless there is a cell that is newer than the version
//!     10 ask       what is to be done for a key on all of its replicas
//!     11 told      what came of that
//!     12 which     nothing: which map is it?            13 replicas of a key (1), map, as in [`crate::placement`]
//!     14 scan      a range                              15 page: its cells, or some of them
//!     16 digest    a range                              17 digested: what its cells hash to
//!     18 drop      version (12), key                    a tombstone of this version; answered as a write
//!     19 standing  nothing: what are you among the others?       20 membership answers it
//!     21 change    what to do when nodes come or go     answered with the membership after that
//! ```
//!
//! Numbers are big-endian; a cell is as in [`crate::cell`]. An answer has the id of its request. The epoch is that of the sender's
//! layout: a node that has no map in common with it refuses, so that two nodes never do the same thing for a key by different maps.

mod ask;
mod member;
mod presence;
mod range;
mod why;

use bytes::{Buf as _, Bytes, BytesMut};

pub(crate) use self::ask::TAGS_MAX;
pub use self::ask::{Ask, What};
pub use self::member::{Change, Membership, Moved, Standing};
pub use self::presence::{Clocks, Presence};
pub use self::range::{Digest, Page, Span};
pub use self::why::Why;

use crate::api::KEY_BYTES_MAX;
use crate::cell::{Cell, CellError};
use crate::coordinator::Answer;
use crate::version::Version;

/// The form of frames. Another one is refused.
pub const FORMAT: u8 = 3;
/// The most that a frame has behind its length.
pub const FRAME_BYTES_MAX: usize = crate::VALUE_BYTES_MAX as usize + KEY_BYTES_MAX + 2048;
/// Bytes before the payload, without the length.
const HEAD: usize = 18;
const LENGTH: usize = 4;
const VERSION: usize = 12;
const PRESENCE: usize = 17;
/// Bytes of a layout of a few nodes, about.
const LAYOUT_BYTES: usize = 256 << 10;

/// A request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Of the sender's layout.
    pub epoch: u64,
    /// Which request it is, or which one it answers.
    pub id: u64,
    /// What it says.
    pub say: Say,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Say {
    /// Tell me your cell of this key.
    Read(Bytes),
    /// Write this cell, unless you have a newer one.
    Write(Bytes, Cell),
    /// Write this cell, unless you have one that is newer than this version: also that cell itself, which has come another way.
    WriteOver(Version, Bytes, Cell),
    /// Do this for a key on all of its replicas.
    Ask(Ask),
    /// Which map have you?
    Which,
    /// This one, and so many nodes have a key.
    Map(u8, Bytes),
    /// Tell me your cells of this range, with their values or without.
    Scan(bool, Span),
    /// These are the first of them.
    Page(Page),
    /// Which cells have you in this range that are older than this time, of keys that both of us have?
    Digest(u64, Span),
    /// They come to this, as far as I have looked: up to a key, or to the end.
    Digested(Digest, Option<Bytes>),
    /// Drop the tombstone of this version, which all replicas have.
    Drop(Version, Bytes),
    /// This came of it.
    Told(Answer),
    /// This is my cell.
    Found(Option<Cell>),
    /// I have written the cell of this version, or have a newer one.
    Written {
        /// The version that was to be written.
        version: Version,
        /// That of the newer cell.
        newer: Option<Version>,
    },
    /// I do not do that.
    Refused(Why, String),
    /// Are you there?
    Ping,
    /// I am, and this is how.
    Pong(Presence),
    /// What are you among the others?
    Standing,
    /// This.
    Membership(Membership),
    /// Nodes come or go: do this.
    Change(Change),
}

/// Why bytes are no frame. The connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`], or shorter than its head.
    Length(usize),
    /// Another form.
    Format(u8),
    /// No such kind.
    Kind(u8),
    /// A key that is empty or too long.
    Key,
    /// A damaged cell.
    Cell(CellError),
    /// The payload is not as its kind has it.
    Payload,
}

impl Frame {
    /// Appends the bytes of this frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend([0; LENGTH]);
        out.extend([FORMAT, self.say.kind()]);
        out.extend(self.epoch.to_be_bytes());
        out.extend(self.id.to_be_bytes());
        match &self.say {
            Say::Read(key) => out.extend_from_slice(key),
            Say::Write(key, cell) => encode_entry(key, cell, out),
            Say::WriteOver(over, key, cell) => {
                encode_version(*over, out);
                encode_entry(key, cell, out);
            }
            Say::Ask(ask) => ask.encode(out),
            Say::Scan(has_values, span) => {
                out.push(u8::from(*has_values));
                span.encode(out);
            }
            Say::Page(page) => page.encode(out),
            Say::Digest(before, span) => {
                out.extend(before.to_be_bytes());
                span.encode(out);
            }
            Say::Digested(digest, next) => {
                out.extend(digest.hash.to_be_bytes());
                out.extend(digest.count.to_be_bytes());
                range::encode_end(next.as_ref(), out);
            }
            Say::Drop(version, key) => {
                encode_version(*version, out);
                out.extend_from_slice(key);
            }
            Say::Told(answer) => ask::encode_answer(answer, out),
            Say::Found(Some(cell)) => cell.encode(out),
            Say::Written { version, newer } => {
                encode_version(*version, out);
                if let Some(newer) = newer {
                    encode_version(*newer, out);
                }
            }
            Say::Map(replicas, map) => {
                out.push(*replicas);
                out.extend_from_slice(map);
            }
            Say::Pong(presence) => presence.encode(out),
            Say::Membership(membership) => membership.encode(out),
            Say::Change(change) => change.encode(out),
            Say::Found(None) | Say::Ping | Say::Which | Say::Standing => {}
            Say::Refused(why, text) => {
                out.push(why.number());
                out.extend_from_slice(text.as_bytes());
            }
        }
        let length = (out.len() - begin - LENGTH) as u32;
        out[begin..begin + LENGTH].copy_from_slice(&length.to_be_bytes());
    }

    /// Takes a frame from the beginning of `bytes`, if all of it is there.
    ///
    /// # Errors
    /// There is none.
    pub fn decode(bytes: &mut BytesMut) -> Result<Option<Self>, FrameError> {
        let Some(length) = bytes.first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEAD..=FRAME_BYTES_MAX).contains(&length) {
            return Err(FrameError::Length(length));
        }
        if bytes.len() < LENGTH + length {
            return Ok(None);
        }
        bytes.advance(LENGTH);
        // Copied: what is kept of a frame would hold the whole buffer of the connection.
        let mut frame = Bytes::copy_from_slice(&bytes[..length]);
        bytes.advance(length);
        let (format, kind) = (frame.get_u8(), frame.get_u8());
        if format != FORMAT {
            return Err(FrameError::Format(format));
        }
        let (epoch, id) = (frame.get_u64(), frame.get_u64());
        let say = Say::decode(kind, frame)?;
        Ok(Some(Self { epoch, id, say }))
    }
}

impl Say {
    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let value = value_bytes;
        HEAD + LENGTH
            + match self {
                Self::Read(key) => key.len(),
                Self::Write(key, cell) | Self::WriteOver(_, key, cell) => key.len() + value(cell),
                Self::Ask(ask) => ask.bytes(),
                Self::Told(Answer::Found(cell) | Answer::Unmet(cell)) | Self::Found(cell) => {
                    cell.as_ref().map_or(0, value)
                }
                Self::Refused(_, text) => text.len(),
                Self::Page(page) => page.bytes(),
                Self::Drop(_, key) => key.len() + VERSION,
                // Two keys at most.
                Self::Scan(..) | Self::Digest(..) | Self::Digested(..) => 2 * KEY_BYTES_MAX,
                Self::Map(_, map) => map.len(),
                Self::Written { .. } | Self::Told(_) => 2 * VERSION,
                Self::Ping | Self::Pong(_) | Self::Which | Self::Standing => PRESENCE,
                Self::Membership(_) | Self::Change(_) => LAYOUT_BYTES,
            }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Read(_) => 1,
            Self::Write(..) => 2,
            Self::Found(_) => 3,
            Self::Written { newer: None, .. } => 4,
            Self::Written { newer: Some(_), .. } => 5,
            Self::Refused(..) => 6,
            Self::Ping => 7,
            Self::Pong(_) => 8,
            Self::WriteOver(..) => 9,
            Self::Ask(_) => 10,
            Self::Told(_) => 11,
            Self::Which => 12,
            Self::Map(..) => 13,
            Self::Scan(..) => 14,
            Self::Page(_) => 15,
            Self::Digest(..) => 16,
            Self::Digested(..) => 17,
            Self::Drop(..) => 18,
            Self::Standing => 19,
            Self::Membership(_) => 20,
            Self::Change(_) => 21,
        }
    }

    fn decode_of_range(kind: u8, mut payload: Bytes) -> Result<Self, FrameError> {
        let number = |payload: &mut Bytes| payload.try_get_u64().map_err(|_| FrameError::Payload);
        let say = match kind {
            14 => match payload.try_get_u8() {
                Ok(has_values @ 0..=1) => Self::Scan(has_values == 1, Span::decode(&mut payload)?),
                _ => return Err(FrameError::Payload),
            },
            15 => return Page::decode(payload).map(Self::Page),
            16 => Self::Digest(number(&mut payload)?, Span::decode(&mut payload)?),
            17 => {
                let (hash, count) = (number(&mut payload)?, number(&mut payload)?);
                let next = range::decode_end(&mut payload)?;
                Self::Digested(Digest { hash, count }, next)
            }
            _ if payload.len() > VERSION => {
                let version = version(&mut payload);
                return Ok(Self::Drop(version, key(payload)?));
            }
            _ => return Err(FrameError::Payload),
        };
        if payload.is_empty() {
            Ok(say)
        } else {
            Err(FrameError::Payload)
        }
    }

    fn decode(kind: u8, mut payload: Bytes) -> Result<Self, FrameError> {
        match kind {
            1 => Ok(Self::Read(key(payload)?)),
            2 => entry(payload).map(|(key, cell)| Self::Write(key, cell)),
            3 if payload.is_empty() => Ok(Self::Found(None)),
            3 => {
                let cell = Cell::decode(&payload).map_err(FrameError::Cell)?;
                Ok(Self::Found(Some(cell)))
            }
            4 | 5 if payload.len() == VERSION * usize::from(kind - 3) => Ok(Self::Written {
                version: version(&mut payload),
                newer: (kind == 5).then(|| version(&mut payload)),
            }),
            6 if !payload.is_empty() => {
                let why = Why::numbered(payload.get_u8());
                let text = String::from_utf8_lossy(&payload).into_owned();
                Ok(Self::Refused(why.ok_or(FrameError::Payload)?, text))
            }
            7 if payload.is_empty() => Ok(Self::Ping),
            8 => Presence::decode(payload).map(Self::Pong),
            9 if payload.len() > VERSION => {
                let over = version(&mut payload);
                entry(payload).map(|(key, cell)| Self::WriteOver(over, key, cell))
            }
            10 => Ask::decode(payload).map(Self::Ask),
            11 => ask::decode_answer(payload).map(Self::Told),
            12 if payload.is_empty() => Ok(Self::Which),
            13 if !payload.is_empty() => Ok(Self::Map(payload.get_u8(), payload)),
            14..=18 => Self::decode_of_range(kind, payload),
            19 if payload.is_empty() => Ok(Self::Standing),
            20 => Membership::decode(payload).map(Self::Membership),
            21 => Change::decode(payload).map(Self::Change),
            4..=19 => Err(FrameError::Payload),
            other => Err(FrameError::Kind(other)),
        }
    }
}

pub(crate) fn value_bytes(cell: &Cell) -> usize {
    cell.value.as_ref().map_or(0, Bytes::len)
}

fn key(key: Bytes) -> Result<Bytes, FrameError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        Ok(key)
    } else {
        Err(FrameError::Key)
    }
}

fn encode_entry(key: &[u8], cell: &Cell, out: &mut Vec<u8>) {
    out.extend((key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
    cell.encode(out);
}

/// A key and its cell, which is the rest.
fn entry(mut payload: Bytes) -> Result<(Bytes, Cell), FrameError> {
    if payload.len() < 2 {
        return Err(FrameError::Payload);
    }
    let length = usize::from(payload.get_u16());
    if payload.len() < length {
        return Err(FrameError::Payload);
    }
    let key = key(payload.split_to(length))?;
    let cell = Cell::decode(&payload).map_err(FrameError::Cell)?;
    Ok((key, cell))
}

fn encode_version(version: Version, out: &mut Vec<u8>) {
    out.extend(version.time.to_be_bytes());
    out.extend(version.node.to_be_bytes());
    out.extend(version.run.to_be_bytes());
}

fn version(bytes: &mut Bytes) -> Version {
    Version {
        time: bytes.get_u64(),
        node: bytes.get_u16(),
        run: bytes.get_u16(),
    }
}

#[cfg(test)]
mod tests;
