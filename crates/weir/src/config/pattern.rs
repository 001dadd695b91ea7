//! Patterns of hosts and paths, and templates that use a path's parameters.
//!
//! Says whether a pattern is well formed; matching requests against it is the gateway's.

use weir_gateway::settings::{HostPattern, Piece};
use weir_http::{readings, target};

use super::suggest::{did_you_mean, nearest, one_of, quoted};

/// What a path looks like.
pub(super) const PATH_EXPECTED: &str = r#"a path such as "/", "/users/{id}" or "/api/{*rest}""#;
/// What a host looks like.
pub(super) const HOST_EXPECTED: &str = r#"a host such as "www.example.com" or "*.example.com""#;
/// What the target of a redirect looks like.
pub(super) const LOCATION_EXPECTED: &str =
    r#"a path such as "/new/{rest}" or a URL such as "https://example.com/""#;

/// A path of a route: static segments, `{name}` for one segment, `{*rest}` for all that follow.
#[derive(Debug)]
pub(super) struct PathPattern {
    /// As written.
    pub(super) text: String,
    /// The names of the parameters in their order.
    pub(super) parameters: Vec<String>,
    /// The text without the names of the parameters: two paths of one shape match the same requests.
    pub(super) shape: String,
}

/// Reads a path of a route.
pub(super) fn path(text: &str) -> Result<PathPattern, String> {
    check_path_text(text)?;
    let mut parameters: Vec<String> = Vec::new();
    let mut shape = String::new();
    let mut segments = text[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        shape.push('/');
        if !segment.contains(['{', '}']) {
            shape.push_str(segment);
            continue;
        }
        let name = parameter(segment)?;
        let (name, takes_rest) = match name.strip_prefix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        if takes_rest && segments.peek().is_some() {
            return Err(format!("expected {} only at the end", quoted(segment)));
        }
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name_char) {
            return Err(format!(
                "expected the name in {} to be of letters, digits, \"_\" and \"-\"",
                quoted(segment)
            ));
        }
        if parameters.iter().any(|other| other == name) {
            return Err(format!("expected the parameter {} only once", quoted(name)));
        }
        parameters.push(name.to_owned());
        shape.push_str(if takes_rest { "{*}" } else { "{}" });
    }
    Ok(PathPattern {
        text: text.to_owned(),
        parameters,
        shape,
    })
}

/// Refuses texts that no request's path can match: requests are matched in their normal form, without the query.
fn check_path_text(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        let meant = format!("/{text}");
        let meant = Some(meant).filter(|meant| !text.is_empty() && check_path_text(meant).is_ok());
        return Err(format!(
            "expected {PATH_EXPECTED}, beginning with \"/\"{}",
            did_you_mean(meant.as_deref())
        ));
    }
    if text.contains(['?', '#']) {
        return Err("expected a path without \"?\" and \"#\"".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(
            "expected a path without blanks, everything but ASCII percent-encoded".to_owned(),
        );
    }
    if readings::is_doubtful(text.as_bytes()) {
        return Err(
            r#"expected a path without ";", "\", "%2F", "%5C" and escapes of escapes: servers read these in several ways, and requests for it are refused"#
                .to_owned(),
        );
    }
    let mut normal = Vec::new();
    if target::normalize(text.as_bytes(), &mut normal).is_err() {
        return Err("expected a path without broken escapes and \"..\"".to_owned());
    }
    if normal != text.as_bytes() {
        let meant = String::from_utf8_lossy(&normal);
        return Err(format!(
            "expected a path in its normal form, in which requests are matched{}",
            did_you_mean(Some(&meant))
        ));
    }
    Ok(())
}

/// What stands between the braces of a segment that is a parameter.
fn parameter(segment: &str) -> Result<&str, String> {
    let opened = segment.matches('{').count();
    if opened != segment.matches('}').count() {
        return Err(format!(
            "expected a closed pair of braces in {}",
            quoted(segment)
        ));
    }
    let inner = segment
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    inner.filter(|_| opened == 1).ok_or_else(|| {
        format!(
            "expected a parameter to be a whole segment, unlike {}",
            quoted(segment)
        )
    })
}

/// Reads a prefix that is cut off `path` before forwarding.
pub(super) fn prefix(text: &str, path: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err("expected a prefix that begins with \"/\"".to_owned());
    }
    let rest = path.strip_prefix(text).filter(|_| !text.contains('{'));
    // A cut within a segment would make a new name out of the rest of it.
    let ends_with_segment =
        |rest: &str| rest.is_empty() || rest.starts_with('/') || text.ends_with('/');
    if rest.is_some_and(ends_with_segment) {
        return Ok(text.to_owned());
    }
    let literal = path.split('{').next().unwrap_or("").trim_end_matches('/');
    let meant = Some(literal).filter(|literal| !literal.is_empty());
    Err(format!(
        "expected whole leading segments of the path {}, without parameters{}",
        quoted(path),
        did_you_mean(meant)
    ))
}

/// Reads a host, in normal form from here on.
pub(super) fn host(text: &str) -> Result<HostPattern, String> {
    if text == "*" {
        return Err(format!(
            "expected {HOST_EXPECTED}, or no \"host\" for all of them"
        ));
    }
    let lower = text.to_ascii_lowercase();
    let (name, is_wildcard) = match lower.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (lower.as_str(), false),
    };
    if let Some(address) = ip_literal(name).filter(|_| !is_wildcard) {
        return Ok(HostPattern::Exact(address));
    }
    if is_host_name(name) {
        return Ok(if is_wildcard {
            HostPattern::Wildcard(name.to_owned())
        } else {
            HostPattern::Exact(name.to_owned())
        });
    }
    let without_port = lower
        .rsplit_once(':')
        .filter(|(host, port)| {
            !port.is_empty() && port.parse::<u16>().is_ok() && self::host(host).is_ok()
        })
        .map(|(host, _)| host);
    let without_dot = lower.strip_suffix('.').filter(|host| is_host_name(host));
    Err(match without_port {
        None if without_dot.is_some() => format!(
            "expected a host without a dot at its end{}",
            did_you_mean(without_dot)
        ),
        Some(host) => format!("expected a host without a port{}", did_you_mean(Some(host))),
        None => format!("expected {HOST_EXPECTED}"),
    })
}

/// Labels of letters, digits, hyphens and underscores within the bounds of the DNS (RFC 1035 §2.3.4).
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// An IPv6 address in brackets, in the form in which hosts are matched.
fn ip_literal(name: &str) -> Option<String> {
    let inner = name.strip_prefix('[')?.strip_suffix(']')?;
    let address: std::net::Ipv6Addr = inner.parse().ok()?;
    Some(format!("[{address}]"))
}

/// Reads the target of a redirect, whose parameters must be among `parameters`.
pub(super) fn location(text: &str, parameters: &[String]) -> Result<Vec<Piece>, String> {
    let begins_well = ["/", "http://", "https://"]
        .iter()
        .any(|start| text.starts_with(start));
    if !begins_well || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("expected {LOCATION_EXPECTED}"));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .filter(|(name, _)| !before.contains('}') && !name.contains('{'))
            .ok_or("expected every \"{\" to be closed by a \"}\"")?;
        if !parameters.iter().any(|known| known == name) {
            return Err(no_parameter(name, parameters));
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(Piece::Parameter(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return Err("expected every \"}\" to close a \"{\"".to_owned());
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// What to say when `parameters` has no `name`.
pub(super) fn no_parameter(name: &str, parameters: &[String]) -> String {
    let known = || parameters.iter().map(String::as_str);
    let plain = name.trim_start_matches('*');
    let meant = known().find(|known| *known == plain);
    let help = match meant.or_else(|| nearest(name, known())) {
        Some(meant) => did_you_mean(Some(meant)),
        None if parameters.is_empty() => String::new(),
        None => format!("; expected {}", one_of(known())),
    };
    format!(
        "but the route's path has no parameter {}{help}",
        quoted(name)
    )
}
