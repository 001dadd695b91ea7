//! A body on its way from the origin into a fill. It goes on when the client that asked for it leaves, because it is being
//! stored; it ends when the origin fails, or when the answer is not to be stored after all and nobody reads it.
//!
//! The one task that this module starts is [`pump`], for each answer whose body did not come with its head.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use weir_cache::StoredHead;
use weir_cache::store::Object;
use weir_http::Body;

use super::fill::Outcome;
use super::remember::Lead;
use crate::buffers::Input;
use crate::deadline::Timer;
use crate::failure::Failure;
use crate::upstream::choose::Chosen;
use crate::upstream::relay::Upstream;
use crate::worker::Worker;

/// An answer whose head is in the fill.
pub(super) struct Arriving {
    pub(super) lead: Box<Lead>,
    pub(super) head: Arc<StoredHead>,
    pub(super) body: Body,
    pub(super) incoming: Input,
    pub(super) chosen: Chosen,
    pub(super) upstream: Upstream,
    pub(super) keeps_upstream: bool,
    pub(super) idle: Duration,
    pub(super) bytes_max: u64,
    pub(super) variants_max: usize,
}

pub(super) fn spawn(worker: &Rc<Worker>, arriving: Arriving) {
    tokio::task::spawn_local(pump(Rc::clone(worker), arriving));
}

async fn pump(worker: Rc<Worker>, mut arriving: Arriving) {
    let timer = Timer::new(&worker.deadlines);
    match arriving.receive(&worker, &timer).await {
        Ok(true) => arriving.finish(&worker),
        Ok(false) => {}
        Err(failure) => arriving.lead.end(Outcome::Failed(failure)),
    }
}

impl Arriving {
    /// Takes the body to its end; `false` when nobody wants it any more.
    async fn receive(&mut self, worker: &Worker, timer: &Timer) -> Result<bool, Failure> {
        while !self.body.is_done() {
            let fill = Arc::clone(&self.lead.lent.fill);
            if !poll_fn(|cx| fill.poll_room(cx)).await {
                return Ok(false);
            }
            timer.set(self.idle);
            let (incoming, stream) = (&mut self.incoming, &mut self.upstream.stream);
            let read = poll_fn(|cx| match incoming.poll_fill(stream, &worker.buffers, cx) {
                Poll::Ready(read) => Poll::Ready(read.map_err(|_| Failure::ResponseCut)),
                Poll::Pending => timer.poll(cx).map(|()| Err(Failure::ResponseCut)),
            });
            if read.await? == 0 {
                return if self.body.may_end_here() {
                    Ok(true)
                } else {
                    Err(Failure::ResponseCut)
                };
            }
            let piece = take(&mut self.incoming, &mut self.body)?;
            self.incoming.release(&worker.buffers);
            if fill.bytes() + piece.len() as u64 > self.bytes_max {
                self.lead.cache.fills.hide(&mut self.lead.lent);
                fill.outgrow();
            }
            if !piece.is_empty() {
                fill.push(piece);
            }
        }
        Ok(true)
    }

    /// All of it is here.
    fn finish(mut self, worker: &Worker) {
        let fill = Arc::clone(&self.lead.lent.fill);
        let bytes = fill.bytes();
        if bytes <= self.bytes_max {
            let mut head = (*self.head).clone();
            if head.body_bytes().is_none() {
                head.complete(bytes);
            }
            let object = Object::of_head(Arc::new(head), self.lead.ticket, fill.body());
            let object = object.among_variants(self.variants_max);
            self.lead.store(&Arc::new(object));
        } else {
            fill.finish();
        }
        let is_reusable = self.keeps_upstream && self.incoming.is_empty() && self.body.is_done();
        if is_reusable {
            let now_ms = worker.deadlines.now_ms();
            self.chosen.pool().put(self.upstream.stream, now_ms);
        }
    }
}

/// Copies what has come of the body out of its framing.
pub(super) fn take(incoming: &mut Input, body: &mut Body) -> Result<Bytes, Failure> {
    let unread = incoming.unread();
    let mut content = Vec::with_capacity(unread.len());
    let taken = body
        .decode(unread, |bytes| content.extend_from_slice(bytes))
        .map_err(Failure::Response)?;
    incoming.consume(taken);
    // A piece should not own much more than it shows.
    content.shrink_to_fit();
    Ok(content.into())
}
