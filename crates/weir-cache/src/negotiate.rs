//! Which content coding a client gets (RFC 9110 §12.5.3), and which responses are worth one.
//!
//! This module decides whether there is a coding, and which; it does not encode. `weir_http::content` changes the
//! fields of the head.

use weir_http::{FieldName, Fields};

use crate::control::{Directive, ResponseControl};

/// A content coding that this gateway makes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952).
    Gzip,
    /// None: the bytes as the origin sent them.
    Identity,
}

impl Coding {
    /// All codings, without identity.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The token of `Content-Encoding` and `Accept-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }

    fn of(token: &[u8]) -> Option<Self> {
        match token {
            _ if token.eq_ignore_ascii_case(b"br") => Some(Self::Brotli),
            _ if token.eq_ignore_ascii_case(b"zstd") => Some(Self::Zstd),
            _ if token.eq_ignore_ascii_case(b"gzip") || token.eq_ignore_ascii_case(b"x-gzip") => {
                Some(Self::Gzip)
            }
            _ if token.eq_ignore_ascii_case(b"identity") => Some(Self::Identity),
            _ => None,
        }
    }
}

/// What a client accepts, in thousandths: zero is a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    weights: [u16; 4],
}

impl Accepted {
    /// What the fields of a request accept. Without `Accept-Encoding` a client accepts anything; it gets what every
    /// client can read.
    pub fn of(request: Fields<'_>) -> Self {
        let mut weights = [None; 4];
        let mut other = None;
        for element in request.elements(FieldName::AcceptEncoding) {
            let mut parts = element.split(|&b| b == b';');
            let token = parts.next().unwrap_or_default().trim_ascii();
            let weight = parts.find_map(weight_of).unwrap_or(1000);
            if token == b"*" {
                other = Some(weight);
            } else if let Some(coding) = Coding::of(token) {
                weights[coding as usize] = Some(weight);
            }
        }
        // `*` is about the codings that are not named. Identity is acceptable unless something says otherwise, but no
        // client prefers it.
        let of_identity = other.filter(|&weight| weight == 0).unwrap_or(1);
        Self {
            weights: [
                weights[0].or(other).unwrap_or(0),
                weights[1].or(other).unwrap_or(0),
                weights[2].or(other).unwrap_or(0),
                weights[3].unwrap_or(of_identity),
            ],
        }
    }

    /// Whether `coding` may be sent.
    pub fn takes(self, coding: Coding) -> bool {
        self.weights[coding as usize] > 0
    }

    /// The coding to send, of the `available` ones in the server's order of preference: the one with the client's
    /// highest weight. If the client accepts none, the bytes are sent as they are, which is better than a 406 (RFC 9110
    /// §12.5.3).
    pub fn choose(self, available: &[Coding]) -> Coding {
        let mut best = Coding::Identity;
        for &coding in available {
            let is_better = self.weights[coding as usize] > self.weights[best as usize];
            if self.takes(coding) && is_better {
                best = coding;
            }
        }
        best
    }
}

/// `q=0.5` in thousandths. `None` if it cannot be read.
fn weight_of(parameter: &[u8]) -> Option<u16> {
    let parameter = parameter.trim_ascii();
    let value = parameter
        .strip_prefix(b"q=")
        .or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, fraction) = match value {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut thousandths = u16::from(whole - b'0') * 1000;
    for (digit, worth) in fraction.iter().zip([100, 10, 1]) {
        thousandths += u16::from(digit - b'0') * worth;
    }
    Some(thousandths.min(1000))
}

/// What a route compresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressPolicy {
    /// Codings, the preferred one first. The default is zstd, which takes a third of the CPU time of the others for
    /// about the same size; then Brotli, which makes text smaller than gzip does.
    pub codings: Vec<Coding>,
    /// Smaller bodies stay as they are: they take one packet in any case. Below some hundred bytes, the framing of the
    /// coding and the longer head use up what it saves.
    pub body_bytes_min: u64,
    /// Media types beyond [`is_compressible`], in lower case, without parameters.
    pub types: Vec<String>,
    /// The effort for a response that passes through, while the client waits.
    pub streaming: Levels,
    /// The effort for a stored response, which is compressed once and sent often.
    pub stored: Levels,
}

impl Default for CompressPolicy {
    fn default() -> Self {
        Self {
            codings: vec![Coding::Zstd, Coding::Brotli, Coding::Gzip],
            body_bytes_min: 1024,
            types: Vec::new(),
            streaming: Levels::STREAMING,
            stored: Levels::STORED,
        }
    }
}

/// A level for each coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// 0 to 11.
    pub brotli: u8,
    /// 1 to 19.
    pub zstd: u8,
    /// 1 to 9.
    pub gzip: u8,
}

impl Levels {
    /// The bend of the curve of size over CPU time, among levels that need at most 1.5 MiB for a stream.
    pub const STREAMING: Self = Self {
        brotli: 3,
        zstd: 3,
        gzip: 5,
    };
    /// A few percent smaller for two to three times the CPU time. Higher levels cost at least ten times as much for
    /// each further percent.
    pub const STORED: Self = Self {
        brotli: 6,
        zstd: 9,
        gzip: 8,
    };

    /// The level of a coding; 0 for identity, which has none.
    pub fn of(self, coding: Coding) -> u8 {
        match coding {
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
            Coding::Gzip => self.gzip,
            Coding::Identity => 0,
        }
    }
}

/// Why a response is not compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotCompressed {
    /// Its status: it has no content, or only a part.
    Status,
    /// It has a coding already.
    Encoded,
    /// `Cache-Control: no-transform` (RFC 9111 §5.2.2.6).
    NoTransform,
    /// Its media type, or it has none.
    MediaType,
    /// Too small.
    TooSmall,
}

/// Whether a response is compressed for clients that accept it. `body_bytes` is its length, if known; a body of unknown
/// length counts as large enough.
///
/// # Errors
/// The first reason not to.
pub fn may_compress(
    status: u16,
    response: Fields<'_>,
    body_bytes: Option<u64>,
    policy: &CompressPolicy,
) -> Result<(), NotCompressed> {
    if matches!(status, 0..=199 | 204 | 205 | 206 | 304) {
        return Err(NotCompressed::Status);
    }
    let mut codings = response.elements(FieldName::ContentEncoding);
    let is_range = response.has(FieldName::ContentRange);
    if is_range || codings.any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(NotCompressed::Encoded);
    }
    // The directive is for every intermediary, so a targeted field does not hide it.
    let is_forbidden = response
        .elements(FieldName::CacheControl)
        .any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
        || ResponseControl::of(response)
            .says
            .has(Directive::NoTransform);
    if is_forbidden {
        return Err(NotCompressed::NoTransform);
    }
    let media_type = response.first(FieldName::ContentType).unwrap_or_default();
    let media_type = media_type.split(|&b| b == b';').next().unwrap_or_default();
    let media_type = media_type.trim_ascii();
    let is_listed = |listed: &String| media_type.eq_ignore_ascii_case(listed.as_bytes());
    if !is_compressible(media_type) && !policy.types.iter().any(is_listed) {
        return Err(NotCompressed::MediaType);
    }
    if body_bytes.is_some_and(|bytes| bytes < policy.body_bytes_min) {
        return Err(NotCompressed::TooSmall);
    }
    Ok(())
}

/// Whether a media type is text of some kind, or another kind that compresses well. `text/event-stream` is not: its
/// events must not wait for each other.
pub fn is_compressible(media_type: &[u8]) -> bool {
    const OTHERS: [&str; 13] = [
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/rtf",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/x-icon",
    ];
    let starts = |start: &[u8]| {
        media_type
            .get(..start.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(start))
    };
    let ends = |end: &[u8]| {
        let own = media_type.len().checked_sub(end.len());
        own.is_some_and(|at| media_type[at..].eq_ignore_ascii_case(end))
    };
    starts(b"text/") && !media_type.eq_ignore_ascii_case(b"text/event-stream")
        || ends(b"+json")
        || ends(b"+xml")
        || OTHERS
            .iter()
            .any(|other| media_type.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests;
