//! The variants of one key (RFC 9111 §4.1): by which request fields a response was chosen, and whether another request
//! would get it too.
//!
//! A variant is stored with its secondary key. For each field that `Vary` names, sorted, it has a line for each line of
//! that field in the original request. A line without a colon means that there was none.
//!
//! ```text
//! accept-language:de,en;q=0.5
//! bar:1
//! bar:2
//! foo
//! ```
//!
//! Values are compared byte by byte: an origin may distinguish `a,` from `a`, and a cache that does not would give the
//! answer for one to requests with the other. Only four fields have a normal form (`vary/normal.rs`).

mod normal;

use weir_http::head::is_token_byte;
use weir_http::variable::is_same_variable;
use weir_http::{FieldName, Fields};

use crate::meta::Meta;

pub(crate) use normal::write_value;

/// Whether no request is known to select the response: `Vary: *`, or an element that is no field name.
pub fn is_unknowable(response: Fields<'_>) -> bool {
    response
        .elements(FieldName::Vary)
        .any(|element| element == b"*" || !is_name(element))
}

/// Whether the request has a field that scripts read as one that the response names ([`is_same_variable`]), but with
/// another name. The origin may have used it, and the secondary key does not show it.
pub fn has_lookalike(response: Fields<'_>, request: Fields<'_>) -> bool {
    response.elements(FieldName::Vary).any(|named| {
        let mut names = request.iter().map(|(_, name, _)| name);
        names.any(|name| is_same_variable(name, named) && !name.eq_ignore_ascii_case(named))
    })
}

fn is_name(element: &[u8]) -> bool {
    element.iter().all(|&b| is_token_byte(b))
}

/// Appends the secondary key of a response to a request. A response that [`is_unknowable`] is not stored, so it needs
/// none.
pub fn write_secondary(
    response: Fields<'_>,
    request: Fields<'_>,
    language_order_matters: bool,
    out: &mut Vec<u8>,
) {
    let mut names: Vec<Vec<u8>> = response
        .elements(FieldName::Vary)
        .filter(|element| is_name(element))
        .map(<[u8]>::to_ascii_lowercase)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        write_lines(&name, request, language_order_matters, out);
    }
}

/// Whether `request` selects the variant stored with this secondary key. `scratch` is a buffer for reuse.
pub fn matches(
    secondary: &[u8],
    request: Fields<'_>,
    language_order_matters: bool,
    scratch: &mut Vec<u8>,
) -> bool {
    let mut rest = secondary;
    let mut last = None;
    while !rest.is_empty() {
        let name = name_of(rest);
        scratch.clear();
        write_lines(name, request, language_order_matters, scratch);
        match rest.strip_prefix(&scratch[..]) {
            // The name comes a second time: there were more lines of it.
            Some(after) if last != Some(name) => rest = after,
            _ => return false,
        }
        last = Some(name);
    }
    true
}

/// The variant to use for `request`: of those it selects, the one with the latest `Date` (RFC 9111 §4.1), and of
/// several such the one that came last. Each variant comes with its secondary key.
pub fn choose<'v>(
    variants: impl Iterator<Item = (&'v [u8], &'v Meta)>,
    request: Fields<'_>,
    language_order_matters: bool,
    scratch: &mut Vec<u8>,
) -> Option<usize> {
    variants
        .enumerate()
        .filter(|(_, (secondary, _))| matches(secondary, request, language_order_matters, scratch))
        .max_by_key(|(_, (_, meta))| (meta.date, meta.response_time))
        .map(|(at, _)| at)
}

/// The fields named by a secondary key, each once.
pub fn names(secondary: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut last: Option<&[u8]> = None;
    secondary
        .split_inclusive(|&b| b == b'\n')
        .map(name_of)
        .filter(move |&name| last.replace(name) != Some(name))
}

/// Whether bytes are a valid secondary key.
pub(crate) fn is_secondary(bytes: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        let is_byte = |b: &u8| is_token_byte(*b) && !b.is_ascii_uppercase();
        !name.is_empty() && name.iter().all(is_byte)
    };
    bytes
        .split_inclusive(|&b| b == b'\n')
        .all(|line| line.ends_with(b"\n") && is_name(name_of(line)))
}

/// The name at the start of a line.
fn name_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|b| matches!(b, b':' | b'\n'));
    &line[..end.unwrap_or(line.len())]
}

fn write_lines(name: &[u8], request: Fields<'_>, language_order_matters: bool, out: &mut Vec<u8>) {
    let id = FieldName::of(name);
    let values = request.named(name);
    let is_alone = values.clone().nth(1).is_none();
    let start = out.len();
    for value in values {
        out.extend_from_slice(name);
        out.push(b':');
        write_value(id, value, is_alone, language_order_matters, out);
        out.push(b'\n');
    }
    if out.len() == start {
        out.extend_from_slice(name);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
