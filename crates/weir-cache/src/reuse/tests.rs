//! Which requests may be answered with what, as tables. Every response here arrived at second 1000 and is fresh for 100
//! seconds.

use super::*;
use crate::meta::LifetimeSource;
use crate::policy::Ttl;
use crate::test_heads::{get, meta};

fn asks(value: &str) -> RequestControl {
    RequestControl::of(get(&[&format!("Cache-Control: {value}")]).fields())
}

fn after(secs: u64) -> Timestamp {
    Timestamp::from_secs(1000 + secs)
}

const FRESH: Reuse = Reuse::Fresh { refresh: false };

#[test]
fn clients_ask_for_freshness() {
    use Reuse::{GatewayTimeout, Revalidate, StaleForClient};
    let cases = [
        ("", 0, FRESH),
        ("", 99, FRESH),
        ("", 100, Revalidate(Why::Stale)),
        ("no-cache", 0, Revalidate(Why::RequestNoCache)),
        ("no-store", 0, Revalidate(Why::RequestNoStore)),
        ("max-age=0", 0, Revalidate(Why::RequestMaxAge)),
        ("max-age=10", 10, FRESH),
        ("max-age=10", 11, Revalidate(Why::RequestMaxAge)),
        ("min-fresh=10", 90, FRESH),
        ("min-fresh=10", 91, Revalidate(Why::RequestMinFresh)),
        (
            "min-fresh=10, max-stale",
            101,
            Revalidate(Why::RequestMinFresh),
        ),
        ("max-stale", 100_000, StaleForClient),
        ("max-stale=10", 110, StaleForClient),
        ("max-stale=10", 111, Revalidate(Why::Stale)),
        (
            "max-stale=10, max-age=50",
            105,
            Revalidate(Why::RequestMaxAge),
        ),
        ("only-if-cached", 99, FRESH),
        ("only-if-cached", 100, GatewayTimeout),
        ("only-if-cached, max-stale", 100, StaleForClient),
        ("only-if-cached, max-age=1", 50, GatewayTimeout),
    ];
    let policy = CachePolicy::default();
    for (value, age, expected) in cases {
        let found = decide(&meta(), &asks(value), &policy, after(age));
        assert_eq!(found, expected, "{value:?} after {age} s");
    }
    let deaf = CachePolicy {
        obeys_clients: false,
        ..CachePolicy::default()
    };
    for value in [
        "no-cache",
        "no-store",
        "max-age=0",
        "min-fresh=1000",
        "only-if-cached",
    ] {
        assert_eq!(
            decide(&meta(), &asks(value), &deaf, after(1)),
            FRESH,
            "{value}"
        );
        assert!(may_ask_origin(&asks(value), &deaf));
    }
    assert!(!may_ask_origin(&asks("only-if-cached"), &policy));
    assert!(may_ask_origin(&asks("max-stale"), &policy));
}

#[test]
fn responses_demand_validation() {
    let policy = CachePolicy::default();
    let with = |demands| Meta { demands, ..meta() };
    let of = |demands, value: &str, age| decide(&with(demands), &asks(value), &policy, after(age));
    let (stale, no_cache) = (
        Reuse::Revalidate(Why::Stale),
        Reuse::Revalidate(Why::ResponseNoCache),
    );
    assert_eq!(of(Demands::VALIDATION, "", 0), no_cache);
    assert_eq!(of(Demands::VALIDATION, "max-stale", 200), no_cache);
    for demands in [Demands::FRESHNESS, Demands::SHARED_FRESHNESS] {
        assert_eq!(of(demands, "", 99), FRESH);
        assert_eq!(of(demands, "max-stale", 100), stale);
    }
    assert_eq!(of(Demands::IMMUTABLE, "max-age=0", 99), FRESH);
    assert_eq!(
        of(Demands::IMMUTABLE, "max-age=0", 100),
        Reuse::Revalidate(Why::RequestMaxAge)
    );
}

#[test]
fn stale_while_revalidate() {
    let policy = CachePolicy::default();
    let allowing = Meta {
        stale_while_revalidate: Duration::from_secs(10),
        ..meta()
    };
    let of = |meta: &Meta, policy: &CachePolicy, age| {
        decide(meta, &RequestControl::default(), policy, after(age))
    };
    let stale = Reuse::Revalidate(Why::Stale);
    assert_eq!(of(&allowing, &policy, 99), FRESH);
    assert_eq!(of(&allowing, &policy, 100), Reuse::StaleWhileRevalidate);
    assert_eq!(of(&allowing, &policy, 109), Reuse::StaleWhileRevalidate);
    assert_eq!(of(&allowing, &policy, 110), stale);
    // An explicit permission counts beside `s-maxage`, but not beside `must-revalidate`.
    let shared = Meta {
        demands: Demands::SHARED_FRESHNESS,
        ..allowing
    };
    let strict = Meta {
        demands: Demands::FRESHNESS,
        ..allowing
    };
    assert_eq!(of(&shared, &policy, 105), Reuse::StaleWhileRevalidate);
    assert_eq!(of(&strict, &policy, 105), stale);
    // The route's setting, longer or shorter, counts if the response forbids nothing.
    let with = |secs| CachePolicy {
        stale_while_revalidate: Some(Duration::from_secs(secs)),
        ..CachePolicy::default()
    };
    assert_eq!(of(&allowing, &with(60), 150), Reuse::StaleWhileRevalidate);
    assert_eq!(of(&allowing, &with(0), 105), stale);
    assert_eq!(of(&shared, &with(60), 150), stale);
}

#[test]
fn origins_fail() {
    use OriginFailure::{Status, Unreachable};
    let plain = CachePolicy::default();
    let serves = |meta: &Meta, value: &str, policy: &CachePolicy, failure, age| {
        may_serve_on_failure(meta, &asks(value), policy, failure, after(age))
    };
    let saying = Meta {
        stale_if_error: Some(Duration::from_secs(50)),
        ..meta()
    };
    assert!(serves(&meta(), "", &plain, Unreachable, 3699));
    assert!(!serves(&meta(), "", &plain, Unreachable, 3700));
    assert!(!serves(&meta(), "", &plain, Status(503), 101));
    for status in [500, 502, 503, 504] {
        assert!(serves(&saying, "", &plain, Status(status), 149));
        assert!(!serves(&saying, "", &plain, Status(status), 150));
    }
    for status in [200, 404, 501] {
        assert!(
            !serves(&saying, "", &plain, Status(status), 101),
            "{status}"
        );
    }
    assert!(serves(
        &meta(),
        "stale-if-error=50",
        &plain,
        Status(500),
        149
    ));
    let of_route = CachePolicy {
        stale_if_error: Some(Duration::from_secs(10)),
        ..CachePolicy::default()
    };
    assert!(serves(&saying, "", &of_route, Status(500), 109));
    assert!(!serves(&saying, "", &of_route, Status(500), 110));
    for demands in [Demands::VALIDATION, Demands::FRESHNESS] {
        let strict = Meta { demands, ..saying };
        assert!(!serves(
            &strict,
            "stale-if-error=50",
            &of_route,
            Unreachable,
            101
        ));
    }
    let shared = |meta| Meta {
        demands: Demands::SHARED_FRESHNESS,
        ..meta
    };
    assert!(!serves(&shared(meta()), "", &of_route, Unreachable, 101));
    assert!(serves(&shared(saying), "", &plain, Unreachable, 101));
    assert!(!serves(&saying, "no-cache", &plain, Unreachable, 101));
}

/// A route's settings of staleness are for responses that describe the resource: an old error helps nobody. The
/// response itself, and a client for itself, may say otherwise.
#[test]
fn a_route_keeps_no_error_beyond_its_lifetime() {
    use OriginFailure::{Status, Unreachable};
    let long = Some(Duration::from_secs(1000));
    let policy = CachePolicy {
        stale_while_revalidate: long,
        stale_if_error: long,
        ..CachePolicy::default()
    };
    let plain = RequestControl::default();
    for status in [200, 301, 404, 410, 400, 403, 451, 500, 503] {
        let is_kept = matches!(status, 200 | 301 | 404 | 410);
        let meta = Meta { status, ..meta() };
        let reuse = decide(&meta, &plain, &policy, after(150));
        assert_eq!(reuse == Reuse::StaleWhileRevalidate, is_kept, "{status}");
        for failure in [Unreachable, Status(500)] {
            let may = may_serve_on_failure(&meta, &plain, &policy, failure, after(150));
            assert_eq!(may, is_kept, "{status} {failure:?}");
        }
        let may = may_serve_as_last_resort(&meta, &plain, &policy, after(150));
        assert_eq!(may, is_kept, "{status}");
        assert!(may_serve_as_last_resort(&meta, &plain, &policy, after(99)));
        let taken = decide(
            &meta,
            &asks("max-stale"),
            &CachePolicy::default(),
            after(150),
        );
        assert_eq!(taken, Reuse::StaleForClient, "{status}");
        let saying = Meta {
            stale_while_revalidate: Duration::from_secs(60),
            ..meta
        };
        let reuse = decide(&saying, &plain, &policy, after(150));
        assert_eq!(reuse, Reuse::StaleWhileRevalidate, "{status}");
    }
}

#[test]
fn hot_objects_are_refreshed_ahead() {
    let policy = CachePolicy {
        refresh_ahead_percent: Some(90),
        ..CachePolicy::default()
    };
    let of = |age| decide(&meta(), &RequestControl::default(), &policy, after(age));
    assert_eq!(of(89), FRESH);
    assert_eq!(of(90), Reuse::Fresh { refresh: true });
}

/// A `ttl` of the route counts from the arrival of the response, whatever its `Age`.
#[test]
fn the_time_of_a_route_runs_from_arrival() {
    let old = Meta {
        initial_age: Duration::from_secs(500),
        lifetime_source: LifetimeSource::Default,
        ..meta()
    };
    let policy = CachePolicy {
        ttl: Ttl::default(),
        ..CachePolicy::default()
    };
    let of = |meta: &Meta, age| decide(meta, &RequestControl::default(), &policy, after(age));
    assert_eq!(of(&old, 99), FRESH);
    assert_eq!(of(&old, 100), Reuse::Revalidate(Why::Stale));
    assert_eq!(old.age(after(1)), Duration::from_secs(501));
    let of_origin = Meta {
        lifetime_source: LifetimeSource::MaxAge,
        ..old
    };
    assert_eq!(of(&of_origin, 0), Reuse::Revalidate(Why::Stale));
}

#[test]
fn nothing_better_is_to_be_had() {
    let obeying = CachePolicy {
        obeys_clients: true,
        ..CachePolicy::default()
    };
    let deaf = CachePolicy {
        obeys_clients: false,
        ..obeying.clone()
    };
    let none = Demands::default();
    let in_error = Some(Duration::from_secs(20));
    for (demands, stale_if_error, request, age, expected) in [
        (none, None, "", 1_000_000, true),
        (none, None, "max-age=0", 1_000_000, true),
        (none, None, "no-cache", 1_000_000, false),
        (none, None, "no-store", 1_000_000, false),
        // A permission of the response does not end that of the operator.
        (none, in_error, "", 1_000_000, true),
        (Demands::FRESHNESS, None, "", 99, true),
        (Demands::FRESHNESS, in_error, "", 100, false),
        (Demands::VALIDATION, in_error, "", 0, false),
        (Demands::SHARED_FRESHNESS, None, "", 100, false),
        (Demands::SHARED_FRESHNESS, in_error, "", 119, true),
        (Demands::SHARED_FRESHNESS, in_error, "", 120, false),
    ] {
        let meta = Meta {
            stale_if_error,
            demands,
            ..meta()
        };
        let may = may_serve_as_last_resort(&meta, &asks(request), &obeying, after(age));
        assert_eq!(may, expected, "{demands:?} {request} {age}");
    }
    let asked = asks("no-cache");
    assert!(may_serve_as_last_resort(&meta(), &asked, &deaf, after(500)));
}
