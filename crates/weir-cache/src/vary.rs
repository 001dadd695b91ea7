//! Variants of one key (RFC 9111 §4.1): which request fields a response was chosen by, and whether another request would
//! have it chosen too.
//!
//! A variant is stored with its secondary key: a line for each field that `Vary` names, sorted, with the value that the
//! original request had, in a normal form. A line without a colon says that the request had no such field.
//!
//! ```text
//! accept-language:de,en
//! foo
//! ```
//!
//! The normal form undoes what cannot matter: lines are joined, blanks around commas dropped, and in the fields whose
//! grammar is known, letters and the order of elements too.

use weir_http::fields::elements;
use weir_http::head::is_token_byte;
use weir_http::{FieldName, Fields};

use crate::meta::Meta;

/// Whether no request can be known to select the response: `Vary: *`, or an element that names no field.
pub fn is_unknowable(response: Fields<'_>) -> bool {
    response
        .elements(FieldName::Vary)
        .any(|element| element == b"*" || !is_name(element))
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
        write_line(&name, request, language_order_matters, out);
    }
}

/// Whether `request` selects the variant stored with this secondary key. `scratch` is any buffer, used again.
pub fn matches(
    secondary: &[u8],
    request: Fields<'_>,
    language_order_matters: bool,
    scratch: &mut Vec<u8>,
) -> bool {
    secondary.split_inclusive(|&b| b == b'\n').all(|line| {
        let name_end = line.iter().position(|b| matches!(b, b':' | b'\n'));
        let name = &line[..name_end.unwrap_or(line.len())];
        scratch.clear();
        write_line(name, request, language_order_matters, scratch);
        scratch == line
    })
}

/// The variant to use for `request`: of those it selects, the one with the latest `Date` (RFC 9111 §4.1), and of those the
/// one that came last. Each variant comes with its secondary key.
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

/// The fields named by a secondary key.
pub fn names(secondary: &[u8]) -> impl Iterator<Item = &[u8]> {
    secondary
        .split(|&b| b == b'\n')
        .map(|line| line.split(|&b| b == b':').next().unwrap_or_default())
        .filter(|name| !name.is_empty())
}

fn write_line(name: &[u8], request: Fields<'_>, language_order_matters: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    let values = request.named(name);
    if values.clone().next().is_some() {
        out.push(b':');
        write_normal(FieldName::of(name), values, language_order_matters, out);
    }
    out.push(b'\n');
}

/// Appends the normal form of a field's lines.
pub(crate) fn write_normal<'h>(
    id: FieldName,
    lines: impl Iterator<Item = &'h [u8]>,
    language_order_matters: bool,
    out: &mut Vec<u8>,
) {
    // RFC 9110 §12.5: lists of ranges with weights, in any case of letters, whose order says nothing. Media types have
    // parameters whose letters may matter.
    let (is_caseless, is_set) = match id {
        FieldName::AcceptEncoding | FieldName::AcceptCharset => (true, true),
        FieldName::AcceptLanguage => (true, !language_order_matters),
        FieldName::Accept => (false, true),
        _ => (false, false),
    };
    let is_weighted = is_caseless || is_set;
    let start = out.len();
    let mut places = Places::default();
    for element in lines.flat_map(elements) {
        if out.len() > start {
            out.push(b',');
        }
        let from = out.len();
        if is_weighted {
            write_weighted(element, is_caseless, out);
        } else {
            out.extend_from_slice(element);
        }
        places.add(from - start, out.len() - start);
    }
    if is_set {
        places.sort(start, out);
    }
}

/// `de ; q=1.0` as `de`, `De;q=0.50` as `de;q=0.5`.
fn write_weighted(element: &[u8], is_caseless: bool, out: &mut Vec<u8>) {
    for (at, part) in element.split(|&b| b == b';').enumerate() {
        let part = part.trim_ascii();
        let weight = part
            .strip_prefix(b"q=")
            .or_else(|| part.strip_prefix(b"Q="))
            .filter(|_| at > 0);
        if let Some(weight) = weight {
            let digits = shortest(weight);
            if digits != b"1" {
                out.extend_from_slice(b";q=");
                out.extend_from_slice(digits);
            }
            continue;
        }
        if at > 0 {
            out.push(b';');
        }
        if is_caseless {
            out.extend(part.iter().map(u8::to_ascii_lowercase));
        } else {
            out.extend_from_slice(part);
        }
    }
}

/// A weight without the zeros that say nothing.
fn shortest(weight: &[u8]) -> &[u8] {
    if !weight.contains(&b'.') {
        return weight;
    }
    let end = weight.iter().rposition(|&b| b != b'0').unwrap_or(0);
    let weight = &weight[..=end];
    weight.strip_suffix(b".").unwrap_or(weight)
}

/// Where the elements of a normal form lie, so that they can be sorted without being kept apart.
struct Places {
    table: [(u32, u32); Places::MAX],
    count: usize,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            table: [(0, 0); Self::MAX],
            count: 0,
        }
    }
}

impl Places {
    /// A longer list keeps its order, and is then only equal to itself.
    const MAX: usize = 32;

    fn add(&mut self, from: usize, to: usize) {
        if let Some(place) = self.table.get_mut(self.count) {
            *place = (from as u32, to as u32);
        }
        self.count += 1;
    }

    /// Sorts the elements, which are all that lies in `out` from `start`, and drops repetitions.
    fn sort(&mut self, start: usize, out: &mut Vec<u8>) {
        let Some(places) = self.table.get_mut(..self.count) else {
            return;
        };
        let end = out.len();
        let range_of = |(from, to): (u32, u32)| start + from as usize..start + to as usize;
        places.sort_unstable_by(|a, b| out[range_of(*a)].cmp(&out[range_of(*b)]));
        let mut last: Option<(u32, u32)> = None;
        for &place in places.iter() {
            let range = range_of(place);
            let is_repeated = last.is_some_and(|last| out[range_of(last)] == out[range.clone()]);
            if is_repeated {
                continue;
            }
            if last.is_some() {
                out.push(b',');
            }
            out.extend_from_within(range);
            last = Some(place);
        }
        out.drain(start..end);
    }
}

#[cfg(test)]
mod tests;
