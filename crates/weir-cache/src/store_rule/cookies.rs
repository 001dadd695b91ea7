//! Cookies tell clients apart, so what has to do with them is for others only on somebody's word: responses that set
//! cookies, and responses to requests that had some.
//!
//! RFC 9111 lets a cache store both like anything else (§7.3). Yet an origin that says `max-age=60` beside a session's
//! `Set-Cookie` thinks of the browser, and one that says nothing did not think of a cache at all.

use weir_http::{FieldName, Fields};

use super::NotStored;
use crate::control::{Directive, ResponseControl};
use crate::meta::{Demands, Meta};
use crate::policy::{CachePolicy, KeyParts, RequestCookie, SetCookie};

/// What is known of a response: what it says, what that makes of it, and what its route says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) control: &'a ResponseControl,
    pub(super) meta: &'a Meta,
    pub(super) policy: &'a CachePolicy,
}

impl Said<'_> {
    /// Checks a response that may set cookies.
    pub(super) fn check_set(self, response: Fields<'_>) -> Result<(), NotStored> {
        let is_refused = match self.policy.set_cookie {
            SetCookie::Store => false,
            SetCookie::StoreIfOriginSays => {
                !(self.is_for_all()
                    && self.is_fresh_by_itself(self.meta.lifetime_source.is_of_origin()))
            }
            SetCookie::Refuse => true,
        };
        if is_refused && response.has(FieldName::SetCookie) {
            return Err(NotStored::SetCookie);
        }
        Ok(())
    }

    /// Checks the response to a request whose cookies the origin saw.
    pub(super) fn check_asked(self, response: Fields<'_>) -> Result<(), NotStored> {
        let source = self.meta.lifetime_source;
        let is_stored = match self.policy.request_cookie {
            RequestCookie::Store => true,
            RequestCookie::StoreIfSaid => {
                self.is_for_all()
                    || self.is_fresh_by_itself(source.is_of_origin() || source.is_of_route())
                    || is_told_apart(&self.policy.key, response)
            }
            RequestCookie::Refuse => false,
        };
        if is_stored {
            Ok(())
        } else {
            Err(NotStored::RequestCookie)
        }
    }

    /// Whether the origin addresses shared caches: `public`, `s-maxage` or a lifetime in `CDN-Cache-Control`. A lifetime of
    /// zero there says the contrary.
    fn is_for_all(self) -> bool {
        let of_caches = if self.control.is_targeted {
            self.control.s_maxage.or(self.control.max_age)
        } else {
            self.control.s_maxage
        };
        self.control.says.has(Directive::Public) || of_caches.is_some_and(|seconds| seconds > 0)
    }

    /// Whether it is used for some time without asking, and `is_said`: somebody says so. What is to be confirmed at each use
    /// would be given to all who get the same confirmation, with one client's cookie.
    fn is_fresh_by_itself(self, is_said: bool) -> bool {
        let has_time = !self.meta.lifetime.is_zero() || !self.meta.stale_while_revalidate.is_zero();
        is_said && has_time && !self.meta.demands.has(Demands::VALIDATION)
    }
}

/// Whether only requests with the same cookies get the response, or with those that the route names.
fn is_told_apart(key: &KeyParts, response: Fields<'_>) -> bool {
    let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"cookie");
    !key.cookies.is_empty()
        || key.headers.iter().any(|name| is_it(name.as_bytes()))
        || response.elements(FieldName::Vary).any(is_it)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{Case, case};
    use super::*;
    use crate::policy::{StatusMatch, Ttl};

    const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1993 08:49:37 GMT";
    const ETAG: &str = "ETag: \"a\"";

    fn of_route(change: impl FnOnce(&mut CachePolicy)) -> CachePolicy {
        let mut policy = CachePolicy::default();
        change(&mut policy);
        policy
    }

    fn with_ttl() -> CachePolicy {
        let by_status = vec![(StatusMatch::Usual, Duration::from_secs(60))];
        of_route(|policy| {
            policy.ttl = Ttl {
                by_status,
                ..Ttl::default()
            }
        })
    }

    fn forced() -> CachePolicy {
        let forced = vec![(StatusMatch::OfResource, Duration::from_secs(60))];
        of_route(|policy| {
            policy.ttl = Ttl {
                forced,
                ..Ttl::default()
            }
        })
    }

    #[test]
    fn who_says_that_a_cookie_is_for_all() {
        let of = |policy: &CachePolicy, lines: &[&str]| {
            let response: Vec<&str> = lines.iter().copied().chain(["Set-Cookie: a=b"]).collect();
            let policy = policy.clone();
            Case {
                policy,
                ..case(&[], &response)
            }
            .outcome()
        };
        let plain = CachePolicy::default();
        for said in [
            "Cache-Control: public, max-age=60",
            "Cache-Control: s-maxage=60",
            "Cache-Control: max-age=0, s-maxage=60",
            "CDN-Cache-Control: max-age=60",
        ] {
            assert_eq!(of(&plain, &[said]), Ok(()), "{said}");
        }
        for lines in [
            &["Cache-Control: max-age=60"][..],
            &["Expires: Sun, 06 Nov 2094 08:49:37 GMT"],
            &["Cache-Control: public", MODIFIED],
            // What static files of some servers say, behind a part that begins sessions.
            &["Cache-Control: public, max-age=0", ETAG],
            &["Cache-Control: s-maxage=0", ETAG],
            &["Cache-Control: public, no-cache, max-age=60", ETAG],
            &[
                "CDN-Cache-Control: max-age=0",
                "Cache-Control: s-maxage=60",
                ETAG,
            ],
            &["Vary: Cookie", "Cache-Control: max-age=60"],
        ] {
            assert_eq!(of(&plain, lines), Err(NotStored::SetCookie), "{lines:?}");
        }
        for policy in [with_ttl(), forced()] {
            assert_eq!(
                of(&policy, &["Cache-Control: public"]),
                Err(NotStored::SetCookie)
            );
        }
        let stores = of_route(|policy| policy.set_cookie = SetCookie::Store);
        assert_eq!(of(&stores, &[MODIFIED]), Ok(()));
        let refuses = of_route(|policy| policy.set_cookie = SetCookie::Refuse);
        let said = "Cache-Control: public, s-maxage=60";
        assert_eq!(of(&refuses, &[said]), Err(NotStored::SetCookie));
    }

    #[test]
    fn who_says_that_what_was_asked_with_cookies_is_for_all() {
        let of = |policy: &CachePolicy, lines: &[&str]| {
            let policy = policy.clone();
            Case {
                policy,
                ..case(&["Cookie: a=b"], lines)
            }
            .outcome()
        };
        let plain = CachePolicy::default();
        for lines in [
            &["Cache-Control: max-age=60"][..],
            &["Expires: Sun, 06 Nov 2094 08:49:37 GMT"],
            &["Cache-Control: public", MODIFIED],
            &["Cache-Control: public, max-age=0", ETAG],
            &["Cache-Control: max-age=0, stale-while-revalidate=5"],
            &["CDN-Cache-Control: max-age=60"],
            &["Vary: Accept, cookie", MODIFIED],
        ] {
            assert_eq!(of(&plain, lines), Ok(()), "{lines:?}");
        }
        let refused = Err(NotStored::RequestCookie);
        for lines in [
            &[MODIFIED][..],
            &[ETAG],
            &["Cache-Control: max-age=0", ETAG],
            &["Cache-Control: no-cache, max-age=60", ETAG],
            &["Cache-Control: max-age=60", "Age: what", ETAG],
        ] {
            assert_eq!(of(&plain, lines), refused, "{lines:?}");
        }
        // What nobody could use is that first: it holds for requests without cookies as well.
        assert_eq!(of(&plain, &[]), Err(NotStored::NoFreshness));
        let keyed = of_route(|policy| policy.key.cookies = vec!["a".to_owned()]);
        let by_field = of_route(|policy| policy.key.headers = vec!["cookie".to_owned()]);
        let stores = of_route(|policy| policy.request_cookie = RequestCookie::Store);
        for policy in [&with_ttl(), &forced(), &keyed, &by_field, &stores] {
            assert_eq!(of(policy, &[MODIFIED]), Ok(()), "{policy:?}");
        }
        let refuses = of_route(|policy| policy.request_cookie = RequestCookie::Refuse);
        assert_eq!(
            of(&refuses, &["Cache-Control: public, max-age=60"]),
            refused
        );
    }
}
