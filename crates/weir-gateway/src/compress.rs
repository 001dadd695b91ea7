//! Compression: which responses are sent to a client compressed, and who does the work.
//!
//! `weir_cache::negotiate` decides whether a response is worth it and which coding a client gets; `weir_http::content`
//! changes the fields of the head. This module only decides when and where:
//!
//! - A response that passes through, or that a client reads while it arrives in the cache, is compressed piece by piece
//!   on the worker ([`passing`], [`arriving`]). No data that has come is held back for better compression.
//! - A stored response is compressed once for each coding, when a client first asks for it ([`stored`]). A small one is
//!   compressed at once; a large one on a separate thread (`state::compressor`), while it is sent as it is. After that
//!   the form is a hit like any other.
//!
//! `state::encoder` runs one stream through one of the libraries.

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
    /// The encoder of its body. An answer to HEAD has none, although its head is that of a compressed response.
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

/// What to do with the response whose head was read into `x`.
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

/// How a response is sent while it is still arriving in the cache.
pub(crate) struct Arriving {
    pub(crate) head: Arc<StoredHead>,
    /// The length of what is sent, if it is known.
    pub(crate) length: Option<u64>,
    pub(crate) encoder: Option<Encoder>,
}

/// The same for a response that is still arriving in the cache. Only the request that `leads` gets it compressed: its
/// client has waited for the origin and is the first to read. Otherwise every worker would compress the same bytes for
/// a crowd of readers, just before the stored form is made.
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

/// The coding that the client prefers among those that the route offers; `None` if it must get the bytes as they are.
fn wanted(x: &Exchange, policy: &CompressPolicy) -> Option<(Coding, Content<'static>)> {
    let request = x.request.view(&x.head);
    if !request.has(FieldName::AcceptEncoding) {
        return None;
    }
    // Clients may forbid it to everything on the way (RFC 9111 §5.2.1.6).
    let mut control = request.elements(FieldName::CacheControl);
    if control.any(|directive| directive.eq_ignore_ascii_case(b"no-transform")) {
        return None;
    }
    match Accepted::of(request).choose(&policy.codings) {
        Coding::Identity => None,
        coding => Some((coding, Content::Encoded(coding.token().as_bytes()))),
    }
}

/// Whether a part is asked for. Only the response as the origin made it, with its strong tag, has parts; a compressed
/// form has none.
fn asks_for_a_part(x: &Exchange) -> bool {
    x.request.known_field(FieldName::Range).is_some()
}

/// Whether a client asks for the rest of a form that may be compressed. A date is no strong validator of a response
/// that is compressed for this client, since it does not tell its forms apart (RFC 9110 §8.8.2.2). So its `If-Range` is
/// false (§13.1.5); the origin, which knows no compressed form, would accept it.
pub(crate) fn part_may_be_of_another_form(x: &Exchange, rule: &Forward) -> bool {
    let Some(policy) = rule.compress.as_deref() else {
        return false;
    };
    let condition = x.request.view(&x.head).first(FieldName::IfRange);
    asks_for_a_part(x)
        && condition.is_some_and(|condition| !condition.contains(&b'"'))
        && wanted(x, policy).is_some()
}

/// Whether the client's condition names the weak form of `tag`. Then it holds a compressed form. A 304 must repeat that
/// tag, so that the client finds its stored response (RFC 9111 §4.3.4).
pub(crate) fn has_weak_form_of(x: &Exchange, tag: &[u8]) -> bool {
    let conditions = x.request.view(&x.head).all(FieldName::IfNoneMatch);
    let mut named = conditions.flat_map(validate::etags);
    !validate::is_weak(tag) && named.any(|named| named.strip_prefix(b"W/") == Some(tag))
}

/// The length of the body after the head in `x`: as announced, or because all of it is here.
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
