//! What a request holds of a limit while its body is still on its way: a place is for work of the upstream, not for waiting.

use crate::deadline::TICK;
use crate::exchange::upload::{Rest, Upload};

/// Waits that cross two ticks have taken one of them at least, which a client is given before it counts as slow.
pub(super) const DAWDLED_MS: u64 = 2 * TICK.as_millis() as u64;

/// What a request holds of a limit while the rest of its body comes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing, or the body is no matter any more.
    #[default]
    Nothing,
    /// A place, which is for work.
    Place,
    /// It is counted apart, because its client was waited for.
    Apart,
}

impl Upload {
    /// The limits are asked now. Says whether the request will be no work for its upstream at first: more of its body is to
    /// come, and comes slowly.
    pub(crate) fn let_through(&mut self) -> bool {
        if self.rest == Rest::Nothing {
            return false;
        }
        let is_slow = self.comes_slowly();
        self.hold = if is_slow { Hold::Apart } else { Hold::Place };
        is_slow
    }

    /// Whether the request is counted apart until its body is here.
    pub(crate) fn is_apart(&self) -> bool {
        self.hold == Hold::Apart
    }

    /// Whether it holds anything of a limit while its body comes.
    pub(crate) fn holds(&self) -> bool {
        self.hold != Hold::Nothing
    }

    /// Whether its client has been waited for, in all, for longer than a place is for.
    pub(crate) fn has_dawdled(&self) -> bool {
        self.waited_ms - self.waited_before_ms >= DAWDLED_MS
    }

    /// Gives up the place that it holds, because its client is waited for; `false` when there is none to give up.
    pub(crate) fn give_way(&mut self) -> bool {
        let waits = self.is_running() && self.ready == 0 && self.rest != Rest::AwaitsContinue;
        let gives_way = self.hold == Hold::Place && waits;
        if gives_way {
            self.hold = Hold::Apart;
        }
        gives_way
    }

    /// All of the body was sent, or nobody takes more of it. Says whether the request held something without being work.
    pub(crate) fn become_work(&mut self) -> bool {
        if self.hold == Hold::Nothing || self.is_running() {
            return false;
        }
        std::mem::take(&mut self.hold) == Hold::Apart
    }
}
