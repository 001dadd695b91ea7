//! Questions to nodes, this one among them, from threads that wait for the answer.

use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use tokio::sync::mpsc;

use super::Shared;
use super::hub::Event;
use super::serve;
use crate::frame::{Say, Why};

/// How long to wait for a node that has a deadline of its own.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a node that is busy is asked again, and after how long.
const BUSY_TRIES: u32 = 40;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The node is not there, or takes too long.
    Silent,
    /// It does not do that.
    Refused(Why, String),
}

/// Asks nodes.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) shared: Arc<Shared>,
    /// Those of the hub; `None` where this node is alone.
    pub(super) events: Option<mpsc::UnboundedSender<Event>>,
}

/// A question to another node; who asks hears nothing if it does not answer.
pub(crate) struct Call {
    pub(crate) node: u16,
    pub(crate) say: Say,
    pub(crate) answer: blocking::SyncSender<Say>,
}

impl Calls {
    /// Those of a node that is alone.
    pub(crate) fn alone(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            events: None,
        }
    }

    /// The answer of a node.
    pub(crate) fn ask(&self, node: u16, say: Say) -> Result<Say, NoAnswer> {
        let answered = self.begin(node, say).ok_or(NoAnswer::Silent)?;
        // Both this node and the hub drop the sender when there is no answer. A disk that hangs keeps it.
        match answered.recv_timeout(PATIENCE) {
            Ok(Say::Refused(why, text)) => Err(NoAnswer::Refused(why, text)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(NoAnswer::Silent),
        }
    }

    /// The same, asked again for a while where the node is busy.
    pub(crate) fn ask_again(&self, node: u16, say: impl Fn() -> Say) -> Result<Say, NoAnswer> {
        let mut answer = self.ask(node, say());
        for _ in 0..BUSY_TRIES {
            if !matches!(answer, Err(NoAnswer::Refused(Why::Busy, _))) {
                break;
            }
            std::thread::sleep(BUSY_PAUSE);
            answer = self.ask(node, say());
        }
        answer
    }

    /// Asks a node; its answer comes by what is returned.
    pub(crate) fn begin(&self, node: u16, say: Say) -> Option<blocking::Receiver<Say>> {
        let (answer, answered) = blocking::sync_channel(1);
        if node == self.shared.me() {
            let tell = move |say| {
                let _ = answer.send(say);
            };
            serve::own(&self.shared, node, say, tell);
        } else {
            let call = Call { node, say, answer };
            self.events.as_ref()?.send(Event::Call(call)).ok()?;
        }
        Some(answered)
    }
}
