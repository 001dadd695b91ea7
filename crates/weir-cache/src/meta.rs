//! What was decided about a response when it was stored: all that a later request needs besides its bytes. Plain values
//! that are copied; `stored_head.rs` writes them to disk.

use std::time::Duration;

use crate::time::Timestamp;

/// A stored response as the rules see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Its status.
    pub status: u16,
    /// When the request for it was sent (RFC 9111 §4.2.3, `request_time`).
    pub request_time: Timestamp,
    /// When its head arrived (`response_time`).
    pub response_time: Timestamp,
    /// Its `Date`; if that is absent or unreadable, when it arrived (RFC 9110 §6.6.1).
    pub date: Timestamp,
    /// Its `Last-Modified`, when that can be read.
    pub last_modified: Option<Timestamp>,
    /// How old it was when it arrived (`corrected_initial_age`).
    pub initial_age: Duration,
    /// How long it is fresh.
    pub lifetime: Duration,
    /// The source of the lifetime.
    pub lifetime_source: LifetimeSource,
    /// How much longer it may be served while it is refreshed (RFC 5861 §3).
    pub stale_while_revalidate: Duration,
    /// How much longer it may be served when the origin fails (RFC 5861 §4); `None` if the response does not say.
    pub stale_if_error: Option<Duration>,
    /// Its other demands.
    pub demands: Demands,
}

/// What a stored response demands before it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demands(u8);

impl Demands {
    /// `no-cache`: it must be validated before each use (RFC 9111 §5.2.2.4).
    pub const VALIDATION: Self = Self(1);
    /// `must-revalidate` or `proxy-revalidate`: it must not be used when stale (§5.2.2.2, §5.2.2.8).
    pub const FRESHNESS: Self = Self(1 << 1);
    /// `s-maxage`, which demands freshness too (§5.2.2.10), unless the same response allows staleness explicitly.
    pub const SHARED_FRESHNESS: Self = Self(1 << 2);
    /// `immutable` (RFC 8246): validating it while it is fresh is useless.
    pub const IMMUTABLE: Self = Self(1 << 3);
    /// `no-transform`: its bytes must stay as they are (RFC 9111 §5.2.2.6).
    pub const AS_IS: Self = Self(1 << 4);

    /// Whether these include all of `others`.
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and `others`.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The demands as a number, for the disk.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// The demands of that number.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        (bits < 1 << 5).then_some(Self(bits))
    }
}

/// Where the lifetime of a response comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifetimeSource {
    /// Nowhere: it was never fresh.
    Nobody = 0,
    /// The route, whatever the origin says.
    Forced = 1,
    /// `CDN-Cache-Control`.
    Targeted = 2,
    /// `s-maxage`.
    SMaxAge = 3,
    /// `max-age`.
    MaxAge = 4,
    /// `Expires`.
    Expires = 5,
    /// The route, because the origin says nothing.
    Default = 6,
    /// A guess from `Last-Modified`.
    Heuristic = 7,
    /// An unreadable `Age`, or two of them: it may have any age.
    UnreadableAge = 8,
}

impl LifetimeSource {
    /// All, by their numbers.
    pub const ALL: [Self; 9] = [
        Self::Nobody,
        Self::Forced,
        Self::Targeted,
        Self::SMaxAge,
        Self::MaxAge,
        Self::Expires,
        Self::Default,
        Self::Heuristic,
        Self::UnreadableAge,
    ];

    /// The name in tools and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Forced => "forced",
            Self::Targeted => "cdn-cache-control",
            Self::SMaxAge => "s-maxage",
            Self::MaxAge => "max-age",
            Self::Expires => "expires",
            Self::Default => "default",
            Self::Heuristic => "heuristic",
            Self::UnreadableAge => "unreadable-age",
        }
    }

    /// Whether the origin said it explicitly.
    pub fn is_of_origin(self) -> bool {
        matches!(
            self,
            Self::Targeted | Self::SMaxAge | Self::MaxAge | Self::Expires
        )
    }

    /// Whether the route said it. Its time counts from the arrival of the response: a `ttl` of a second, in front of an
    /// origin that takes two, must not be over before it begins.
    pub fn is_of_route(self) -> bool {
        matches!(self, Self::Forced | Self::Default)
    }
}

impl Meta {
    /// How old the response is (`current_age`, RFC 9111 §4.2.3): the value of `Age`.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.initial_age
            .saturating_add(now.since(self.response_time))
    }

    /// The age that is compared with the lifetime.
    pub fn freshness_age(&self, now: Timestamp) -> Duration {
        if self.lifetime_source.is_of_route() {
            now.since(self.response_time)
        } else {
            self.age(now)
        }
    }

    /// Whether it is fresh (RFC 9111 §4.2).
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.lifetime > self.freshness_age(now)
    }

    /// How long it has been stale; zero when it is fresh.
    pub fn staleness(&self, now: Timestamp) -> Duration {
        self.freshness_age(now).saturating_sub(self.lifetime)
    }

    /// The same with a lifetime that is over by now, as after a soft purge. It stays as stale as it was, or has just
    /// become stale.
    #[must_use]
    pub fn ended(&self, now: Timestamp) -> Self {
        Self {
            lifetime: self.lifetime.min(self.freshness_age(now)),
            ..*self
        }
    }

    /// How long it is still fresh.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        self.lifetime.saturating_sub(self.freshness_age(now))
    }
}
