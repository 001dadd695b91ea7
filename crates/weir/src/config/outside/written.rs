//! The form in which a text names variables: `${NAME}`, `${NAME:-DEFAULT}`, and `$${` for a literal `${`.

use crate::config::suggest::quoted;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// It stands for itself.
    Text(&'t str),
    /// The value of a variable.
    Variable {
        name: &'t str,
        default: Option<&'t str>,
    },
}

/// The parts of `text`, in their order. The error says what is wrong, and how it is written.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, found) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            pieces.extend([Piece::Text(before), Piece::Text("${")]);
            rest = &found[2..];
            continue;
        }
        pieces.push(Piece::Text(before));
        let (inside, after) = found[2..].split_once('}').ok_or_else(|| wrong(found))?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) || default.is_some_and(|default| default.contains("${")) {
            return Err(wrong(&found[..inside.len() + 3]));
        }
        pieces.push(Piece::Variable { name, default });
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn wrong(found: &str) -> String {
    format!(
        "expected a variable such as \"${{PORT}}\" or \"${{PORT:-8080}}\" at {}; a literal ${{ is written $${{",
        quoted(found)
    )
}

/// As shells name variables.
fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text says when each variable stands for its name in brackets.
    fn said(text: &str) -> Result<String, String> {
        let said = |piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Variable { name, default } => match default {
                Some(default) => format!("[{name}|{default}]"),
                None => format!("[{name}]"),
            },
        };
        pieces(text).map(|pieces| pieces.into_iter().map(said).collect())
    }

    #[test]
    fn variables_are_told_from_text() {
        for (text, expected) in [
            ("", ""),
            ("plain $5 $HOME $$ }", "plain $5 $HOME $$ }"),
            ("${A}", "[A]"),
            ("${A}${_b2}", "[A][_b2]"),
            ("x${A}y", "x[A]y"),
            ("${A:-}", "[A|]"),
            ("${A:-0.0.0.0:80}z", "[A|0.0.0.0:80]z"),
            ("${A:-a:-b}", "[A|a:-b]"),
            ("${A:-{rest}", "[A|{rest]"),
            ("$${A}", "${A}"),
            ("a$${A}${B}", "a${A}[B]"),
            ("$$${A}", "$${A}"),
        ] {
            assert_eq!(said(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_names_no_variable_is_told() {
        for (text, shown) in [
            ("${", "${"),
            ("a ${A", "${A"),
            ("${}b", "${}"),
            ("${1A}", "${1A}"),
            ("${A-b}", "${A-b}"),
            ("${A }", "${A }"),
            ("${Ä}", "${Ä}"),
            ("${A:-${B}}", "${A:-${B}"),
        ] {
            let error = said(text).unwrap_err();
            assert!(
                error.contains(&format!("at {shown:?}; ")),
                "{text}: {error}"
            );
        }
    }
}
