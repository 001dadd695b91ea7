//! What a node says of itself when it is asked whether it is there.
//!
//! ```text
//! pong   wall clock (8)  clock of versions (8)  drains (1)
//!        clocks: milliseconds since 1970       drains: 0 no  1 yes
//! ```

use bytes::{Buf as _, Bytes};

use super::{FrameError, PRESENCE};

/// How a node is that is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// What its clocks say.
    pub clocks: Clocks,
    /// Whether it is about to end: it does what other nodes ask, and takes no new connections of clients.
    pub is_draining: bool,
}

/// What a node's clocks say, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock.
    pub wall_ms: u64,
    /// The clock that gives versions, which may be ahead of it and never goes back.
    pub version_ms: u64,
}

impl Presence {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.clocks.wall_ms.to_be_bytes());
        out.extend(self.clocks.version_ms.to_be_bytes());
        out.push(u8::from(self.is_draining));
    }

    pub(super) fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        if payload.len() != PRESENCE {
            return Err(FrameError::Payload);
        }
        let clocks = Clocks {
            wall_ms: payload.get_u64(),
            version_ms: payload.get_u64(),
        };
        let is_draining = match payload.get_u8() {
            0 => false,
            1 => true,
            _ => return Err(FrameError::Payload),
        };
        Ok(Self {
            clocks,
            is_draining,
        })
    }
}
