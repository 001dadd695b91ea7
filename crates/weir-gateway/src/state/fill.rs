//! A fill: one answer that arrives from the origin, and its readers, which are requests of any worker.
//!
//! What a fill holds of the body depends on where the body goes ([`Keeps`]):
//! - To RAM: all of it, so that a new reader can read from the first byte. That is at most the largest object that RAM
//!   takes; for all fills together it is what is left of the budget of all that is held for clients ([`Transient`]).
//!   What does not fit goes to disk or is passed on.
//! - To disk: what is not in the file yet, which the disk bounds (`pending_bytes_max` and a block), and the last part.
//!   Both together are up to [`WINDOW_BYTES_MAX`], or as much as the disk has not taken. When the budget is used up, no
//!   last part is held. Readers that are further behind read the file. No reader holds back another one, and the origin
//!   is read as fast as the disk writes.
//! - Passed on without being stored: what some reader has not read yet, up to [`WINDOW_BYTES_MAX`], or one piece when
//!   the budget is used up. Then the origin waits for the slowest reader. A reader that makes others wait for a whole
//!   deadline is cut off.
//! - Stored: nothing but what is in the store. When the store evicts it, it counts in the budget as long as some reader
//!   has not read it.
//!
//! When all readers have left, a fill goes on only if at most [`WORTH_FINISHING_BYTES`] are missing. It also goes on
//! for later requests if a reader left with all it wanted, such as a part, or if it was begun in the background. There
//! is a bounded number of all these at once. A fill that goes on because little is missing does so for at most
//! [`UNREAD_FOR_MS`].

mod held;
mod reader;
mod state;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_cache::reuse::OriginFailure;
use weir_cache::store::disk::DiskArriving;
use weir_cache::store::{Grant, Object, Pin, Transient};
use weir_cache::{StoredHead, tags};

use crate::failure::Failure;
use crate::lock::lock;
use crate::state::bound::Bound;
use crate::state::fill::state::{Keeps, State};

pub(crate) use crate::state::fill::reader::Reader;

/// Bytes that a fill holds for its readers when it does not go to RAM.
const WINDOW_BYTES_MAX: u64 = 1 << 20;

/// A fill without readers goes on if at most this many bytes are missing.
const WORTH_FINISHING_BYTES: u64 = 1 << 20;
/// How long it may go on for that reason.
const UNREAD_FOR_MS: u64 = 5_000;

/// What is known of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// Its head is here, and perhaps the length of its body; the body follows.
    Arriving(Arc<StoredHead>, Option<u64>),
    /// All of it is here.
    Whole(Arc<Object>),
    /// A stale stored response. The leader uses it because the origin failed in this way; the failure is why it gave no
    /// answer, if it gave none. Each waiting request goes by what it allows itself.
    Stale(Arc<Object>, OriginFailure, Option<Failure>),
    /// It is not for others, or others have found something: each request must look again.
    Unshared,
    /// It is an error of the origin (5xx): each request must ask the origin itself.
    Erred,
    /// There is no answer.
    Failed(Failure),
}

/// What a request has found that asked in place of a late leader.
#[derive(Debug, Clone)]
pub(crate) struct Relieved {
    pub(crate) answer: Outcome,
    /// The fill in which it arrives.
    pub(crate) by: Arc<Fill>,
}

/// The next part of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    /// It must be read from this file, from this position on.
    Behind(DiskArriving, u64),
    End,
    Broken(Failure),
}

/// Nobody wants the rest of a body.
#[derive(Debug)]
pub(crate) struct Forsaken;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Fill(Mutex<State>);

impl Fill {
    /// The head is here and will be stored.
    pub(crate) fn begin(&self, head: Arc<StoredHead>, length: Option<u64>) {
        let mut state = lock(&self.0);
        state.outcome = Some(Outcome::Arriving(head, length));
        state.wake_readers();
    }

    /// Whether the answer has this tag, or may have it because its head is not here yet.
    pub(super) fn may_have_tag(&self, tag: &str) -> bool {
        match &lock(&self.0).outcome {
            None => true,
            Some(Outcome::Arriving(head, _)) => {
                tags::of(head.fields()).any(|one| one == tag.as_bytes())
            }
            Some(Outcome::Whole(object) | Outcome::Stale(object, ..)) => {
                object.tags.iter().any(|one| **one == *tag)
            }
            Some(Outcome::Unshared | Outcome::Erred | Outcome::Failed(_)) => false,
        }
    }

    /// More of the body has come.
    pub(crate) fn push(&self, piece: Bytes) {
        let mut state = lock(&self.0);
        state.held.push(piece);
        state.wake_readers();
        state.shed();
    }

    /// Counts what it holds in this budget.
    pub(crate) fn counts_in(&self, budget: &Arc<Transient>) {
        lock(&self.0).grant = Some(Grant::new(budget));
    }

    /// Whether this much more of the body may be held on its way to RAM. If so, it is counted.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let state = lock(&self.0);
        let grant = state.grant.as_ref();
        grant.is_none_or(|grant| grant.try_add(bytes))
    }

    /// Bytes that become free when nobody reads it.
    pub(crate) fn held_bytes(&self) -> u64 {
        let state = lock(&self.0);
        let granted = state.grant.as_ref().map_or(0, Grant::bytes);
        granted + state.pin.as_ref().map_or(0, Pin::held_bytes)
    }

    /// The length of the body so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.0).held.end()
    }

    /// Whether the body goes to RAM, so far.
    pub(crate) fn is_for_memory(&self) -> bool {
        lock(&self.0).keeps == Keeps::All
    }

    /// The body goes to disk, into this file.
    pub(crate) fn spill(&self, file: DiskArriving) {
        let mut state = lock(&self.0);
        state.keeps = Keeps::Window;
        state.file = Some(file);
        state.wake_readers();
    }

    /// The disk has taken more of the body.
    pub(crate) fn shed(&self) {
        lock(&self.0).shed();
    }

    /// The body will not be stored after all.
    pub(crate) fn pass_on(&self) {
        let mut state = lock(&self.0);
        state.keeps = Keeps::Unread;
        state.wake_readers();
        state.shed();
    }

    /// The body so far, shared, if it goes to RAM.
    pub(crate) fn body(&self) -> Vec<Bytes> {
        lock(&self.0).held.pieces().cloned().collect()
    }

    /// The body has ended, and nothing more will be said about it.
    pub(crate) fn finish(&self) {
        lock(&self.0).over();
    }

    /// Ends with `outcome`, unless it has ended already.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut state = lock(&self.0);
        if state.is_over {
            return;
        }
        if let Outcome::Whole(object) | Outcome::Stale(object, ..) = &outcome
            && let Some(grant) = state.grant.take()
        {
            // The object is stored and counted there by now, and all of it can be read here.
            state.pin = object.pin(grant.budget());
            state.is_over = true;
            state.unread = None;
            state.wake_readers();
        } else {
            state.over();
        }
        state.outcome = Some(outcome);
    }

    /// Ready when there is room for more; `false` when nobody wants more.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if state.keeps != Keeps::Unread {
            return Poll::Ready(true);
        }
        if state.held.bytes() < state.window().max(1) {
            return Poll::Ready(state.readers.iter().flatten().any(|reader| !reader.is_cut));
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether a request that has waited for `patience` should ask in place of the leader.
    ///
    /// # Errors
    /// When to try again, because another request asks already.
    pub(crate) fn relieve(&self, now: Instant, patience: Duration) -> Result<(), Instant> {
        lock(&self.0).relief.take(now, patience)
    }

    /// A request that asked in the leader's place has this answer: those that wait for the head go on there.
    pub(super) fn release_waiting(&self, answer: Outcome, by: &Arc<Self>) {
        let mut state = lock(&self.0);
        let by = Arc::clone(by);
        state.relieved = Some(Relieved { answer, by });
        if state.outcome.is_none() {
            state.wake_readers();
        }
        if let Some(asker) = state.asker.take() {
            asker.wake();
        }
    }

    /// What a request has found that asked in the leader's place.
    pub(super) fn relieved(&self) -> Option<Relieved> {
        lock(&self.0).relieved.clone()
    }

    /// The same for a request that asks itself; its task is woken when there is something.
    pub(crate) fn poll_relieved(&self, cx: &Context<'_>) -> Option<Relieved> {
        let mut state = lock(&self.0);
        match &mut state.asker {
            Some(known) => known.clone_from(cx.waker()),
            unknown => *unknown = Some(cx.waker().clone()),
        }
        state.relieved.clone()
    }

    /// The fill goes on even without readers.
    pub(crate) fn keep_for_later(&self) {
        lock(&self.0).is_for_later = true;
    }

    /// [`Forsaken`] when all readers have left and the rest is not worth it, or there is no slot among `unread` for it.
    /// Then the fill has ended, and nobody can join it. Otherwise returns for how long it may go on without readers, if
    /// that is bounded. The task is woken when the last reader leaves.
    pub(crate) fn poll_forsaken(
        &self,
        unread: Option<&Bound>,
        now_ms: u64,
        cx: &mut Context<'_>,
    ) -> Result<Option<u64>, Forsaken> {
        let mut state = lock(&self.0);
        let waits = state.forsaken.as_ref();
        if !waits.is_some_and(|own| own.will_wake(cx.waker())) {
            state.forsaken = Some(cx.waker().clone());
        }
        if state.readers.iter().any(Option::is_some) {
            state.unread = None;
            return Ok(None);
        }
        let goes_on = state.goes_on_for(unread, now_ms);
        if goes_on.is_err() {
            state.outcome = Some(Outcome::Failed(Failure::ClientGone));
            state.over();
        }
        goes_on
    }

    /// There was no room for a whole deadline. Readers that still have to read the first piece are cut off, if there
    /// are others.
    pub(crate) fn cut_slowest(&self) {
        let mut state = lock(&self.0);
        let end = state.held.first_end().unwrap_or(0);
        if state
            .readers
            .iter()
            .flatten()
            .any(|reader| reader.at >= end)
        {
            let slow = state.readers.iter_mut().flatten();
            slow.filter(|reader| reader.at < end)
                .for_each(|reader| reader.is_cut = true);
            state.wake_readers();
            state.shed();
        }
    }
}
