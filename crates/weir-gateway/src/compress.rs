//! Compression: which responses reach a client smaller than they came from the origin, and who does the work.
//!
//! Whether a response is worth it and which coding a client gets is decided by `weir_cache::negotiate`; what becomes of the
//! head's fields by `weir_http::content`. Here is only when and where:
//!
//! - A response that passes through, or that a client watches arrive in the cache, is compressed piece by piece on the
//!   worker ([`passing`], [`arriving`]), and nothing that has come is held back to compress it better.
//! - A stored response is compressed once for each coding when a client first asks for it ([`stored`]): a small one at
//!   once, a large one on a thread of its own (`state::compressor`), and meanwhile it is sent as it is. From then on the form is
//!   a hit like any other.
//!
//! `state::encoder` is one stream through one of the libraries.

use std::sync::Arc;

use weir_cache::negotiate::{Accepted, Coding, CompressPolicy, may_compress};
use weir_cache::{StoredHead, validate};
use weir_http::body::Framing;
use weir_http::{Body, Content, FieldName, Method};

use crate::exchange::Exchange;
use crate::serving::Forwarding;
use crate::settings::Forward;
use crate::state::encoder::Encoder;

pub(crate) mod stored;

/// What is done with the content of a response that passes through.
#[derive(Debug)]
pub(crate) struct Passing {
    pub(crate) content: Content<'static>,
    /// What its body goes through; there is none for an answer to HEAD, which has the head of one that is compressed.
    pub(crate) encoder: Option<Box<Encoder>>,
}

impl Passing {
    fn unchanged(content: Content<'static>) -> Self {
        Self {
            content,
            encoder: None,
        }
    }
}

/// What is to be done with the response whose head was read into `x`.
pub(crate) fn passing(x: &Exchange, by: Forwarding<'_>) -> Passing {
    let Some(policy) = by.rule.compress.as_deref() else {
        return Passing::unchanged(Content::AsIs);
    };
    let response = x
        .response
        .view(&x.incoming.unread()[..x.response.head_bytes]);
    if x.response.status == 304 {
        let tag = response.first(FieldName::Etag);
        return Passing::unchanged(match tag {
            Some(tag) if has_weak_form_of(x, tag) => Content::Confirmed,
            _ => Content::AsIs,
        });
    }
    if may_compress(x.response.status, response, length_of(x), policy).is_err() {
        return Passing::unchanged(Content::AsIs);
    }
    let Some((coding, content)) = wanted(x, policy) else {
        return Passing::unchanged(Content::Negotiated);
    };
    if x.request.method == Method::Head {
        return Passing::unchanged(content);
    }
    match by.worker.encoders.begin(coding, policy.streaming) {
        Some(encoder) => Passing {
            content,
            encoder: Some(Box::new(encoder)),
        },
        None => Passing::unchanged(Content::Negotiated),
    }
}

/// How a response is sent that is still arriving in the cache.
pub(crate) struct Arriving {
    pub(crate) head: Arc<StoredHead>,
    /// Of what is sent, where that is known.
    pub(crate) length: Option<u64>,
    pub(crate) encoder: Option<Encoder>,
}

/// The same for a response that is still arriving in the cache. Only the request that `leads`, whose client has waited for
/// the origin and is the first to read, gets it compressed: a crowd that reads along would have every worker compress the
/// same bytes at the same time, just before the stored form is made.
pub(crate) fn arriving(
    x: &Exchange,
    by: Forwarding<'_>,
    head: &Arc<StoredHead>,
    length: Option<u64>,
    leads: bool,
) -> Arriving {
    let unchanged = |head| Arriving {
        head,
        length,
        encoder: None,
    };
    let Some(policy) = by.rule.compress.as_deref() else {
        return unchanged(Arc::clone(head));
    };
    if may_compress(head.meta.status, head.fields(), length, policy).is_err() {
        return unchanged(Arc::clone(head));
    }
    let wanted = wanted(x, policy).filter(|_| leads && !asks_for_a_part(x));
    let encoder = wanted.and_then(|(coding, content)| {
        let encoder = by.worker.encoders.begin(coding, policy.streaming)?;
        Some((encoder, content))
    });
    match encoder {
        Some((encoder, content)) => Arriving {
            head: Arc::new(head.with_content(content, None)),
            length: None,
            encoder: Some(encoder),
        },
        None => unchanged(Arc::new(head.with_content(Content::Negotiated, length))),
    }
}

/// The coding that the client wants most of those that the route makes; `None` when it is to get the bytes as they are.
fn wanted(x: &Exchange, policy: &CompressPolicy) -> Option<(Coding, Content<'static>)> {
    let request = x.request.view(&x.head);
    if !request.has(FieldName::AcceptEncoding) {
        return None;
    }
    // A client may ask it of everybody on the way (RFC 9111 §5.2.1.6).
    let mut control = request.elements(FieldName::CacheControl);
    if control.any(|directive| directive.eq_ignore_ascii_case(b"no-transform")) {
        return None;
    }
    match Accepted::of(request).choose(&policy.codings) {
        Coding::Identity => None,
        coding => Some((coding, Content::Encoded(coding.token().as_bytes()))),
    }
}

/// A part is one of the response as the origin made it, whose tag is strong; a compressed form has no parts.
fn asks_for_a_part(x: &Exchange) -> bool {
    x.request.known_field(FieldName::Range).is_some()
}

/// Whether a client asks for the rest of what it may hold compressed. A date does not tell the forms of a response apart, so
/// it is no strong validator of one that is compressed for this client (RFC 9110 §8.8.2.2), and its `If-Range` is false
/// (§13.1.5): the origin, which knows no compressed form, would find that it holds.
pub(crate) fn part_may_be_of_another_form(x: &Exchange, rule: &Forward) -> bool {
    let Some(policy) = rule.compress.as_deref() else {
        return false;
    };
    let condition = x.request.view(&x.head).first(FieldName::IfRange);
    asks_for_a_part(x)
        && condition.is_some_and(|condition| !condition.contains(&b'"'))
        && wanted(x, policy).is_some()
}

/// Whether the client's condition names the weak form of `tag`: then it holds a compressed form, whose tag a 304 must
/// repeat for its stored response to be found by it (RFC 9111 §4.3.4).
pub(crate) fn has_weak_form_of(x: &Exchange, tag: &[u8]) -> bool {
    let conditions = x.request.view(&x.head).all(FieldName::IfNoneMatch);
    let mut named = conditions.flat_map(validate::etags);
    !validate::is_weak(tag) && named.any(|named| named.strip_prefix(b"W/") == Some(tag))
}

/// The length of the body that follows the head in `x`: as announced, or because all of it is here.
fn length_of(x: &Exchange) -> Option<u64> {
    let (head, rest) = x.incoming.unread().split_at(x.response.head_bytes);
    if x.request.method == Method::Head {
        let announced = x.response.view(head).first(FieldName::ContentLength)?;
        return std::str::from_utf8(announced).ok()?.parse().ok();
    }
    match x.response.framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked => {
            let (mut body, mut bytes) = (Body::new(Framing::Chunked), 0);
            let decoded = body.decode(rest, |content| bytes += content.len() as u64);
            (decoded.is_ok() && body.is_done()).then_some(bytes)
        }
        Framing::UntilClose => None,
    }
}
