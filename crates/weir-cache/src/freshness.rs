//! How long a response is fresh (RFC 9111 §4.2.1, §4.2.2), and how old it was when it arrived (§4.2.3).
//!
//! `store_rule.rs` decides whether it may be stored, and `reuse.rs` what its age means for a request.

use std::time::Duration;

use weir_http::date::parse_http_date;
use weir_http::{FieldName, Fields};

use crate::control::{Directive, ResponseControl, SECONDS_MAX, seconds_of};
use crate::meta::LifetimeSource;
use crate::policy::{CachePolicy, Heuristic};
use crate::time::Timestamp;

/// When a response was asked for and when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanged {
    /// When the request was sent.
    pub request_time: Timestamp,
    /// When the head of the response arrived.
    pub response_time: Timestamp,
}

/// A lifetime and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Counted from the moment the response was made.
    pub length: Duration,
    /// Who said so.
    pub source: LifetimeSource,
}

/// The dates of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dates {
    /// `Date`, or the moment of arrival if there is no readable one (RFC 9110 §6.6.1).
    pub date: Timestamp,
    /// `Expires`. An unreadable one, or two that differ, lie in the past (RFC 9111 §5.3).
    pub expires: Option<Timestamp>,
    /// `Last-Modified`, when that can be read.
    pub last_modified: Option<Timestamp>,
}

impl Dates {
    /// The dates among `fields` of a response that arrived at `response_time`.
    pub fn of(fields: Fields<'_>, response_time: Timestamp) -> Self {
        let read = |value| date_of(value, response_time);
        let expires = fields
            .all(FieldName::Expires)
            .map(|value| read(value).unwrap_or_default())
            .reduce(Ord::min);
        Self {
            date: fields
                .first(FieldName::Date)
                .and_then(read)
                .unwrap_or(response_time),
            expires,
            last_modified: fields.first(FieldName::LastModified).and_then(read),
        }
    }
}

/// An HTTP date as a moment.
pub(crate) fn date_of(value: &[u8], now: Timestamp) -> Option<Timestamp> {
    parse_http_date(value, now.secs()).map(Timestamp::from_secs)
}

/// How long a response with `status` is fresh.
pub fn lifetime(
    status: u16,
    control: &ResponseControl,
    dates: &Dates,
    policy: &CachePolicy,
) -> Lifetime {
    if let Some(length) = policy.ttl.forced_for(status) {
        return Lifetime {
            length,
            source: LifetimeSource::Forced,
        };
    }
    if let Some(said) = said_by_origin(control, dates) {
        return said;
    }
    if let Some(length) = policy.ttl.of_status(status) {
        return Lifetime {
            length,
            source: LifetimeSource::Default,
        };
    }
    match guessed(status, control, dates, policy.ttl.heuristic) {
        Some(length) => Lifetime {
            length,
            source: LifetimeSource::Heuristic,
        },
        None => Lifetime {
            length: Duration::ZERO,
            source: LifetimeSource::Nobody,
        },
    }
}

/// The first that exists of the targeted field, `s-maxage`, `max-age` and `Expires` (RFC 9111 §4.2.1, RFC 9213 §2.2).
fn said_by_origin(control: &ResponseControl, dates: &Dates) -> Option<Lifetime> {
    let of_seconds = |seconds: u32, source| Lifetime {
        length: Duration::from_secs(u64::from(seconds)),
        source,
    };
    if control.is_targeted {
        return control
            .s_maxage
            .or(control.max_age)
            .map(|seconds| of_seconds(seconds, LifetimeSource::Targeted));
    }
    if let Some(seconds) = control.s_maxage {
        return Some(of_seconds(seconds, LifetimeSource::SMaxAge));
    }
    if let Some(seconds) = control.max_age {
        return Some(of_seconds(seconds, LifetimeSource::MaxAge));
    }
    dates.expires.map(|expires| Lifetime {
        length: expires.since(dates.date),
        source: LifetimeSource::Expires,
    })
}

/// A share of the time since the last modification. Only for statuses that RFC 9110 §15.1 names, or with `public` (RFC
/// 9111 §4.2.2), and only if the response says nothing else about reuse.
fn guessed(
    status: u16,
    control: &ResponseControl,
    dates: &Dates,
    heuristic: Heuristic,
) -> Option<Duration> {
    let may_guess = is_heuristically_cacheable(status) || control.says.has(Directive::Public);
    let unchanged_for = dates.date.since(dates.last_modified?);
    let length = unchanged_for / 100 * u32::from(heuristic.percent);
    (may_guess && !length.is_zero()).then_some(length.min(heuristic.max))
}

/// The statuses of RFC 9110 §15.1, without 206: parts are not stored.
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// The meaning of `Age`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeField {
    /// There is no `Age`.
    Absent,
    /// Seconds.
    Seconds(u32),
    /// It is not believed, so the response may have any age.
    Unreadable,
}

impl AgeField {
    /// The `Age` of `fields`.
    ///
    /// RFC 9111 §5.1 would let a cache use the first element of a list and ignore anything that is no number. Ignoring
    /// it would make an old response look new. So anything that is no number makes the response stale, which a cache
    /// may always assume. The same holds for a field that came twice: in two lines, or in the one line `a, b` into
    /// which an intermediary joins two. Only a list that was written as such, without the blank, is read by its first
    /// element.
    pub fn of(fields: Fields<'_>) -> Self {
        let mut lines = fields.all(FieldName::Age);
        let Some(line) = lines.next() else {
            return Self::Absent;
        };
        let is_joined = line.windows(2).any(|pair| pair == b", ");
        if lines.next().is_some() || is_joined {
            return Self::Unreadable;
        }
        let first = line.split(|&b| b == b',').next().unwrap_or_default();
        seconds_of(first).map_or(Self::Unreadable, Self::Seconds)
    }
}

/// How old a response was when it arrived: `corrected_initial_age` of RFC 9111 §4.2.3.
pub fn initial_age(age: AgeField, date: Timestamp, exchanged: Exchanged) -> Duration {
    // `Date` has whole seconds; without this, every response would be up to a second old on arrival.
    let apparent = exchanged.response_time.whole_second().since(date);
    let said = match age {
        AgeField::Seconds(seconds) => Duration::from_secs(u64::from(seconds)),
        AgeField::Absent | AgeField::Unreadable => Duration::ZERO,
    };
    let delay = exchanged.response_time.since(exchanged.request_time);
    apparent.max(said.saturating_add(delay))
}

/// An age as the value of `Age`: whole seconds, at most [`SECONDS_MAX`].
pub fn age_seconds(age: Duration) -> u32 {
    u32::try_from(age.as_secs()).map_or(SECONDS_MAX, |seconds| seconds.min(SECONDS_MAX))
}

#[cfg(test)]
mod tests;
