//! Whether a request is of somebody who may ask: the token, and against web pages of others in an operator's browser.
//!
//! A browser sends requests to a loopback address for any page that asks it to. Such a page must not change or read what
//! is stored, whether there is a token or not:
//! - `Origin` and `Sec-Fetch-Site`, which browsers add by themselves, must speak of the control listener itself. Pages that
//!   change nothing may be linked to: the browser shows what they say to nobody else.
//! - Without a token, `Host` must be an address or `localhost`: the name of a page can be made to lead here after it was
//!   loaded (DNS rebinding), and then its requests look like our own.
//! - What changes something must say that it is JSON. No form can, and a script may do so only after a question that is
//!   answered 405 here.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, USER_AGENT,
};
use hyper::{Request, StatusCode};
use weir_http::host;

use crate::admin::reply::Refusal;

/// Whether the request has the token, where there is one.
pub(super) fn has_token(request: &Request<Incoming>, token: Option<&str>) -> bool {
    let Some(token) = token else {
        return true;
    };
    let given = field(request, &AUTHORIZATION).unwrap_or_default();
    given
        .strip_prefix(b"Bearer ")
        .is_some_and(|given| equal_in_constant_time(given, token.as_bytes()))
}

/// Refuses what a web page of somebody else may have sent.
pub(super) fn refuse_foreign(request: &Request<Incoming>, has_token: bool) -> Result<(), Refusal> {
    let host = field(request, &HOST);
    let site = request.headers().get("sec-fetch-site");
    let is_own_site = site.is_none_or(|site| site == "same-origin" || site == "none");
    let origin = field(request, &ORIGIN);
    let is_own_origin = origin.is_none_or(|origin| {
        let own = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://"));
        own.is_some() && own == host
    });
    if !is_own_site || !is_own_origin {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "found a request of a web page of another origin, expected one of `weir cache`, of curl or of a page of this \
             address",
        ));
    }
    refuse_names(request, has_token)
}

/// Refuses what may have been sent by the name of a web page.
pub(super) fn refuse_names(request: &Request<Incoming>, has_token: bool) -> Result<(), Refusal> {
    let host = field(request, &HOST);
    if !has_token && host.is_some_and(|host| !is_address(host)) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "found a name in Host, expected an address or localhost: without a token in [admin], a name may be that of a \
             web page",
        ));
    }
    Ok(())
}

/// Refuses what a form of a web page could send, if it is from a browser.
pub(super) fn refuse_forms(request: &Request<Incoming>) -> Result<(), Refusal> {
    let has = |name: &str| request.headers().contains_key(name);
    let agent = field(request, &USER_AGENT).unwrap_or_default();
    // As every browser calls itself.
    let is_browser =
        agent.starts_with(b"Mozilla/") || has("origin") || has("referer") || has("sec-fetch-site");
    if is_browser {
        require_json(request)
    } else {
        Ok(())
    }
}

/// Refuses what a form of a web page could send.
pub(super) fn require_json(request: &Request<Incoming>) -> Result<(), Refusal> {
    let given = field(request, &CONTENT_TYPE).unwrap_or_default();
    let media_type = given.split(|&b| b == b';').next().unwrap_or_default();
    if media_type
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
    {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "expected the field Content-Type: application/json",
    ))
}

fn field<'r>(request: &'r Request<Incoming>, name: &HeaderName) -> Option<&'r [u8]> {
    request.headers().get(name).map(HeaderValue::as_bytes)
}

/// Whether an authority is of an address or of `localhost`.
fn is_address(authority: &[u8]) -> bool {
    let Ok(name) = host::name(authority) else {
        return false;
    };
    let bare = name
        .strip_prefix(b"[")
        .and_then(|name| name.strip_suffix(b"]"));
    let text = std::str::from_utf8(bare.unwrap_or(name)).unwrap_or_default();
    text.eq_ignore_ascii_case("localhost") || text.parse::<IpAddr>().is_ok()
}

/// Takes as long for a guess that is nearly right as for any other.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_names() {
        for (authority, expected) in [
            ("127.0.0.1:9901", true),
            ("[::1]:9901", true),
            ("[::1]", true),
            ("LocalHost:1", true),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:9901", false),
            ("evil.example", false),
            ("a@127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_address(authority.as_bytes()), expected, "{authority}");
        }
    }
}
