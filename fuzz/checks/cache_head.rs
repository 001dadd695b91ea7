//! Heads made of fuzzed lines, for the checks of the cache's rules.

use weir_http::head::HeadScan;
use weir_http::{Fields, HeadLimits, Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 1 << 16,
    fields: 100,
};

/// A parsed head and its bytes.
pub(crate) struct Head {
    bytes: Vec<u8>,
    request: RequestHead,
    response: ResponseHead,
}

impl Head {
    /// A GET with these lines, unless no request can have them.
    pub(crate) fn request(lines: &[Vec<u8>]) -> Option<Self> {
        let mut head = Self::of(b"GET / HTTP/1.1\r\nHost: h\r\n", lines);
        let parsed = head
            .request
            .parse(&head.bytes, &mut HeadScan::default(), LIMITS);
        parsed.is_ok().then_some(head)
    }

    /// A 200 with these lines, unless no response can have them.
    pub(crate) fn response(lines: &[Vec<u8>]) -> Option<Self> {
        let mut head = Self::of(b"HTTP/1.1 200 OK\r\n", lines);
        let parsed =
            head.response
                .parse(&head.bytes, &mut HeadScan::default(), LIMITS, Method::Get);
        parsed.is_ok().then_some(head)
    }

    pub(crate) fn fields(&self) -> Fields<'_> {
        if self.request.fields.is_empty() {
            self.response.view(&self.bytes)
        } else {
            self.request.view(&self.bytes)
        }
    }

    fn of(first: &[u8], lines: &[Vec<u8>]) -> Self {
        let mut bytes = first.to_vec();
        for line in lines {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        Self {
            bytes,
            request: RequestHead::default(),
            response: ResponseHead::default(),
        }
    }
}

/// A line for each line of `data`, with `name` in front.
pub(crate) fn lines(name: &str, data: &[u8]) -> Vec<Vec<u8>> {
    data.split(|&b| b == b'\n')
        .map(|value| [name.as_bytes(), b": ", value].concat())
        .collect()
}
