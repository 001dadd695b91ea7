//! The gateway's own cookies in an exchange: what the client has sent of them, and what it is told to keep.

use weir_http::head::HeadScan;
use weir_http::{FieldName, cookie};

use crate::exchange::{Exchange, KEPT_HEAD_LIMITS};
use crate::state::sticky::{CookieText, OwnCookies, value};

/// What a request and the gateway's own cookies have to do with each other; memory that the next request uses again.
#[derive(Debug, Default)]
pub(crate) struct StickyCookies {
    /// Values by the places of their names.
    sent: Vec<(usize, u64)>,
    /// The line that keeps the client with one of the upstreams of its route.
    side: Vec<u8>,
    /// The line that keeps it with an endpoint.
    endpoint: Vec<u8>,
}

impl StickyCookies {
    /// What the client has sent of a cookie.
    pub(crate) fn sent(&self, text: &CookieText) -> Option<u64> {
        let mut sent = self.sent.iter();
        sent.find(|(place, _)| *place == text.place)
            .map(|&(_, value)| value)
    }

    /// Writes what the client is to keep. A shared cache must keep nothing of such an answer: it would hand the cookie to
    /// everybody (RFC 9111 §5.2.2.7).
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.side.is_empty() && self.endpoint.is_empty() {
            return;
        }
        out.extend_from_slice(&self.side);
        out.extend_from_slice(&self.endpoint);
        out.extend_from_slice(b"Cache-Control: private\r\n");
    }

    pub(super) fn reset(&mut self) {
        self.sent.clear();
        self.side.clear();
        self.endpoint.clear();
    }
}

impl Exchange {
    /// Takes the gateway's own cookies out of the request, so that nobody else gets to see them.
    pub(crate) fn take_own_cookies(&mut self, own: &OwnCookies) {
        if self.request.known_field(FieldName::Cookie).is_none() {
            return;
        }
        let sent = &mut self.sticky.sent;
        let was_taken = cookie::take(&self.request, &mut self.head, |name, text| {
            let Some(place) = own.place(name) else {
                return false;
            };
            if let Some(value) = value(text)
                && !sent.iter().any(|(known, _)| *known == place)
            {
                sent.push((place, value));
            }
            true
        });
        if was_taken {
            let mut scan = HeadScan::default();
            let parsed = self.request.parse(&self.head, &mut scan, KEPT_HEAD_LIMITS);
            debug_assert!(parsed.is_ok(), "a head without a cookie is a head");
            let scheme = self.scheme();
            self.request
                .settle_authority(scheme.as_bytes(), &mut self.head);
        }
    }

    /// Its client is to stay with the side that `value` stands for.
    pub(crate) fn keep_side(&mut self, text: &CookieText, value: u64) {
        let scheme = self.scheme();
        text.write(value, scheme, &mut self.sticky.side);
    }

    /// Its client is to come back to the endpoint that `value` stands for, or to keep what it has.
    pub(crate) fn keep_endpoint(&mut self, text: &CookieText, value: Option<u64>) {
        let scheme = self.scheme();
        let line = &mut self.sticky.endpoint;
        line.clear();
        if let Some(value) = value {
            text.write(value, scheme, line);
        }
    }
}
