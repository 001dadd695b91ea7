//! What request and response heads share: where a head ends, its fields, and the names of the known fields.
//!
//! A parsed head holds positions, not slices. It can outlive the buffer it was read from, as long as the bytes of the
//! head are kept somewhere, and its memory is reused for the next message.

mod name;
#[cfg(test)]
mod tests;

use crate::Reject;

pub use name::FieldName;
pub(crate) use name::is;

/// Part of a head, as positions from the head's first byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of this part, in the head the span was made from.
    pub fn of(self, head: &[u8]) -> &[u8] {
        &head[self.start as usize..self.end as usize]
    }

    /// The position of `part`, which is a subslice of `head`.
    pub(crate) fn within(head: &[u8], part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
        debug_assert!(
            start + part.len() <= head.len(),
            "the part lies in the head"
        );
        Self {
            start: start as u32,
            end: (start + part.len()) as u32,
        }
    }
}

/// A field of a head.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name as sent.
    pub name: Span,
    /// Its value without the blanks around it.
    pub value: Span,
    /// Which known field it is.
    pub id: FieldName,
}

/// The value of the first of `fields` that is `id`.
pub(crate) fn known_field(fields: &[Field], id: FieldName) -> Option<Span> {
    let field = fields.iter().find(|field| field.id == id)?;
    Some(field.value)
}

/// The protocol version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
}

/// How large a head may be.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes from the first line to the empty line.
    pub bytes: usize,
    /// Fields; at most [`HeadLimits::FIELDS_CEILING`].
    pub fields: usize,
}

impl HeadLimits {
    /// No head may have more fields than this, because the parser's table lies on the stack.
    pub const FIELDS_CEILING: usize = 256;

    /// Whether a parsed head keeps to the limits and every line ends with CRLF: the parser also takes LF alone. Names and
    /// values hold no line ends, so the checked positions are all there are.
    pub(crate) fn allow(self, head: &[u8], fields: &[httparse::Header<'_>]) -> bool {
        let follows_crlf = |field: &httparse::Header<'_>| {
            let start = Span::within(head, field.name.as_bytes()).start as usize;
            start >= 2 && head[start - 2..start] == *b"\r\n"
        };
        head.len() <= self.bytes
            && fields.len() <= self.fields
            && head.ends_with(b"\r\n\r\n")
            && fields.iter().all(follows_crlf)
    }
}

/// Finds the end of a head, and looks at each byte once.
///
/// A head that arrives byte by byte costs no more than one that arrives at once, so a slow sender cannot cause more
/// work.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadScan {
    scanned: u32,
    lines: u32,
}

impl HeadScan {
    /// Whether no byte was looked at yet.
    pub(crate) fn is_fresh(self) -> bool {
        self.scanned == 0
    }

    /// The length of the head at the start of `bytes`, or `None` while its end has not arrived. Between calls,
    /// `bytes` may only grow.
    ///
    /// # Errors
    /// A line that ends with LF alone, and a head beyond `limits`.
    pub fn end(&mut self, bytes: &[u8], limits: HeadLimits) -> Result<Option<usize>, Reject> {
        // Bytes beyond the limit are ignored, so the verdict does not depend on how much arrived at once.
        let within = &bytes[..bytes.len().min(limits.bytes)];
        let scanned = self.scanned as usize;
        for at in memchr::memchr_iter(b'\n', &within[scanned..]) {
            let lf = scanned + at;
            if lf == 0 || bytes[lf - 1] != b'\r' {
                return Err(Reject::BareLf);
            }
            // An empty line is a CRLF directly after the CRLF of the previous line.
            if lf >= 3 && bytes[lf - 2] == b'\n' {
                return Ok(Some(lf + 1));
            }
            self.lines += 1;
            if self.lines as usize > limits.fields + 1 {
                return Err(Reject::TooManyFields);
            }
        }
        self.scanned = within.len() as u32;
        if bytes.len() < limits.bytes {
            Ok(None)
        } else if self.lines == 0 {
            Err(Reject::TargetTooLong)
        } else {
            Err(Reject::HeadTooLarge)
        }
    }
}

/// Calls `each` with the elements of a comma-separated list, without blanks around them and without empty ones (RFC
/// 9110 §5.6.1).
pub(crate) fn for_each_element(value: &[u8], mut each: impl FnMut(&[u8])) {
    let mut rest = Some(value);
    while let Some(list) = rest {
        let (element, after) = match memchr::memchr(b',', list) {
            Some(comma) => (&list[..comma], Some(&list[comma + 1..])),
            None => (list, None),
        };
        rest = after;
        let element = element.trim_ascii();
        if !element.is_empty() {
            each(element);
        }
    }
}

/// Finds out what is wrong with the lines after the first one, once the parser has refused them.
pub(crate) fn diagnose_fields(head: &[u8]) -> Reject {
    for line in head.split(|&b| b == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first().is_some_and(|b| matches!(b, b' ' | b'\t')) {
            return Reject::ObsFold;
        }
        let Some(colon) = line.iter().position(|&b| b == b':') else {
            if line.is_empty() {
                continue;
            }
            return control_byte(line).unwrap_or(Reject::FieldName);
        };
        let (name, value) = line.split_at(colon);
        if name.last().is_some_and(|b| matches!(b, b' ' | b'\t')) {
            return Reject::SpaceBeforeColon;
        }
        if name.is_empty() || !name.iter().copied().all(is_token_byte) {
            return control_byte(name).unwrap_or(Reject::FieldName);
        }
        if let Some(reject) = control_byte(value) {
            return reject;
        }
    }
    Reject::FieldValue
}

/// The refusal for the first byte that may stand in no line.
pub(crate) fn control_byte(line: &[u8]) -> Option<Reject> {
    line.iter()
        .find(|&&b| (b < 0x20 && b != b'\t') || b == 0x7f)
        .map(|&b| match b {
            b'\r' => Reject::BareCr,
            _ => Reject::ControlByte,
        })
}

/// Whether `byte` may stand in a token (RFC 9110 §5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
