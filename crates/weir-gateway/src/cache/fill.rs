//! One answer on its way from the origin, and everybody who reads along: requests of any worker.
//!
//! A fill that is stored keeps all its pieces until it is whole, so that whoever joins reads from the first byte on; that
//! is at most the largest object that RAM takes. One that outgrew this is passed on without being stored: it lets go of
//! what all its readers have, and holds at most [`WINDOW_BYTES_MAX`] for the slowest of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use weir_cache::store::Object;
use weir_cache::{StoredHead, tags};

use super::fills::lock;
use crate::failure::Failure;

/// Bytes that an outgrown fill holds for its slowest reader; beyond that, the origin waits.
const WINDOW_BYTES_MAX: u64 = 1 << 20;

/// What there is of an answer.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// Its head is here, and perhaps the length of its body; the body follows.
    Arriving(Arc<StoredHead>, Option<u64>),
    /// All of it.
    Whole(Arc<Object>),
    /// It is not for others: each is to ask by itself.
    Unshared,
    /// There is none.
    Failed(Failure),
}

/// The next of a body.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    End,
    Broken(Failure),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fill(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    pieces: VecDeque<Bytes>,
    /// Pieces that were let go of.
    passed: usize,
    bytes_held: u64,
    bytes: u64,
    is_outgrown: bool,
    is_over: bool,
    readers: Vec<Option<Place>>,
    writer: Option<Waker>,
}

/// Where a reader is.
#[derive(Debug, Default)]
struct Place {
    next: usize,
    waker: Option<Waker>,
}

impl State {
    fn wake_readers(&mut self) {
        for place in self.readers.iter_mut().flatten() {
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    /// Lets go of what nobody will read any more.
    fn shed(&mut self) {
        if !self.is_outgrown {
            return;
        }
        let slowest = self.readers.iter().flatten().map(|place| place.next).min();
        let slowest = slowest.unwrap_or(usize::MAX);
        while self.passed < slowest
            && let Some(piece) = self.pieces.pop_front()
        {
            self.passed += 1;
            self.bytes_held -= piece.len() as u64;
        }
        if self.bytes_held < WINDOW_BYTES_MAX
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
    }
}

impl Fill {
    /// The head is here and will be stored.
    pub(super) fn begin(&self, head: Arc<StoredHead>, length: Option<u64>) {
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
            Some(Outcome::Whole(object)) => object.tags.iter().any(|one| **one == *tag),
            Some(Outcome::Unshared | Outcome::Failed(_)) => false,
        }
    }

    /// More of the body.
    pub(super) fn push(&self, piece: Bytes) {
        let mut state = lock(&self.0);
        state.bytes += piece.len() as u64;
        state.bytes_held += piece.len() as u64;
        state.pieces.push_back(piece);
        state.wake_readers();
        state.shed();
    }

    /// Bytes of the body so far.
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.0).bytes
    }

    /// It will not be stored after all.
    pub(super) fn outgrow(&self) {
        let mut state = lock(&self.0);
        state.is_outgrown = true;
        state.shed();
    }

    /// The body so far, shared.
    pub(super) fn body(&self) -> Vec<Bytes> {
        lock(&self.0).pieces.iter().cloned().collect()
    }

    /// The body has ended, and nothing more is to be said of it.
    pub(super) fn finish(&self) {
        let mut state = lock(&self.0);
        state.is_over = true;
        state.wake_readers();
    }

    /// Ends with `outcome`, unless there has been an end.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut state = lock(&self.0);
        if state.is_over {
            return;
        }
        state.is_over = true;
        state.outcome = Some(outcome);
        state.wake_readers();
    }

    /// Ready when there is room for more: `false` when nobody wants it.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if !state.is_outgrown || state.bytes_held < WINDOW_BYTES_MAX {
            let is_wanted = !state.is_outgrown || state.readers.iter().any(Option::is_some);
            return Poll::Ready(is_wanted);
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Reads a fill from its beginning.
#[derive(Debug)]
pub(super) struct Reader {
    fill: Arc<Fill>,
    slot: usize,
}

impl Reader {
    pub(super) fn new(fill: &Arc<Fill>) -> Self {
        let mut state = lock(&fill.0);
        let free = state.readers.iter().position(Option::is_none);
        let slot = free.unwrap_or(state.readers.len());
        if free.is_none() {
            state.readers.push(None);
        }
        state.readers[slot] = Some(Place::default());
        drop(state);
        Self {
            fill: Arc::clone(fill),
            slot,
        }
    }

    /// Ready once something is known of the answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.fill.0);
        if let Some(outcome) = state.outcome.clone() {
            return Poll::Ready(outcome);
        }
        self.wait(&mut state, cx);
        Poll::Pending
    }

    /// The next piece of the body.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut state = lock(&self.fill.0);
        let next = state.readers[self.slot]
            .as_ref()
            .map_or(0, |place| place.next);
        if let Some(piece) = next
            .checked_sub(state.passed)
            .and_then(|at| state.pieces.get(at))
        {
            let piece = piece.clone();
            if let Some(place) = &mut state.readers[self.slot] {
                place.next += 1;
            }
            state.shed();
            return Poll::Ready(Piece::Bytes(piece));
        }
        match &state.outcome {
            Some(Outcome::Failed(failure)) => Poll::Ready(Piece::Broken(*failure)),
            _ if state.is_over => Poll::Ready(Piece::End),
            _ => {
                self.wait(&mut state, cx);
                Poll::Pending
            }
        }
    }

    /// The whole answer, once it is.
    pub(super) fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<Object>>> {
        let mut state = lock(&self.fill.0);
        match &state.outcome {
            Some(Outcome::Whole(object)) => Poll::Ready(Some(Arc::clone(object))),
            _ if state.is_over || state.is_outgrown => Poll::Ready(None),
            _ => {
                self.wait(&mut state, cx);
                Poll::Pending
            }
        }
    }

    fn wait(&self, state: &mut State, cx: &Context<'_>) {
        if let Some(place) = &mut state.readers[self.slot] {
            place.waker = Some(cx.waker().clone());
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.fill.0);
        state.readers[self.slot] = None;
        state.shed();
        // An outgrown fill that nobody reads is over.
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }
}
