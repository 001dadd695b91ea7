//! Which statuses are stored, and who decides that.

use std::time::Duration;

use super::*;
use crate::policy::{KeyParts, QueryKey, StatusMatch, Ttl};

/// An answer to something that no key names (a condition, a range, a field or a connection) is for that request only,
/// whatever the origin, the route and the client want.
#[test]
fn statuses_of_one_request_are_never_stored() {
    use NotStored as N;
    let wanting = CachePolicy {
        ttl: Ttl {
            forced: vec![(StatusMatch::Any, Duration::from_secs(600))],
            by_status: vec![(StatusMatch::Any, Duration::from_secs(600))],
            ..Ttl::default()
        },
        stale_while_revalidate: Some(Duration::from_secs(600)),
        ..CachePolicy::default()
    };
    let said = "Cache-Control: public, max-age=600, stale-while-revalidate=60";
    let outcome = |status, request: &[&str], response: &[&str]| {
        Case {
            status,
            policy: wanting.clone(),
            ..case(request, response)
        }
        .outcome()
    };
    for status in 200..600 {
        let expected = match status {
            206 | 226 => Err(N::Partial),
            304 => Err(N::Status),
            // Without `Vary`, 406 says nothing about other forms.
            401
            | 406..=408
            | 411..=413
            | 415..=417
            | 421
            | 425
            | 426
            | 428
            | 429
            | 431
            | 505
            | 511 => Err(N::StatusOfRequest),
            _ => Ok(()),
        };
        let plain: &[&str] = &[said, "ETag: \"a\""];
        assert_eq!(outcome(status, &[], plain), expected, "{status}");
        let part = outcome(status, &["Range: bytes=0-1", "Authorization: x"], plain);
        assert_eq!(part, expected, "{status} to a part");
        assert_eq!(
            may_be_stored(status) || status == 406,
            expected.is_ok() || status == 406
        );
    }
    let varied = |vary| outcome(406, &[], &[said, vary]);
    assert_eq!(varied("Vary: Accept-Language"), Ok(()));
    assert_eq!(varied("Vary: origin, ACCEPT"), Ok(()));
    assert_eq!(varied("Vary: Origin"), Err(N::StatusOfRequest));
}

/// Its key must contain all of the URL that was too long.
#[test]
fn a_url_that_is_too_long_is_that_url() {
    let of = |query| {
        let key = KeyParts {
            query,
            ..KeyParts::default()
        };
        let policy = CachePolicy {
            key,
            ..CachePolicy::default()
        };
        Case {
            status: 414,
            policy,
            ..case(&[], &["Cache-Control: max-age=60"])
        }
        .outcome()
    };
    assert_eq!(of(QueryKey::Whole), Ok(()));
    assert_eq!(of(QueryKey::Sorted), Ok(()));
    for query in [
        QueryKey::Ignored,
        QueryKey::Only(Vec::new()),
        QueryKey::Except(Vec::new()),
    ] {
        assert_eq!(of(query), Err(NotStored::StatusOfRequest));
    }
}

/// A route's setting without a status is for statuses that describe the resource. Errors need a status in the setting,
/// or a statement of the origin.
#[test]
fn a_route_keeps_errors_only_when_it_names_them() {
    let secs = Duration::from_secs(600);
    let forced = |forced: &[StatusMatch]| CachePolicy {
        ttl: Ttl {
            forced: forced.iter().map(|&status| (status, secs)).collect(),
            ..Ttl::default()
        },
        ..CachePolicy::default()
    };
    let stale = CachePolicy {
        stale_while_revalidate: Some(secs),
        stale_if_error: Some(secs),
        ..CachePolicy::default()
    };
    let stored = |policy: &CachePolicy, response: &[&str]| -> Vec<u16> {
        let policy = || policy.clone();
        let is_stored = |&status: &u16| {
            let case = Case {
                status,
                policy: policy(),
                ..case(&[], response)
            };
            case.outcome().is_ok()
        };
        let statuses = [
            200, 206, 302, 400, 403, 404, 405, 410, 416, 431, 451, 500, 501, 503,
        ];
        statuses.into_iter().filter(is_stored).collect()
    };
    let of_resource = [200, 302, 404, 410];
    let tag: &[&str] = &["ETag: \"a\""];
    assert_eq!(
        stored(&forced(&[StatusMatch::OfResource]), &[]),
        of_resource
    );
    assert_eq!(stored(&stale, &[]), of_resource);
    let named = forced(&[StatusMatch::Is(500), StatusMatch::Class(2)]);
    assert_eq!(stored(&named, &[]), [200, 500]);
    // A validator only helps for what it can confirm.
    assert_eq!(stored(&CachePolicy::default(), tag), [200]);
    assert_eq!(stored(&stale, tag), of_resource);
    // `no-cache` gives way only to a forced setting of the route.
    let demands: &[&str] = &["Cache-Control: no-cache, max-age=60"];
    assert_eq!(
        stored(&forced(&[StatusMatch::OfResource]), demands),
        of_resource
    );
}
