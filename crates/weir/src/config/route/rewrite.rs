//! `rewrite` of a route: a path that is made of the parameters of another one.
//!
//! Whatever the parameters stand for, the path must not turn into another one upstream: no dot segment, no escape and no
//! query may come of putting texts and values together.

use weir_gateway::settings::template::{Known, Part, Template};

use crate::config::pattern;
use crate::config::template::{Scope, template};

/// What it looks like.
pub(in crate::config) const REWRITE_EXPECTED: &str =
    r#"a path such as "/v2/{rest}", of parameters of the route's path"#;

/// Reads the path to ask for, on a route whose path has `parameters`.
pub(in crate::config) fn path(text: &str, parameters: &[String]) -> Result<Template, String> {
    if !text.starts_with('/') {
        return Err(format!("expected {REWRITE_EXPECTED}, beginning with \"/\""));
    }
    let scope = Scope {
        known: Known::WithRequest,
        only: Some(&[]),
        parameters,
    };
    if let Some(name) = text
        .split("{*")
        .nth(1)
        .and_then(|rest| rest.split('}').next())
        && parameters.iter().any(|known| known == name)
    {
        let meant = text.replacen("{*", "{", 1);
        return Err(format!(
            "expected a parameter without its star; did you mean {meant:?}?"
        ));
    }
    let template = template(text, scope)?;
    let mut whole = String::new();
    for part in &template.parts {
        match part {
            Part::Text(text) if text.contains(['{', '}']) => {
                return Err(
                    "expected single braces around parameters, and all others as %7B and %7D"
                        .to_owned(),
                );
            }
            Part::Text(text) => whole.push_str(text),
            // No digit of an escape, and no dot.
            Part::Variable(_) => whole.push('x'),
        }
    }
    pattern::check_path_text(&whole)?;
    if whole.contains("%25") {
        return Err("expected a path without escapes of escapes".to_owned());
    }
    check_dots(&template)?;
    Ok(template)
}

/// Refuses dots that a value beside them could make a dot segment of: `/a/.{rest}` with a rest that is empty.
fn check_dots(template: &Template) -> Result<(), String> {
    let is_dots = |piece: &str| !piece.is_empty() && piece.bytes().all(|b| b == b'.');
    let last = template.parts.len().saturating_sub(1);
    for (at, part) in template.parts.iter().enumerate() {
        let Part::Text(text) = part else { continue };
        let (first_piece, last_piece) = (
            text.split('/').next().unwrap_or_default(),
            text.rsplit('/').next().unwrap_or_default(),
        );
        if (at > 0 && is_dots(first_piece)) || (at < last && is_dots(last_piece)) {
            return Err("expected more than dots beside a parameter".to_owned());
        }
    }
    Ok(())
}
