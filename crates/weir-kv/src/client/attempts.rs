//! Which node is asked next, and when to give up. Pure.
//!
//! ```text
//! ask the first replica ──► answer
//!     ├─ it was not asked ─────────────────────────► ask the next one
//!     ├─ it was asked, and does not answer: a read ─► ask the next one
//!     │                                    a write ─► unknown whether it was done
//!     └─ it has another map, or has left ─► learn the map, and begin again, once
//! ```

use std::collections::VecDeque;

use super::ClientError;
use crate::cluster::line::Lost;
use crate::coordinator::Answer;
use crate::frame::{Say, Why};

/// What came of asking a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Came {
    /// It answers.
    Said(Say),
    /// It was not asked, for this reason.
    NotAsked(String),
    /// It was asked, and does not answer, for this reason.
    Lost(String),
}

impl Came {
    pub(super) fn lost(why: Lost) -> Self {
        let why = match why {
            Lost::Closed => "the connection ended before it answered",
            Lost::Silent => "nothing is heard of it any more",
        };
        Self::Lost(why.to_owned())
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask the node at this address.
    Ask(Box<str>),
    /// Learn the map again, and [`Attempts::place`] what it says.
    Learn,
    /// This is the answer.
    Give(Answer),
    Fail(ClientError),
}

/// One operation.
#[derive(Debug)]
pub(super) struct Attempts {
    is_write: bool,
    may_learn: bool,
    /// Those that are left to ask, the one that is asked in front.
    nodes: VecDeque<Box<str>>,
    failed: Vec<(Box<str>, String)>,
}

impl Attempts {
    pub(super) fn new(is_write: bool) -> Self {
        Self {
            is_write,
            may_learn: true,
            nodes: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    /// The nodes in the order in which they may be asked.
    pub(super) fn place(&mut self, nodes: Vec<Box<str>>) -> Next {
        self.nodes = nodes.into();
        self.failed.clear();
        self.next()
    }

    /// What came of the node that was asked.
    pub(super) fn come(&mut self, came: Came) -> Next {
        let why = match came {
            Came::Said(Say::Refused(Why::Epoch | Why::Stranger, _)) if self.may_learn => {
                self.may_learn = false;
                return Next::Learn;
            }
            // What is refused is not done.
            Came::Said(Say::Refused(_, why)) => format!("it refuses: {why}"),
            Came::Said(Say::Told(answer)) => return Next::Give(answer),
            Came::NotAsked(why) => why,
            Came::Said(_) => return self.lose("it says what is no answer".to_owned()),
            Came::Lost(why) => return self.lose(why),
        };
        self.pass_over(why)
    }

    /// The node may have done it.
    fn lose(&mut self, why: String) -> Next {
        if self.is_write {
            let node = self.nodes.pop_front().unwrap_or_default();
            return Next::Fail(ClientError::Unknown(node, why));
        }
        self.pass_over(why)
    }

    fn pass_over(&mut self, why: String) -> Next {
        if let Some(node) = self.nodes.pop_front() {
            self.failed.push((node, why));
        }
        self.next()
    }

    fn next(&mut self) -> Next {
        match self.nodes.front() {
            Some(node) => Next::Ask(node.clone()),
            None => Next::Fail(ClientError::Unreachable(std::mem::take(&mut self.failed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Presence;

    fn node(name: &str) -> Box<str> {
        name.into()
    }

    fn begin(is_write: bool) -> Attempts {
        let mut attempts = Attempts::new(is_write);
        let first = attempts.place(vec![node("a"), node("b")]);
        assert_eq!(first, Next::Ask(node("a")));
        attempts
    }

    fn refused(why: Why) -> Came {
        Came::Said(Say::Refused(why, "no".to_owned()))
    }

    #[test]
    fn who_was_not_asked_is_followed_by_the_next_one() {
        for is_write in [false, true] {
            for came in [Came::NotAsked("down".to_owned()), refused(Why::Busy)] {
                let mut attempts = begin(is_write);
                assert_eq!(attempts.come(came.clone()), Next::Ask(node("b")));
                let said = Came::Said(Say::Told(Answer::TooFew));
                assert_eq!(attempts.come(said), Next::Give(Answer::TooFew));
            }
        }
    }

    #[test]
    fn what_was_sent_is_sent_again_if_it_is_a_read_alone() {
        let lost = || Came::Lost("gone".to_owned());
        assert_eq!(begin(false).come(lost()), Next::Ask(node("b")));
        let unknown = ClientError::Unknown(node("a"), "gone".to_owned());
        assert!(unknown.may_be_written());
        assert_eq!(begin(true).come(lost()), Next::Fail(unknown));
        let strange = begin(true).come(Came::Said(Say::Pong(Presence::default())));
        assert!(matches!(strange, Next::Fail(ClientError::Unknown(..))));
        // Also when others were passed over before.
        let mut attempts = begin(true);
        attempts.come(Came::NotAsked("down".to_owned()));
        let unknown = ClientError::Unknown(node("b"), "gone".to_owned());
        assert_eq!(attempts.come(lost()), Next::Fail(unknown));
    }

    #[test]
    fn when_no_node_is_left_each_says_why() {
        let mut attempts = begin(true);
        attempts.come(Came::NotAsked("down".to_owned()));
        let failed = attempts.come(refused(Why::Busy));
        let told = vec![
            (node("a"), "down".to_owned()),
            (node("b"), "it refuses: no".to_owned()),
        ];
        let error = ClientError::Unreachable(told);
        assert!(!error.may_be_written());
        assert_eq!(failed, Next::Fail(error));
    }

    #[test]
    fn another_epoch_has_the_map_learnt_once() {
        let mut attempts = begin(true);
        assert_eq!(attempts.come(refused(Why::Epoch)), Next::Learn);
        let again = attempts.place(vec![node("c"), node("d")]);
        assert_eq!(again, Next::Ask(node("c")));
        // This one is behind.
        assert_eq!(attempts.come(refused(Why::Epoch)), Next::Ask(node("d")));
    }
}
