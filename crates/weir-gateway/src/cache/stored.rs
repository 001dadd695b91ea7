//! Answers from a stored object: its prepared head and its bytes, in one system call where the socket takes them.
//!
//! Conditions and ranges of the request are applied here. Nothing is parsed, and no body is copied but a small one.

use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use weir_cache::cache_status::CacheStatus;
use weir_cache::range::{self, Multipart, Ranges, Wanted};
use weir_cache::reuse::Reuse;
use weir_cache::store::{Object, Pin};
use weir_cache::validate::{self, Precondition};
use weir_cache::{StoredHead, Timestamp};
use weir_http::opening::End;
use weir_http::{Content, Method};

use crate::cache::on_disk;
use crate::compress;
use crate::compress::stored::select;
use crate::connection::After;
use crate::error_pages;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{self, Behind, COPIED_BODY_BYTES_MAX};
use crate::failure::Failure;
use crate::serving::Cached;
use crate::slow::Slow;
use crate::state::slow::{Cut, Holding};

/// Statuses of answers that are made of a stored one, as they stand on the status line.
pub(super) const PARTIAL_CONTENT: (u16, &[u8]) = (206, b"206 Partial Content");
const NOT_MODIFIED: (u16, &[u8]) = (304, b"304 Not Modified");
const RANGE_NOT_SATISFIABLE: (u16, &[u8]) = (416, b"416 Range Not Satisfiable");

/// Answers with what was found to do as it is.
pub(super) async fn hit(
    x: &mut Exchange,
    on: Cached<'_>,
    object: &Arc<Object>,
    reuse: Reuse,
    now: Timestamp,
) -> Result<After, Failure> {
    let is_fresh = matches!(reuse, Reuse::Fresh { .. });
    if is_fresh {
        x.recall.outcome = Some("hit");
        on.metrics().hits.add(1);
    } else {
        x.recall.outcome = Some("stale");
        on.metrics().stale_hits.add(1);
    }
    x.recall.status = Some(status_of(object, now));
    self::object(x, on, object, now).await
}

/// Answers with something stale because the origin failed; `why` it gave no answer, when it gave none.
pub(super) async fn stale(
    x: &mut Exchange,
    on: Cached<'_>,
    object: &Arc<Object>,
    why: Option<Failure>,
) -> Result<After, Failure> {
    let now = on.time();
    x.recall.outcome = Some("stale");
    x.recall.status = Some(CacheStatus {
        detail: why.map(Failure::name),
        ..status_of(object, now)
    });
    on.metrics().stale_hits.add(1);
    self::object(x, on, object, now).await
}

fn status_of(object: &Object, now: Timestamp) -> CacheStatus {
    let meta = object.stored_head().map(|head| {
        if object.is_marked_stale() {
            head.meta.ended(now)
        } else {
            head.meta
        }
    });
    let is_stale = meta.is_some_and(|meta| !meta.is_fresh(now));
    CacheStatus {
        ttl: meta.map(|meta| {
            if is_stale {
                meta.staleness(now)
            } else {
                meta.remaining(now)
            }
        }),
        is_stale,
        ..CacheStatus::default()
    }
}

/// Answers with the object, or with the part of it that the request asks for.
pub(super) async fn object(
    x: &mut Exchange,
    on: Cached<'_>,
    stored: &Arc<Object>,
    now: Timestamp,
) -> Result<After, Failure> {
    let selected = select(x, on, &x.recall.key, stored);
    let (object, head) = selected.ok_or(Failure::ResponseCut)?;
    if let Some(page) = error_pages::of_upstream(**on, head.meta.status) {
        let kept = error_pages::kept_lines(head.fields());
        return Box::pin(error_pages::send(x, **on, (head.meta.status, page), &kept)).await;
    }
    let keep_alive = x.client_keeps_alive(on.worker) && x.upload.discard_rest(&mut x.client);
    let (whole, edits) = (object.body_bytes(), on.drops());
    let opening = (End::InHead, keep_alive);
    let sent = match what(x, head, Some(whole), now) {
        What::NotModified => {
            write_not_modified(x, on, keep_alive, head, now);
            send(x, on, (stored, object), 0..0).await
        }
        What::Range(Wanted::Whole) => {
            let status = (head.meta.status, head.status_text());
            write_head(x, on, status, opening, |out| head.write(now, edits, out));
            send(x, on, (stored, object), 0..whole).await
        }
        What::Range(Wanted::One(part)) => {
            write_head(x, on, PARTIAL_CONTENT, opening, |out| {
                range::write_single(head, part, whole, now, edits, out);
            });
            send(x, on, (stored, object), part.first..part.last + 1).await
        }
        What::Range(Wanted::Many(parts)) => {
            let parts = Box::new(parts);
            let random = on.worker.random.borrow_mut().u128(..);
            let answer = Multipart::new(head, &parts, whole, random);
            write_head(x, on, PARTIAL_CONTENT, opening, |out| {
                answer.write_head(now, edits, out);
            });
            Box::pin(send_parts(x, on, (stored, object), &parts, &answer)).await
        }
        What::Range(Wanted::Unsatisfiable) => {
            write_head(x, on, RANGE_NOT_SATISFIABLE, opening, |out| {
                range::write_unsatisfiable(whole, now, edits, out);
            });
            send(x, on, (stored, object), 0..0).await
        }
    };
    x.after(on.worker, sent, keep_alive)
}

/// What a request wants of a response.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies on the stack for a moment, and a hit must not allocate"
)]
pub(super) enum What {
    NotModified,
    Range(Wanted),
}

/// Applies the conditions and ranges of the request; `length` is that of the body, where it is known.
pub(super) fn what(x: &Exchange, head: &StoredHead, length: Option<u64>, now: Timestamp) -> What {
    if !x.recall.is_conditional {
        return What::Range(Wanted::Whole);
    }
    let (method, fields) = (x.request.method, x.request.view(&x.head));
    if validate::evaluate(method, fields, head, now) == Precondition::NotModified {
        return What::NotModified;
    }
    What::Range(match length {
        Some(length) => range::resolve(method, fields, head, length, now),
        None => Wanted::Whole,
    })
}

/// Writes the head of a 304, with the tag of the form that the client has: by the other tag it would not find its
/// stored response (RFC 9111 §4.3.4).
pub(super) fn write_not_modified(
    x: &mut Exchange,
    on: Cached<'_>,
    keep_alive: bool,
    head: &StoredHead,
    now: Timestamp,
) {
    let has_form = |tag: &[u8]| head.is_negotiated() && compress::has_weak_form_of(x, tag);
    let confirmed = head
        .etag()
        .is_some_and(has_form)
        .then(|| head.with_content(Content::Confirmed, None));
    let head = confirmed.as_ref().unwrap_or(head);
    write_head(x, on, NOT_MODIFIED, (End::InHead, keep_alive), |out| {
        head.write_not_modified(now, on.drops(), out);
    });
}

/// Writes a head whose lines are what `write` appends.
pub(super) fn write_head(
    x: &mut Exchange,
    on: Cached<'_>,
    (status, text): (u16, &[u8]),
    (end, keep_alive): (End, bool),
    write: impl FnOnce(&mut Vec<u8>),
) {
    x.outgoing.begin(text);
    write(&mut x.outgoing.bytes);
    x.finish_head(on.answering(), status, end, keep_alive);
}

/// Sends each of the parts behind a head of its own.
async fn send_parts(
    x: &mut Exchange,
    on: Cached<'_>,
    object: (&Arc<Object>, &Object),
    parts: &Ranges,
    answer: &Multipart<'_>,
) -> Result<(), Failure> {
    for part in parts.each() {
        answer.write_part_head(*part, &mut x.outgoing.bytes);
        send(x, on, object, part.first..part.last + 1).await?;
    }
    answer.write_end(&mut x.outgoing.bytes);
    send(x, on, object, 0..0).await
}

/// Sends what is written for the client, and behind it a range of the body. The object may be a form of the one that is
/// `stored`.
async fn send(
    x: &mut Exchange,
    on: Cached<'_>,
    (stored, object): (&Arc<Object>, &Object),
    mut range: Range<u64>,
) -> Result<(), Failure> {
    if x.request.method == Method::Head {
        range.end = range.start;
    }
    if let Some(disk) = object.disk() {
        return Box::pin(on_disk::send(x, on, disk, range)).await;
    }
    if range.end - range.start <= COPIED_BODY_BYTES_MAX as u64 {
        copy(object, &range, &mut x.outgoing.bytes);
        range.end = range.start;
    }
    let mut slow = Slow::new(on.worker);
    let mut seen = x.facts.bytes_sent;
    let behind = if range.is_empty() {
        Behind::Nothing
    } else {
        Behind::Stored(object, range)
    };
    outgoing::send_while(x, behind, |x, cx| {
        slow.took(x.facts.bytes_sent - seen);
        seen = x.facts.bytes_sent;
        match slow.poll_cut(|| pinned(stored, on), cx) {
            Poll::Ready(Cut) => Err(Failure::ClientGone),
            Poll::Pending => Ok(()),
        }
    })
    .await
}

/// What a client holds that has yet to take the rest of an object.
fn pinned(stored: &Object, on: Cached<'_>) -> Holding {
    let pin = stored.pin(&on.cache.transient);
    Holding {
        bytes: Box::new(move || pin.as_ref().map_or(0, Pin::held_bytes)),
        may_let_go: false,
    }
}

/// Appends a range of the body.
fn copy(object: &Object, range: &Range<u64>, out: &mut Vec<u8>) {
    let (mut skip, mut left) = (range.start, range.end - range.start);
    for piece in object.body() {
        let length = piece.len() as u64;
        if left == 0 {
            break;
        }
        if skip >= length {
            skip -= length;
            continue;
        }
        let shown = (length - skip).min(left);
        out.extend_from_slice(&piece[skip as usize..(skip + shown) as usize]);
        (left, skip) = (left - shown, 0);
    }
}
