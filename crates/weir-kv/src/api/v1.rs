//! `/v1`: keys as paths, entity tags and conditions (RFC 9110 §8.8.3, §13), times to live, batches and ranges of the whole cluster.
//!
//! ```text
//! GET    /v1/kv/KEY                  200 and the value, with ETag; 304, 404
//! PUT    /v1/kv/KEY[?ttl=10m]        201 with ETag; 412
//! DELETE /v1/kv/KEY                  204; 412
//! POST   /v1/batch                   lines of JSON, each a read or a write, answered by a line each
//! GET    /v1/range?start=K&end=K     lines of JSON, in the order of their keys; also prefix= and limit=
//!                                    and start_base64=, end_base64= for keys that are no text
//! GET    /v1/placement[?key=K]       which nodes there are, and which have a key
//! ```
//!
//! A key is everything behind `/v1/kv/`, percent-decoded. `If-Match` and `If-None-Match` make a write conditional. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use weir_http::{Fields, Method};

use super::{KEY_BYTES_MAX, Parameters, Refusal, Size, key, not_allowed};
use crate::condition::{Condition, NoTags, Tags};
use crate::frame::{Ask, Span, TAGS_MAX, What};

/// Keys of a range, unless a request says otherwise, and at most.
const LIMIT: usize = 1000;
const LIMIT_MAX: usize = 1_000_000;
/// What a range may say.
const RANGE: [&str; 6] = [
    "prefix",
    "start",
    "end",
    "start_base64",
    "end_base64",
    "limit",
];
/// The longest time to live: a hundred years.
const TTL_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// Something to be done for one key. The value of a `put` is the content.
    One(Ask),
    Batch,
    Range(Range),
    Placement(Option<Bytes>),
}

/// Keys from one on, up to another one without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Bytes,
    pub(crate) end: Option<Bytes>,
    pub(crate) limit: usize,
}

/// Reads a request.
pub(crate) fn parse(
    method: Method,
    path: &[u8],
    query: &[u8],
    fields: Fields<'_>,
    (size, unix_ms): (Size, u64),
) -> Result<Call, Refusal> {
    let parameters = Parameters::read(query)?;
    let rest = path.strip_prefix(b"/v1").unwrap_or(path);
    if let Some(encoded) = rest.strip_prefix(b"/kv/") {
        let key = decoded(encoded)?;
        let what = match method {
            Method::Get | Method::Head => What::Get,
            Method::Put => What::Put {
                value: Bytes::new(),
                expires_ms: expires_ms(parameters.find("ttl")?, unix_ms)?,
            },
            Method::Delete => What::Delete,
            _ => return Err(not_allowed("GET, HEAD, PUT, DELETE")),
        };
        parameters.expect_only(&["ttl", "replicas", "ack", "from"])?;
        if parameters.find("ttl")?.is_some() && method != Method::Put {
            return Err(Refusal::bad("only a PUT has a ttl"));
        }
        let (quorum, condition) = (parameters.quorum(size)?, condition(fields)?);
        let is_conditional = what != What::Get && !condition.is_none();
        if is_conditional && !quorum.may_decide(size.replicas) {
            return Err(Refusal::bad(quorum.indecision(size.replicas)));
        }
        return Ok(Call::One(Ask {
            key,
            what,
            quorum,
            condition,
            until_ms: None,
        }));
    }
    match (rest, method) {
        (b"/batch", Method::Post) => {
            parameters.expect_only(&[])?;
            Ok(Call::Batch)
        }
        (b"/batch", _) => Err(not_allowed("POST")),
        (b"/range", Method::Get | Method::Head) => range(&parameters).map(Call::Range),
        (b"/placement", Method::Get | Method::Head) => {
            parameters.expect_only(&["key"])?;
            let asked = parameters.find("key")?;
            let asked = asked.map(|asked| key("key", Some(asked))).transpose()?;
            Ok(Call::Placement(asked))
        }
        (b"/range" | b"/placement", _) => Err(not_allowed("GET, HEAD")),
        _ => Err(Refusal {
            status: 404,
            why: "there are /v1/kv/KEY, /v1/batch, /v1/range and /v1/placement".to_owned(),
            allow: "",
        }),
    }
}

/// The key that a path says.
fn decoded(encoded: &[u8]) -> Result<Bytes, Refusal> {
    let mut key = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(Refusal::bad(
                "the key has a % without two hexadecimal digits",
            ));
        };
        key.push((high * 16 + low) as u8);
        rest = &after[2..];
    }
    match key.len() {
        0 => Err(Refusal::bad("the key is empty: expected /v1/kv/KEY")),
        1..=KEY_BYTES_MAX => Ok(key.into()),
        bytes => Err(Refusal::bad(format!(
            "the key has {bytes} bytes, and may have {KEY_BYTES_MAX}"
        ))),
    }
}

fn condition(fields: Fields<'_>) -> Result<Condition, Refusal> {
    let condition = Condition {
        matches: tags("If-Match", fields.named(b"if-match"), false)?,
        matches_none: tags("If-None-Match", fields.named(b"if-none-match"), true)?,
    };
    check_condition(condition)
}

/// Reads a condition. One that is broken is no condition that anybody meant.
pub(crate) fn tags<'l>(
    name: &str,
    lines: impl Iterator<Item = &'l [u8]>,
    is_weak: bool,
) -> Result<Option<Tags>, Refusal> {
    let expected = || Refusal::bad(format!("{name} is neither * nor entity tags in quotes"));
    Tags::read(lines, is_weak).map_err(|NoTags| expected())
}

/// A condition that has not too many tags.
pub(crate) fn check_condition(condition: Condition) -> Result<Condition, Refusal> {
    let is_long =
        |tags: &Option<Tags>| matches!(tags, Some(Tags::These(these)) if these.len() > TAGS_MAX);
    if is_long(&condition.matches) || is_long(&condition.matches_none) {
        let why = format!("more than {TAGS_MAX} entity tags in a condition");
        return Err(Refusal::bad(why));
    }
    Ok(condition)
}

/// When a value with this time to live is no longer there, in milliseconds since 1970.
pub(crate) fn expires_ms(ttl: Option<&str>, unix_ms: u64) -> Result<Option<u64>, Refusal> {
    const UNITS: [(&str, u64); 5] = [
        ("ms", 1),
        ("s", 1000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ];
    let Some(text) = ttl else {
        return Ok(None);
    };
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let unit = &text[digits.len()..];
    // As in Cache-Control, a bare number is seconds.
    let unit = if unit.is_empty() { "s" } else { unit };
    let unit_ms = UNITS.iter().find(|(name, _)| *name == unit);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok().filter(|_| is_number);
    let ttl_ms = unit_ms.and_then(|(_, unit_ms)| number?.checked_mul(*unit_ms));
    let range = 1..=TTL_MAX.as_millis() as u64;
    let ttl_ms = ttl_ms.filter(|ttl_ms| range.contains(ttl_ms));
    let expected =
        || format!("ttl is {text:?}, expected a time such as 500ms, 30s, 10m, 12h or 7d");
    let ttl_ms = ttl_ms.ok_or_else(|| Refusal::bad(expected()))?;
    Ok(Some(unix_ms + ttl_ms))
}

fn range(parameters: &Parameters) -> Result<Range, Refusal> {
    parameters.expect_only(&RANGE)?;
    let find = |name| {
        parameters
            .find(name)
            .map(|found| found.filter(|text| !text.is_empty()))
    };
    let (prefix, start, end) = (find("prefix")?, find("start")?, find("end")?);
    let (start_base64, end_base64) = (find("start_base64")?, find("end_base64")?);
    let limit = match parameters.find("limit")? {
        None => LIMIT,
        Some(text) => {
            let limit = text.parse().ok();
            let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
            limit.ok_or_else(|| {
                Refusal::bad(format!("limit is {text:?}, expected 1 to {LIMIT_MAX}"))
            })?
        }
    };
    let bytes = |name: &str, text: Option<&str>, base64: Option<&str>| match (text, base64) {
        (Some(_), Some(_)) => Err(Refusal::bad(format!("either {name} or {name}_base64"))),
        (None, Some(base64)) => decoded_base64(base64).map(Some),
        (text, None) => text.map(|text| key(name, Some(text))).transpose(),
    };
    let (start, end) = (
        bytes("start", start, start_base64)?,
        bytes("end", end, end_base64)?,
    );
    if let Some(prefix) = prefix {
        if start.is_some() || end.is_some() {
            return Err(Refusal::bad("either prefix, or start and end"));
        }
        let span = Span::with_prefix(&key("prefix", Some(prefix))?);
        return Ok(Range {
            start: span.from,
            end: span.to,
            limit,
        });
    }
    Ok(Range {
        start: start.unwrap_or_default(),
        end,
        limit,
    })
}

/// A key that is no text.
pub(crate) fn decoded_base64(text: &str) -> Result<Bytes, Refusal> {
    let key = BASE64.decode(text);
    let key = key.map_err(|error| Refusal::bad(format!("the key is not in base64: {error}")))?;
    match key.len() {
        1..=KEY_BYTES_MAX => Ok(key.into()),
        bytes => Err(Refusal::bad(format!(
            "the key has {bytes} bytes, and may have 1 to {KEY_BYTES_MAX}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::Quorum;

    const NOW_MS: u64 = 1_000_000;

    fn call(method: Method, target: &str, lines: &str) -> Result<Call, u16> {
        let head = format!("GET {target} HTTP/1.1\r\n{lines}\r\n");
        let mut table = Vec::new();
        Fields::scan(head.as_bytes(), &mut table);
        let fields = Fields::new(head.as_bytes(), &table);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let size = Size::whole(3);
        let parsed = parse(
            method,
            path.as_bytes(),
            query.as_bytes(),
            fields,
            (size, NOW_MS),
        );
        parsed.map_err(|refusal| refusal.status)
    }

    fn one(method: Method, target: &str, lines: &str) -> Ask {
        match call(method, target, lines) {
            Ok(Call::One(ask)) => ask,
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn a_key_is_the_rest_of_the_path() {
        let key = |target| one(Method::Get, target, "").key;
        assert_eq!(key("/v1/kv/a"), "a");
        assert_eq!(key("/v1/kv/a/b%2Fc%00%ff+"), &b"a/b/c\0\xff+"[..]);
        for target in ["/v1/kv/", "/v1/kv/%", "/v1/kv/%4", "/v1/kv/%zz"] {
            assert_eq!(call(Method::Get, target, ""), Err(400), "{target}");
        }
        let long = format!("/v1/kv/{}", "k".repeat(KEY_BYTES_MAX));
        assert_eq!(key(&long).len(), KEY_BYTES_MAX);
        assert_eq!(call(Method::Get, &format!("{long}k"), ""), Err(400));
        assert_eq!(call(Method::Post, "/v1/kv/a", ""), Err(405));
        assert_eq!(call(Method::Get, "/v1/other", ""), Err(404));
    }

    #[test]
    fn a_write_may_have_a_condition_and_a_time_to_live() {
        let ask = one(
            Method::Put,
            "/v1/kv/a?ttl=10m&ack=3",
            "If-Match: \"1-2-3\"\r\n",
        );
        let expires_ms = Some(NOW_MS + 600_000);
        let value = Bytes::new();
        assert_eq!(ask.what, What::Put { value, expires_ms });
        assert_eq!(ask.quorum, Quorum { ack: 3, from: 3 });
        assert!(matches!(ask.condition.matches, Some(Tags::These(these)) if these.len() == 1));
        let ask = one(Method::Delete, "/v1/kv/a", "If-None-Match: *\r\n");
        assert_eq!(ask.condition.matches_none, Some(Tags::Any));
        for (ttl, ms) in [
            ("5", 5000),
            ("5s", 5000),
            ("1ms", 1),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            let read = super::expires_ms(Some(ttl), 0).expect("a time");
            assert_eq!(read, Some(ms), "{ttl}");
        }
        for ttl in [
            "",
            "0",
            "s",
            "-1",
            "+1",
            "1.5s",
            "1w",
            "99999999999d",
            "1 s",
        ] {
            assert!(super::expires_ms(Some(ttl), 0).is_err(), "{ttl}");
        }
        assert_eq!(call(Method::Get, "/v1/kv/a?ttl=5", ""), Err(400));
        // One of three replicas has nothing in common with two others.
        for (quorum, status) in [("1/1", Err(400)), ("1/3", Err(400)), ("2/2", Ok(()))] {
            let target = format!("/v1/kv/a?replicas={quorum}");
            let told = call(Method::Put, &target, "If-Match: *\r\n");
            assert_eq!(told.map(|_| ()), status, "{quorum}");
            assert!(call(Method::Put, &target, "").is_ok(), "{quorum}");
            assert!(call(Method::Get, &target, "If-Match: *\r\n").is_ok());
        }
        let tags = "\"1-2-3\",".repeat(TAGS_MAX + 1);
        assert_eq!(
            call(Method::Put, "/v1/kv/a", &format!("If-Match: {tags}\r\n")),
            Err(400)
        );
    }

    #[test]
    fn a_range_has_ends_or_a_prefix() {
        let range = |query: &str| match call(Method::Get, &format!("/v1/range{query}"), "") {
            Ok(Call::Range(range)) => Some((range.start, range.end, range.limit)),
            _ => None,
        };
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(range(""), Some((Bytes::new(), None, LIMIT)));
        let some = Some((bytes("a"), Some(bytes("b")), 5));
        assert_eq!(range("?start=a&end=b&limit=5"), some);
        assert_eq!(
            range("?prefix=u/"),
            Some((bytes("u/"), Some(bytes("u0")), LIMIT))
        );
        for query in ["?prefix=a&end=b", "?limit=0", "?limit=x", "?limit=9999999"] {
            assert_eq!(range(query), None, "{query}");
        }
    }

    #[test]
    fn a_parameter_that_is_misspelled_is_told() {
        for (method, target) in [
            (Method::Put, "/v1/kv/a?tll=5s"),
            (Method::Get, "/v1/kv/a?replica=1/1"),
            (Method::Post, "/v1/batch?replicas=2/3"),
            (Method::Get, "/v1/range?prefx=a"),
            (Method::Get, "/v1/range?replicas=1/1"),
            (Method::Get, "/v1/placement?id=a"),
        ] {
            assert_eq!(call(method, target, ""), Err(400), "{target}");
            let (path, _) = target.split_once('?').expect("a query");
            assert!(call(method, path, "").is_ok(), "{path}");
        }
    }
}
