//! Bodies that lie on disk on their way to clients: piece by piece, no faster than the client takes them. The disk threads
//! read; a worker waits for them as it waits for a peer.
//!
//! For each client at most [`BLOCKS_MAX`] blocks are in RAM, and they count in the budget of all that is held for clients.
//! When that is short, a client that does not take what was read gives it back, and has it read again when it goes on.
//!
//! Every piece was verified when it was read: one that is wrong is never sent. Where that is the first, nothing has been
//! sent, and the request is a miss; later, the connection is reset.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_cache::store::disk::{BLOCK_BYTES, DiskObject, READ_BYTES_OF_BLOCK};
use weir_cache::store::{Grant, StoreError};

use crate::connection::Client;
use crate::deadline::Timer;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{self, Behind};
use crate::failure::Failure;
use crate::serving::Cached;
use crate::slow::Slow;
use crate::state::slow::Holding;

/// Blocks that are read at once.
const BLOCKS_MAX: u64 = 2;
/// Ticks for which a client waits for room for its blocks.
const TICKS_FOR_ROOM: u32 = 5;
/// How long a disk may take for one job. After that the origin is asked, or the response is broken off.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client waits for what is changed on disk and concerns nobody but the next process, or is found anew where it
/// is not there in time: it has its answer at once though the disk gives none.
const PATIENCE_FOR_CHANGES: Duration = Duration::from_millis(100);

/// What the disk answers, if it does in time.
pub(super) async fn within<T>(
    timer: &Timer,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    wait(timer, PATIENCE, answer).await
}

/// Waits for a change on disk, which is made also when it takes too long to wait for. A file that cannot be changed is found
/// as it is by the next process; there is nobody to tell here.
pub(super) async fn changed(timer: &Timer, answer: impl Future<Output = Result<(), StoreError>>) {
    _ = wait(timer, PATIENCE_FOR_CHANGES, answer).await;
}

async fn wait<T>(
    timer: &Timer,
    patience: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut answer = pin!(answer);
    timer.set(patience);
    poll_fn(|cx| match answer.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer),
        Poll::Pending => timer.poll(cx).map(|()| Err(StoreError::Busy)),
    })
    .await
}

/// Makes room in a buffer to read `range` of a body into it, or as many blocks of that as are read at once.
pub(super) fn make_room(buffer: &mut Vec<u8>, range: &Range<u64>) {
    let block = BLOCK_BYTES as u64;
    let blocks = range.end.div_ceil(block) - range.start / block;
    buffer.clear();
    buffer.reserve_exact(blocks.clamp(1, BLOCKS_MAX) as usize * READ_BYTES_OF_BLOCK);
}

/// Sends what is written for the client, and behind it a range of the body.
pub(super) async fn send(
    x: &mut Exchange,
    on: Cached<'_>,
    object: &DiskObject,
    range: Range<u64>,
) -> Result<(), Failure> {
    let mut slow = Slow::new(on.worker);
    let grant = Arc::new(Grant::new(slow.transient()));
    let mut buffer = Vec::new();
    let mut at = range.start;
    loop {
        let mut count = 0;
        if at < range.end {
            if buffer.capacity() == 0 {
                wait_for_room(&x.client, &grant).await;
            }
            make_room(&mut buffer, &(at..range.end));
            grant.set(buffer.capacity() as u64);
            let read = within(&x.client.timer, object.read(at, buffer)).await;
            buffer = read.map_err(|_| Failure::StoreFailed)?;
            count = buffer.len().min((range.end - at) as usize);
            if count == 0 {
                return Err(Failure::StoreFailed);
            }
        }
        let head_bytes = x.outgoing.bytes.len();
        let sent_before = x.facts.bytes_sent;
        let piece = Behind::Pieces(&buffer[..count], b"");
        let sending = outgoing::send(x, piece);
        let holding = || Holding {
            may_let_go: true,
            ..Holding::of(&grant)
        };
        if let Ok(sent) = slow.unless_cut(count, holding, sending).await {
            sent?;
            at += count as u64;
        } else {
            // What went out of the head and of the piece is not sent again.
            let sent = (x.facts.bytes_sent - sent_before) as usize;
            x.outgoing.bytes.drain(..sent.min(head_bytes));
            at += sent.saturating_sub(head_bytes) as u64;
            slow.let_go();
            buffer = Vec::new();
            grant.set(0);
            wait_until_it_takes_more(x).await?;
        }
        if at >= range.end && x.outgoing.bytes.is_empty() {
            return Ok(());
        }
    }
}

/// Waits until there is room for a block, which is soon when clients hold some that do not take them; but not for long, since
/// those who read are not to wait for each other.
pub(super) async fn wait_for_room(client: &Client, grant: &Grant) {
    let bytes = (BLOCKS_MAX as usize * READ_BYTES_OF_BLOCK) as u64;
    for _ in 0..TICKS_FOR_ROOM {
        if grant.try_add(bytes) {
            return;
        }
        client.timer.set(Duration::ZERO);
        poll_fn(|cx| client.timer.poll(cx)).await;
    }
    grant.set(bytes);
}

/// Waits until the client's socket takes bytes again, with nothing in hand.
async fn wait_until_it_takes_more(x: &Exchange) -> Result<(), Failure> {
    x.client.timer.set(x.timeouts.send);
    poll_fn(|cx| match x.client.link.poll_writable(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
        Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::ClientGone)),
        Poll::Pending => x.client.timer.poll(cx).map(|()| Err(Failure::ClientGone)),
    })
    .await
}
