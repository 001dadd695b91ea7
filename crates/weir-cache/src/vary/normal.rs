//! The normal form of the four fields whose grammar and meaning are known (RFC 9110 §12.5.1 to §12.5.4): lists of ranges
//! with weights.
//!
//! It removes differences without meaning: blanks around commas and semicolons, zeros of weights, the case of codings,
//! charsets and languages, and the order of codings and charsets. A value that does not match its grammar exactly stays
//! as it is, because readers may read it in any way. A normal form matches the grammar too, so no other value can look
//! like it.
//!
//! The order stays in `Accept`, and in `Accept-Language` unless the route says otherwise. RFC 9110 gives it no meaning,
//! but origins do: many take the first of equals, or the first language whatever the weights.

use weir_http::FieldName;
use weir_http::head::is_token_byte;

/// Appends a value in its normal form if it has one, or else as it is. It has none unless it `is_alone`, the only line
/// of its field: only the origin knows whether a second line counts.
pub(crate) fn write_value(
    id: FieldName,
    value: &[u8],
    is_alone: bool,
    language_order_matters: bool,
    out: &mut Vec<u8>,
) {
    let form = Form::of(id, language_order_matters).filter(|_| is_alone);
    let start = out.len();
    if form.is_none_or(|form| form.write(value, out).is_none()) {
        out.truncate(start);
        out.extend_from_slice(value);
    }
}

/// How a field is written.
#[derive(Clone, Copy)]
struct Form {
    is_range: fn(&[u8]) -> bool,
    /// Whether it has other parameters besides a weight.
    has_parameters: bool,
    is_caseless: bool,
    is_set: bool,
}

impl Form {
    fn of(id: FieldName, language_order_matters: bool) -> Option<Self> {
        let caseless_set = Self {
            is_range: is_token,
            has_parameters: false,
            is_caseless: true,
            is_set: true,
        };
        match id {
            FieldName::AcceptEncoding | FieldName::AcceptCharset => Some(caseless_set),
            FieldName::AcceptLanguage => Some(Self {
                is_range: is_language_range,
                is_set: !language_order_matters,
                ..caseless_set
            }),
            FieldName::Accept => Some(Self {
                is_range: is_media_range,
                has_parameters: true,
                is_caseless: false,
                is_set: false,
            }),
            _ => None,
        }
    }

    /// Appends the normal form. If there is none, returns `None`; something may have been appended.
    fn write(self, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
        // Commas and semicolons inside strings separate nothing.
        if value.contains(&b'"') {
            return None;
        }
        let start = out.len();
        let mut places = Places::default();
        for element in value.split(|&b| b == b',') {
            if out.len() > start {
                out.push(b',');
            }
            let from = out.len();
            self.write_element(element.trim_ascii(), out)?;
            places.add(from - start, out.len() - start)?;
        }
        if self.is_set {
            places.sort(start, out);
        }
        Some(())
    }

    /// `de ; q=1.0` as `de`, `De;q=0.50` as `de;q=0.5`.
    fn write_element(self, element: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut parts = element.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        let range = parts.next().filter(|range| (self.is_range)(range))?;
        out.extend_from_slice(range);
        if self.is_caseless {
            let from = out.len() - range.len();
            out[from..].make_ascii_lowercase();
        }
        while let Some(part) = parts.next() {
            let (name, value) = part.split_at(part.iter().position(|&b| b == b'=')?);
            let value = &value[1..];
            if name.eq_ignore_ascii_case(b"q") {
                let weight = shortest_weight(value)?;
                if weight != b"1" {
                    out.extend_from_slice(b";q=");
                    out.extend_from_slice(weight);
                }
                // The weight must be the last parameter.
                return parts.next().is_none().then_some(());
            }
            if !self.has_parameters || !is_token(name) || !is_token(value) {
                return None;
            }
            out.push(b';');
            out.extend_from_slice(part);
        }
        Some(())
    }
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&b| is_token_byte(b))
}

/// `*`, or a basic language range of RFC 4647 §2.1: letters, and after hyphens letters and digits, at most eight of
/// each.
fn is_language_range(text: &[u8]) -> bool {
    let mut subtags = text.split(|&b| b == b'-');
    let is_word = |subtag: &[u8]| (1..=8).contains(&subtag.len());
    let first = subtags.next().unwrap_or_default();
    text == b"*"
        || is_word(first)
            && first.iter().all(u8::is_ascii_alphabetic)
            && subtags.all(|subtag| is_word(subtag) && subtag.iter().all(u8::is_ascii_alphanumeric))
}

/// `*/*`, `type/*` or `type/subtype`.
fn is_media_range(text: &[u8]) -> bool {
    let Some(slash) = text.iter().position(|&b| b == b'/') else {
        return false;
    };
    let (main, sub) = (&text[..slash], &text[slash + 1..]);
    is_token(main) && is_token(sub) && (main != b"*" || sub == b"*")
}

/// A weight of RFC 9110 §12.4.2 without redundant zeros.
fn shortest_weight(weight: &[u8]) -> Option<&[u8]> {
    let (whole, fraction) = match weight {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let is_digit = |b: &u8| b.is_ascii_digit() && (*whole == b'0' || *b == b'0');
    if !fraction.iter().all(is_digit) {
        return None;
    }
    let end = fraction.iter().rposition(|&b| b != b'0');
    Some(end.map_or(&weight[..1], |end| &weight[..end + 3]))
}

/// The positions of the elements of a normal form, by which they are sorted in place.
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
    /// A longer list has no normal form.
    const MAX: usize = 32;

    fn add(&mut self, from: usize, to: usize) -> Option<()> {
        *self.table.get_mut(self.count)? = (from as u32, to as u32);
        self.count += 1;
        Some(())
    }

    /// Sorts the elements, which are everything in `out` from `start`, and drops repetitions.
    fn sort(&mut self, start: usize, out: &mut Vec<u8>) {
        let places = &mut self.table[..self.count];
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
