//! From what an operator writes to what a purge covers. Every error says what was found and what would do.
//!
//! Stored responses are told apart by URLs as they were sent, escapes and all; so what is written here must be what a
//! request line can have. What a route leaves out of its keys, or sorts, is left out and sorted here too.

use std::borrow::Cow;

use weir_cache::key::{self, Inputs, UPSTREAM_MARK};
use weir_cache::policy::{HostKey, KeyParts};
use weir_cache::store::PurgeScope;
use weir_cache::tags::TAG_BYTES_MAX;
use weir_http::host::Authority;
use weir_http::{Fields, Method, target};

use crate::router::RouteKey;
use crate::settings::Action;
use crate::state::snapshot::Snapshot;

const URL_EXAMPLE: &str = "http://www.example.com/a/b?c=d";

/// A URL, split.
struct Url<'t> {
    scheme: &'t str,
    /// In normal form; `@NAME` where the name of an upstream stands for the site, as lists show it. It may be empty.
    authority: String,
    path: Cow<'t, str>,
    query: Option<&'t str>,
}

/// What is stored of one URL: under the keys that its routes make of it, and as it stands there, since what is on disk
/// may be from before a change of the routes.
pub(crate) fn of_url(text: &str, snapshot: &Snapshot) -> Result<Vec<PurgeScope>, String> {
    let mut url = parse(text)?;
    let normal = normal_path(&url)?;
    let forwarded = target::forwarded(url.path.as_bytes(), normal.as_bytes());
    url.path = String::from_utf8_lossy(forwarded).into_owned().into();
    let mut keys = Vec::new();
    let as_written = url.parts();
    for parts in std::iter::once(&as_written).chain(key_parts(&url, &normal, snapshot)) {
        let mut key = Vec::new();
        key::write_url(parts, &url.asked(), &mut key);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let scopes = keys.into_iter();
    Ok(scopes
        .map(|key| PurgeScope::FirstLine(key.into()))
        .collect())
}

/// All URLs that begin with `text`: with its host and path, or with its path on any host.
pub(crate) fn of_prefix(text: &str) -> Result<PurgeScope, String> {
    if text.starts_with('/') {
        check_bytes(text)?;
        return Ok(PurgeScope::Path(text.as_bytes().into()));
    }
    let url = parse(text)?;
    let mut prefix = Vec::new();
    key::write_url(&url.parts(), &url.asked(), &mut prefix);
    Ok(PurgeScope::Prefix(prefix.into()))
}

/// All that carry a tag.
pub(crate) fn of_tag(text: &str) -> Result<PurgeScope, String> {
    let is_sound = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
    if !is_sound || text.len() > TAG_BYTES_MAX {
        return Err(format!(
            "found {text:?}, expected one tag of a Cache-Tag or Surrogate-Key field, of at most {TAG_BYTES_MAX} bytes"
        ));
    }
    Ok(PurgeScope::Tag(text.into()))
}

/// The parts of the key on each route that a request for the URL may take.
fn key_parts<'s>(url: &Url<'_>, path: &str, snapshot: &'s Snapshot) -> Vec<&'s KeyParts> {
    let parts_of = |action: &'s Action| match action {
        Action::Forward(rule) => rule.cache.as_ref().map(|policy| &policy.key),
        _ => None,
    };
    if url.upstream().is_some() {
        let host = url.parts().host;
        let all = snapshot.routes.iter();
        let parts = all.filter_map(|route| parts_of(&route.settings.action));
        return parts.filter(|parts| parts.host == host).collect();
    }
    let authority = (!url.authority.is_empty()).then_some(url.authority.as_bytes());
    let methods = [
        (Method::Get, &b"GET"[..]),
        (Method::Head, b"HEAD"),
        (Method::Post, b"POST"),
    ];
    let mut parts = Vec::new();
    for (method, method_name) in methods {
        let asked = RouteKey {
            authority,
            path,
            method,
            method_name,
            fields: Fields::NONE,
            query: None,
        };
        snapshot.router.may_take(&asked, |route| {
            parts.extend(parts_of(&snapshot.routes[route].settings.action));
            false
        });
    }
    parts
}

/// The path of a URL as routes match it. One that is refused in requests may be stored since before it was.
fn normal_path(url: &Url<'_>) -> Result<String, String> {
    let mut path = Vec::new();
    target::normalize(url.path.as_bytes(), &mut path).map_err(|_| {
        format!(
            "found {}, expected a path that a request can have",
            url.path
        )
    })?;
    Ok(String::from_utf8_lossy(&path).into_owned())
}

fn parse(text: &str) -> Result<Url<'_>, String> {
    check_bytes(text)?;
    let wrong = |expected: &str| Err(format!("found {text:?}, expected {expected}"));
    let text = text.split('#').next().unwrap_or_default();
    let (scheme, rest) = match text.split_once("://") {
        // A colon, slash, slash may stand in a query.
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => (scheme, rest),
        _ => ("http", text),
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return wrong("http:// or https://");
    }
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(authority_end);
    let has_scheme = text.contains("://");
    if authority.is_empty() && !(has_scheme && target.starts_with('/')) {
        return wrong(&format!(
            "a host in front of it, as in {URL_EXAMPLE}; a path on all hosts is a prefix"
        ));
    }
    let is_upstream = authority.starts_with(char::from(UPSTREAM_MARK));
    let authority = if authority.is_empty() || is_upstream {
        authority.to_owned()
    } else {
        match Authority::parse(authority.as_bytes()) {
            Ok(authority) => {
                let mut normal = Vec::new();
                authority.write_normal(scheme.as_bytes(), &mut normal);
                String::from_utf8_lossy(&normal).into_owned()
            }
            Err(_) => return wrong(&format!("a URL such as {URL_EXAMPLE}")),
        }
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    Ok(Url {
        scheme,
        authority,
        path: path.into(),
        query,
    })
}

/// Only visible ASCII characters stand in a request line; others are told in the form that they have there.
fn check_bytes(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!(
            "found nothing, expected a URL such as {URL_EXAMPLE}"
        ));
    }
    if text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let encode = |b: u8| match b {
        b if b.is_ascii_graphic() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    let encoded: String = text.bytes().map(encode).collect();
    Err(format!(
        "found {text:?}, expected it as it stands in a request, which may be {encoded}"
    ))
}

impl Url<'_> {
    /// The upstream that stands for the site, as it does in lists of what is stored.
    fn upstream(&self) -> Option<&str> {
        self.authority.strip_prefix(char::from(UPSTREAM_MARK))
    }

    /// The parts of a key that is the URL as it is written.
    fn parts(&self) -> KeyParts {
        let upstream = self.upstream().map(str::to_owned);
        KeyParts {
            host: upstream.map_or(HostKey::Asked, HostKey::Upstream),
            ..KeyParts::default()
        }
    }

    fn asked(&self) -> Inputs<'_> {
        Inputs {
            scheme: self.scheme.as_bytes(),
            authority: self.authority.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.map(str::as_bytes),
            fields: Fields::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_a_whole_host_or_none() {
        let prefix = |text: &str| PurgeScope::Prefix(text.as_bytes().into());
        let path = |text: &str| PurgeScope::Path(text.as_bytes().into());
        let cases = [
            ("http://A.example", prefix("http://a.example/")),
            ("a.example:80/B", prefix("http://a.example/B")),
            (
                "a.example/b?c=http://d",
                prefix("http://a.example/b?c=http://d"),
            ),
            ("HTTPS://a.example:443/b", prefix("https://a.example/b")),
            ("http://[0::1]:081/b#c", prefix("http://[::1]:81/b")),
            ("http://A.example.:/b", prefix("http://a.example/b")),
            ("http:///b", prefix("http:///b")),
            ("http://@App:80/b", prefix("http://@App:80/b")),
            ("/b%20c", path("/b%20c")),
            ("/", path("/")),
        ];
        for (text, expected) in cases {
            assert_eq!(of_prefix(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_no_request_can_have_is_refused_with_a_remedy() {
        let cases = [
            ("", "expected a URL such as http://"),
            ("ftp://a/b", "expected http:// or https://"),
            ("http://u:p@a/b", "expected a URL such as http://"),
            ("http://a:b/", "expected a URL such as http://"),
            ("?a", "a path on all hosts is a prefix"),
            ("http://", "a path on all hosts is a prefix"),
            ("http://a/é b", "which may be http://a/%C3%A9%20b"),
            ("/a\nb", "which may be /a%0Ab"),
        ];
        for (text, expected) in cases {
            let error = of_prefix(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        for text in ["", " a", "a\n", &"x".repeat(TAG_BYTES_MAX + 1)] {
            assert!(of_tag(text).is_err(), "{text:?}");
        }
        assert_eq!(of_tag("a b,c"), Ok(PurgeScope::Tag("a b,c".into())));
    }
}
