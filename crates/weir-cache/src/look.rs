//! What a look into the store says of a request: answered, asked for, passed on, or refused to a client that wants nothing
//! asked.
//!
//! The caller has found out whether the request has to do with the cache at all (`key.rs`), and which stored response it
//! selects (`vary.rs`).

use crate::cache_status::Forwarded;
use crate::control::RequestControl;
use crate::meta::Meta;
use crate::policy::CachePolicy;
use crate::reuse::{self, Reuse, Why};
use crate::time::Timestamp;

/// What kind of request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One whose answer may be stored under its URL.
    Usual,
    /// A HEAD, whose answer is never stored.
    Head,
    /// A POST that is looked up by its body.
    ByBody,
}

/// What becomes of a request that selects a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// This answers it.
    Hit(Reuse),
    /// This may answer it once the origin has said so.
    Stale(Why),
    /// The origin's answer is passed on; it may confirm what is stored.
    Pass(Forwarded),
    /// The client does not want the origin asked.
    OnlyIfCached,
}

/// Why a request selects nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing is stored under its key.
    Everything,
    /// Only other variants are.
    Variant,
    /// What it selects cannot be read.
    Unreadable,
}

/// What becomes of a request that selects nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The origin is asked for something to store.
    Miss(Forwarded),
    /// The origin's answer is passed on.
    Pass(Forwarded),
    /// The client does not want the origin asked.
    OnlyIfCached,
}

/// What becomes of a request that selects the response with this `meta`.
pub fn at_stored(
    meta: &Meta,
    kind: Kind,
    control: &RequestControl,
    policy: &CachePolicy,
    now: Timestamp,
) -> Look {
    match reuse::decide(meta, control, policy, now) {
        Reuse::Revalidate(why) if kind == Kind::Head => Look::Pass(Forwarded::of(why)),
        Reuse::Revalidate(why) => Look::Stale(why),
        // In the background nothing is asked that has a body.
        Reuse::StaleWhileRevalidate if kind == Kind::ByBody => Look::Stale(Why::Stale),
        Reuse::GatewayTimeout => Look::OnlyIfCached,
        usable => Look::Hit(usable),
    }
}

/// What becomes of a request that selects nothing.
pub fn at_nothing(
    absent: Absent,
    kind: Kind,
    control: &RequestControl,
    policy: &CachePolicy,
) -> Lack {
    let forwarded = match absent {
        Absent::Everything => Forwarded::UriMiss,
        Absent::Variant => Forwarded::VaryMiss,
        Absent::Unreadable => Forwarded::Miss,
    };
    if !reuse::may_ask_origin(control, policy) {
        Lack::OnlyIfCached
    } else if kind == Kind::Head && absent != Absent::Unreadable {
        Lack::Pass(forwarded)
    } else {
        Lack::Miss(forwarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_heads::{get, meta};
    use std::time::Duration;

    /// A request in short: `HEAD` or `POST`, which is looked up by its body, and what it says in `Cache-Control`.
    fn asks(text: &str) -> (Kind, RequestControl) {
        let (method, says) = text.split_once(' ').unwrap_or((text, ""));
        let kind = match method {
            "HEAD" => Kind::Head,
            "POST" => Kind::ByBody,
            _ => Kind::Usual,
        };
        let line = format!("Cache-Control: {says}");
        (kind, RequestControl::of(get(&[&line]).fields()))
    }

    #[test]
    fn what_becomes_of_a_request_that_selects_something() {
        use Look::{Hit, OnlyIfCached, Pass, Stale};
        let fresh = Hit(Reuse::Fresh { refresh: false });
        // Seconds since it arrived: it is fresh for 100, and may be used for 10 more while it is refreshed.
        let cases = [
            ("GET", 0, fresh),
            ("HEAD", 0, fresh),
            ("POST", 0, fresh),
            ("GET", 105, Hit(Reuse::StaleWhileRevalidate)),
            ("HEAD", 105, Hit(Reuse::StaleWhileRevalidate)),
            ("POST", 105, Stale(Why::Stale)),
            ("GET", 110, Stale(Why::Stale)),
            ("POST", 110, Stale(Why::Stale)),
            ("HEAD", 110, Pass(Forwarded::Stale)),
            ("GET max-stale", 110, Hit(Reuse::StaleForClient)),
            ("GET no-cache", 0, Stale(Why::RequestNoCache)),
            ("HEAD no-cache", 0, Pass(Forwarded::Request)),
            ("GET only-if-cached", 0, fresh),
            ("GET only-if-cached", 110, OnlyIfCached),
            ("HEAD only-if-cached", 110, OnlyIfCached),
        ];
        let policy = CachePolicy::default();
        let meta = Meta {
            stale_while_revalidate: Duration::from_secs(10),
            ..meta()
        };
        for (request, age, expected) in cases {
            let now = Timestamp::from_secs(1000 + age);
            let (kind, control) = asks(request);
            let found = at_stored(&meta, kind, &control, &policy, now);
            assert_eq!(found, expected, "{request:?} after {age} s");
        }
    }

    #[test]
    fn what_becomes_of_a_request_that_selects_nothing() {
        use Absent::{Everything, Unreadable, Variant};
        use Lack::{Miss, OnlyIfCached, Pass};
        let cases = [
            ("GET", Everything, Miss(Forwarded::UriMiss)),
            ("GET", Variant, Miss(Forwarded::VaryMiss)),
            ("GET", Unreadable, Miss(Forwarded::Miss)),
            ("GET no-store", Everything, Miss(Forwarded::UriMiss)),
            ("POST", Everything, Miss(Forwarded::UriMiss)),
            ("HEAD", Everything, Pass(Forwarded::UriMiss)),
            ("HEAD", Variant, Pass(Forwarded::VaryMiss)),
            ("HEAD", Unreadable, Miss(Forwarded::Miss)),
            ("GET only-if-cached", Everything, OnlyIfCached),
            ("GET only-if-cached", Unreadable, OnlyIfCached),
            ("HEAD only-if-cached", Variant, OnlyIfCached),
        ];
        for (request, absent, expected) in cases {
            let (kind, control) = asks(request);
            let found = at_nothing(absent, kind, &control, &CachePolicy::default());
            assert_eq!(found, expected, "{request:?} of {absent:?}");
        }
        let policy = CachePolicy {
            obeys_clients: false,
            ..CachePolicy::default()
        };
        let (kind, control) = asks("GET only-if-cached");
        let found = at_nothing(Everything, kind, &control, &policy);
        assert_eq!(found, Miss(Forwarded::UriMiss));
    }
}
