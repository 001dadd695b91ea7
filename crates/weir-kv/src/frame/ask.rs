//! What one node, or a client, asks another one to do for a key on all of its replicas, and what came of it.
//!
//! ```text
//! ask    until (8)  what (1)  ack (1)  from (1)  expires (8)  If-Match  If-None-Match  key length (2)  key  value ...
//!        what: 1 get  2 put  3 delete         until, expires: milliseconds since 1970, or 0
//!        a condition: FFFF there is none, FFFE "*", or the number of versions (2) and they (12 each)
//! told   1 found  2 written  3 unmet  4 conflict  5 too few (1)       behind 2 a version, behind 1 and 3 a cell or nothing
//! ```

use bytes::{Buf as _, Bytes};

use super::{FrameError, VERSION, encode_version, key, version};
use crate::cell::Cell;
use crate::condition::{Condition, Tags};
use crate::coordinator::{Answer, Quorum};

const NONE: u16 = 0xFFFF;
const ANY: u16 = 0xFFFE;
/// Versions in a condition.
pub(crate) const TAGS_MAX: usize = 64;
/// Bytes of an ask besides its key, its value, and versions.
const HEAD: usize = 25;

/// What is done with a key, for whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which key.
    pub key: Bytes,
    /// What is done with it.
    pub what: What,
    /// On how many replicas.
    pub quorum: Quorum,
    /// What must hold of the value for it to be written.
    pub condition: Condition,
    /// When it is too late to begin, in milliseconds since 1970 by the clock of the node that is asked: whoever asks waits no longer, and
    /// may have told its client so.
    pub until_ms: Option<u64>,
}

/// A read or a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Find the value.
    Get,
    /// Write one.
    Put {
        /// The value.
        value: Bytes,
        /// When it is no longer there, in milliseconds since 1970.
        expires_ms: Option<u64>,
    },
    /// Write that there is none.
    Delete,
}

impl Ask {
    pub(super) fn bytes(&self) -> usize {
        let value = match &self.what {
            What::Put { value, .. } => value.len(),
            What::Get | What::Delete => 0,
        };
        let tags = [&self.condition.matches, &self.condition.matches_none];
        let tags = tags.into_iter().flatten().map(|tags| match tags {
            Tags::Any => 0,
            Tags::These(versions) => versions.len() * VERSION,
        });
        HEAD + self.key.len() + value + tags.sum::<usize>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (what, value, expires_ms) = match &self.what {
            What::Get => (1, None, None),
            What::Put { value, expires_ms } => (2, Some(value), *expires_ms),
            What::Delete => (3, None, None),
        };
        out.extend(self.until_ms.unwrap_or(0).to_be_bytes());
        out.extend([what, self.quorum.ack as u8, self.quorum.from as u8]);
        out.extend(expires_ms.unwrap_or(0).to_be_bytes());
        encode_tags(self.condition.matches.as_ref(), out);
        encode_tags(self.condition.matches_none.as_ref(), out);
        out.extend((self.key.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(value.map_or(&[], |value| value));
    }

    pub(super) fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        if payload.len() < HEAD {
            return Err(FrameError::Payload);
        }
        let until_ms = Some(payload.get_u64()).filter(|until| *until > 0);
        let what = payload.get_u8();
        let (ack, from) = (payload.get_u8().into(), payload.get_u8().into());
        let expires_ms = payload.get_u64();
        let condition = Condition {
            matches: decode_tags(&mut payload)?,
            matches_none: decode_tags(&mut payload)?,
        };
        if payload.len() < 2 {
            return Err(FrameError::Payload);
        }
        let length = usize::from(payload.get_u16());
        if payload.len() < length {
            return Err(FrameError::Payload);
        }
        let key = key(payload.split_to(length))?;
        let is_plain = payload.is_empty() && expires_ms == 0;
        let what = match what {
            1 if is_plain => What::Get,
            2 => What::Put {
                value: payload,
                expires_ms: Some(expires_ms).filter(|expires| *expires > 0),
            },
            3 if is_plain => What::Delete,
            _ => return Err(FrameError::Payload),
        };
        let quorum = Quorum { ack, from };
        let is_write = what != What::Get;
        let is_weak = is_write && !condition.is_none() && !quorum.is_majority();
        if ack == 0 || ack > from || is_weak {
            return Err(FrameError::Payload);
        }
        Ok(Self {
            key,
            what,
            quorum,
            condition,
            until_ms,
        })
    }
}

fn encode_tags(tags: Option<&Tags>, out: &mut Vec<u8>) {
    match tags {
        None => out.extend(NONE.to_be_bytes()),
        Some(Tags::Any) => out.extend(ANY.to_be_bytes()),
        Some(Tags::These(versions)) => {
            out.extend((versions.len() as u16).to_be_bytes());
            for version in versions {
                encode_version(*version, out);
            }
        }
    }
}

fn decode_tags(payload: &mut Bytes) -> Result<Option<Tags>, FrameError> {
    if payload.len() < 2 {
        return Err(FrameError::Payload);
    }
    match payload.get_u16() {
        NONE => Ok(None),
        ANY => Ok(Some(Tags::Any)),
        count => {
            let count = usize::from(count);
            if count > TAGS_MAX || payload.len() < count * VERSION {
                return Err(FrameError::Payload);
            }
            let versions = (0..count).map(|_| version(payload)).collect();
            Ok(Some(Tags::These(versions)))
        }
    }
}

pub(super) fn encode_answer(answer: &Answer, out: &mut Vec<u8>) {
    let (kind, cell) = match answer {
        Answer::Found(cell) => (1, cell.as_ref()),
        Answer::Written(version) => {
            out.push(2);
            return encode_version(*version, out);
        }
        Answer::Unmet(cell) => (3, cell.as_ref()),
        Answer::Conflict => (4, None),
        Answer::TooFew => (5, None),
    };
    out.push(kind);
    if let Some(cell) = cell {
        cell.encode(out);
    }
}

pub(super) fn decode_answer(mut payload: Bytes) -> Result<Answer, FrameError> {
    if payload.is_empty() {
        return Err(FrameError::Payload);
    }
    let kind = payload.get_u8();
    let cell = || {
        let cell = (!payload.is_empty()).then(|| Cell::decode(&payload));
        cell.transpose().map_err(FrameError::Cell)
    };
    match kind {
        1 => Ok(Answer::Found(cell()?)),
        2 if payload.len() == VERSION => Ok(Answer::Written(version(&mut payload))),
        3 => Ok(Answer::Unmet(cell()?)),
        4 if payload.is_empty() => Ok(Answer::Conflict),
        5 if payload.is_empty() => Ok(Answer::TooFew),
        _ => Err(FrameError::Payload),
    }
}
