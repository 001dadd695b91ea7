//! Lifetimes and ages, as tables.

use super::*;
use crate::policy::{StatusMatch, Ttl};
use crate::test_heads::ok;

const NOW: Timestamp = Timestamp::from_ms(784_111_777_900);

fn lifetime_of(status: u16, lines: &[&str], policy: &CachePolicy) -> (u64, LifetimeSource) {
    let head = ok(lines);
    let control = ResponseControl::of(head.fields());
    let dates = Dates::of(head.fields(), NOW);
    let lifetime = lifetime(status, &control, &dates, policy);
    (lifetime.length.as_secs(), lifetime.source)
}

/// The first of these counts: targeted, s-maxage, max-age, Expires, the route, a guess.
#[test]
fn the_first_that_speaks_counts() {
    use LifetimeSource as S;
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    let expires = "Expires: Sun, 06 Nov 1994 08:50:37 GMT";
    let modified = "Last-Modified: Sun, 06 Nov 1994 07:49:37 GMT";
    let cases: [(&[&str], (u64, S)); 15] = [
        (
            &[
                "CDN-Cache-Control: max-age=9",
                "Cache-Control: s-maxage=8",
                expires,
            ],
            (9, S::Targeted),
        ),
        (
            &["CDN-Cache-Control: s-maxage=7, max-age=9"],
            (7, S::Targeted),
        ),
        // A targeted field hides `Expires` even if it says nothing about freshness.
        (
            &["CDN-Cache-Control: public", expires, date],
            (0, S::Nobody),
        ),
        (
            &["Cache-Control: max-age=7, s-maxage=8", expires],
            (8, S::SMaxAge),
        ),
        (&["Cache-Control: max-age=7", expires], (7, S::MaxAge)),
        (
            &["Cache-Control: max-age=0", expires, modified],
            (0, S::MaxAge),
        ),
        (&[expires, date], (60, S::Expires)),
        (&[expires], (59, S::Expires)),
        (&[expires, "Date: foo"], (59, S::Expires)),
        (
            &[expires, "Date: Sun, 06 Nov 1994 08:51:00 GMT"],
            (0, S::Expires),
        ),
        (&["Expires: 0", date], (0, S::Expires)),
        (&[expires, "Expires: 0", date], (0, S::Expires)),
        (&["Expires: 0", date, modified], (0, S::Expires)),
        (&[modified, date], (360, S::Heuristic)),
        (&[date], (0, S::Nobody)),
    ];
    for (lines, expected) in cases {
        let found = lifetime_of(200, lines, &CachePolicy::default());
        assert_eq!(found, expected, "{lines:?}");
    }
}

#[test]
fn guesses_are_for_some_statuses_and_bounded() {
    let of = |status, lines: &[&str]| lifetime_of(status, lines, &CachePolicy::default()).0;
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    let modified = "Last-Modified: Sun, 06 Nov 1994 07:49:37 GMT";
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(of(status, &[date, modified]), 360, "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
        assert_eq!(of(status, &[date, modified]), 0, "{status}");
        let public = &[date, modified, "Cache-Control: public"];
        assert_eq!(of(status, public), 360, "{status}");
    }
    let long_ago = "Last-Modified: Sun, 06 Nov 1983 07:49:37 GMT";
    assert_eq!(of(200, &[date, long_ago]), 86_400);
    let future = "Last-Modified: Sun, 06 Nov 1995 07:49:37 GMT";
    assert_eq!(of(200, &[date, future]), 0);
}

#[test]
fn a_route_speaks_last_or_first() {
    let secs = Duration::from_secs;
    let by_status = CachePolicy {
        ttl: Ttl {
            by_status: vec![
                (StatusMatch::Is(404), secs(4)),
                (StatusMatch::Class(5), secs(5)),
                (StatusMatch::Usual, secs(2)),
                (StatusMatch::Any, secs(1)),
            ],
            ..Ttl::default()
        },
        ..CachePolicy::default()
    };
    let of = |status, lines: &[&str]| lifetime_of(status, lines, &by_status).0;
    assert_eq!(
        [200, 301, 404, 503, 403].map(|s| of(s, &[])),
        [2, 2, 4, 5, 1]
    );
    assert_eq!(of(200, &["Cache-Control: max-age=9"]), 9);
    let forced = |forced| CachePolicy {
        ttl: Ttl {
            forced,
            ..by_status.ttl.clone()
        },
        ..CachePolicy::default()
    };
    let unnamed = forced(vec![(StatusMatch::OfResource, secs(3))]);
    for status in [200, 204, 299, 301, 399, 404, 410] {
        let found = lifetime_of(status, &["Cache-Control: max-age=9"], &unnamed);
        assert_eq!(found, (3, LifetimeSource::Forced), "{status}");
    }
    // For other statuses the origin decides, and then the route's `ttl`.
    for status in [400, 403, 405, 411, 500, 501, 503] {
        let found = lifetime_of(status, &["Cache-Control: max-age=9"], &unnamed);
        assert_eq!(found, (9, LifetimeSource::MaxAge), "{status}");
    }
    assert_eq!(
        [404, 403, 503].map(|s| lifetime_of(s, &[], &unnamed).0),
        [3, 1, 5]
    );
    let named = forced(vec![
        (StatusMatch::Is(503), secs(7)),
        (StatusMatch::Class(5), secs(8)),
    ]);
    assert_eq!(
        [200, 404, 500, 503].map(|s| lifetime_of(s, &[], &named).0),
        [2, 4, 8, 7]
    );
    let found = lifetime_of(503, &["Cache-Control: max-age=9"], &named);
    assert_eq!(found, (7, LifetimeSource::Forced));
}

#[test]
fn age_is_read_with_suspicion() {
    use AgeField as A;
    let cases: [(&[&str], A); 13] = [
        (&[], A::Absent),
        (&["0"], A::Seconds(0)),
        (&["7200"], A::Seconds(7200)),
        (&["99999999999"], A::Seconds(SECONDS_MAX)),
        (&["abc"], A::Unreadable),
        (&["-7200"], A::Unreadable),
        (&["7200.0"], A::Unreadable),
        (&["7200;a=b"], A::Unreadable),
        (&[""], A::Unreadable),
        (&["7200,0"], A::Seconds(7200)),
        (&["0,7200"], A::Seconds(0)),
        (&["0, 0"], A::Unreadable),
        (&["0", "0"], A::Unreadable),
    ];
    for (values, expected) in cases {
        let lines: Vec<_> = values.iter().map(|value| format!("Age: {value}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(AgeField::of(ok(&lines).fields()), expected, "{values:?}");
    }
}

/// RFC 9111 §4.2.3: the larger of what `Date` shows and what `Age` says, plus the time in between.
#[test]
fn responses_arrive_with_an_age() {
    let at = |ms: u64| Timestamp::from_ms(1_000_000 + ms);
    let exchanged = |request, response| Exchanged {
        request_time: at(request),
        response_time: at(response),
    };
    let ms = Duration::from_millis;
    let cases = [
        (AgeField::Absent, at(0), exchanged(0, 0), ms(0)),
        (AgeField::Absent, at(0), exchanged(0, 900), ms(900)),
        // Less than a second after a `Date` in whole seconds counts as no age.
        (AgeField::Absent, at(0), exchanged(900, 900), ms(0)),
        (AgeField::Absent, at(0), exchanged(5100, 5100), ms(5000)),
        (AgeField::Seconds(3), at(0), exchanged(0, 500), ms(3500)),
        (AgeField::Seconds(3), at(0), exchanged(9000, 9000), ms(9000)),
        (AgeField::Absent, at(9000), exchanged(0, 0), ms(0)),
        (AgeField::Unreadable, at(0), exchanged(0, 0), ms(0)),
    ];
    for (age, date, exchanged, expected) in cases {
        let found = initial_age(age, date, exchanged);
        assert_eq!(found, expected, "{age:?} {date:?} {exchanged:?}");
    }
    assert_eq!(age_seconds(Duration::MAX), SECONDS_MAX);
    assert_eq!(age_seconds(ms(1999)), 1);
}
