//! Patterns of hosts and paths, and the targets of redirects.
//!
//! Says whether a pattern is well formed; matching requests against it is the gateway's.

use weir_gateway::settings::HostPattern;
use weir_gateway::settings::template::{Known, Part, Template, Variable};
use weir_http::{readings, target};

mod foreign;

use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::template::{Scope, template};

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
    /// As requests are matched: escapes of characters that need none are these characters.
    pub(super) matched: String,
    /// The names of the parameters in their order.
    pub(super) parameters: Vec<String>,
    /// The text without the names of the parameters: two paths of one shape match the same requests.
    pub(super) shape: String,
}

/// Reads a path of a route.
pub(super) fn path(text: &str) -> Result<PathPattern, String> {
    if let Some(foreign) = foreign::path(text) {
        let meant = foreign.meant.filter(|meant| path(meant).is_ok());
        return Err(foreign.expected + &did_you_mean(meant.as_deref()));
    }
    check_path_text(text)?;
    let matched = readings::plain(text.as_bytes());
    let mut parameters: Vec<String> = Vec::new();
    let mut shape = String::new();
    let mut segments = text[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        shape.push('/');
        if !segment.contains(['{', '}']) {
            let plain = readings::plain(segment.as_bytes());
            shape.push_str(&String::from_utf8_lossy(&plain));
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
        matched: String::from_utf8_lossy(&matched).into_owned(),
        parameters,
        shape,
    })
}

/// Refuses texts that no request's path can match: requests are matched in their normal form, without the query.
pub(super) fn check_path_text(text: &str) -> Result<(), String> {
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
        let plain = readings::plain(text.as_bytes());
        return Ok(String::from_utf8_lossy(&plain).into_owned());
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
    if let Some(foreign) = foreign::host(text) {
        let meant = foreign.meant.as_deref();
        let without_port = meant.and_then(|meant| meant.split(':').next());
        let mut forms = [meant, without_port].into_iter().flatten();
        let sound = forms.find(|meant| host(meant).is_ok());
        return Err(foreign.expected + &did_you_mean(sound));
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

/// What a redirect may be made of besides the parameters of its path: nothing else can be told to be part of a URL.
const OF_LOCATIONS: &[Variable] = &[Variable::Host, Variable::Path, Variable::Scheme];

/// Reads the target of a redirect on a path with `parameters`.
pub(super) fn location(text: &str, parameters: &[String]) -> Result<Template, String> {
    let begins_well = ["/", "http://", "https://", "{scheme}://"]
        .iter()
        .any(|start| text.starts_with(start));
    if !begins_well || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("expected {LOCATION_EXPECTED}"));
    }
    let scope = Scope {
        known: Known::WithRequest,
        only: Some(OF_LOCATIONS),
        parameters,
    };
    let location = template(text, scope)?;
    let has_brace = |part: &Part| matches!(part, Part::Text(text) if text.contains(['{', '}']));
    if location.parts.iter().any(has_brace) {
        return Err(
            "expected single braces around variables, and all others as %7B and %7D".to_owned(),
        );
    }
    for parts in location.parts.windows(2) {
        // Two slashes at the front would begin another host.
        if let [Part::Text(before), Part::Variable(Variable::Path)] = parts
            && before.ends_with('/')
        {
            return Err(r#"expected no "/" before {path}, which begins with one"#.to_owned());
        }
    }
    Ok(location)
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
