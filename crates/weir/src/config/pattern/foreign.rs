//! Paths and hosts as other programs write them, and what the same is here.
//!
//! `/api/*` means all that is below `/api/` to nearly everybody, and one file name to a server that takes it to the letter.
//! So nothing that is a pattern elsewhere is taken to the letter here: it is refused, with what it would be. Who means the
//! character itself writes its escape.

use super::HOST_EXPECTED;

/// A pattern of another program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// What is wrong with it, as `expected …`.
    pub(super) expected: String,
    /// What was meant, as far as it can be guessed.
    pub(super) meant: Option<String>,
}

/// What a path is a pattern of, if it is none of ours.
pub(super) fn path(text: &str) -> Option<Foreign> {
    if let Some(foreign) = location(text) {
        return Some(foreign);
    }
    let mut sign = None;
    let mut meant = String::new();
    let segments: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        meant.push('/');
        match translated(segment, is_last) {
            None => meant.push_str(segment),
            Some((found, ours)) => {
                sign = sign.or(Some(found));
                meant.push_str(&ours);
            }
        }
    }
    Some(Foreign {
        expected: expected(sign?),
        meant: Some(meant),
    })
}

/// By what a pattern of others is known.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// A character, and its escape.
    Character(char, &'static str),
    Expression,
}

fn expected(sign: Sign) -> String {
    let parameters = r#"expected "{name}" for one segment or "{*rest}" for all that follow"#;
    match sign {
        Sign::Character(sign, escape) => {
            format!("{parameters}, or \"{escape}\" for a \"{sign}\" itself")
        }
        Sign::Expression => format!("{parameters}: there are no regular expressions"),
    }
}

const STAR: Sign = Sign::Character('*', "%2A");

/// nginx's `= /a`, `^~ /a/`, `~ ^/a`, and expressions that begin with an anchor.
fn location(text: &str) -> Option<Foreign> {
    let (modifier, rest) = ["^~", "~*", "~", "=", "^"]
        .iter()
        .find_map(|modifier| Some((*modifier, text.strip_prefix(modifier)?.trim_start())))?;
    let rest = rest.trim_start_matches('^');
    if !rest.starts_with('/') {
        return None;
    }
    let literal = match rest.find(['*', '(', '[', '$', '\\', '|', '?', '+', '^', '.']) {
        // Half of a name is none.
        Some(end) => &rest[..=rest[..end].rfind('/')?],
        None => rest,
    };
    let (sign, meant) = match modifier {
        "=" => (
            "expected the path alone, which is matched exactly",
            rest.to_owned(),
        ),
        "^~" => (
            r#"expected "{*rest}" for all that begins with a path"#,
            below(rest),
        ),
        _ => (
            r#"expected "{name}" for one segment or "{*rest}" for all that follow: there are no regular expressions"#,
            below(literal),
        ),
    };
    Some(Foreign {
        expected: sign.to_owned(),
        meant: Some(meant),
    })
}

fn below(path: &str) -> String {
    format!("{}/{{*rest}}", path.trim_end_matches('/'))
}

/// What a segment of another program's pattern is here. `None` for what is no such segment.
fn translated(segment: &str, is_last: bool) -> Option<(Sign, String)> {
    let parameter = |name: &str, takes_rest: bool| {
        let name: String = name.chars().take_while(|&c| is_name_char(c)).collect();
        match (takes_rest && is_last, name.is_empty()) {
            (true, true) => "{*rest}".to_owned(),
            (true, false) => format!("{{*{name}}}"),
            (false, true) => "{name}".to_owned(),
            (false, false) => format!("{{{name}}}"),
        }
    };
    let between = |open, close| segment.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = between('{', '}') {
        return of_braces(inner).map(|(name, takes_rest)| (STAR, parameter(name, takes_rest)));
    }
    if segment.contains(['{', '}']) {
        return None;
    }
    // Flask: `<id>`, `<int:id>`, `<path:rest>`.
    if let Some(inner) = between('<', '>') {
        let (kind, name) = inner.split_once(':').unwrap_or(("", inner));
        return Some((Sign::Character('<', "%3C"), parameter(name, kind == "path")));
    }
    // Next.js: `[id]`, `[...rest]`.
    if let Some(inner) = between('[', ']') {
        let name = inner.trim_start_matches("...");
        let sign = Sign::Character('[', "%5B");
        return Some((sign, parameter(name, name.len() < inner.len())));
    }
    // Express: `:id`, `:rest*`, `:id(\d+)`.
    if let Some(name) = segment.strip_prefix(':').filter(|name| !name.is_empty()) {
        let takes_rest = name.ends_with(['*', '+']) && !name.contains('(');
        return Some((Sign::Character(':', "%3A"), parameter(name, takes_rest)));
    }
    if is_expression(segment) {
        return Some((Sign::Expression, parameter("", true)));
    }
    let (before, after) = segment.split_once('*')?;
    let name = after.trim_start_matches('*');
    Some((
        STAR,
        match (before, is_last) {
            ("", _) if name.chars().all(is_name_char) => parameter(name, true),
            (before, true) if name.is_empty() => format!("{before}/{{*rest}}"),
            // A parameter is a whole segment.
            _ => parameter("", true),
        },
    ))
}

/// The name and kind of a parameter in braces that is written as elsewhere: `{id:int}`, `{rest:path}`, `{**rest}`,
/// `{rest...}`.
fn of_braces(inner: &str) -> Option<(&str, bool)> {
    if let Some((name, kind)) = inner.split_once(':') {
        let takes_rest = kind == "path" || kind.starts_with(".*");
        return Some((name.trim_start_matches('*'), takes_rest));
    }
    let name = inner
        .strip_prefix("**")
        .or_else(|| inner.strip_suffix("..."));
    name.map(|name| (name, true))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether a segment has what only regular expressions have.
fn is_expression(segment: &str) -> bool {
    let signs = [
        "(?", "(.", ".*", ".+", "[0-9", "[a-z", "[A-Z", "[^", r"\d", r"\w", "^",
    ];
    signs.iter().any(|sign| segment.contains(sign))
}

/// What a host is a pattern of, if it is none of ours.
pub(super) fn host(text: &str) -> Option<Foreign> {
    let meaning = |meant: String| Foreign {
        expected: format!("expected {HOST_EXPECTED}"),
        meant: Some(meant),
    };
    // The second is nginx's name of a server for all that is left.
    if matches!(text, "*" | "_") {
        return Some(Foreign {
            expected: format!("expected {HOST_EXPECTED}, or no \"host\" for all of them"),
            meant: None,
        });
    }
    if let Some(domain) = text.strip_prefix('.') {
        return Some(meaning(format!("*.{domain}")));
    }
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = after_scheme.split('/').next().unwrap_or_default();
    (host.len() < text.len() && !host.is_empty()).then(|| meaning(host.to_owned()))
}
