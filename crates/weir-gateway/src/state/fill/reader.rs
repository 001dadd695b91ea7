//! A reader of a fill: it reads from the beginning or from some position of the body, until it has what it wants
//! or leaves.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_cache::store::Object;

use crate::failure::Failure;
use crate::lock::lock;
use crate::state::fill::state::{Keeps, Position, State};
use crate::state::fill::{Fill, Outcome, Piece, WINDOW_BYTES_MAX};

/// Reads a fill from its beginning.
#[derive(Debug)]
pub(crate) struct Reader {
    fill: Arc<Fill>,
    slot: usize,
}

impl Reader {
    pub(crate) fn new(fill: &Arc<Fill>) -> Self {
        let mut state = lock(&fill.0);
        let free = state.readers.iter().position(Option::is_none);
        let slot = free.unwrap_or(state.readers.len());
        if free.is_none() {
            state.readers.push(None);
        }
        state.readers[slot] = Some(Position::default());
        drop(state);
        Self {
            fill: Arc::clone(fill),
            slot,
        }
    }

    /// Ready once something is known of the answer, from the leader or from a request that asked in its place.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.fill.0);
        if let Some(outcome) = state.outcome.clone() {
            return Poll::Ready(outcome);
        }
        if let Some(relieved) = state.relieved.clone() {
            drop(state);
            // Nobody relieves that fill: it can be found only now that it has an answer.
            *self = Self::new(&relieved.by);
            return Poll::Ready(relieved.answer);
        }
        self.wait(&mut state, cx);
        Poll::Pending
    }

    /// Moves to this position of the body, which may not have come yet.
    pub(crate) fn move_to(&mut self, at: u64) {
        let mut state = lock(&self.fill.0);
        if let Some(position) = &mut state.readers[self.slot] {
            position.at = at;
        }
        state.shed();
    }

    /// The fill that it reads.
    pub(crate) fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// The reader has all it wanted, rather than having left early.
    pub(crate) fn finish(&self) {
        self.fill.keep_for_later();
    }

    /// Whether the body goes to RAM, so far.
    pub(crate) fn is_for_memory(&self) -> bool {
        self.fill.is_for_memory()
    }

    /// Whether the body has reached this position, or nearly.
    pub(crate) fn is_near(&self, at: u64) -> bool {
        at <= self.fill.bytes() + WINDOW_BYTES_MAX
    }

    /// Whether neither the next part of the body nor its end has come.
    pub(crate) fn is_early(&self) -> bool {
        let state = lock(&self.fill.0);
        let position = state.readers[self.slot].as_ref();
        position.is_some_and(|position| position.at >= state.held.end()) && !state.is_over
    }

    /// The next piece of the body. A reader counts as past what it reads from a file once it has moved.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut state = lock(&self.fill.0);
        let Some(position) = &state.readers[self.slot] else {
            return Poll::Ready(Piece::End);
        };
        let at = position.at;
        if position.is_cut {
            return Poll::Ready(Piece::Broken(Failure::ClientGone));
        }
        if at < state.held.start()
            && let Some(file) = &state.file
        {
            return Poll::Ready(Piece::Behind(file.clone(), at));
        }
        if let Some(piece) = state.held.from(at) {
            if let Some(position) = &mut state.readers[self.slot] {
                position.at = at + piece.len() as u64;
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

    /// The whole answer, once it is complete.
    pub(crate) fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<Object>>> {
        let mut state = lock(&self.fill.0);
        match &state.outcome {
            Some(Outcome::Whole(object)) => Poll::Ready(Some(Arc::clone(object))),
            _ if state.is_over || state.keeps != Keeps::All => Poll::Ready(None),
            _ => {
                self.wait(&mut state, cx);
                Poll::Pending
            }
        }
    }

    fn wait(&self, state: &mut State, cx: &Context<'_>) {
        if let Some(position) = &mut state.readers[self.slot] {
            position.waker = Some(cx.waker().clone());
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.fill.0);
        state.readers[self.slot] = None;
        state.shed();
        // A fill that is passed on ends when nobody reads it.
        let waiting = [state.writer.take(), state.forsaken.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}
