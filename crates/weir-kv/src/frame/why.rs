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
    /// It is the turn of another node to write this key. Nothing is begun.
    Turn,
}

pub(super) const WHYS: [Why; 7] = [
    Why::Epoch,
    Why::Busy,
    Why::Failed,
    Why::Clock,
    Why::Unable,
    Why::Stranger,
    Why::Turn,
];

impl Why {
    /// What is said where a request that concerns a key is not begun.
    pub(crate) fn of_ask(self) -> &'static str {
        match self {
            Self::Turn => "as this node sees it, it is the turn of another one to write the key",
            _ => "too many writes of the key wait here",
        }
    }

    pub(super) fn number(self) -> u8 {
        let number = WHYS.iter().position(|other| *other == self);
        number.unwrap_or(0) as u8
    }

    pub(super) fn numbered(number: u8) -> Option<Self> {
        WHYS.get(usize::from(number)).copied()
    }
}
