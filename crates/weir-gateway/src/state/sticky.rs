//! The cookies that the gateway sets: how they are written, and which endpoint a value names.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ring::hmac;
use weir_http::Scheme;

use crate::settings::{Action, Cookie, SameSite, Settings, SplitBy, Sticky};
use crate::state::snapshot::Endpoint;

/// Digits of a value.
const VALUE_DIGITS: usize = 16;

/// The names of all cookies of the gateway under one configuration. What clients send of them is taken out of their requests,
/// whatever the route: it is for nobody else, and a cache would take it for the cookie of a service.
#[derive(Debug, Default)]
pub(crate) struct OwnCookies(Vec<String>);

impl OwnCookies {
    pub(crate) fn of(settings: &Settings) -> Self {
        let routes = settings.routes.iter();
        let of_routes = routes.filter_map(|route| match &route.action {
            Action::Forward(rule) => match &rule.split.as_ref()?.by {
                Some(SplitBy::Cookie(cookie)) => Some(&cookie.name),
                Some(SplitBy::Part(_)) | None => None,
            },
            Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => None,
        });
        let upstreams = settings.upstreams.iter();
        let of_upstreams = upstreams.filter_map(|upstream| upstream.sticky.as_deref());
        let of_upstreams = of_upstreams.map(|sticky| &sticky.cookie.name);
        let names: BTreeSet<_> = of_routes.chain(of_upstreams).cloned().collect();
        Self(names.into_iter().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of a name.
    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|own| own.as_bytes() == name)
    }
}

/// How one cookie is written.
#[derive(Debug)]
pub(crate) struct CookieText {
    /// The place of its name among the [`OwnCookies`].
    pub(crate) place: usize,
    before: String,
    behind: String,
    is_always_secure: bool,
}

impl CookieText {
    pub(crate) fn new(cookie: &Cookie, own: &OwnCookies) -> Self {
        let mut behind = "; Path=/; HttpOnly; SameSite=".to_owned();
        behind.push_str(match cookie.same_site {
            SameSite::Lax => "Lax",
            SameSite::Strict => "Strict",
            SameSite::None => "None",
        });
        // Writing to a string cannot fail.
        if let Some(max_age) = cookie.max_age {
            let _ = write!(behind, "; Max-Age={}", max_age.as_secs());
        }
        if let Some(domain) = &cookie.domain {
            let _ = write!(behind, "; Domain={domain}");
        }
        Self {
            place: own.place(cookie.name.as_bytes()).unwrap_or(usize::MAX),
            before: format!("Set-Cookie: {}=", cookie.name),
            behind,
            is_always_secure: cookie.same_site == SameSite::None,
        }
    }

    /// Writes the line that sets it, for a client that has come by `scheme`.
    pub(crate) fn write(&self, value: u64, scheme: Scheme, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        for shift in (0..VALUE_DIGITS).rev() {
            let digit = (value >> (shift * 4)) as usize & 0xf;
            out.push(b"0123456789abcdef"[digit]);
        }
        out.extend_from_slice(self.behind.as_bytes());
        if self.is_always_secure || scheme == Scheme::Https {
            out.extend_from_slice(b"; Secure");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads a value as [`CookieText::write`] writes it. Anything else is none.
pub(crate) fn value(text: &[u8]) -> Option<u64> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != VALUE_DIGITS || !text.iter().all(is_digit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// How the clients of an upstream come back to its endpoints.
#[derive(Debug)]
pub(crate) struct Homes {
    pub(crate) cookie: CookieText,
    /// The value for each endpoint.
    values: Vec<u64>,
}

impl Homes {
    /// Every gateway with the same secret makes the same values: they follow from the name of the upstream and the addresses
    /// alone.
    pub(crate) fn new(
        sticky: &Sticky,
        own: &OwnCookies,
        upstream: &str,
        endpoints: &[Endpoint],
    ) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, sticky.secret.as_bytes());
        let value = |endpoint: &Endpoint| {
            let text = format!("weir sticky\n{upstream}\n{}", endpoint.address);
            let signed = hmac::sign(&key, text.as_bytes());
            let bytes = signed.as_ref().iter().take(size_of::<u64>());
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        Self {
            cookie: CookieText::new(&sticky.cookie, own),
            values: endpoints.iter().map(value).collect(),
        }
    }

    /// The endpoint that `value` names, if it is still one.
    pub(crate) fn endpoint(&self, value: u64) -> Option<usize> {
        self.values.iter().position(|&own| own == value)
    }

    pub(crate) fn value(&self, endpoint: usize) -> u64 {
        self.values[endpoint]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cookie_says_what_it_is_for_and_reads_back() {
        let cookie = |max_age, domain: Option<&str>, same_site| Cookie {
            name: "weir".to_owned(),
            max_age,
            domain: domain.map(str::to_owned),
            same_site,
        };
        let day = Some(Duration::from_secs(86_400));
        for (cookie, scheme, expected) in [
            (
                cookie(None, None, SameSite::Lax),
                Scheme::Http,
                "Path=/; HttpOnly; SameSite=Lax",
            ),
            (
                cookie(day, None, SameSite::Strict),
                Scheme::Https,
                "Path=/; HttpOnly; SameSite=Strict; Max-Age=86400; Secure",
            ),
            (
                cookie(day, Some("example.com"), SameSite::None),
                Scheme::Http,
                "Path=/; HttpOnly; SameSite=None; Max-Age=86400; Domain=example.com; Secure",
            ),
        ] {
            let own = OwnCookies(vec!["weir".to_owned()]);
            let mut line = Vec::new();
            CookieText::new(&cookie, &own).write(0x0123_4567_89ab_cdef, scheme, &mut line);
            let line = String::from_utf8(line).expect("it is text");
            let expected = format!("Set-Cookie: weir=0123456789abcdef; {expected}\r\n");
            assert_eq!(line, expected);
        }
        assert_eq!(value(b"0123456789abcdef"), Some(0x0123_4567_89ab_cdef));
        for text in [
            "",
            "0123456789abcde",
            "0123456789abcdef0",
            "0123456789ABCDEF",
            "+123456789abcdef",
        ] {
            assert_eq!(value(text.as_bytes()), None, "{text}");
        }
    }
}
