//! What is stored, as tables. Every response here has a body of 10 bytes, unless it says otherwise.

mod statuses;

use super::*;
use crate::stored_head::tests::stored;
use crate::test_heads::{get, ok};

const NOW: Timestamp = Timestamp::from_secs(784_111_777);

pub(super) struct Case<'c> {
    pub(super) method: Method,
    pub(super) status: u16,
    pub(super) request: &'c [&'c str],
    pub(super) response: &'c [&'c str],
    pub(super) policy: CachePolicy,
}

impl Case<'_> {
    pub(super) fn outcome(&self) -> Result<(), NotStored> {
        let (request, response) = (get(self.request), ok(self.response));
        let answered = Answered {
            method: self.method,
            is_keyed_by_body: self.policy.caches_post,
            target: b"/a?b",
            authority: b"h",
            request: request.fields(),
            has_cookies: request.fields().has(weir_http::FieldName::Cookie),
            status: self.status,
            response: response.fields(),
            body_bytes: Some(10),
            exchanged: Exchanged {
                request_time: NOW,
                response_time: NOW,
            },
        };
        decide(&answered, &self.policy).map(|meta| assert_eq!(meta.status, self.status))
    }
}

pub(super) fn case<'c>(request: &'c [&'c str], response: &'c [&'c str]) -> Case<'c> {
    Case {
        method: Method::Get,
        status: 200,
        request,
        response,
        policy: CachePolicy::default(),
    }
}

#[test]
fn directives_decide() {
    use NotStored as N;
    type Asked<'c> = (&'c [&'c str], &'c [&'c str], Result<(), NotStored>);
    let fresh = "Cache-Control: max-age=60";
    let cases: [Asked<'_>; 24] = [
        (&[], &[fresh], Ok(())),
        (
            &[],
            &["Cache-Control: private; max-age=60", fresh],
            Err(N::Private),
        ),
        (&[], &[], Err(N::NoFreshness)),
        (&[], &["Cache-Control: max-age=0"], Err(N::NoFreshness)),
        (&[], &["Cache-Control: max-age=0", "ETag: \"a\""], Ok(())),
        (
            &[],
            &["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"],
            Ok(()),
        ),
        (&[], &["Last-Modified: yesterday"], Err(N::NoFreshness)),
        (
            &[],
            &["Cache-Control: max-age=0, stale-while-revalidate=5"],
            Ok(()),
        ),
        (
            &[],
            &["Cache-Control: no-cache, max-age=60"],
            Err(N::NoFreshness),
        ),
        (&[], &["Cache-Control: no-cache", "ETag: \"a\""], Ok(())),
        (
            &[],
            &["Cache-Control: no-store, max-age=60"],
            Err(N::ResponseNoStore),
        ),
        (
            &[],
            &["Cache-Control: private, max-age=60"],
            Err(N::Private),
        ),
        (&[], &["Cache-Control: private=\"a\", max-age=60"], Ok(())),
        (
            &["Cache-Control: no-store"],
            &[fresh],
            Err(N::RequestNoStore),
        ),
        (&[], &[fresh, "Vary: a, *"], Err(N::VaryStar)),
        (&[], &[fresh, "Vary: a b"], Err(N::VaryStar)),
        (&[], &[fresh, "Vary: a"], Ok(())),
        (&["X_a: 1"], &[fresh, "Vary: x-A"], Err(N::VaryAmbiguous)),
        (&["x-a: 1", "Xaa: 2"], &[fresh, "Vary: X-A"], Ok(())),
        (&["x_a: 1", "x-b: 2"], &[fresh, "Vary: x-b"], Ok(())),
        (&[], &[fresh, "Age: 60"], Err(N::NoFreshness)),
        (&[], &[fresh, "Age: what"], Err(N::NoFreshness)),
        (&["Cookie: a=b"], &[fresh], Ok(())),
        (
            &[],
            &[fresh, "CDN-Cache-Control: no-store"],
            Err(N::ResponseNoStore),
        ),
    ];
    for (request, response, expected) in cases {
        let found = case(request, response).outcome();
        assert_eq!(found, expected, "{request:?} {response:?}");
    }
}

/// RFC 9111 §3.5
#[test]
fn responses_to_authorized_requests_must_say_that_they_are_for_all() {
    let of = |line: &str| case(&["Authorization: x"], &[line]).outcome();
    let refused = Err(NotStored::Authorization);
    assert_eq!(of("Cache-Control: max-age=60"), refused);
    assert_eq!(of("Expires: Sun, 06 Nov 2094 08:49:37 GMT"), refused);
    for directive in ["public", "must-revalidate", "s-maxage=60"] {
        let line = format!("Cache-Control: max-age=60, {directive}");
        assert_eq!(of(&line), Ok(()), "{directive}");
    }
}

#[test]
fn methods_and_statuses_decide() {
    let fresh: &[&str] = &["Cache-Control: max-age=60"];
    let of = |method, status, response: &[&str]| {
        Case {
            method,
            status,
            ..case(&[], response)
        }
        .outcome()
    };
    for status in [200, 204, 299, 301, 302, 404, 499, 500, 503, 599] {
        assert_eq!(of(Method::Get, status, fresh), Ok(()), "{status}");
    }
    assert_eq!(of(Method::Get, 304, fresh), Err(NotStored::Status));
    let understand: &[&str] = &["Cache-Control: max-age=60, must-understand, no-store"];
    assert_eq!(of(Method::Get, 200, understand), Ok(()));
    assert_eq!(of(Method::Get, 599, understand), Err(NotStored::Status));
    for method in [
        Method::Head,
        Method::Put,
        Method::Delete,
        Method::Options,
        Method::Other,
    ] {
        assert_eq!(of(method, 200, fresh), Err(NotStored::Method), "{method:?}");
    }
}

/// RFC 9110 §9.3.3: the answer to POST is stored for GET when it says so twice.
#[test]
fn answers_to_post_need_a_name_and_a_time() {
    let post = |response: &[&str], policy| {
        Case {
            method: Method::Post,
            policy,
            ..case(&[], response)
        }
        .outcome()
    };
    let plain = CachePolicy::default;
    let (own, fresh) = ("Content-Location: /a?b", "Cache-Control: max-age=60");
    let modified = "Last-Modified: Sun, 06 Nov 1993 08:49:37 GMT";
    assert_eq!(post(&[own, fresh], plain()), Ok(()));
    assert_eq!(
        post(&["Content-Location: http://H/a?b", fresh], plain()),
        Ok(())
    );
    let unnamed = Err(NotStored::Post);
    assert_eq!(post(&[fresh], plain()), unnamed);
    assert_eq!(post(&[own, modified], plain()), unnamed);
    assert_eq!(post(&["Content-Location: /c", fresh], plain()), unnamed);
    let keyed = CachePolicy {
        caches_post: true,
        ..plain()
    };
    assert_eq!(post(&[fresh], keyed), Ok(()));
}

#[test]
fn what_is_too_large_is_not_stored() {
    let policy = CachePolicy {
        body_bytes_max: 9,
        ..CachePolicy::default()
    };
    let large = Case {
        policy,
        ..case(&[], &["Cache-Control: max-age=60"])
    };
    assert_eq!(large.outcome(), Err(NotStored::TooLarge));
}

/// Whatever is said of it, and whatever parameters it has.
#[test]
fn a_stream_of_events_is_not_stored() {
    let events = [
        "Content-Type: text/event-stream; charset=utf-8",
        "Cache-Control: max-age=60",
    ];
    assert_eq!(case(&[], &events).outcome(), Err(NotStored::EventStream));
}

/// What was stored with a cookie on the origin's word is not kept when the word is taken back.
#[test]
fn a_304_can_end_a_stored_cookie() {
    let stays = |line: &str| {
        let (request, response) = (get(&[]), ok(&[line]));
        let arrived = Arrived {
            status_text: b"",
            version: weir_http::Version::Http11,
            response: response.fields(),
            request: request.fields(),
            has_cookies: false,
            selecting: request.fields(),
        };
        let exchanged = Exchanged {
            request_time: NOW,
            response_time: NOW,
        };
        let policy = CachePolicy::default();
        let lines = [
            "ETag: \"a\"",
            "Cache-Control: public, max-age=1",
            "Set-Cookie: a=b",
        ];
        let updated = stored(&lines).freshened(&arrived, exchanged, &policy);
        may_stay(&updated, &arrived, &policy)
    };
    assert_eq!(stays("Cache-Control: s-maxage=1"), Ok(()));
    assert_eq!(stays("Cache-Control: max-age=1"), Err(NotStored::SetCookie));
}

#[test]
fn a_304_can_end_a_stored_response() {
    let with = |request: &[&str], lines: &[&str], policy: &CachePolicy| {
        let (request, response) = (get(request), ok(lines));
        let arrived = Arrived {
            status_text: b"",
            version: weir_http::Version::Http11,
            response: response.fields(),
            request: request.fields(),
            has_cookies: request.fields().has(weir_http::FieldName::Cookie),
            selecting: request.fields(),
        };
        let exchanged = Exchanged {
            request_time: NOW,
            response_time: NOW,
        };
        let updated = stored(&["ETag: \"a\""]).freshened(&arrived, exchanged, policy);
        assert!(!updated.fields().has(FieldName::SetCookie));
        may_stay(&updated, &arrived, policy)
    };
    let of = |lines: &[&str]| with(&[], lines, &CachePolicy::default());
    assert_eq!(of(&["Cache-Control: max-age=1", "Vary: a"]), Ok(()));
    assert_eq!(
        of(&["Cache-Control: no-store"]),
        Err(NotStored::ResponseNoStore)
    );
    assert_eq!(of(&["Cache-Control: private"]), Err(NotStored::Private));
    assert_eq!(of(&["Vary: a, *"]), Err(NotStored::VaryStar));
    assert_eq!(of(&["Set-Cookie: a=b"]), Ok(()));
    let refuses = CachePolicy {
        set_cookie: SetCookie::Refuse,
        ..CachePolicy::default()
    };
    let refused = Err(NotStored::SetCookie);
    assert_eq!(with(&[], &["Set-Cookie: a=b"], &refuses), refused);
    let plain = CachePolicy::default();
    // What is for one client is in no field that others get, but what else it says may be for that one alone.
    let with_cookies = |lines| with(&["Cookie: a=b"], lines, &plain);
    assert_eq!(with_cookies(&["Cache-Control: max-age=1"]), Ok(()));
    let no_longer = with_cookies(&["Cache-Control: max-age=0"]);
    assert_eq!(no_longer, Err(NotStored::RequestCookie));
    let authorized = |lines| with(&["Authorization: x"], lines, &refuses);
    assert_eq!(authorized(&[]), Err(NotStored::Authorization));
    assert_eq!(authorized(&["Cache-Control: public"]), Ok(()));
}
