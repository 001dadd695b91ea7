//! What must hold of every `Vary` and every pair of requests, whatever the bytes: the input is the lines of `Vary`, then
//! after a NUL the lines of one request, then after a NUL those of another.

use weir_cache::vary;
use weir_http::Fields;

use crate::cache_head::{Head, lines};

/// Panics if choosing by `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let mut parts = data.splitn(3, |&b| b == 0);
    let mut next = || parts.next().unwrap_or_default();
    let Some(response) = Head::response(&lines("Vary", next())) else {
        return;
    };
    let (one, other) = (request(next()), request(next()));
    let (Some(one), Some(other)) = (one, other) else {
        return;
    };
    for order_matters in [false, true] {
        let key = |head: &Head| secondary(response.fields(), head.fields(), order_matters);
        let selects = |key: &[u8], head: &Head| {
            vary::matches(key, head.fields(), order_matters, &mut b"used".to_vec())
        };
        let (a, b) = (key(&one), key(&other));
        assert!(selects(&a, &one), "a request selects its own variant");
        assert!(selects(&b, &other));
        assert_eq!(selects(&a, &other), a == b, "equal keys select alike");
        assert_eq!(selects(&b, &one), a == b);
        check_same(&a, &b, response.fields(), &one, &other);
        check_different(&a, &b, response.fields(), &one, &other);
        let names: Vec<_> = vary::names(&a).collect();
        assert!(names.is_sorted(), "the names are in order");
        assert!(names.iter().eq(vary::names(&b).collect::<Vec<_>>().iter()));
    }
}

/// The rule as RFC 9111 §4.1 states it, without any normal form: the lines of each named field, byte by byte. Requests
/// that are the same by it must be the same by the key, and a field that only one of them has must tell them apart.
fn check_same(a: &[u8], b: &[u8], response: Fields<'_>, one: &Head, other: &Head) {
    let names = response.elements(weir_http::FieldName::Vary);
    let mut all_same = true;
    for name in names {
        let (own, others) = (lines_of(one, name), lines_of(other, name));
        all_same &= own == others;
        assert!(own.is_empty() == others.is_empty() || a != b);
    }
    assert!(!all_same || a == b);
}

/// Only the four fields of content negotiation have more than one spelling, and only when they have one line, no empty
/// elements and no strings. What differs beyond blanks, zeros, letters and order is different.
fn check_different(a: &[u8], b: &[u8], response: Fields<'_>, one: &Head, other: &Head) {
    for name in response.elements(weir_http::FieldName::Vary) {
        let (own, others) = (lines_of(one, name), lines_of(other, name));
        if own == others {
            continue;
        }
        let has_forms = [
            "accept",
            "accept-charset",
            "accept-encoding",
            "accept-language",
        ];
        let has_forms = has_forms
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let is_list = |lines: &[Vec<u8>]| {
            let is_plain = |element: &[u8]| !element.trim_ascii().is_empty();
            matches!(lines, [line] if !line.contains(&b'"') && line.split(|&b| b == b',').all(is_plain))
        };
        if !has_forms || !is_list(&own) || !is_list(&others) {
            assert!(a != b, "they differ in a field that is taken as it stands");
        }
    }
}

fn lines_of(head: &Head, name: &[u8]) -> Vec<Vec<u8>> {
    let is_it = |(_, own, _): &(_, &[u8], &[u8])| own.eq_ignore_ascii_case(name);
    let named = head.fields().iter().filter(is_it);
    named.map(|(.., value)| value.to_vec()).collect()
}

fn request(data: &[u8]) -> Option<Head> {
    let lines: Vec<_> = data
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    Head::request(&lines)
}

fn secondary(response: Fields<'_>, request: Fields<'_>, order_matters: bool) -> Vec<u8> {
    let mut out = Vec::new();
    vary::write_secondary(response, request, order_matters, &mut out);
    out
}
