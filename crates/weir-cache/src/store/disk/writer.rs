//! The worker's side of an object on its way to disk: it hands over pieces and never waits for them.
//!
//! The pieces of one object are written in order, by one disk thread at a time, and at most `pending_bytes_max` of them
//! wait in RAM. A worker with more to append first awaits [`DiskWriter::room`], or gives up the disk for this object.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::Shared;
use super::arriving::{DiskArriving, Written};
use super::format::Trailer;
use super::open_object::DiskObject;
use super::writing::{Unfinished, trailer};
use crate::store::StoreError;
use crate::store::job::{Answer, Reply, lock};
use crate::store::purge::Ticket;

/// An object that is being written. If it is dropped without a commit, nothing of it stays.
#[derive(Debug)]
pub struct DiskWriter(Arc<Pending>);

pub(super) struct Pending {
    shared: Arc<Shared>,
    key: Box<[u8]>,
    variant: Box<[u8]>,
    ticket: Ticket,
    variants_max: usize,
    written: Arc<Written>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    pending_bytes: usize,
    /// Whether a disk thread takes steps, or has been asked to.
    is_scheduled: bool,
    failed: Option<StoreError>,
    has_failed: bool,
    is_ended: bool,
    room: Option<Reply<()>>,
    unfinished: Option<Unfinished>,
}

enum Step {
    Append(Bytes),
    Commit(Box<Commit>, Reply<DiskObject>),
    Abort,
}

struct Commit {
    trailer: Trailer,
    is_wanted: Box<dyn Fn() -> bool + Send>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("pending_bytes", &lock(&self.state).pending_bytes)
            .finish_non_exhaustive()
    }
}

impl DiskWriter {
    pub(super) fn new(
        shared: Arc<Shared>,
        key: &[u8],
        variant: &[u8],
        ticket: Ticket,
        variants_max: usize,
    ) -> Self {
        let (written, state) = (Arc::default(), Mutex::default());
        Self(Arc::new(Pending {
            shared,
            key: key.into(),
            variant: variant.into(),
            ticket,
            variants_max,
            written,
            state,
        }))
    }

    /// The object, for reading while it is written.
    pub fn arriving(&self) -> DiskArriving {
        DiskArriving::new(&self.0.shared, &self.0.written)
    }

    /// Hands over the next piece of the body. [`StoreError::Busy`] means that too much is waiting: nothing was taken,
    /// and [`DiskWriter::room`] tells when to try again. Any other error is final.
    pub fn append(&mut self, piece: Bytes) -> Result<(), StoreError> {
        let mut state = lock(&self.0.state);
        if state.has_failed {
            return Err(state.failed.take().unwrap_or(StoreError::Closed));
        }
        let pending_bytes_max = self.0.shared.volume.config.pending_bytes_max;
        if state.pending_bytes > 0 && state.pending_bytes + piece.len() > pending_bytes_max {
            return Err(StoreError::Busy);
        }
        state.pending_bytes += piece.len();
        Pending::add(&self.0, &mut state, Step::Append(piece))
    }

    /// Answers when at most half of the allowed bytes are waiting, or the object has failed.
    pub fn room(&mut self) -> Answer<()> {
        let mut state = lock(&self.0.state);
        if state.has_failed
            || state.pending_bytes <= self.0.shared.volume.config.pending_bytes_max / 2
        {
            return Answer::ready(Ok(()));
        }
        let (reply, answer) = Answer::pair();
        state.room = Some(reply);
        answer
    }

    /// Ends the body and makes the object findable, if `is_wanted` is true at that moment, in a disk thread. The answer
    /// is the open object; from then on lookups find it.
    pub fn commit(
        self,
        metadata: Bytes,
        head: Bytes,
        tags: Vec<Box<str>>,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Answer<DiskObject> {
        let commit = Box::new(Commit {
            trailer: trailer(&self.0.key, &self.0.variant, metadata, head, tags),
            is_wanted: Box::new(is_wanted),
        });
        let (reply, answer) = Answer::pair();
        let mut state = lock(&self.0.state);
        state.is_ended = true;
        if state.has_failed {
            reply.send(Err(state.failed.take().unwrap_or(StoreError::Closed)));
        } else {
            // If it is refused, the reply in the step answers that the store is closed.
            _ = Pending::add(&self.0, &mut state, Step::Commit(commit, reply));
        }
        drop(state);
        answer
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if !state.is_ended {
            _ = Pending::add(&self.0, &mut state, Step::Abort);
        }
    }
}

impl Pending {
    fn add(this: &Arc<Self>, state: &mut State, step: Step) -> Result<(), StoreError> {
        state.steps.push_back(step);
        if !std::mem::replace(&mut state.is_scheduled, true) {
            let pending = Arc::clone(this);
            let added = this
                .shared
                .jobs
                .push_always(Box::new(move |_| pending.take_steps()));
            if added.is_err() {
                state.fail(StoreError::Closed);
            }
            return added;
        }
        Ok(())
    }

    /// Takes the waiting steps, in a disk thread. There is only one at a time, because `is_scheduled` is true until
    /// this ends.
    fn take_steps(&self) {
        let mut unfinished = lock(&self.state).unfinished.take();
        loop {
            let mut state = lock(&self.state);
            let Some(step) = state.steps.pop_front() else {
                state.is_scheduled = false;
                state.unfinished = unfinished;
                return;
            };
            drop(state);
            if let Err(error) = self.take_step(step, &mut unfinished) {
                unfinished = None;
                lock(&self.state).fail(error);
            }
        }
    }

    fn take_step(&self, step: Step, unfinished: &mut Option<Unfinished>) -> Result<(), StoreError> {
        let begun = unfinished.take();
        let object = |begun: Option<Unfinished>| {
            begun.map_or_else(|| Unfinished::create(&self.shared.volume), Ok)
        };
        match step {
            Step::Append(piece) => {
                let object = unfinished.insert(object(begun)?);
                self.written.file.get_or_init(|| object.file());
                let result = object.append(&piece);
                let bytes = object.bytes_written();
                self.written.bytes.store(bytes, Ordering::Release);
                self.note_written(piece.len());
                result
            }
            Step::Commit(commit, reply) => {
                let Commit { trailer, is_wanted } = *commit;
                let committed = object(begun).and_then(|object| {
                    object.commit(
                        &self.key,
                        self.ticket,
                        trailer,
                        self.variants_max,
                        &*is_wanted,
                    )
                });
                let shared = Arc::clone(&self.shared);
                reply.send(committed.map(|opened| DiskObject::new(shared, Arc::new(opened))));
                Ok(())
            }
            Step::Abort => {
                drop(begun);
                Ok(())
            }
        }
    }

    fn note_written(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
        if state.pending_bytes <= self.shared.volume.config.pending_bytes_max / 2
            && let Some(room) = state.room.take()
        {
            drop(state);
            room.send(Ok(()));
        }
    }
}

impl State {
    fn fail(&mut self, error: StoreError) {
        let mut error = Some(error);
        for step in self.steps.drain(..) {
            if let Step::Commit(_, reply) = step {
                reply.send(Err(error.take().unwrap_or(StoreError::Closed)));
            }
        }
        self.pending_bytes = 0;
        self.has_failed = true;
        self.failed = error;
        if let Some(room) = self.room.take() {
            room.send(Ok(()));
        }
    }
}
