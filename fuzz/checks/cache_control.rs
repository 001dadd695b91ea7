//! What must hold of every `Cache-Control` and `CDN-Cache-Control`, whatever the bytes.

use weir_cache::control::{Directive, SECONDS_MAX};
use weir_cache::{RequestControl, ResponseControl};

use crate::cache_head::{Head, lines};

const CLOSING: [(Directive, &str); 3] = [
    (Directive::NoStore, "no-store"),
    (Directive::NoCache, "no-cache"),
    (Directive::Private, "private"),
];

/// Panics if reading the lines of `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let Some(head) = Head::response(&lines("Cache-Control", data)) else {
        return;
    };
    let control = ResponseControl::of(head.fields());
    let directives = by_bytes(data);
    assert!(!control.is_targeted);
    let shortest = |name: &str| {
        let named = directives.iter().filter(|(own, _)| own == name);
        named
            .map(|(_, argument)| seconds(argument.as_deref()).unwrap_or(0))
            .min()
    };
    assert_eq!(control.max_age, shortest("max-age"));
    assert_eq!(control.s_maxage, shortest("s-maxage"));
    assert_eq!(
        control.stale_while_revalidate,
        shortest("stale-while-revalidate")
    );
    assert_eq!(control.stale_if_error, shortest("stale-if-error"));
    let is_there = |name: &str| directives.iter().any(|(own, _)| own == name);
    for (directive, name) in [
        (Directive::Public, "public"),
        (Directive::MustRevalidate, "must-revalidate"),
        (Directive::ProxyRevalidate, "proxy-revalidate"),
        (Directive::NoTransform, "no-transform"),
        (Directive::Immutable, "immutable"),
    ] {
        assert_eq!(control.says.has(directive), is_there(name), "{name}");
    }
    // Of three directives it is enough that they stand in what cannot be read.
    let is_unreadable = !data.split(|&b| b == b'\n').all(is_readable);
    let is_word = |name: &str| is_unreadable && has_word(data, name);
    assert_eq!(
        control.says.has(Directive::NoStore),
        is_there("no-store") || is_word("no-store")
    );
    assert_eq!(
        control.says.has(Directive::MustUnderstand),
        is_there("must-understand") && !is_word("no-store")
    );
    for (directive, name) in CLOSING {
        assert!(control.says.has(directive) || !is_word(name), "{name}");
    }
    // With a list of fields they are about the fields, without one about all; never about nothing.
    let withheld = [&b"a"[..], b"b", b"set-cookie"]
        .iter()
        .any(|name| control.withholds(head.fields(), name));
    let is_limited = control.says.has(Directive::NoCache) || control.says.has(Directive::Private);
    let is_named = is_there("no-cache") || is_there("private");
    let is_closed = is_word("no-cache") || is_word("private");
    assert!(is_named || is_closed || !(is_limited || withheld));
    check_request(data);
    check_targeted(data);
}

fn check_request(data: &[u8]) {
    let Some(head) = Head::request(&lines("Cache-Control", data)) else {
        return;
    };
    let (control, directives) = (RequestControl::of(head.fields()), by_bytes(data));
    let is_there = |name: &str| directives.iter().any(|(own, _)| own == name);
    assert_eq!(control.max_age.is_some(), is_there("max-age"));
    assert_eq!(control.min_fresh.is_some(), is_there("min-fresh"));
    assert_eq!(control.max_stale.is_some(), is_there("max-stale"));
    let is_unreadable = !data.split(|&b| b == b'\n').all(is_readable);
    for (directive, name) in [
        (Directive::NoCache, "no-cache"),
        (Directive::NoStore, "no-store"),
    ] {
        let is_said = is_there(name) || is_unreadable && has_word(data, name);
        assert_eq!(control.says.has(directive), is_said, "{name}");
    }
}

/// A targeted field either counts whole, and hides `Cache-Control`, or opens nothing.
fn check_targeted(data: &[u8]) {
    let mut both = lines("CDN-Cache-Control", data);
    both.push(b"Cache-Control: max-age=7, private".to_vec());
    let Some(head) = Head::response(&both) else {
        return;
    };
    let control = ResponseControl::of(head.fields());
    if !control.is_targeted {
        let plain = ResponseControl {
            max_age: Some(7),
            ..control
        };
        assert!(control == plain && control.says.has(Directive::Private));
        for (directive, name) in CLOSING {
            assert!(control.says.has(directive) || !has_word(data, name));
        }
        return;
    }
    for seconds in [control.max_age, control.s_maxage].into_iter().flatten() {
        assert!(seconds <= SECONDS_MAX);
    }
    // One more member that is no member makes all of it worthless.
    both[0].extend_from_slice(b", =");
    let broken = Head::response(&both).expect("three more bytes are a head");
    assert!(!ResponseControl::of(broken.fields()).is_targeted);
}

/// A second opinion: names in lower case and arguments, read byte by byte with one state.
fn by_bytes(data: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let directives: Vec<_> = data
        .split(|&b| b == b'\n')
        .flat_map(|l| elements(l).0)
        .collect();
    let mut read = Vec::new();
    for element in directives {
        let element = element.trim_ascii();
        // The sign counts where no quote stands before it: a name has none.
        let sign = element.iter().position(|&b| b == b'=' || b == b'"');
        let sign = sign.filter(|&at| element[at] == b'=');
        let (name, argument) = match sign {
            Some(at) if element[..at].ends_with(b" ") => (&element[..at], Some(b" ".to_vec())),
            Some(at) => (&element[..at], Some(element[at + 1..].to_vec())),
            None => (element, None),
        };
        let name = name.trim_ascii_end().to_ascii_lowercase();
        read.push((String::from_utf8_lossy(&name).into_owned(), argument));
    }
    read
}

/// The elements of a line, and whether all its strings end.
fn elements(line: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut all, mut element, mut quoted, mut escaped) = (Vec::new(), Vec::new(), false, false);
    for &byte in line {
        if byte == b',' && !quoted {
            all.push(std::mem::take(&mut element));
            continue;
        }
        let was_escaped = std::mem::take(&mut escaped);
        if !was_escaped {
            match byte {
                b'"' => quoted = !quoted,
                b'\\' if quoted => escaped = true,
                _ => {}
            }
        }
        element.push(byte);
    }
    all.push(element);
    (all, !quoted)
}

/// Whether each element is nothing, a plain name, or a name with a token or with one string that is all of the argument.
fn is_readable(line: &[u8]) -> bool {
    let (all, ends) = elements(line);
    let is_directive = |element: Vec<u8>| {
        let element = element.trim_ascii();
        let sign = element.iter().position(|&b| b == b'=');
        let (name, argument) = element.split_at(sign.unwrap_or(element.len()));
        let is_string = |argument: &[u8]| {
            let inner = argument
                .strip_prefix(b"\"")
                .and_then(|a| a.strip_suffix(b"\""));
            let mut inner = inner.unwrap_or(b"\"").iter();
            // No quote may stand inside but behind a backslash, which may not be the last.
            std::iter::from_fn(|| {
                inner.next().map(|&b| match b {
                    b'"' => false,
                    b'\\' => inner.next().is_some(),
                    _ => true,
                })
            })
            .all(|is_fine| is_fine)
        };
        let is_token = |text: &[u8]| {
            let is_byte = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
            !text.is_empty() && text.iter().all(is_byte)
        };
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
        element.is_empty()
            || !name.is_empty()
                && name.iter().all(is_name)
                && match argument {
                    [] => true,
                    [_, argument @ ..] => is_token(argument) || is_string(argument),
                }
    };
    ends && all.into_iter().all(is_directive)
}

/// Whether `name` stands somewhere with nothing beside it that words are made of.
fn has_word(data: &[u8], name: &str) -> bool {
    let is_part =
        |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
    data.windows(name.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|at| data.get(at));
        window.eq_ignore_ascii_case(name.as_bytes())
            && !is_part(before)
            && !is_part(data.get(at + name.len()))
    })
}

fn seconds(argument: Option<&[u8]>) -> Option<u32> {
    let text = std::str::from_utf8(argument?).ok()?;
    let quoted = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let digits = quoted.unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = digits.trim_start_matches('0').parse::<u128>();
    Some(match number {
        Ok(number) => number.min(u128::from(SECONDS_MAX)) as u32,
        Err(_) if digits.bytes().all(|b| b == b'0') => 0,
        Err(_) => SECONDS_MAX,
    })
}
