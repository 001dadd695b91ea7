//! What a log line does not say of URLs: whole queries, or the values of named parameters.
//!
//! A name is read as servers read it, so that `to%6Ben` is `token`, and in any case of letters. What a parameter holds is not
//! looked into: a URL in it is a value like any other.

use crate::settings::Redact;

/// What stands in the place of what is left out.
const INSTEAD: &[u8] = b"REDACTED";

/// Calls `each` with the pieces of `text` that may be told, in their order: a URL, or a query alone.
pub(super) fn pieces(text: &[u8], is_query: bool, redact: &Redact, mut each: impl FnMut(&[u8])) {
    let start = || {
        let mark = memchr::memchr2(b'?', b'#', text);
        if is_query {
            Some(0)
        } else {
            mark.map(|at| at + 1)
        }
    };
    match redact {
        Redact::Nothing => each(text),
        Redact::Queries => match start() {
            Some(start) if start < text.len() => {
                each(&text[..start]);
                each(INSTEAD);
            }
            _ => each(text),
        },
        Redact::Parameters(names) => match start() {
            Some(start) => {
                each(&text[..start]);
                parameters(&text[start..], names, each);
            }
            None => each(text),
        },
    }
}

/// The same for the part behind the first `?` or `#`. A fragment may hold parameters too, in a `Location`.
fn parameters(query: &[u8], names: &[String], mut each: impl FnMut(&[u8])) {
    let ends = |byte: &u8| matches!(byte, b'&' | b';' | b'?' | b'#');
    for pair in query.split_inclusive(ends) {
        let Some(equals) = memchr::memchr(b'=', pair) else {
            each(pair);
            continue;
        };
        let (name, value) = pair.split_at(equals + 1);
        if names.iter().any(|named| is_called(&name[..equals], named)) {
            each(name);
            each(INSTEAD);
            each(
                value
                    .last()
                    .filter(|last| ends(last))
                    .map_or(b"", std::slice::from_ref),
            );
        } else {
            each(pair);
        }
    }
}

/// Whether a parameter that was sent as `sent` is called `name`.
fn is_called(sent: &[u8], name: &str) -> bool {
    let mut rest = sent;
    let decoded = std::iter::from_fn(|| {
        let (&first, behind) = rest.split_first()?;
        let hex = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        let escaped = (first == b'%')
            .then(|| Some(hex(0)? * 16 + hex(1)?))
            .flatten();
        rest = &behind[if escaped.is_some() { 2 } else { 0 }..];
        Some(escaped.map_or(first, |byte| byte as u8))
    });
    let lower = decoded.map(|byte| byte.to_ascii_lowercase());
    lower.eq(name.bytes().map(|byte| byte.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, is_query: bool, redact: &Redact) -> String {
        let mut out = Vec::new();
        pieces(text.as_bytes(), is_query, redact, |piece| {
            out.extend_from_slice(piece);
        });
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_is_told_of_urls() {
        let named = Redact::Parameters(vec!["token".to_owned(), "Code".to_owned()]);
        for (url, queries, parameters) in [
            ("/a", "/a", "/a"),
            ("/a?", "/a?", "/a?"),
            ("/a?b", "/a?REDACTED", "/a?b"),
            ("/a?token=1", "/a?REDACTED", "/a?token=REDACTED"),
            (
                "/a?b=1&TOKEN=2&c=3",
                "/a?REDACTED",
                "/a?b=1&TOKEN=REDACTED&c=3",
            ),
            (
                "/a?to%6ben=1;code=2;d",
                "/a?REDACTED",
                "/a?to%6ben=REDACTED;code=REDACTED;d",
            ),
            (
                "/a?token=1=2?token=3",
                "/a?REDACTED",
                "/a?token=REDACTED?token=REDACTED",
            ),
            (
                "/a?tokens=1&xtoken=2&token",
                "/a?REDACTED",
                "/a?tokens=1&xtoken=2&token",
            ),
            (
                "https://h/#token=1&x=2",
                "https://h/#REDACTED",
                "https://h/#token=REDACTED&x=2",
            ),
            ("/a?%=1&%6=2&%zz=3", "/a?REDACTED", "/a?%=1&%6=2&%zz=3"),
            ("/token=1", "/token=1", "/token=1"),
        ] {
            assert_eq!(told(url, false, &Redact::Nothing), url);
            assert_eq!(told(url, false, &Redact::Queries), queries, "{url}");
            assert_eq!(told(url, false, &named), parameters, "{url}");
        }
        assert_eq!(told("a=1&token=2", true, &named), "a=1&token=REDACTED");
        assert_eq!(told("a=1&token=2", true, &Redact::Queries), "REDACTED");
        assert_eq!(told("", true, &Redact::Queries), "");
    }
}
