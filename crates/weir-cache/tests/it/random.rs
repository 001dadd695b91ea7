//! Random input that is nearly right, for the fuzzers' checks; and freshness against the rule as one would say it.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use weir_cache::freshness::{AgeField, Exchanged, initial_age};
use weir_cache::meta::{Demands, LifetimeSource, Meta};
use weir_cache::reuse::{self, Why};
use weir_cache::store_rule::{self, Answered};
use weir_cache::{CachePolicy, RequestControl, Reuse, Timestamp};
use weir_http::{Fields, Method};

use crate::cache_head::Head;
use crate::corpus::{cache_control, range, vary};

const CONTROL_WORDS: [&str; 26] = [
    "max-age",
    "s-maxage",
    "no-cache",
    "no-store",
    "private",
    "public",
    "max-stale",
    "min-fresh",
    "=",
    "=",
    "=",
    ",",
    ", ",
    "\"",
    "\"",
    "\\",
    " ",
    "\t",
    "\n",
    "0",
    "60",
    "99999999999",
    "-",
    "a",
    ";",
    "?1",
];
/// What may stand in one place of a value without making it say something else, as `must-understand` would.
const GARBAGE: [&str; 19] = [
    "x",
    "x=",
    "x=y",
    "\"",
    "x=\"",
    "x=\"y",
    ",",
    ";",
    ":",
    " ",
    "\t",
    "\\",
    "\\\"",
    "'",
    "(",
    "=?0",
    "public",
    "max-age=1",
    "\u{e4}",
];
const VARY_WORDS: [&str; 24] = [
    "Foo",
    "foo",
    "Accept-Language",
    "Accept-Encoding",
    "Accept",
    ": ",
    ": ",
    "\n",
    "\0",
    "\0",
    ",",
    ", ",
    " ,\t",
    ";q=",
    ";q=1",
    "0.50",
    "en",
    "EN",
    "de",
    "\"",
    "*",
    "1",
    "2",
    "\\",
];
const RANGE_WORDS: [&str; 18] = [
    "bytes=",
    "bytes=",
    "-",
    "-",
    "-",
    ",",
    ", ",
    "0",
    "1",
    "5",
    "9",
    "10",
    "99",
    "300",
    "99999999999999999999",
    " ",
    "=",
    "\"",
];

fn words(choice: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    vec(select(choice), 0..24).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn cache_controls(data in words(&CONTROL_WORDS)) {
        cache_control::check(&data);
    }

    /// Whatever is put into a value that closes, it stays closed.
    #[test]
    fn garbage_opens_nothing(
        garbage in vec(select(&GARBAGE[..]), 0..8),
        place in 0..4_usize,
        closing in select(&["private", "no-store", "No-Cache"][..]),
        name in select(&["Cache-Control", "CDN-Cache-Control"][..]),
    ) {
        let mut value = vec!["max-age=600".to_owned(), closing.to_owned(), "public".to_owned()];
        value.insert(place, garbage.concat());
        // Blanks keep garbage and word two words; in between it may well be a readable element, or none.
        for joint in [" ", ", ", " ,"] {
            let value = value.join(joint);
            let lines = [format!("{name}: {value}"), "Cache-Control: max-age=600".to_owned(), "ETag: \"a\"".to_owned()];
            let lines: Vec<_> = lines.into_iter().map(String::into_bytes).collect();
            let head = Head::response(&lines).expect("a response");
            let stored = store_rule::decide(&answered(&head), &CachePolicy::default());
            let is_fresh = stored.is_ok_and(|meta| !meta.demands.has(Demands::VALIDATION));
            prop_assert!(!is_fresh, "{}: {}", name, value);
        }
    }

    #[test]
    fn varies(rest in words(&VARY_WORDS), name in select(&["Foo\0", "Accept-Language\0Accept-Language: ", "Accept\0Accept: "][..])) {
        vary::check(&[name.as_bytes(), &rest].concat());
    }

    #[test]
    fn ranges(body_bytes in 0..400_u16, unit in select(&["bytes=", ""][..]), rest in words(&RANGE_WORDS)) {
        range::check(&[&body_bytes.to_le_bytes()[..], unit.as_bytes(), &rest].concat());
    }

    /// RFC 9111 §4.2.3, formula by formula, in signed numbers.
    #[test]
    fn ages(date in 0..60_i64, said in of(0..60_u32), request in 0..60_000_u64, delay in 0..9_000_u64, later in 0..90_000_u64) {
        let exchanged = Exchanged {
            request_time: Timestamp::from_ms(request),
            response_time: Timestamp::from_ms(request + delay),
        };
        let age = said.map_or(AgeField::Absent, AgeField::Seconds);
        let initial = initial_age(age, Timestamp::from_secs(date as u64), exchanged);
        let response_time = (request + delay).cast_signed();
        let apparent_age = (response_time / 1000 * 1000 - date * 1000).max(0);
        let corrected_age_value = i64::from(said.unwrap_or(0)) * 1000 + delay.cast_signed();
        let corrected_initial_age = apparent_age.max(corrected_age_value);
        prop_assert_eq!(initial.as_millis() as i64, corrected_initial_age);
        let meta = Meta { initial_age: initial, response_time: exchanged.response_time, ..meta() };
        let now = response_time + later.cast_signed();
        let current_age = corrected_initial_age + (now - response_time);
        prop_assert_eq!(meta.age(Timestamp::from_ms(now as u64)).as_millis() as i64, current_age);
        prop_assert_eq!(meta.is_fresh(Timestamp::from_ms(now as u64)), current_age < 30_000);
    }

    /// What is served fits every demand that was made, and what is not served misses one.
    #[test]
    fn reuse_keeps_every_promise(
        age in 0..60_u64, max_age in of(0..60_u32), min_fresh in of(0..40_u32), max_stale in of(0..40_u32),
        allowed in 0..40_u64, flags in 0..16_u8,
    ) {
        let [no_cache, only_if_cached, must_revalidate, asks_validation] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
        let mut demands = Demands::default();
        if must_revalidate { demands = demands.and(Demands::FRESHNESS) }
        if asks_validation { demands = demands.and(Demands::VALIDATION) }
        let meta = Meta { stale_while_revalidate: Duration::from_secs(allowed), demands, ..meta() };
        let request = request(no_cache, only_if_cached, max_age, min_fresh, max_stale);
        let now = Timestamp::from_secs(age);
        let verdict = reuse::decide(&meta, &request, &CachePolicy::default(), now);

        let stale_by = age.cast_signed() - 30;
        let is_fresh = stale_by < 0;
        let client_forbids = no_cache || max_age.is_some_and(|most| most == 0 || age > u64::from(most))
            || min_fresh.is_some_and(|least| least > 0 && age.cast_signed() + i64::from(least) > 30);
        let client_takes = max_stale.is_some_and(|most| stale_by <= i64::from(most)) && !must_revalidate;
        let background = !must_revalidate && stale_by < allowed.cast_signed();
        let usable = !asks_validation && !client_forbids && (is_fresh || client_takes || background);
        let expected = match (usable, only_if_cached) {
            (true, _) if is_fresh => Reuse::Fresh { refresh: false },
            (true, _) if background => Reuse::StaleWhileRevalidate,
            (true, _) => Reuse::StaleForClient,
            (false, true) => Reuse::GatewayTimeout,
            (false, false) => {
                prop_assert!(matches!(verdict, Reuse::Revalidate(_)), "{:?}", verdict);
                let is_of_response = verdict == Reuse::Revalidate(Why::ResponseNoCache);
                prop_assert_eq!(is_of_response, asks_validation);
                return Ok(());
            }
        };
        prop_assert_eq!(verdict, expected);
    }
}

fn answered(response: &Head) -> Answered<'_> {
    Answered {
        method: Method::Get,
        is_keyed_by_body: false,
        target: b"/",
        authority: b"h",
        request: Fields::NONE,
        has_cookies: false,
        status: 200,
        response: response.fields(),
        body_bytes: Some(1),
        exchanged: Exchanged {
            request_time: Timestamp::default(),
            response_time: Timestamp::default(),
        },
    }
}

/// A response of second 0, fresh for 30 seconds.
fn meta() -> Meta {
    Meta {
        status: 200,
        request_time: Timestamp::default(),
        response_time: Timestamp::default(),
        date: Timestamp::default(),
        last_modified: None,
        initial_age: Duration::ZERO,
        lifetime: Duration::from_secs(30),
        lifetime_source: LifetimeSource::MaxAge,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: None,
        demands: Demands::default(),
    }
}

fn request(
    no_cache: bool,
    only_if_cached: bool,
    max_age: Option<u32>,
    min_fresh: Option<u32>,
    max_stale: Option<u32>,
) -> RequestControl {
    let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name}={value}"));
    let word = |name: &str, is_said: bool| is_said.then(|| name.to_owned());
    let said = [
        word("no-cache", no_cache),
        word("only-if-cached", only_if_cached),
        number("max-age", max_age),
        number("min-fresh", min_fresh),
        number("max-stale", max_stale),
    ];
    let said: Vec<_> = said.into_iter().flatten().collect();
    let line = format!("Cache-Control: {}", said.join(", "));
    let head = Head::request(&[line.into_bytes()]).expect("a request");
    RequestControl::of(head.fields())
}
