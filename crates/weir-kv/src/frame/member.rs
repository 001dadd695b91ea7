//! What is asked of a node when others come or go, and how far it is with that.
//!
//! ```text
//! change       what (1)  what follows
//!              1 prepare  layout           2 move   epoch (8)       of the map that is to follow
//!              3 commit   epoch (8)        4 abort  epoch (8)
//! membership   standing (1)  is settled (1)  move (1)  looked at (8)  copied (8)  bytes (8)  length (2)  trouble  layout
//!              standing: 0 waits  1 member  2 left       move: 0 none  1 under way  2 done
//! ```
//!
//! A layout is as in [`crate::layout`]; that of a node that waits is empty.

use bytes::{Buf as _, Bytes};

use super::FrameError;
use crate::layout::{Layout, have_common};

/// What a node is to do about a change of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Go by this layout, in which another placement is to follow.
    Prepare(Box<Layout>),
    /// Take what you get by the map of this epoch. All nodes have prepared for it.
    Move(u64),
    /// Go by the map of this epoch alone. All nodes have what they get by it.
    Commit(u64),
    /// Go by the map of before alone, and not by that of this epoch.
    Abort(u64),
}

/// What a node is among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has no data, and is to join.
    Waits,
    /// It is one of them.
    Member,
    /// It was one of them.
    Left,
}

/// How far a node is with taking what it gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Whether it has begun.
    pub has_begun: bool,
    /// Whether it has all.
    pub is_done: bool,
    /// Keys that were looked at.
    pub looked_at: u64,
    /// Those that were copied.
    pub copied: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What holds it up, if something does.
    pub trouble: String,
}

/// How a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// What it is among the others.
    pub standing: Standing,
    /// Whether nothing is under way there any more that began by the layout of before.
    pub is_settled: bool,
    /// How far it is with taking what it gets.
    pub moved: Moved,
    /// What it goes by; a node that waits has none.
    pub layout: Option<Box<Layout>>,
}

impl Change {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (what, epoch) = match self {
            Self::Prepare(layout) => {
                out.push(1);
                out.extend_from_slice(&layout.encode());
                return;
            }
            Self::Move(epoch) => (2, epoch),
            Self::Commit(epoch) => (3, epoch),
            Self::Abort(epoch) => (4, epoch),
        };
        out.push(what);
        out.extend(epoch.to_be_bytes());
    }

    pub(super) fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        let what = payload.try_get_u8().map_err(|_| FrameError::Payload)?;
        if what == 1 {
            let layout = Layout::decode(payload).ok_or(FrameError::Payload)?;
            return Ok(Self::Prepare(Box::new(layout)));
        }
        let epoch = payload.try_get_u64().map_err(|_| FrameError::Payload)?;
        match what {
            _ if !payload.is_empty() => Err(FrameError::Payload),
            2 => Ok(Self::Move(epoch)),
            3 => Ok(Self::Commit(epoch)),
            4 => Ok(Self::Abort(epoch)),
            _ => Err(FrameError::Payload),
        }
    }
}

const STANDINGS: [Standing; 3] = [Standing::Waits, Standing::Member, Standing::Left];

impl Membership {
    /// Whether a node that stands like this does something for those that go by `layout`.
    pub fn works_by(&self, layout: &Layout) -> bool {
        let own = self.layout.as_ref().map(|own| own.epoch());
        let is_known = own.is_some_and(|own| have_common(own, layout.epoch()));
        self.standing == Standing::Member && is_known
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let standing = STANDINGS.iter().position(|other| *other == self.standing);
        let moved = &self.moved;
        let step = u8::from(moved.has_begun) + u8::from(moved.has_begun && moved.is_done);
        out.extend([standing.unwrap_or(0) as u8, u8::from(self.is_settled), step]);
        for count in [moved.looked_at, moved.copied, moved.bytes] {
            out.extend(count.to_be_bytes());
        }
        let trouble = moved.trouble.as_bytes();
        let trouble = &trouble[..trouble.len().min(usize::from(u16::MAX))];
        out.extend((trouble.len() as u16).to_be_bytes());
        out.extend_from_slice(trouble);
        if let Some(layout) = &self.layout {
            out.extend_from_slice(&layout.encode());
        }
    }

    pub(super) fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        if payload.len() < 3 + 3 * 8 + 2 {
            return Err(FrameError::Payload);
        }
        let standing = STANDINGS.get(usize::from(payload.get_u8()));
        let (is_settled @ 0..=1, step @ 0..=2) = (payload.get_u8(), payload.get_u8()) else {
            return Err(FrameError::Payload);
        };
        let [looked_at, copied, bytes] = std::array::from_fn(|_| payload.get_u64());
        let length = usize::from(payload.get_u16());
        if payload.len() < length {
            return Err(FrameError::Payload);
        }
        let trouble = payload.split_to(length);
        let layout = if payload.is_empty() {
            None
        } else {
            Some(Layout::decode(payload).ok_or(FrameError::Payload)?)
        };
        Ok(Self {
            standing: *standing.ok_or(FrameError::Payload)?,
            is_settled: is_settled == 1,
            moved: Moved {
                has_begun: step > 0,
                is_done: step == 2,
                looked_at,
                copied,
                bytes,
                trouble: String::from_utf8_lossy(&trouble).into_owned(),
            },
            layout: layout.map(Box::new),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Map;

    fn layout() -> Box<Layout> {
        let map = Map::new(&["a:1", "b:1"]).expect("a map");
        Box::new(Layout::first(map, 2))
    }

    #[test]
    fn changes_are_read_as_they_were_written() {
        for change in [
            Change::Prepare(layout()),
            Change::Move(2),
            Change::Commit(3),
            Change::Abort(4),
        ] {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            let bytes = Bytes::from(bytes);
            assert_eq!(Change::decode(bytes.clone()), Ok(change));
            assert!(Change::decode(bytes.slice(..bytes.len() - 1)).is_err());
        }
        assert!(Change::decode(Bytes::new()).is_err());
        assert!(Change::decode(Bytes::from_static(&[5, 0, 0, 0, 0, 0, 0, 0, 1])).is_err());
    }

    #[test]
    fn memberships_are_read_as_they_were_written() {
        let moved = Moved {
            has_begun: true,
            is_done: false,
            looked_at: 5,
            copied: 3,
            bytes: 99,
            trouble: "b:1 does not answer".to_owned(),
        };
        for (standing, layout) in [
            (Standing::Waits, None),
            (Standing::Member, Some(layout())),
            (Standing::Left, Some(layout())),
        ] {
            let membership = Membership {
                standing,
                is_settled: standing == Standing::Member,
                moved: moved.clone(),
                layout,
            };
            let mut bytes = Vec::new();
            membership.encode(&mut bytes);
            let bytes = Bytes::from(bytes);
            assert_eq!(Membership::decode(bytes.clone()), Ok(membership));
            assert!(Membership::decode(bytes.slice(..28)).is_err());
        }
    }
}
