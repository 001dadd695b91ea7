//! One answer on its way from the origin, and everybody who reads along: requests of any worker.
//!
//! What is held of its body depends on what becomes of it ([`Keeps`]):
//! - On its way to RAM, all of it, so that whoever joins reads from the first byte on; that is at most the largest object
//!   that RAM takes, and for all fills together what is left of the budget of all that is held for clients
//!   ([`Transient`]). What does not fit there goes to disk or is passed on.
//! - On its way to disk, what is not in the file yet, which the disk bounds (`pending_bytes_max` and a block), and what
//!   came last, up to [`WINDOW_BYTES_MAX`] of both together or as much as the disk has not taken; nothing of that once the
//!   budget is used up. Readers that are behind it read the file. Nobody holds anybody back, and the origin is read as fast
//!   as the disk writes.
//! - Passed on without being stored, what somebody has yet to read, up to [`WINDOW_BYTES_MAX`], or one piece once the budget is
//!   used up; then the origin waits for the slowest reader. One that makes others wait for a whole deadline is cut off.
//! - Stored, nothing that is not in the store, until that evicts it: from then on it counts in the budget, for as long as
//!   somebody has yet to read it.
//!
//! When all who read it have left, it goes on only for as little as [`WORTH_FINISHING_BYTES`]. One that somebody was served from
//! who wanted no more of it, as a part, or that was begun in the background, goes on for those who come later. Of all these
//! there is a bounded number at once, and what goes on because little is missing does so for [`UNREAD_FOR_MS`] at most.

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

/// Bytes that a fill holds for its readers when it is not on its way to RAM.
const WINDOW_BYTES_MAX: u64 = 1 << 20;

/// Bytes still to come for which a fill goes on that nobody reads.
const WORTH_FINISHING_BYTES: u64 = 1 << 20;
/// How long it may go on for that.
const UNREAD_FOR_MS: u64 = 5_000;

/// What there is of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// Its head is here, and perhaps the length of its body; the body follows.
    Arriving(Arc<StoredHead>, Option<u64>),
    /// All of it.
    Whole(Arc<Object>),
    /// Something that is stored and stale, which its leader takes because the origin failed like this; with why it gave no
    /// answer, if it gave none. Whoever waits goes by what itself allows.
    Stale(Arc<Object>, OriginFailure, Option<Failure>),
    /// It is not for others, or others have found something: each is to look again.
    Unshared,
    /// It is an error of the origin's (5xx): each is to hear of it from there.
    Erred,
    /// There is none.
    Failed(Failure),
}

/// What somebody has who asked in the place of a late leader.
#[derive(Debug, Clone)]
pub(crate) struct Relieved {
    pub(crate) answer: Outcome,
    /// Where it arrives.
    pub(crate) by: Arc<Fill>,
}

/// The next of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    /// It is to be read from this file, from this place on.
    Behind(DiskArriving, u64),
    End,
    Broken(Failure),
}

/// Nobody wants the rest of it.
#[derive(Debug)]
pub(crate) struct Forsaken;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Fill(Mutex<State>);

impl Fill {
    /// The head is here and will be stored.
    pub(crate) fn begin(&self, head: Arc<StoredHead>, length: Option<u64>) {
        let mut state = lock(&self.0);
        state.outcome = Some(Outcome::Arriving(head, length));
        state.wake_readers();
    }

    /// Whether what arrives has this tag, or its head is not here yet, so that it may have it.
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

    /// More of the body.
    pub(crate) fn push(&self, piece: Bytes) {
        let mut state = lock(&self.0);
        state.held.push(piece);
        state.wake_readers();
        state.shed();
    }

    /// What it holds counts in this budget.
    pub(crate) fn counts_in(&self, budget: &Arc<Transient>) {
        lock(&self.0).grant = Some(Grant::new(budget));
    }

    /// Whether so much more of the body may be held on its way to RAM; then it is counted.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let state = lock(&self.0);
        let grant = state.grant.as_ref();
        grant.is_none_or(|grant| grant.try_add(bytes))
    }

    /// Bytes that come free when nobody reads it.
    pub(crate) fn held_bytes(&self) -> u64 {
        let state = lock(&self.0);
        let granted = state.grant.as_ref().map_or(0, Grant::bytes);
        granted + state.pin.as_ref().map_or(0, Pin::held_bytes)
    }

    /// Bytes of the body so far.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.0).held.end()
    }

    /// Whether it is on its way to RAM, so far.
    pub(crate) fn is_for_memory(&self) -> bool {
        lock(&self.0).keeps == Keeps::All
    }

    /// It goes to disk, and this is the file.
    pub(crate) fn spill(&self, file: DiskArriving) {
        let mut state = lock(&self.0);
        state.keeps = Keeps::Window;
        state.file = Some(file);
        state.wake_readers();
    }

    /// The disk has taken more.
    pub(crate) fn shed(&self) {
        lock(&self.0).shed();
    }

    /// It will not be stored after all.
    pub(crate) fn pass_on(&self) {
        let mut state = lock(&self.0);
        state.keeps = Keeps::Unread;
        state.wake_readers();
        state.shed();
    }

    /// The body so far, shared, where it is on its way to RAM.
    pub(crate) fn body(&self) -> Vec<Bytes> {
        lock(&self.0).held.pieces().cloned().collect()
    }

    /// The body has ended, and nothing more is to be said of it.
    pub(crate) fn finish(&self) {
        lock(&self.0).over();
    }

    /// Ends with `outcome`, unless there has been an end.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut state = lock(&self.0);
        if state.is_over {
            return;
        }
        if let Outcome::Whole(object) | Outcome::Stale(object, ..) = &outcome
            && let Some(grant) = state.grant.take()
        {
            // What is stored by now is counted there, and all of it can be read here.
            state.pin = object.pin(grant.budget());
            state.is_over = true;
            state.unread = None;
            state.wake_readers();
        } else {
            state.over();
        }
        state.outcome = Some(outcome);
    }

    /// Ready when there is room for more: `false` when nobody wants it.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if state.keeps != Keeps::Unread {
            return Poll::Ready(true);
        }
        if state.held.bytes() < state.window().max(1) {
            return Poll::Ready(state.readers.iter().flatten().any(|place| !place.is_cut));
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether whoever has waited for `patience` is to ask in the place of the leader.
    ///
    /// # Errors
    /// When to ask again, because somebody does already.
    pub(crate) fn relieve(&self, now: Instant, patience: Duration) -> Result<(), Instant> {
        lock(&self.0).relief.take(now, patience)
    }

    /// Somebody who asked in its leader's place has this: those who wait for its head go on there.
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

    /// What somebody has who asked in its leader's place.
    pub(super) fn relieved(&self) -> Option<Relieved> {
        lock(&self.0).relieved.clone()
    }

    /// The same for whoever asks itself, whose task is woken when there is something.
    pub(crate) fn poll_relieved(&self, cx: &Context<'_>) -> Option<Relieved> {
        let mut state = lock(&self.0);
        match &mut state.asker {
            Some(known) => known.clone_from(cx.waker()),
            unknown => *unknown = Some(cx.waker().clone()),
        }
        state.relieved.clone()
    }

    /// It goes on when nobody reads it.
    pub(crate) fn keep_for_later(&self) {
        lock(&self.0).is_for_later = true;
    }

    /// [`Forsaken`] when all who read it have left and it is not worth its rest, or there is no place among those of `unread`
    /// for it. It has ended then; nobody can read along any more. Until then, for how long at most it goes on, if that is
    /// bounded. The task is woken when the last reader leaves.
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

    /// There was no room for a whole deadline: whoever has not read the first piece by now is cut off, if there are others.
    pub(crate) fn cut_slowest(&self) {
        let mut state = lock(&self.0);
        let end = state.held.first_end().unwrap_or(0);
        if state.readers.iter().flatten().any(|place| place.at >= end) {
            let slow = state.readers.iter_mut().flatten();
            slow.filter(|place| place.at < end)
                .for_each(|place| place.is_cut = true);
            state.wake_readers();
            state.shed();
        }
    }
}
