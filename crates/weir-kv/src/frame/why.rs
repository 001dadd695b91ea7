//! Why a node does not do something, by a number.

/// Why a node does not do what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It has another map.
    Epoch,
    /// Too much waits already.
    Busy,
    /// It failed.
    Failed,
    /// The version is too far ahead of its clock.
    Clock,
    /// What it keeps cells in cannot do that.
    Unable,
    /// It is none of the nodes: it has not joined yet, or has left.
    Stranger,
}

pub(super) const WHYS: [Why; 6] = [
    Why::Epoch,
    Why::Busy,
    Why::Failed,
    Why::Clock,
    Why::Unable,
    Why::Stranger,
];

impl Why {
    pub(super) fn number(self) -> u8 {
        let number = WHYS.iter().position(|other| *other == self);
        number.unwrap_or(0) as u8
    }

    pub(super) fn numbered(number: u8) -> Option<Self> {
        WHYS.get(usize::from(number)).copied()
    }
}
