//! What an unreadable value says: those of `private`, `no-store` and `no-cache` that stand in it as words.
//!
//! `private; max-age=0` and `x="y, private` are not valid by RFC 9111 §5.2, but nobody who writes them wants the
//! response shared. A readable value means what it says, and this file adds nothing to it.

use weir_http::head::is_token_byte;

use super::{Directive, Directives};

/// Whether a line is exactly a list of directives by RFC 9111 §5.2: `name`, `name=token` or `name="string"`, separated
/// by commas. Elements may be empty (RFC 9110 §5.6.1.2). Names with other bytes than letters, digits, `-` and `_` are
/// tokens too, but `'private'` or `private|no-store` is no directive that anybody has defined.
pub(super) fn is_readable(line: &[u8]) -> bool {
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
            continue;
        }
        let Some(after) = after_directive(rest) else {
            return false;
        };
        rest = after.trim_ascii_start();
        if !matches!(rest, [] | [b',', ..]) {
            return false;
        }
    }
    true
}

/// What follows the directive at the start of `text`.
fn after_directive(text: &[u8]) -> Option<&[u8]> {
    let text = after_run(text, is_word_byte)?;
    match text.strip_prefix(b"=") {
        None => Some(text),
        Some(string) if string.starts_with(b"\"") => after_string(&string[1..]),
        Some(token) => after_run(token, is_token_byte),
    }
}

/// What follows one or more bytes of a kind.
fn after_run(text: &[u8], belongs: impl Fn(u8) -> bool) -> Option<&[u8]> {
    let end = text.iter().position(|&b| !belongs(b));
    let end = end.unwrap_or(text.len());
    (end > 0).then(|| &text[end..])
}

/// What follows a quoted string (RFC 9110 §5.6.4); `text` begins after its first quote.
fn after_string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', _, after @ ..] | [_, after @ ..] => after,
            [] => return None,
        };
    }
}

/// Those of the three directives that stand in `line` as words, with or without quotes.
pub(super) fn words(line: &[u8]) -> Directives {
    let mut found = Directives::default();
    for word in line.split(|&b| !is_word_byte(b)) {
        for (name, directive) in [
            ("private", Directive::Private),
            ("no-store", Directive::NoStore),
            ("no-cache", Directive::NoCache),
        ] {
            if word.eq_ignore_ascii_case(name.as_bytes()) {
                found.add(directive);
            }
        }
    }
    found
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
