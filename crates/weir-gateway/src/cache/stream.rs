//! An answer from what is still arriving: the head at once, and the body as its pieces come.
//!
//! Whoever joined before the answer began and whoever led reads the same way. A client that is slow holds nobody back,
//! except in a fill that outgrew RAM (`fill.rs`).

use std::future::poll_fn;
use std::io::Write as _;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use weir_cache::StoredHead;
use weir_cache::range::{self, Wanted};
use weir_http::chunk::write_chunk;
use weir_http::{FieldName, Version};

use super::Cached;
use super::answer::{self, What, after, what, write_head};
use super::fill::{Piece, Reader};
use crate::compress::{self, encoder::Encoder};
use crate::connection::Client;
use crate::connection::h1::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::upstream::relay::edits;

/// How the end of the body is told to the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// By the length in the head.
    Length,
    Chunks,
    Close,
}

/// Sends what the reader reads.
pub(super) async fn respond(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    mut reader: Reader,
    (head, length): (&Arc<StoredHead>, Option<u64>),
    leads: bool,
) -> Result<After, Failure> {
    let now = on.time();
    let compress::Arriving {
        head,
        length,
        encoder,
    } = compress::arriving(x, on.worker, on.rule, head, length, leads);
    let wanted = match what(x, &head, length, now) {
        What::NotModified => {
            let keep_alive = x.client_keeps_alive(on.worker);
            write_head(x, on, keep_alive, 304, |out| {
                head.write_not_modified(now, edits(&on.rule.response_headers), out);
            });
            let sent = send(client, x, &Bytes::new()).await;
            return after(x, sent, keep_alive);
        }
        What::Range(wanted) => wanted,
    };
    let has_range = x.request.view(&x.head).has(FieldName::Range);
    let needs_all = matches!(wanted, Wanted::Many(_) | Wanted::Unsatisfiable)
        || (has_range && length.is_none());
    if needs_all {
        let whole = wait_for_all(client, on, &mut reader).await?;
        if let Some(object) = whole {
            return answer::object(client, x, on, &object, on.time()).await;
        }
        if length.is_some() {
            return Err(Failure::ResponseCut);
        }
    }
    let end = match (length, x.request.version) {
        (Some(_), _) => End::Length,
        (None, Version::Http11) => End::Chunks,
        (None, Version::Http10) => End::Close,
    };
    let keep_alive = x.client_keeps_alive(on.worker) && end != End::Close;
    let part = if let (Wanted::One(part), Some(length)) = (wanted, length) {
        write_head(x, on, keep_alive, 206, |out| {
            let edits = edits(&on.rule.response_headers);
            range::write_single(&head, part, length, now, edits, out);
        });
        part.first..part.last + 1
    } else {
        write_head(x, on, keep_alive, head.meta.status, |out| {
            head.write(now, edits(&on.rule.response_headers), out);
            if end == End::Chunks {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
        });
        0..length.unwrap_or(u64::MAX)
    };
    x.facts.bytes_sent = 0;
    let sent = stream_body(client, x, on, &mut reader, (encoder, end), part).await;
    after(x, sent, keep_alive)
}

async fn stream_body(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    reader: &mut Reader,
    (mut encoder, end): (Option<Encoder>, End),
    part: std::ops::Range<u64>,
) -> Result<(), Failure> {
    let mut at = 0;
    while at < part.end {
        let piece = match next(client, on, reader).await? {
            Piece::Bytes(piece) => piece,
            Piece::Broken(failure) => return Err(failure),
            Piece::End if end == End::Length => return Err(Failure::ResponseCut),
            Piece::End => break,
        };
        let length = piece.len() as u64;
        let first = part.start.saturating_sub(at).min(length);
        let last = (part.end - at).min(length);
        at += length;
        if first >= last {
            continue;
        }
        let piece = piece.slice(first as usize..last as usize);
        if let Some(encoder) = &mut encoder {
            encoder.write(&piece);
            encoder.flush(|made| append(made, end, &mut x.outgoing));
            send(client, x, &Bytes::new()).await?;
            continue;
        }
        if end == End::Chunks {
            // Writing to a vector cannot fail.
            let _ = write!(x.outgoing, "{:x}\r\n", piece.len());
        }
        send(client, x, &piece).await?;
        if end == End::Chunks {
            x.outgoing.extend_from_slice(b"\r\n");
        }
    }
    if let Some(mut encoder) = encoder {
        encoder.finish(|made| append(made, end, &mut x.outgoing));
    }
    if end == End::Chunks {
        x.outgoing.extend_from_slice(b"0\r\n\r\n");
    }
    send(client, x, &Bytes::new()).await
}

/// Appends what an encoder made; the length of all that is never known.
fn append(made: &[u8], end: End, out: &mut Vec<u8>) {
    if end == End::Chunks {
        write_chunk(made, out);
    } else {
        out.extend_from_slice(made);
    }
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

async fn send(client: &mut Client, x: &mut Exchange, piece: &Bytes) -> Result<(), Failure> {
    let patience = x.timeouts.send;
    let mut sent = 0;
    client.timer.set(patience);
    let pieces = (&x.outgoing[..], &piece[..]);
    let result = poll_fn(|cx| client.poll_send(&mut sent, pieces, patience, cx)).await;
    x.facts.bytes_sent += sent as u64;
    x.outgoing.clear();
    result
}
