//! `cors` of a route.

use weir_gateway::settings::{Action, Cors, OriginPattern, Origins, ResponseHeaders};

use super::method;
use crate::config::declared::route::cors::{
    CREDENTIALS, EXPOSE, HEADERS, MAX_AGE, METHODS, ORIGIN_EXPECTED, ORIGINS,
};
use crate::config::entry::Entry;
use crate::config::headers::is_token;
use crate::config::pattern;
use crate::config::suggest::did_you_mean;

/// What pages may use if neither `cors` nor the route says.
const METHODS_DEFAULT: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS_DEFAULT: &str = "Content-Type";

/// Fields that only weir writes on a route with `cors`.
pub(super) const OWN_FIELDS: [&str; 6] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
];

/// Reads the rule of a route with these methods.
pub(super) fn rule(value: &Entry, methods: Option<&[String]>) -> Option<Cors> {
    let mut table = value.table()?;
    let origins_value = table.required(&ORIGINS);
    let origins = origins_value.as_ref().and_then(origins);
    let credentials = table.boolean(&CREDENTIALS).unwrap_or(false);
    let mut list = |key, parse: fn(&str) -> Result<String, String>| {
        let value = table.optional(key)?;
        Some(names(&value, credentials, parse))
    };
    let own_methods = list(&METHODS, method);
    let headers = list(&HEADERS, field_name);
    let expose = list(&EXPOSE, field_name);
    let max_age = table.duration(&MAX_AGE);
    table.finish();
    if credentials
        && origins == Some(Origins::Any)
        && let Some(value) = &origins_value
    {
        value.wrong(
            "found \"*\" with \"credentials\", expected a list of origins: browsers refuse credentials for every page",
        );
    }
    let usual = || methods.map_or(METHODS_DEFAULT.to_owned(), |methods| methods.join(", "));
    Some(Cors {
        origins: origins?,
        methods: own_methods.unwrap_or_else(usual),
        headers: headers.unwrap_or_else(|| HEADERS_DEFAULT.to_owned()),
        expose: expose.unwrap_or_default(),
        credentials,
        max_age: max_age.unwrap_or(MAX_AGE.preset.duration()),
    })
}

/// Leaves what an upstream says of it to the rule; says which field the route itself sets beside it, if any.
pub(super) fn take_over(action: &Action, says: &mut ResponseHeaders) -> Option<String> {
    if matches!(action, Action::Forward(_)) {
        let removed = &mut says.usual.remove;
        let missing = OWN_FIELDS
            .into_iter()
            .filter(|own| !removed.iter().any(|name| name == own))
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>();
        removed.extend(missing);
    }
    let fixed: &[_] = match action {
        Action::Respond(fixed) => &fixed.headers,
        Action::Forward(_) | Action::Redirect(_) | Action::Serve(_) => &[],
    };
    own(fixed).or_else(|| set_by(says))
}

/// Which field of the rule is set by these, if any.
pub(super) fn set_by(says: &ResponseHeaders) -> Option<String> {
    let ResponseHeaders { usual, always } = says;
    own(usual.set.iter().chain(&usual.add).chain(&**always))
}

fn own<'f, V: 'f>(fields: impl IntoIterator<Item = &'f (String, V)>) -> Option<String> {
    let mut names = fields.into_iter().map(|(name, _)| name);
    names
        .find(|name| OWN_FIELDS.contains(&name.as_str()))
        .cloned()
}

/// The value of a field that lists names.
fn names(value: &Entry, credentials: bool, parse: fn(&str) -> Result<String, String>) -> String {
    let items = value.list().unwrap_or_default();
    let count = items.len();
    let mut all: Vec<String> = Vec::new();
    for item in items {
        let Some(name) = item.parsed(parse) else {
            continue;
        };
        if name == "*" && credentials {
            item.wrong("found \"*\" with \"credentials\", where it is the name of one and not any; expected names");
        } else if name == "*" && count > 1 {
            item.wrong("found \"*\" beside others, expected it alone");
        } else {
            all.push(name);
        }
    }
    all.join(", ")
}

fn field_name(text: &str) -> Result<String, String> {
    if is_token(text) {
        Ok(text.to_owned())
    } else {
        Err("expected a field name such as \"X-Request-Id\"".to_owned())
    }
}

fn origins(value: &Entry) -> Option<Origins> {
    let items = value.list()?;
    if items.is_empty() {
        value.wrong("found an empty list, expected at least one origin, or no \"cors\"");
        return None;
    }
    if let [only] = items.as_slice()
        && only.as_str() == Some("*")
    {
        return Some(Origins::Any);
    }
    let mut patterns = Vec::new();
    let mut are_sound = true;
    for item in items {
        match item.parsed(origin) {
            Some(pattern) => patterns.push(pattern),
            None => are_sound = false,
        }
    }
    are_sound.then_some(Origins::Listed(patterns))
}

/// Reads an origin in the form in which browsers send it (RFC 6454 §6.2).
fn origin(text: &str) -> Result<OriginPattern, String> {
    if text == "*" {
        return Err("expected \"*\" alone, or origins".to_owned());
    }
    if text.eq_ignore_ascii_case("null") {
        return Err(format!(
            "expected {ORIGIN_EXPECTED}: \"null\" is what any page can make its origin"
        ));
    }
    let sound = normal(text);
    match &sound {
        Some(sound) if sound == text => {}
        meant => {
            let with_scheme = format!("https://{text}");
            let meant = meant
                .clone()
                .or_else(|| normal(&with_scheme).filter(|_| !text.contains("://")));
            return Err(format!(
                "expected {ORIGIN_EXPECTED}, as browsers send it{}",
                did_you_mean(meant.as_deref())
            ));
        }
    }
    Ok(match text.split_once("://*") {
        Some((scheme, domain)) => OriginPattern::Below(format!("{scheme}://"), domain.to_owned()),
        None => OriginPattern::Exact(text.to_owned()),
    })
}

/// An origin in lower case, without a path and without the port that its scheme implies; `None` for what is none.
fn normal(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://")?;
    let is_scheme_byte = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    if !is_scheme || !scheme.bytes().all(is_scheme_byte) {
        return None;
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse::<u16>().ok()?)),
        _ => (authority, None),
    };
    pattern::host(host).ok()?;
    let implied = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.filter(|port| Some(*port) != implied);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{scheme}://{host}{port}"))
}
