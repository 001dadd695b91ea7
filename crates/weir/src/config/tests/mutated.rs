//! Whatever a file contains, reading it ends in settings that keep their promises or in a report, never in a panic.

use weir_gateway::settings::{Action, Forward, Settings};

use super::examples::{DOCUMENTED, EVERY_KEY};
use super::parse;
use super::schema::complaints;
use crate::config::ConfigError;

const ROUNDS: usize = 20_000;
/// Mutations of one text: a few keep it close to TOML, many do not.
const MUTATIONS_MAX: usize = 8;
/// What the syntax and the readers take an interest in.
const PIECES: &[&str] = &[
    "\"",
    "'",
    "\"\"\"",
    "[",
    "[[",
    "]",
    "]]",
    "{",
    "}",
    "{*",
    "=",
    ".",
    ",",
    "#",
    "\n",
    "\r",
    "\0",
    "\\u0000",
    "\\",
    "ä",
    "\u{feff}",
    "-1",
    "0",
    "99999999999999999999",
    "1e999",
    "nan",
    "true",
    "1979-05-27",
    "s",
    "KiB",
    "/",
    "//",
    "..",
    "%",
    "%2",
    "?",
    ":",
    "://",
    "*",
    "*.",
    "unix:",
    "http://",
    "https://",
    "[::1]",
    "[route.redirect]",
    "[[route]]",
    "[upstream.x]",
    "upstream",
    "respond = {}",
    "redirect.to = ",
    "5xx",
    "500-503",
    "header:",
    "path:",
    "adaptive",
    "protect = true\n",
    "file = \"/dev/zero\"",
];

#[test]
fn no_text_makes_the_reader_panic() {
    let mut random = fastrand::Rng::with_seed(0x77_65_69_72);
    let mut sound = 0;
    for round in 0..ROUNDS {
        let original = [DOCUMENTED, EVERY_KEY][round % 2];
        let mut chars: Vec<char> = original.chars().collect();
        for _ in 0..random.usize(1..=MUTATIONS_MAX) {
            mutate(&mut chars, &mut random);
        }
        let text: String = chars.into_iter().collect();
        match parse(&text) {
            Ok(settings) => {
                sound += 1;
                assert_promises(&settings, &text);
                let told = complaints(&text);
                assert!(told.is_empty(), "the schema refuses {told:?} of:\n{text}");
            }
            Err(error) => assert_report(&error, &text),
        }
    }
    assert!(
        sound > 0,
        "some mutations are harmless, or too much is refused"
    );
}

fn mutate(chars: &mut Vec<char>, random: &mut fastrand::Rng) {
    let start = random.usize(0..=chars.len());
    let end = (start + random.usize(0..12)).min(chars.len());
    let piece: Vec<char> = match random.u8(0..4) {
        0 => Vec::new(),
        1 => random
            .choice(PIECES)
            .map_or_else(Vec::new, |piece| piece.chars().collect()),
        2 => {
            let from = random.usize(0..=chars.len());
            let to = (from + random.usize(0..60)).min(chars.len());
            chars[from..to].to_vec()
        }
        _ => vec![random.char('\0'..='\u{ff}')],
    };
    if random.bool() {
        chars.splice(start..end, piece);
    } else {
        chars.splice(start..start, piece);
    }
}

/// What the gateway relies on without checking.
fn assert_promises(settings: &Settings, text: &str) {
    assert!(settings.workers >= 1, "{text}");
    assert!(
        !settings.listeners.is_empty() && !settings.routes.is_empty(),
        "{text}"
    );
    for upstream in &settings.upstreams {
        assert!(!upstream.servers.is_empty(), "{text}");
        assert!(
            upstream.servers.iter().all(|server| server.weight >= 1),
            "{text}"
        );
    }
    for route in &settings.routes {
        assert!(route.path.starts_with('/'), "{text}");
        let keeps_promise = match &route.action {
            Action::Forward(forward) => keeps_promises(forward, settings.upstreams.len()),
            Action::Redirect(redirect) => matches!(redirect.status, 300..400),
            Action::Respond(respond) => matches!(respond.status, 200..600),
            Action::Serve(_) => false,
        };
        let rates = route.limits.rates.iter().map(|rule| &rule.quota);
        let mut rates = rates.map(|it| it.requests >= 1 && it.burst >= 1 && !it.per.is_zero());
        assert!(keeps_promise && rates.all(|is_sound| is_sound), "{text}");
    }
}

fn keeps_promises(forward: &Forward, upstreams: usize) -> bool {
    let care = &forward.care;
    let breaker = care.breaker.as_ref().is_none_or(|rule| {
        let open_for = rule.breaker.open_for;
        open_for.first <= open_for.max && rule.breaker.probes >= 1
    });
    let fallback = care.fallback.as_ref().is_none_or(|fallback| {
        let elsewhere = fallback.upstream;
        let is_known = elsewhere.is_none_or(|it| it < upstreams && it != forward.upstream);
        let answer = fallback.answer.as_ref();
        let is_sound = answer.is_none_or(|answer| matches!(answer.status, 200..600));
        is_known && is_sound && (!fallback.stale || forward.cache.is_some())
    });
    forward.upstream < upstreams && care.retry.attempts >= 1 && breaker && fallback
}

/// A report names lines that exist, in their order, each problem on one line.
fn assert_report(error: &ConfigError, text: &str) {
    let ConfigError::Invalid { problems, .. } = error else {
        panic!("a text is invalid, not {error:?}");
    };
    assert!(!problems.is_empty(), "{text}");
    assert!(problems.is_sorted_by_key(|problem| problem.line), "{text}");
    let lines = text.split('\n').count();
    assert!(
        problems
            .iter()
            .all(|problem| (1..=lines).contains(&problem.line)),
        "{text}"
    );
    assert_eq!(error.to_string().lines().count(), problems.len(), "{error}");
}
