//! An answer from what is still arriving: the head at once, and the body as its pieces come.
//!
//! Whoever joined before the answer began and whoever led reads the same way. A client that is slow holds nobody back,
//! except in a fill that is not stored (`fill.rs`).
//!
//! Which part of it goes to a client that wants only a part is weir-cache's to say (`range/along.rs`).

use std::future::poll_fn;
use std::io::Write as _;
use std::sync::Arc;
use std::task::Poll;

use weir_cache::range::{self, Along, Portion};
use weir_cache::store::Grant;
use weir_cache::store::disk::DiskArriving;
use weir_cache::{StoredHead, Timestamp};
use weir_http::opening::End;
use weir_http::{FieldName, Method};

use crate::cache::on_disk::{make_room, wait_for_room, within};
use crate::cache::stored::{self, PARTIAL_CONTENT, What, what, write_head, write_not_modified};
use crate::compress;
use crate::connection::{After, Client};
use crate::error_pages;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{self, Behind};
use crate::failure::Failure;
use crate::serving::Cached;
use crate::slow::Slow;
use crate::state::encoder::Encoder;
use crate::state::fill::{Fill, Piece, Reader};
use crate::state::slow::Holding;

/// What came of reading along.
pub(super) enum Streamed {
    Answered(After),
    /// Nothing was sent: the part that is wanted is far from having arrived.
    Elsewhere,
}

/// Sends what the reader reads.
pub(super) async fn respond(
    x: &mut Exchange,
    on: Cached<'_>,
    mut reader: Reader,
    (head, length): (&Arc<StoredHead>, Option<u64>),
    leads: bool,
) -> Result<Streamed, Failure> {
    let now = on.time();
    if let Some(page) = error_pages::of_upstream(**on, head.meta.status) {
        reader.finish();
        let kept = error_pages::kept_lines(head.fields());
        let sent = error_pages::send(x, **on, (head.meta.status, page), &kept);
        return Box::pin(sent).await.map(Streamed::Answered);
    }
    let compress::Arriving {
        head,
        length,
        encoder,
    } = compress::arriving(x, on.by, head, length, leads && reader.is_for_memory());
    let part = match how(x, &reader, (&head, length), now) {
        How::NotModified => {
            let keep_alive =
                x.client_keeps_alive(on.worker) && x.upload.discard_rest(&mut x.client);
            write_not_modified(x, on, keep_alive, &head, now);
            let sent = outgoing::send(x, Behind::Nothing).await;
            reader.finish();
            return x.after(on.worker, sent, keep_alive).map(Streamed::Answered);
        }
        How::Body(Along::Whole) => None,
        How::Body(Along::Part { part, body_bytes }) => Some((part, body_bytes)),
        How::Body(Along::Stored) => return from_stored(x, on, reader).await,
        How::Body(Along::Elsewhere) => {
            reader.finish();
            return Ok(Streamed::Elsewhere);
        }
    };
    let end = match length {
        Some(_) => End::InHead,
        None => End::of_unknown_length(x.request.version),
    };
    let keep_alive = x.client_keeps_alive(on.worker)
        && end != End::Close
        && x.upload.discard_rest(&mut x.client);
    let edits = on.drops();
    let portion = if let Some((part, body_bytes)) = part {
        write_head(x, on, PARTIAL_CONTENT, (end, keep_alive), |out| {
            range::write_single(&head, part, body_bytes, now, edits, out);
        });
        Portion::part(part)
    } else {
        let status = (head.meta.status, head.status_text());
        write_head(x, on, status, (end, keep_alive), |out| {
            head.write(now, edits, out);
        });
        Portion::whole(length)
    };
    let sent = stream_body(x, on, &mut reader, (encoder, end), portion).await;
    x.after(on.worker, sent, keep_alive).map(Streamed::Answered)
}

/// How a client is answered.
enum How {
    NotModified,
    Body(Along),
}

fn how(
    x: &Exchange,
    reader: &Reader,
    (head, length): (&StoredHead, Option<u64>),
    now: Timestamp,
) -> How {
    let wanted = match what(x, head, length, now) {
        What::NotModified => return How::NotModified,
        What::Range(wanted) => wanted,
    };
    let asks_for_range =
        x.request.method == Method::Get && x.request.view(&x.head).has(FieldName::Range);
    let is_for_memory = || reader.is_for_memory();
    let comes_soon = |at| reader.is_near(at);
    How::Body(range::along(
        &wanted,
        asks_for_range,
        length,
        is_for_memory,
        comes_soon,
    ))
}

/// Answers from the stored body once it has come, if it comes to memory.
async fn from_stored(
    x: &mut Exchange,
    on: Cached<'_>,
    mut reader: Reader,
) -> Result<Streamed, Failure> {
    let Some(object) = wait_for_all(&mut x.client, on, &mut reader).await? else {
        reader.finish();
        return Ok(Streamed::Elsewhere);
    };
    let sent = stored::object(x, on, &object, on.time()).await;
    sent.map(Streamed::Answered)
}

async fn stream_body(
    x: &mut Exchange,
    on: Cached<'_>,
    reader: &mut Reader,
    (mut encoder, end): (Option<Encoder>, End),
    mut portion: Portion,
) -> Result<(), Failure> {
    let mut buffer = Vec::new();
    let mut waiting = Waiting::new(on, reader, encoder.as_ref());
    reader.move_to(portion.missing().start);
    while !portion.is_over() {
        let piece;
        if !x.outgoing.bytes.is_empty() && reader.is_early() {
            // The head, for which its client need not wait until there is a body.
            waiting.send(x, b"", b"").await?;
        }
        let shown = match next(&mut x.client, on, reader).await? {
            Piece::Bytes(bytes) => {
                piece = bytes;
                &piece[..]
            }
            Piece::Behind(file, from) => {
                if buffer.capacity() == 0 {
                    wait_for_room(&x.client, &waiting.block).await;
                }
                make_room(&mut buffer, &(from..portion.missing().end));
                waiting.block.set(buffer.capacity() as u64);
                buffer = read_behind(&x.client, &file, from, buffer).await?;
                reader.move_to(from + buffer.len() as u64);
                &buffer
            }
            Piece::Broken(failure) => return Err(failure),
            Piece::End if end == End::InHead => return Err(Failure::ResponseCut),
            Piece::End => break,
        };
        let shown = &shown[..portion.take(shown.len())];
        if let Some(encoder) = &mut encoder {
            encoder.write(shown);
            encoder.flush(|made| end.frame(made, &mut x.outgoing.bytes));
            waiting.send(x, b"", b"").await?;
            continue;
        }
        if end == End::Chunks {
            // Writing to a vector cannot fail.
            let _ = write!(x.outgoing.bytes, "{:x}\r\n", shown.len());
        }
        let tail: &[u8] = if end == End::Chunks { b"\r\n" } else { b"" };
        waiting.send(x, shown, tail).await?;
    }
    if let Some(mut encoder) = encoder {
        encoder.finish(|made| end.frame(made, &mut x.outgoing.bytes));
    }
    end.finish(b"", &mut x.outgoing.bytes);
    waiting.send(x, b"", b"").await?;
    reader.finish();
    Ok(())
}

/// What is held while a client is waited for: the fill that it reads, its encoder, and a block that was read from disk.
struct Waiting<'a> {
    slow: Slow<'a>,
    fill: Arc<Fill>,
    encoder: Option<Arc<Grant>>,
    block: Arc<Grant>,
}

impl<'a> Waiting<'a> {
    fn new(on: Cached<'a>, reader: &Reader, encoder: Option<&Encoder>) -> Self {
        let slow = Slow::new(on.worker);
        Self {
            fill: Arc::clone(reader.fill()),
            encoder: encoder.map(|encoder| Arc::clone(encoder.grant())),
            block: Arc::new(Grant::new(slow.transient())),
            slow,
        }
    }

    /// Sends what is written for the client, the piece and the tail, unless the client is cut off meanwhile.
    async fn send(&mut self, x: &mut Exchange, piece: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let bytes = x.outgoing.bytes.len() + piece.len() + tail.len();
        let holding = || {
            let fill = Arc::clone(&self.fill);
            let grants = [self.encoder.clone(), Some(Arc::clone(&self.block))];
            let granted = move || grants.iter().flatten().map(|one| one.bytes()).sum::<u64>();
            Holding {
                bytes: Box::new(move || fill.held_bytes() + granted()),
                may_let_go: false,
            }
        };
        let sending = outgoing::send(x, Behind::Pieces(piece, tail));
        let sent = self.slow.unless_cut(bytes, holding, sending).await;
        sent.unwrap_or(Err(Failure::ClientGone))
    }
}

/// Reads what a reader has left behind from the file; never nothing.
async fn read_behind(
    client: &Client,
    file: &DiskArriving,
    from: u64,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let read = within(&client.timer, file.read(from, buffer)).await;
    let read = read.map_err(|_| Failure::StoreFailed)?;
    if read.is_empty() {
        return Err(Failure::StoreFailed);
    }
    Ok(read)
}

/// Waits for a piece, for as long as the route lets its origin pause.
async fn next(client: &mut Client, on: Cached<'_>, reader: &mut Reader) -> Result<Piece, Failure> {
    // The pump has the same deadline and tells everybody; this is for a pump that is stuck behind another reader.
    client.timer.set(on.rule.timeouts.idle * 2);
    poll_fn(|cx| match reader.poll_piece(cx) {
        Poll::Ready(piece) => Poll::Ready(Ok(piece)),
        Poll::Pending if client.has_left(cx) => Poll::Ready(Err(Failure::ClientGone)),
        Poll::Pending => client.timer.poll(cx).map(|()| Err(Failure::ResponseCut)),
    })
    .await
}

async fn wait_for_all(
    client: &mut Client,
    on: Cached<'_>,
    reader: &mut Reader,
) -> Result<Option<Arc<weir_cache::store::Object>>, Failure> {
    client
        .timer
        .set(on.rule.timeouts.response + on.rule.timeouts.idle);
    poll_fn(|cx| match reader.poll_whole(cx) {
        Poll::Ready(whole) => Poll::Ready(Ok(whole)),
        Poll::Pending if client.has_left(cx) => Poll::Ready(Err(Failure::ClientGone)),
        Poll::Pending => client.timer.poll(cx).map(|()| Err(Failure::ResponseCut)),
    })
    .await
}
