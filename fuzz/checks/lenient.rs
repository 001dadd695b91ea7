//! A reader that forgives whatever some HTTP software is known to forgive, to compare the strict one with: on a head
//! that the strict reader accepts, the two must see the same message. Where they do not, something can be smuggled.

use weir_http::body::Framing;

/// The fields of a head that decide where the message ends and where it goes, as a forgiving reader finds them.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) lengths: Vec<Vec<u8>>,
    pub(crate) encodings: Vec<Vec<u8>>,
    pub(crate) hosts: Vec<Vec<u8>>,
}

/// Reads a head whose lines may end with CR, LF or CRLF and may be continued, with whatever around its names.
pub(crate) fn read(head: &[u8]) -> Head {
    let mut found = Head::default();
    for line in head.split(|&b| matches!(b, b'\r' | b'\n')).skip(1) {
        let colon = line.iter().position(|b| b":=".contains(b));
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let name: Vec<u8> = name
            .iter()
            .filter(|b| b.is_ascii_graphic())
            .map(u8::to_ascii_lowercase)
            .collect();
        let value = value.get(1..).unwrap_or_default().trim_ascii().to_vec();
        match name.as_slice() {
            b"content-length" => found.lengths.push(value),
            b"transfer-encoding" => found.encodings.push(value),
            b"host" => found.hosts.push(value),
            _ => {}
        }
    }
    found
}

impl Head {
    /// Panics if `framing`, or `no_body` because of the method or the status, is not what this head says.
    pub(crate) fn must_agree(&self, framing: Framing, no_body: bool) {
        assert!(self.lengths.len() + self.encodings.len() <= 1, "{self:?}");
        match (self.encodings.first(), self.lengths.first()) {
            (Some(encoding), _) => {
                assert!(encoding.eq_ignore_ascii_case(b"chunked"), "{self:?}");
                assert!(no_body || framing == Framing::Chunked, "{framing:?}");
            }
            (None, Some(length)) => {
                let length = std::str::from_utf8(length).expect("digits");
                let length: u64 = length.parse().expect("a number");
                let is_same = match framing {
                    Framing::Length(framed) => framed == length,
                    Framing::Empty => no_body || length == 0,
                    Framing::Chunked | Framing::UntilClose => false,
                };
                assert!(is_same, "{framing:?} for {length}");
            }
            (None, None) => {
                assert!(
                    matches!(framing, Framing::Empty | Framing::UntilClose),
                    "{framing:?}"
                );
            }
        }
    }
}
