//! A body on its way from the origin into a fill, and from there to RAM or to disk. It goes on when the client that asked
//! for it leaves and others read it, or little is missing; it ends when the origin fails, or when nobody reads it and it is not
//! worth its rest, or is not to be stored after all.
//!
//! The one task that this module starts is [`pump`], for each answer whose body did not come with its head.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use weir_cache::StoredHead;
use weir_cache::store::tiers::large::LargeWrite;
use weir_cache::store::{Object, StoreError};
use weir_http::body::Piece;

use crate::buffers::Input;
use crate::cache::lead::Lead;
use crate::cache::on_disk;
use crate::deadline::{Due, Timer};
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fill::Outcome;
use crate::state::worker::Worker;
use crate::upstream::chosen::Chosen;
use crate::upstream::relay::Upstream;
use crate::wire::Wire;

/// An answer whose head is in the fill.
pub(super) struct Arriving {
    pub(super) lead: Box<Lead>,
    pub(super) head: Arc<StoredHead>,
    pub(super) incoming: Input,
    pub(super) chosen: Chosen,
    pub(super) upstream: Upstream,
    pub(super) keeps_upstream: bool,
    pub(super) idle: Duration,
    /// When it is no work for the upstream any more.
    pub(super) stream_at: Due,
    pub(super) limits: Limits,
    /// What is being written of it, when it is too large for RAM.
    pub(super) large: Option<LargeWrite>,
}

/// Bytes of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Beyond these it goes to disk.
    memory: u64,
    /// Beyond these it is not stored.
    stored: u64,
}

impl Limits {
    pub(super) fn of(on: Cached<'_>) -> Self {
        let tiers = &on.cache.tiers;
        Self {
            memory: tiers.memory().object_bytes_max(),
            stored: on.policy.body_bytes_max.min(tiers.object_bytes_max()),
        }
    }
}

pub(super) fn spawn(worker: &Rc<Worker>, arriving: Arriving) {
    tokio::task::spawn_local(pump(Rc::clone(worker), arriving));
}

async fn pump(worker: Rc<Worker>, mut arriving: Arriving) {
    let timer = Timer::new(&worker.deadlines);
    match arriving.receive(&worker, &timer).await {
        Ok(true) => arriving.finish(&worker, &timer).await,
        Ok(false) => {}
        Err(failure) => {
            arriving.chosen.broke_off(failure);
            arriving.lead.end(Outcome::Failed(failure));
        }
    }
}

impl Arriving {
    /// The head goes into the fill and what has come of the body behind it.
    pub(super) fn begin(&mut self, length: Option<u64>, piece: Bytes) {
        let fill = Arc::clone(&self.lead.lent.fill);
        fill.counts_in(&self.lead.cache.transient);
        let is_large = length.is_some_and(|length| length > self.limits.memory);
        if is_large || !fill.fits(piece.len() as u64) {
            self.begin_large();
        }
        fill.begin(Arc::clone(&self.head), length);
        let arriving = Outcome::Arriving(Arc::clone(&self.head), length);
        let fills = &self.lead.cache.fills;
        fills.take_over(&mut self.lead.lent, &arriving);
        if !piece.is_empty() {
            // The first piece always finds room.
            let is_lost = self
                .large
                .as_mut()
                .is_some_and(|large| large.append(piece.clone()).is_err());
            fill.push(piece);
            if is_lost {
                self.pass_on();
            }
        }
    }

    /// Takes the body to its end; `false` when nobody wants it any more.
    async fn receive(&mut self, worker: &Worker, timer: &Timer) -> Result<bool, Failure> {
        while !self.upstream.wire.is_over() {
            if !self.room(timer).await? {
                return Ok(false);
            }
            timer.set(self.idle);
            let fill = &self.lead.lent.fill;
            let Upstream { wire, pass, .. } = &mut self.upstream;
            let (incoming, stream_at) = (&mut self.incoming, &mut self.stream_at);
            // A refresh is never read, and has a bound of its own.
            let unread = (self.lead.refreshes.is_none()).then_some(&self.lead.cache.unread);
            let mut is_unread = false;
            let read = poll_fn(|cx| {
                match fill.poll_forsaken(unread, timer.now_ms(), cx) {
                    Ok(Some(left_ms)) => {
                        timer.set_within(Duration::from_millis(left_ms));
                        is_unread = true;
                    }
                    // Somebody has joined it after all.
                    Ok(None) if std::mem::take(&mut is_unread) => timer.set(self.idle),
                    Ok(None) => {}
                    Err(_) => return Poll::Ready(Ok(None)),
                }
                if stream_at.poll(cx).is_ready() {
                    *stream_at = Due::never();
                    pass.set_apart()?;
                }
                match wire.poll_read(incoming, &worker.buffers, cx) {
                    Poll::Ready(read) => {
                        Poll::Ready(read.map(Some).map_err(|_| Failure::ResponseCut))
                    }
                    Poll::Pending => timer.poll(cx).map(|()| Err(Failure::ResponseCut)),
                }
            });
            let Some(count) = read.await? else {
                return Ok(false);
            };
            if count == 0 {
                return if self.upstream.wire.may_end_here() {
                    Ok(true)
                } else {
                    Err(Failure::ResponseCut)
                };
            }
            let piece = take(&mut self.incoming, &mut self.upstream.wire)?;
            self.incoming.release(&worker.buffers);
            if !piece.is_empty() {
                self.keep(piece, timer).await;
            }
        }
        Ok(true)
    }

    /// Waits until the fill has room; `false` when nobody reads what is not stored. A response that waits for its readers is
    /// no work for the upstream.
    async fn room(&mut self, timer: &Timer) -> Result<bool, Failure> {
        let (fill, pass) = (&self.lead.lent.fill, &mut self.upstream.pass);
        loop {
            timer.set(self.idle);
            let room = poll_fn(|cx| match fill.poll_room(cx) {
                Poll::Ready(is_wanted) => Poll::Ready(Ok(Some(is_wanted))),
                Poll::Pending => {
                    pass.set_apart()?;
                    timer.poll(cx).map(|()| Ok(None))
                }
            });
            match room.await? {
                Some(is_wanted) => return Ok(is_wanted),
                None => fill.cut_slowest(),
            }
        }
    }

    /// Shows a piece to those who read along, and then gives it to the disk, if it is to go there.
    async fn keep(&mut self, piece: Bytes, timer: &Timer) {
        let fill = Arc::clone(&self.lead.lent.fill);
        let bytes = fill.bytes() + piece.len() as u64;
        let is_stored = self.large.is_some() || fill.is_for_memory();
        if is_stored && bytes > self.limits.stored {
            self.pass_on();
        } else if fill.is_for_memory()
            && (bytes > self.limits.memory || !fill.fits(piece.len() as u64))
        {
            // Its length was not known, or too much is on its way to RAM. All of it so far is there.
            let so_far = fill.body();
            self.begin_large();
            for piece in so_far {
                self.append(piece, timer).await;
            }
        }
        fill.push(piece.clone());
        self.append(piece, timer).await;
    }

    fn begin_large(&mut self) {
        let (lead, variant) = (&self.lead, self.head.secondary());
        match lead
            .cache
            .tiers
            .write_large(&lead.key, variant, lead.ticket, lead.share.as_deref())
        {
            Ok(large) => {
                lead.lent.fill.spill(large.arriving());
                self.large = Some(large);
            }
            Err(_) => self.pass_on(),
        }
    }

    /// Gives a piece to the disk as soon as that has room. If it cannot, the answer is passed on.
    async fn append(&mut self, piece: Bytes, timer: &Timer) {
        let Some(large) = &mut self.large else { return };
        let appended = loop {
            match large.append(piece.clone()) {
                Err(StoreError::Busy) => {
                    if let Err(error) = on_disk::within(timer, large.room()).await {
                        break Err(error);
                    }
                }
                other => break other,
            }
        };
        match appended {
            Ok(()) => self.lead.lent.fill.shed(),
            Err(_) => self.pass_on(),
        }
    }

    /// It is not stored after all: who reads it already gets it, and nobody else finds it.
    fn pass_on(&mut self) {
        self.large = None;
        let lead = &mut self.lead;
        lead.cache.fills.hide(&mut lead.lent);
        lead.lent.fill.pass_on();
    }

    /// All of it is here.
    async fn finish(mut self, worker: &Worker, timer: &Timer) {
        self.upstream.pass.finish();
        let is_reusable =
            self.keeps_upstream && self.incoming.is_empty() && self.upstream.wire.is_over();
        if is_reusable {
            let now_ms = worker.deadlines.now_ms();
            let stream = self.upstream.wire.into_stream();
            self.chosen.pool().put(stream, now_ms);
        }
        let fill = Arc::clone(&self.lead.lent.fill);
        let mut head = (*self.head).clone();
        if head.body_bytes().is_none() {
            head.complete(fill.bytes());
        }
        let head = Arc::new(head);
        if let Some(large) = self.large {
            // Whoever reads along need not wait for the commit; whoever joins meanwhile reads the file.
            fill.finish();
            if on_disk::within(timer, large.commit(head)).await.is_ok() {
                self.lead.succeeds();
            }
        } else if fill.is_for_memory() {
            let object = Object::of_head(head, self.lead.ticket, fill.body());
            self.lead.store(&Arc::new(object));
        } else {
            fill.finish();
        }
    }
}

/// Copies what has come of the body out of its framing, without its trailers, which are not stored (RFC 9111 §3.1).
pub(super) fn take(incoming: &mut Input, wire: &mut Wire) -> Result<Bytes, Failure> {
    let unread = incoming.unread();
    let mut content = Vec::with_capacity(unread.len());
    let taken = wire.read_body(unread, |piece| {
        if let Piece::Content(bytes) = piece {
            content.extend_from_slice(bytes);
        }
    });
    incoming.consume(taken.map_err(Failure::Response)?);
    // A piece should not own much more than it shows.
    content.shrink_to_fit();
    Ok(content.into())
}
