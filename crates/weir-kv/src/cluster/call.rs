//! Questions to nodes, this one among them, from threads that wait for the answer.

use std::sync::{Arc, mpsc as blocking};

use tokio::sync::mpsc;

use super::Shared;
use super::hub::Event;
use super::serve;
use crate::frame::Say;

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

    /// The answer of a node, which is there within the deadline; or nothing.
    pub(crate) fn ask(&self, node: u16, say: Say) -> Option<Say> {
        // Both this node and the hub drop the sender when there is no answer.
        let answer = self.begin(node, say)?.recv().ok()?;
        (!matches!(answer, Say::Refused(..))).then_some(answer)
    }

    /// Asks a node; its answer comes by what is returned.
    pub(crate) fn begin(&self, node: u16, say: Say) -> Option<blocking::Receiver<Say>> {
        let (answer, answered) = blocking::sync_channel(1);
        if node == self.shared.me {
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
