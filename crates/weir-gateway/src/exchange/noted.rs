//! The fields of an answer that the access log names. They are noted when its head is written, since the head is gone once it was
//! sent.

use weir_http::Span;

/// Values of fields, by their place in the list of names.
#[derive(Debug, Default)]
pub(super) struct Noted {
    text: Vec<u8>,
    spans: Vec<Option<Span>>,
}

impl Noted {
    /// Notes the first field of `head` for each of `names`, which are in lower case.
    pub(super) fn take(&mut self, names: &[String], head: &[u8]) {
        self.clear();
        for name in names {
            let span = value(name, head).map(|value| {
                let start = self.text.len() as u32;
                self.text.extend_from_slice(value);
                let end = self.text.len() as u32;
                Span { start, end }
            });
            self.spans.push(span);
        }
    }

    /// The value of the field at this place of the list, if the answer had it.
    pub(super) fn value(&self, place: usize) -> Option<&[u8]> {
        let span = self.spans.get(place).copied().flatten()?;
        Some(span.of(&self.text))
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
    }
}

/// The value of the first field called `name`.
fn value<'h>(name: &str, head: &'h [u8]) -> Option<&'h [u8]> {
    head.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
        let (own, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        own.eq_ignore_ascii_case(name.as_bytes())
            .then(|| value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_name() {
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nAb: 2\r\na: 3\r\nB:\r\n\r\n";
        let names = ["b", "a", "c", "http/1.1 200 ok"].map(str::to_owned);
        let mut noted = Noted::default();
        for _ in 0..2 {
            noted.take(&names, head);
            let values: Vec<_> = (0..5).map(|place| noted.value(place)).collect();
            assert_eq!(values, [Some(&b""[..]), Some(b"1"), None, None, None]);
        }
    }
}
