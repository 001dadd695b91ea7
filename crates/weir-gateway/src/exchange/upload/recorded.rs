//! A copy of a request body, for somebody besides the upstream: taken as the body comes, within bounds, and of no consequence to it.

use weir_http::Body;
use weir_http::body::Framing;

use crate::buffers::BUFFER_BYTES;
use crate::exchange::upload::{Rest, Upload};
use crate::held_bodies::Claim;

/// What has come of a body, in the framing that it came in.
#[derive(Debug)]
pub(super) struct Recorded {
    bytes: Vec<u8>,
    /// Bytes beyond which nothing is kept.
    bytes_max: usize,
    is_too_large: bool,
    claim: Claim,
}

impl Recorded {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let wanted = self.bytes.len() + bytes.len();
        let more = wanted.saturating_sub(BUFFER_BYTES);
        if self.is_too_large || wanted > self.bytes_max || !self.claim.make_room(more) {
            self.is_too_large = true;
            self.bytes = Vec::new();
            self.claim.clear();
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }
}

impl Upload {
    /// Keeps a copy of what comes from now on, which is all of the body. In chunks it may have as many bytes more as content.
    pub(crate) fn record(&mut self, framing: Framing, content_bytes_max: u64, claim: Claim) {
        let bytes_max = match framing {
            Framing::Chunked => content_bytes_max.saturating_mul(2),
            Framing::Empty | Framing::Length(_) | Framing::UntilClose => content_bytes_max,
        };
        self.recorded = Some(Box::new(Recorded {
            bytes: Vec::new(),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            is_too_large: matches!(framing, Framing::Length(length) if length > content_bytes_max),
            claim,
        }));
    }

    /// The content of the copy, if all of the body has come and is in it. A body that there is not is whole, and has no claim.
    pub(crate) fn take_recorded(&mut self, framing: Framing) -> Option<(Vec<u8>, Option<Claim>)> {
        if framing == Framing::Empty {
            return Some((Vec::new(), None));
        }
        if self.rest != Rest::Nothing {
            return None;
        }
        let Recorded {
            bytes,
            is_too_large,
            claim,
            ..
        } = *self.recorded.take()?;
        if is_too_large {
            return None;
        }
        if framing != Framing::Chunked {
            return Some((bytes, Some(claim)));
        }
        let mut content = Vec::with_capacity(bytes.len());
        let mut body = Body::new(framing);
        body.decode(&bytes, |piece| content.extend_from_slice(piece))
            .ok()?;
        Some((content, Some(claim)))
    }
}
