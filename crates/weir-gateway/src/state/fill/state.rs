//! What is known of a fill, under its lock.

use std::task::Waker;

use weir_cache::collapse::Relief;
use weir_cache::store::disk::DiskArriving;
use weir_cache::store::{Grant, Pin};

use crate::state::bound::{Bound, Slot};
use crate::state::fill::held::Held;
use crate::state::fill::{
    Forsaken, Outcome, Relieved, UNREAD_FOR_MS, WINDOW_BYTES_MAX, WORTH_FINISHING_BYTES,
};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) outcome: Option<Outcome>,
    pub(super) held: Held,
    /// The part that counts in the budget: everything while the body goes to RAM, and otherwise what is
    /// held.
    pub(super) grant: Option<Grant>,
    /// The object that was made of it, for readers that have not read all of it.
    pub(super) pin: Option<Pin>,
    pub(super) keeps: Keeps,
    /// The file with what has gone to disk so far, also after the body stopped going there.
    pub(super) file: Option<DiskArriving>,
    pub(super) is_over: bool,
    /// Whether it goes on without readers.
    pub(super) is_for_later: bool,
    /// Since when it goes on without readers, and its slot for that.
    pub(super) unread: Option<(Slot, u64)>,
    /// Who asks in place of a late leader.
    pub(super) relief: Relief,
    /// What a request has found that asked in the leader's place: nobody waits for its head any more.
    pub(super) relieved: Option<Relieved>,
    /// Whom to wake for that besides the readers: the request that asks.
    pub(super) asker: Option<Waker>,
    pub(super) readers: Vec<Option<Position>>,
    pub(super) writer: Option<Waker>,
    /// Whom to wake when the last reader leaves.
    pub(super) forsaken: Option<Waker>,
}

/// What is held of the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    #[default]
    All,
    Window,
    Unread,
}

/// The position of a reader.
#[derive(Debug, Default)]
pub(super) struct Position {
    pub(super) at: u64,
    pub(super) waker: Option<Waker>,
    /// Whether it was cut off because it made others wait for too long.
    pub(super) is_cut: bool,
}

impl State {
    pub(super) fn wake_readers(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            if let Some(waker) = reader.waker.take() {
                waker.wake();
            }
        }
    }

    /// The position of the slowest reader that is not cut off.
    pub(super) fn slowest(&self) -> u64 {
        let reading = self
            .readers
            .iter()
            .flatten()
            .filter(|reader| !reader.is_cut);
        reading.map(|reader| reader.at).min().unwrap_or(u64::MAX)
    }

    /// Drops what no reader will read from here any more.
    pub(super) fn shed(&mut self) {
        let written = self.file.as_ref().map_or(0, DiskArriving::bytes_written);
        let (slowest, window) = (self.slowest(), self.window());
        while let Some(end) = self.held.first_end() {
            let is_read = end <= slowest;
            let may_go = match self.keeps {
                Keeps::All => false,
                Keeps::Window => end <= written && (is_read || self.held.bytes() > window),
                Keeps::Unread => is_read,
            };
            if !may_go {
                break;
            }
            self.held.drop_first();
        }
        if self.keeps != Keeps::All
            && let Some(grant) = &self.grant
        {
            grant.set(self.held.bytes());
        }
        if self.held.bytes() < window.max(1)
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
    }

    /// Bytes that it may hold for slower readers.
    pub(super) fn window(&self) -> u64 {
        let budget = self.grant.as_ref().map(Grant::budget);
        if budget.is_some_and(|budget| budget.is_used_up()) {
            return 0;
        }
        WINDOW_BYTES_MAX
    }

    /// How long it may go on without readers, if that is bounded.
    pub(super) fn goes_on_for(
        &mut self,
        unread: Option<&Bound>,
        now_ms: u64,
    ) -> Result<Option<u64>, Forsaken> {
        let is_nearly_done = match &self.outcome {
            Some(Outcome::Arriving(_, Some(length))) => {
                length.saturating_sub(self.held.end()) <= WORTH_FINISHING_BYTES
            }
            _ => false,
        };
        if !self.is_for_later && !is_nearly_done {
            return Err(Forsaken);
        }
        let Some(unread) = unread else {
            return Ok(None);
        };
        if self.unread.is_none() {
            self.unread = Some((unread.take().ok_or(Forsaken)?, now_ms));
        }
        let since_ms = self
            .unread
            .as_ref()
            .map_or(now_ms, |(_, since_ms)| *since_ms);
        match (since_ms + UNREAD_FOR_MS).saturating_sub(now_ms) {
            _ if self.is_for_later => Ok(None),
            0 => Err(Forsaken),
            left_ms => Ok(Some(left_ms)),
        }
    }

    /// Nothing more comes, and the body does not go to RAM.
    pub(super) fn over(&mut self) {
        self.is_over = true;
        self.unread = None;
        if self.keeps == Keeps::All {
            self.keeps = Keeps::Unread;
        }
        self.wake_readers();
        self.shed();
    }
}
