//! Validation (RFC 9111 §4.3, RFC 9110 §13): what to ask the origin so that it may answer 304, which stored response a
//! 304 is about, and what a client's own conditions mean for a stored response.

use weir_http::{FieldName, Fields, Method};

use crate::freshness::date_of;
use crate::stored_head::StoredHead;
use crate::time::Timestamp;

/// Appends the conditions of a request that validates `stored`, as lines. `stored` is the one response that is to be
/// used again, or the variants of a key if the request selects none of them (RFC 9111 §4.3.1). Returns whether there is
/// a validator; without one, the request is sent without conditions.
///
/// They replace the client's own conditions, and its `Range`: [`FieldName::makes_conditional`] says which fields those
/// are.
pub fn write_conditional(stored: &[&StoredHead], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for etag in stored.iter().filter_map(|head| head.etag()) {
        out.extend_from_slice(if out.len() == start {
            b"If-None-Match: "
        } else {
            b", "
        });
        out.extend_from_slice(etag);
    }
    if out.len() > start {
        out.extend_from_slice(b"\r\n");
    }
    // A date identifies one response only; with several, a 304 could not be assigned to one of them.
    if let [only] = stored
        && only.meta.last_modified.is_some()
        && let Some(text) = only.fields().first(FieldName::LastModified)
    {
        out.extend_from_slice(b"If-Modified-Since: ");
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    }
    out.len() > start
}

/// Which of the validated responses a 304 confirms (RFC 9111 §4.3.3), as a position among them. `None`: the 304 is of
/// no use, and the request must be made again without conditions.
pub fn select(stored: &[&StoredHead], not_modified: Fields<'_>) -> Option<usize> {
    let latest = |matches: &dyn Fn(&StoredHead) -> bool| {
        stored
            .iter()
            .enumerate()
            .filter(|(_, head)| matches(head))
            .max_by_key(|(_, head)| (head.meta.date, head.meta.response_time))
            .map(|(at, _)| at)
    };
    if let Some(etag) = not_modified.first(FieldName::Etag) {
        let is_it = |head: &StoredHead| {
            head.etag()
                .is_some_and(|own| is_weakly_equal(own, etag) && (is_weak(etag) || !is_weak(own)))
        };
        // A gateway that compressed a response has weakened its tag; the origin still sends the strong one.
        return latest(&is_it)
            .or_else(|| latest(&|head| head.etag().is_some_and(|own| is_weakly_equal(own, etag))));
    }
    if let Some(modified) = not_modified.first(FieldName::LastModified) {
        let has_it =
            |head: &StoredHead| head.fields().first(FieldName::LastModified) == Some(modified);
        return latest(&has_it);
    }
    // Without a validator it can only mean the one response that was validated. By the RFC that response would have to
    // lack validators too, but many origins answer `If-Modified-Since` with a 304 without validators.
    (stored.len() == 1).then_some(0)
}

/// The result of a request's conditions for a stored response that could answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Answer with the response, or the range of it that is asked for.
    Holds,
    /// Answer 304.
    NotModified,
    /// `If-Match` or `If-Unmodified-Since`, which a cache must not evaluate (RFC 9111 §4.3.2): the request is sent on
    /// as it came.
    ForOrigin,
}

/// Evaluates the conditions of a GET or HEAD against a stored response, in the order of RFC 9110 §13.2.2.
pub fn evaluate(
    method: Method,
    request: Fields<'_>,
    stored: &StoredHead,
    now: Timestamp,
) -> Precondition {
    // Most requests have no conditions; one pass over the fields shows that.
    let mut conditions = request.iter().filter(|(id, ..)| id.makes_conditional());
    if conditions.all(|(id, ..)| id == FieldName::Range) {
        return Precondition::Holds;
    }
    if request.has(FieldName::IfMatch) || request.has(FieldName::IfUnmodifiedSince) {
        return Precondition::ForOrigin;
    }
    let is_read = matches!(method, Method::Get | Method::Head);
    // Conditions only concern a success (§13.2.1).
    if !is_read || !(200..300).contains(&stored.meta.status) {
        return Precondition::Holds;
    }
    if request.has(FieldName::IfNoneMatch) {
        return if none_matches(request, stored.etag()) {
            Precondition::Holds
        } else {
            Precondition::NotModified
        };
    }
    let since = request.first(FieldName::IfModifiedSince);
    let Some(since) = since.and_then(|text| date_of(text, now)) else {
        return Precondition::Holds;
    };
    // RFC 9111 §4.3.2: without a known last modification, the date of the response is used.
    let modified = stored.meta.last_modified.unwrap_or(stored.meta.date);
    if modified <= since {
        Precondition::NotModified
    } else {
        Precondition::Holds
    }
}

/// `If-None-Match` (RFC 9110 §13.1.2), by weak comparison.
fn none_matches(request: Fields<'_>, own: Option<&[u8]>) -> bool {
    request
        .all(FieldName::IfNoneMatch)
        .flat_map(etags)
        .all(|tag| tag != b"*" && !own.is_some_and(|own| is_weakly_equal(own, tag)))
}

/// What a 200 to HEAD says about a stored response to GET (RFC 9111 §4.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadMeans {
    /// It is still the same: use [`StoredHead::freshened`] with the fields of the HEAD.
    Unchanged,
    /// It has changed, so the stored response is useless.
    Changed,
    /// Nothing: no validator can tell.
    Nothing,
}

/// Compares the answer to HEAD, a 200, with a stored response: by its validators, all of which must equal the stored
/// ones, and by length. A stored error or redirect is not what the origin has now. Without validators the RFC accepts
/// an equal length as a match, but a changed page often has the same length.
pub fn compare_head(stored: &StoredHead, head: Fields<'_>) -> HeadMeans {
    if stored.meta.status != 200 {
        return HeadMeans::Changed;
    }
    let validators = [FieldName::Etag, FieldName::LastModified];
    let mut received = validators.into_iter().filter(|&id| head.has(id)).peekable();
    let is_validated = received.peek().is_some();
    let is_same = received.all(|id| head.first(id) == stored.fields().first(id));
    let length = head.first(FieldName::ContentLength);
    let own_length = stored.fields().first(FieldName::ContentLength);
    let is_as_long = length.is_none() || own_length.is_none() || length == own_length;
    match (is_same && is_as_long, is_validated) {
        (false, _) => HeadMeans::Changed,
        (true, true) => HeadMeans::Unchanged,
        (true, false) => HeadMeans::Nothing,
    }
}

/// Whether a tag is weak (RFC 9110 §8.8.3).
pub fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

/// The weak comparison of RFC 9110 §8.8.3.2.
pub fn is_weakly_equal(a: &[u8], b: &[u8]) -> bool {
    let opaque = |tag: &'_ [u8]| tag.strip_prefix(b"W/").map_or(tag.len(), <[u8]>::len);
    a[a.len() - opaque(a)..] == b[b.len() - opaque(b)..]
}

/// The strong comparison of RFC 9110 §8.8.3.2.
pub fn is_strongly_equal(a: &[u8], b: &[u8]) -> bool {
    a == b && !is_weak(a)
}

/// The tags of a list. Inside quotes a tag may contain commas, and a backslash is an ordinary byte; a tag without
/// quotes ends at the next comma.
pub fn etags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let start = rest
            .iter()
            .position(|b| !matches!(b, b' ' | b'\t' | b','))?;
        let tag = &rest[start..];
        let quote = if is_weak(tag) { 2 } else { 0 };
        let end = match tag.get(quote) {
            Some(b'"') => {
                let close = tag[quote + 1..].iter().position(|&b| b == b'"');
                close.map_or(tag.len(), |at| quote + at + 2)
            }
            _ => tag.iter().position(|&b| b == b',').unwrap_or(tag.len()),
        };
        let (tag, after) = tag.split_at(end);
        rest = after;
        Some(tag.trim_ascii_end())
    })
}

#[cfg(test)]
mod tests;
