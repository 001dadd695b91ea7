//! What happens to the hub.

use bytes::Bytes;
use tokio::time::Instant;
use weir_gateway::service::{Answer, Replier};

use super::Order;
use crate::cell::Cell;
use crate::cluster::ToAnswer;
use crate::cluster::call::Call;
use crate::cluster::neighbours::Come;
use crate::coordinator::{self, Operation, Quorum};
use crate::engine::EngineError;
use crate::frame::{self, Say, Why};
use crate::version::Version;

/// What happens to the hub.
pub(in crate::cluster) enum Event {
    /// What clients have asked in a row.
    Many(Vec<Event>),
    Ask(Asked),
    Order(Order),
    /// A thread has a question to a node.
    Call(Call),
    /// Its answer.
    Replied(u64, Say),
    /// Another node has done what was asked of it.
    Told(u64, coordinator::Answer),
    /// A replica has answered a read.
    Found(u64, u16, Option<Cell>),
    /// A replica has answered a write of this version.
    Written(u64, u16, Version, Option<Version>),
    /// A replica says why it does not do what it was asked to.
    Refused(u64, u16, Why, String),
    /// Nodes come and go. What began before is seen to its end. Without the generation of a layout, there will be one with those that come.
    Nodes {
        come: Vec<Come>,
        go: Vec<u16>,
        generation: Option<usize>,
    },
    /// What the clocks of a node say, while it is there, and when that was heard.
    Clock(u16, Option<(frame::Clocks, Instant)>),
    /// A replica does not do what it was asked to.
    Failed(u64, u16),
    /// The same, but what was asked may still get there.
    Silent(u64, u16),
}

/// An operation on a key.
pub(in crate::cluster) struct Asked {
    pub(in crate::cluster) operation: Operation,
    pub(in crate::cluster) key: Bytes,
    pub(in crate::cluster) quorum: Quorum,
    pub(in crate::cluster) client: Client,
    /// Whether others of this key wait until it is answered.
    pub(in crate::cluster) is_in_order: bool,
    /// When it is too late for it to take a version, in milliseconds since 1970: its client may have been told that it has failed, and
    /// have written something else.
    pub(in crate::cluster) until_ms: Option<u64>,
}

/// What is done with an answer. It may be the one that a client has waited for.
pub(in crate::cluster) type Then =
    Box<dyn FnOnce(Result<coordinator::Answer, EngineError>) -> Option<(Replier, Answer)> + Send>;
/// The same for another node, or why nothing was begun for it.
pub(in crate::cluster) type Tell = Box<dyn FnOnce(Result<coordinator::Answer, Why>) + Send>;

/// Who waits for an operation.
pub(in crate::cluster) enum Client {
    Waits(Replier, ToAnswer),
    /// The same, maybe with others in one answer.
    Part(Then),
    /// Another node, or a client that knows the map.
    Node(Tell),
    /// It has its answer.
    Nobody,
}

impl Client {
    /// Whether it is one of those that are counted as under way.
    pub(in crate::cluster) fn is_counted(&self) -> bool {
        matches!(self, Self::Waits(..) | Self::Part(_))
    }

    /// The answer that is to be given now that this came of the operation, and to whom.
    pub(in crate::cluster) fn told(self, answer: coordinator::Answer) -> Option<(Replier, Answer)> {
        self.end(Ok(answer))
    }

    /// The same where nothing was begun. Only another node hears of other reasons than that too much waits.
    pub(in crate::cluster) fn refused(self, why: Why) -> Option<(Replier, Answer)> {
        self.end(Err(why))
    }

    fn end(self, came: Result<coordinator::Answer, Why>) -> Option<(Replier, Answer)> {
        let busy = |_| EngineError::Busy;
        match self {
            Self::Waits(replier, to_answer) => Some((replier, to_answer(came.map_err(busy)))),
            Self::Part(then) => then(came.map_err(busy)),
            Self::Node(tell) => {
                tell(came);
                None
            }
            Self::Nobody => None,
        }
    }
}
