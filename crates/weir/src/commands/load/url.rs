//! A URL under load: the parts that the plan needs, and a path that may have fields.

use std::net::{SocketAddr, ToSocketAddrs as _};

use weir_load::plan::Address;

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'u> {
    pub(super) is_tls: bool,
    /// Host and port as written: the `Host` field.
    pub(super) authority: &'u str,
    /// Without the brackets of an IPv6 address.
    pub(super) host: &'u str,
    pub(super) port: u16,
    /// Path and query.
    pub(super) path: &'u str,
}

const EXPECTED: &str = "expected a URL such as http://127.0.0.1:8080/path";

impl<'u> Url<'u> {
    /// Reads `text`; `http://` may be missing. The error is a sentence.
    pub(super) fn parse(text: &'u str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?}: {what}");
        let (is_tls, rest) = match text.split_once("://") {
            None => (false, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(wrong(&format!(
                    "{scheme} is no scheme of requests; {EXPECTED}"
                )));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(wrong("a URL with a user name; send it with --header"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            None => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("expected a port from 1 to 65535"))?,
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(wrong(EXPECTED));
        }
        let path = match path {
            "" => "/",
            query if query.starts_with('?') => {
                return Err(wrong("expected a / before the query"));
            }
            path => path,
        };
        Ok(Self {
            is_tls,
            authority,
            host,
            port,
            path,
        })
    }

    /// The address of the host.
    pub(super) fn resolve(&self) -> Result<Address, String> {
        resolve(self.host, self.port)
    }
}

/// Reads the value of `--connect`.
pub(super) fn connect_address(text: &str) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address::Tcp(address));
    }
    let parts = text.rsplit_once(':');
    match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) if !host.is_empty() => resolve(host, port),
        _ => Err(format!(
            "--connect {text:?}: expected a host and a port such as 127.0.0.1:8080, or unix:PATH"
        )),
    }
}

fn resolve(host: &str, port: u16) -> Result<Address, String> {
    let mut addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("{host}: {error}"))?;
    addresses
        .next()
        .map(Address::Tcp)
        .ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_url() {
        let cases = [
            ("http://a", (false, "a", "a", 80, "/")),
            ("https://a/b?c=d#e", (true, "a", "a", 443, "/b?c=d")),
            (
                "127.0.0.1:81/x",
                (false, "127.0.0.1:81", "127.0.0.1", 81, "/x"),
            ),
            (
                "HTTP://[::1]:8080/",
                (false, "[::1]:8080", "::1", 8080, "/"),
            ),
            ("http://[::1]/{seq}", (false, "[::1]", "::1", 80, "/{seq}")),
        ];
        for (text, parts) in cases {
            let url = Url::parse(text).expect(text);
            let found = (url.is_tls, url.authority, url.host, url.port, url.path);
            assert_eq!(found, parts, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "http://",
            "ftp://a/",
            "http://a:0/",
            "http://a:b/",
            "http://u@a/",
            "http://a b/",
            "http://a?b",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
