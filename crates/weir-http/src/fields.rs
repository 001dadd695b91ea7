//! Reads the fields of a head: a cheap, copyable view of its bytes and its table of fields.
//!
//! A field may come in several lines, and a line may hold several elements. Which reading is right depends on the field
//! (RFC 9110 §5.3), so the caller chooses between [`Fields::first`], [`Fields::all`] and [`Fields::elements`]. Nothing
//! here allocates.

use crate::head::{Field, FieldName, Span};

/// The fields of one head.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'h> {
    head: &'h [u8],
    table: &'h [Field],
}

impl<'h> Fields<'h> {
    /// The fields of `table`, whose positions lie in `head`.
    pub fn new(head: &'h [u8], table: &'h [Field]) -> Self {
        Self { head, table }
    }

    /// Reads the fields of `head`, which this crate has written, into `table`. Unlike the head of a peer, it may have
    /// any number of them.
    pub fn scan(head: &[u8], table: &mut Vec<Field>) {
        table.clear();
        let mut start = 0;
        for line in head.split_inclusive(|&b| b == b'\n') {
            let end = start + line.len();
            if let Some(colon) = memchr::memchr(b':', line).filter(|_| start > 0) {
                let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
                table.push(Field {
                    name: Span::within(head, name),
                    value: Span::within(head, value),
                    id: FieldName::of(name),
                });
            }
            start = end;
        }
    }

    /// No fields.
    pub const NONE: Self = Self {
        head: b"",
        table: &[],
    };

    /// The value of the first line that is `id`.
    pub fn first(self, id: FieldName) -> Option<&'h [u8]> {
        self.all(id).next()
    }

    /// The values of all lines that are `id`, in order.
    pub fn all(self, id: FieldName) -> impl DoubleEndedIterator<Item = &'h [u8]> + Clone {
        let is_it = move |field: &&Field| field.id == id;
        self.table
            .iter()
            .filter(is_it)
            .map(move |field| field.value.of(self.head))
    }

    /// The values of all lines called `name`, in any case of letters.
    pub fn named<'n>(self, name: &'n [u8]) -> impl Iterator<Item = &'h [u8]> + Clone + use<'h, 'n> {
        // Known fields are compared by number; only an unknown name is compared by its bytes.
        let id = FieldName::of(name);
        let is_it = move |field: &&Field| {
            field.id == id
                && (id != FieldName::Other || field.name.of(self.head).eq_ignore_ascii_case(name))
        };
        self.table
            .iter()
            .filter(is_it)
            .map(move |field| field.value.of(self.head))
    }

    /// The elements of all lines that are `id`, read as one comma-separated list.
    pub fn elements(self, id: FieldName) -> impl Iterator<Item = &'h [u8]> + Clone {
        self.all(id).flat_map(elements)
    }

    /// Whether there is a line that is `id`.
    pub fn has(self, id: FieldName) -> bool {
        self.first(id).is_some()
    }

    /// Every line: which field it is, its name as sent, its value.
    pub fn iter(self) -> impl Iterator<Item = (FieldName, &'h [u8], &'h [u8])> + Clone {
        self.table.iter().map(move |field| {
            let (name, value) = (field.name.of(self.head), field.value.of(self.head));
            (field.id, name, value)
        })
    }

    /// Whether `Connection` lists a field of this name (RFC 9110 §7.6.1).
    pub fn connection_names(self, name: &[u8]) -> bool {
        self.elements(FieldName::Connection)
            .any(|option| option.eq_ignore_ascii_case(name))
    }
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), without blanks around them and without empty ones. A comma
/// inside a quoted string separates nothing; an unclosed string reaches to the end.
pub fn elements(value: &[u8]) -> Elements<'_> {
    Elements { rest: value }
}

/// See [`elements`].
#[derive(Debug, Clone)]
pub struct Elements<'h> {
    rest: &'h [u8],
}

impl<'h> Iterator for Elements<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        while !self.rest.is_empty() {
            let end = unquoted(self.rest, b',').unwrap_or(self.rest.len());
            let element = self.rest[..end].trim_ascii();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

/// The position of the first `wanted` outside quoted strings (RFC 9110 §5.6.4).
pub fn unquoted(text: &[u8], wanted: u8) -> Option<usize> {
    // Most values have no quotes, so one search is enough.
    let first = memchr::memchr2(wanted, b'"', text)?;
    if text[first] == wanted {
        return Some(first);
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate().skip(first) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == wanted && !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HeadScan;
    use crate::{HeadLimits, ResponseHead};

    #[test]
    fn lists_have_elements() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            (" , ,\t", &[]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            (" a ,, b\t,", &["a", "b"]),
            (r#"a="1,2", b"#, &[r#"a="1,2""#, "b"]),
            (r#"a="\",", b"#, &[r#"a="\",""#, "b"]),
            (r#"a="never closed, b"#, &[r#"a="never closed, b"#]),
        ];
        for (value, expected) in cases {
            let found: Vec<_> = elements(value.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|e| e.as_bytes()).collect();
            assert_eq!(found, expected, "{value:?}");
        }
    }

    #[test]
    fn a_head_that_was_written_has_the_fields_that_a_parser_finds() {
        let head = b"GET /a:b HTTP/1.1\r\nHost: h:80\r\nX-A:1\r\nx-a: \t2 \r\nEmpty:\r\n\r\n";
        let limits = HeadLimits {
            bytes: 1000,
            fields: 10,
        };
        let mut request = crate::RequestHead::default();
        request
            .parse(head, &mut HeadScan::default(), limits)
            .unwrap();
        let mut table = Vec::new();
        Fields::scan(head, &mut table);
        let scanned = Fields::new(head, &table);
        assert!(scanned.iter().eq(request.view(head).iter()));
        assert_eq!(scanned.iter().count(), 4);
    }

    #[test]
    fn fields_are_found_by_number_and_by_name() {
        let head = b"HTTP/1.1 200 OK\r\nVary: a\r\nx-A: 1\r\nvary: b , c\r\nX-a: 2\r\nConnection: q, X-A\r\n\r\n";
        let limits = HeadLimits {
            bytes: 1000,
            fields: 10,
        };
        let mut response = ResponseHead::default();
        response
            .parse(head, &mut HeadScan::default(), limits, crate::Method::Get)
            .unwrap();
        let fields = response.view(head);
        assert_eq!(fields.first(FieldName::Vary), Some(&b"a"[..]));
        assert!(fields.all(FieldName::Vary).eq([&b"a"[..], b"b , c"]));
        assert!(fields.elements(FieldName::Vary).eq([b"a", b"b", b"c"]));
        assert!(fields.named(b"VARY").eq(fields.all(FieldName::Vary)));
        assert!(fields.named(b"X-a").eq([b"1", b"2"]));
        assert_eq!(fields.named(b"b").count(), 0);
        assert_eq!(fields.iter().count(), 5);
        assert!(fields.has(FieldName::Connection) && !fields.has(FieldName::Age));
        assert!(fields.connection_names(b"x-a") && !fields.connection_names(b"vary"));
    }
}
