//! What must hold of every `Cache-Control` and `CDN-Cache-Control`, whatever the bytes.

use weir_cache::control::{Directive, SECONDS_MAX};
use weir_cache::{RequestControl, ResponseControl};

use crate::cache_head::{Head, lines};

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
        (Directive::NoStore, "no-store"),
        (Directive::Public, "public"),
        (Directive::MustRevalidate, "must-revalidate"),
        (Directive::ProxyRevalidate, "proxy-revalidate"),
        (Directive::MustUnderstand, "must-understand"),
        (Directive::NoTransform, "no-transform"),
        (Directive::Immutable, "immutable"),
    ] {
        assert_eq!(control.says.has(directive), is_there(name), "{name}");
    }
    // With a list of fields they are about the fields, without one about all; never about nothing.
    let withheld = [&b"a"[..], b"b", b"set-cookie"]
        .iter()
        .any(|name| control.withholds(head.fields(), name));
    let is_limited = control.says.has(Directive::NoCache) || control.says.has(Directive::Private);
    let is_named = is_there("no-cache") || is_there("private");
    assert!(is_named || !(is_limited || withheld));
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
    assert_eq!(control.says.has(Directive::NoCache), is_there("no-cache"));
    assert_eq!(control.says.has(Directive::NoStore), is_there("no-store"));
}

/// A targeted field either counts whole, and hides `Cache-Control`, or not at all.
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
    let mut directives = Vec::new();
    for line in data.split(|&b| b == b'\n') {
        let (mut element, mut quoted, mut escaped) = (Vec::new(), false, false);
        for &byte in line {
            if byte == b',' && !quoted {
                directives.push(std::mem::take(&mut element));
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
        directives.push(element);
    }
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
