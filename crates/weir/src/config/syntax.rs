//! From text to a tree of TOML, and the parser's complaints in the shape of all others.
//!
//! Knows nothing of weir's keys, except that a token is a secret.

use toml::Spanned;
use toml::de::DeTable;

use super::error::Report;
use super::suggest::{did_you_mean, quoted};

/// How the parser's message begins about what stands in a list behind an item.
const MISSING_COMMA: &str = "missing comma between array elements";

/// Parses `text`. What is not TOML is reported, at most one complaint a line: one slip often makes the parser
/// stumble several times. The tree of a text with complaints is a guess and not worth reading.
pub(super) fn parse<'t>(text: &'t str, report: &Report) -> Spanned<DeTable<'t>> {
    parse_at(text, 0, report)
}

/// The same for one of several texts, whose bytes the report counts from `begins`. The places of the tree are those of
/// the text alone.
pub(super) fn parse_at<'t>(text: &'t str, begins: usize, report: &Report) -> Spanned<DeTable<'t>> {
    let (document, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(offset);
    errors.dedup_by_key(|error| report.line(begins + offset(error)));
    // In a list that nobody closed the parser takes every further line for an item.
    errors.dedup_by(|later, error| is_in_list(later) && is_in_list(error));
    for error in &errors {
        let (key, value) = key_and_value(line_at(text, offset(error)));
        let found = error.span().and_then(|span| text.get(span));
        let message = message(error.message(), key, value, found.unwrap_or(""));
        report.add(begins + offset(error), key, message);
    }
    document
}

/// Whether it says that a list goes on.
fn is_in_list(error: &toml::de::Error) -> bool {
    error.message().starts_with(MISSING_COMMA)
}

/// An error without a place counts as one of the beginning.
fn offset(error: &toml::de::Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

fn line_at(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or("");
    let start = before.rfind('\n').map_or(0, |line_break| line_break + 1);
    text[start..].lines().next().unwrap_or("")
}

/// What stands on either side of the `=`: guesses at a key and a value, or at least what the reader will recognise.
fn key_and_value(line: &str) -> (&str, &str) {
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let value = value.split('#').next().unwrap_or("");
    (shown(key.trim()), shown(value.trim()))
}

fn shown(text: &str) -> &str {
    const SHOWN_BYTES_MAX: usize = 60;
    let fits = text.len() <= SHOWN_BYTES_MAX && !text.contains(char::is_control);
    if fits { text } else { "" }
}

/// The parser's words, except where it is common to stumble and ours say more.
fn message(theirs: &str, key: &str, value: &str, found: &str) -> String {
    if theirs.starts_with("duplicate key") {
        return format!("duplicate key {}, expected it only once", quoted(found));
    }
    if theirs.starts_with(MISSING_COMMA) {
        return "found this in a list that is not closed, expected `,` or `]` before it".to_owned();
    }
    let (what, expected) = theirs
        .split_once(", expected ")
        .unwrap_or((theirs, "nothing"));
    // A secret that lost its quotes must not end up in a terminal or a build log.
    let is_secret = key.ends_with("token");
    if what.starts_with("string values must be quoted") && found.is_empty() {
        return "found no value, expected one after the `=`".to_owned();
    }
    if what.starts_with("string values must be quoted") || what.starts_with("invalid float") {
        let is_word = !value.is_empty() && !value.contains([' ', '"', '\'', '[', '{', '=']);
        return format!(
            "found neither a number, a boolean, a list nor a table, expected a string in quotes{}",
            did_you_mean(Some(value).filter(|_| is_word && !is_secret))
        );
    }
    let what = if found.is_empty() || is_secret {
        what.to_owned()
    } else {
        format!("{what} at {}", quoted(found))
    };
    // The parser lists what it could go on with; an empty list tells a reader nothing.
    if expected == "nothing" {
        format!("{what}, which is not TOML")
    } else {
        format!("{what}, expected {expected}")
    }
}
