//! `Cache-Status` (RFC 9211): tells readers of the response what the cache did with the request.

use std::time::Duration;

use crate::reuse::Why;

/// Why a request went on to the origin (RFC 9211 §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forwarded {
    /// The route bypasses the cache for this request.
    Bypass,
    /// The method of the request.
    Method,
    /// Nothing is stored under its key.
    UriMiss,
    /// Something is stored, but no variant that the request selects.
    VaryMiss,
    /// Nothing is stored that could be used, for any other reason.
    Miss,
    /// The request itself demands it: `no-cache`, `max-age`.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response does not have all that is asked for.
    Partial,
}

impl Forwarded {
    /// All reasons, for tables of counters.
    pub const ALL: [Self; 8] = [
        Self::Bypass,
        Self::Method,
        Self::UriMiss,
        Self::VaryMiss,
        Self::Miss,
        Self::Request,
        Self::Stale,
        Self::Partial,
    ];

    /// The token.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }

    /// What it means, as the reference says it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Bypass => {
                "The route's `bypass`, or the request itself (an upgrade, `If-Match`), keeps it from the cache."
            }
            Self::Method => "The method: neither GET nor HEAD, nor a POST that `methods` names.",
            Self::UriMiss => "Nothing is stored for its URL and key.",
            Self::VaryMiss => "What is stored is for other values of the fields that `Vary` names.",
            Self::Miss => "What is stored could not be used.",
            Self::Request => {
                "Its `Cache-Control` asks for something fresher than what is stored (`no-cache`, `max-age`); `obey_clients = false` lets it not."
            }
            Self::Stale => "What is stored is no longer fresh, or must be confirmed at each use.",
            Self::Partial => "What is stored has not all that it asks for.",
        }
    }

    /// The token for a stored response that had to be revalidated.
    pub const fn of(why: Why) -> Self {
        if why.is_of_client() {
            Self::Request
        } else {
            Self::Stale
        }
    }
}

/// The contents of the field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Why the request went on. `None`: it was answered from the cache, a hit.
    pub forwarded: Option<Forwarded>,
    /// The status of the origin's answer, if it is not the status of this response.
    pub forwarded_status: Option<u16>,
    /// How long the response stays fresh; how long it has been stale, when `is_stale`.
    pub ttl: Option<Duration>,
    /// Whether `ttl` counts from the past.
    pub is_stale: bool,
    /// Whether the answer of the origin was stored.
    pub stored: bool,
    /// Whether the request waited for the answer to another request.
    pub collapsed: bool,
    /// A detail, such as the name of a [`crate::store_rule::NotStored`]: a token (RFC 8941 §3.3.4).
    pub detail: Option<&'static str>,
}

impl CacheStatus {
    /// Appends the field as a line. Lines of caches before this one stay in front of it (RFC 9211 §2).
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Cache-Status: weir");
        match self.forwarded {
            None => out.extend_from_slice(b"; hit"),
            Some(forwarded) => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(forwarded.name().as_bytes());
            }
        }
        if let Some(status) = self.forwarded_status {
            out.extend_from_slice(b"; fwd-status=");
            write_number(u64::from(status), out);
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(b"; ttl=");
            if self.is_stale && ttl.as_secs() > 0 {
                out.push(b'-');
            }
            write_number(ttl.as_secs(), out);
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a number in decimal, without allocating.
pub(crate) fn write_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_says_what_happened() {
        let hit = CacheStatus::default();
        let secs = Duration::from_secs;
        let cases = [
            (hit, "hit"),
            (
                CacheStatus {
                    ttl: Some(secs(30)),
                    ..hit
                },
                "hit; ttl=30",
            ),
            (
                CacheStatus {
                    ttl: Some(secs(30)),
                    is_stale: true,
                    detail: Some("max-stale"),
                    ..hit
                },
                "hit; ttl=-30; detail=max-stale",
            ),
            (
                CacheStatus {
                    forwarded: Some(Forwarded::UriMiss),
                    stored: true,
                    collapsed: true,
                    ..hit
                },
                "fwd=uri-miss; stored; collapsed",
            ),
            (
                CacheStatus {
                    forwarded: Some(Forwarded::of(Why::Stale)),
                    forwarded_status: Some(304),
                    ttl: Some(secs(0)),
                    is_stale: true,
                    ..hit
                },
                "fwd=stale; fwd-status=304; ttl=0",
            ),
            (
                CacheStatus {
                    forwarded: Some(Forwarded::of(Why::RequestMaxAge)),
                    ..hit
                },
                "fwd=request",
            ),
        ];
        for (status, expected) in cases {
            let mut out = Vec::new();
            status.write(&mut out);
            let line = format!("Cache-Status: weir; {expected}\r\n");
            assert_eq!(
                out.escape_ascii().to_string(),
                line.escape_default().to_string()
            );
        }
    }
}
