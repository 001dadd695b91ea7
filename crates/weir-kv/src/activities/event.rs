//! What is posted: an event, a list of events, or lines of them. Pure.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rows::Row;

/// Events that are posted at once.
const EVENTS_MAX: usize = 10_000;
/// Bytes of the data of one.
const DATA_BYTES_MAX: usize = 64 << 10;
/// Bytes of an id, and of that of a user.
const ID_BYTES_MAX: usize = 256;
/// The last millisecond of the year 9999.
pub(super) const TIME_MS_MAX: u64 = 253_402_300_799_999;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event<'a> {
    user_id: Value,
    id: Option<Value>,
    timestamp: Option<Value>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The rows of a body. An event without a time is of `now_ms`, and one without an id gets one.
///
/// # Errors
/// What is wrong, and with which event.
pub(super) fn rows(
    body: &[u8],
    is_lines: bool,
    now_ms: u64,
    mut next_id: impl FnMut() -> String,
) -> Result<Vec<Row>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    let is_list = !is_lines && text.trim_start().starts_with('[');
    let events: Vec<&str> = match () {
        () if is_lines => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.collect()
        }
        () if is_list => {
            let events: Vec<&RawValue> =
                serde_json::from_str(text).map_err(|error| format!("the body: {error}"))?;
            events.into_iter().map(RawValue::get).collect()
        }
        () => vec![text],
    };
    if events.is_empty() || events.len() > EVENTS_MAX {
        let count = events.len();
        return Err(format!(
            "the body has {count} events, expected 1 to {EVENTS_MAX}"
        ));
    }
    let is_alone = !is_lines && !is_list;
    let rows = events.into_iter().enumerate().map(|(index, text)| {
        let told = |why| match () {
            () if is_alone => why,
            () => format!("event {}: {why}", index + 1),
        };
        row(text, now_ms, &mut next_id).map_err(told)
    });
    rows.collect()
}

fn row(text: &str, now_ms: u64, next_id: impl FnOnce() -> String) -> Result<Row, String> {
    let event: Event = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let time_ms = event.timestamp.as_ref().map(of_value).transpose()?;
    let is_named = event.id.is_some();
    if is_named && time_ms.is_none() {
        return Err(
            "timestamp: missing, expected one beside \"id\": together they tell what is there already"
                .to_owned(),
        );
    }
    let data = event.data.map_or("null", RawValue::get);
    if data.len() > DATA_BYTES_MAX {
        let bytes = data.len();
        return Err(format!(
            "data: found {bytes} bytes, expected at most {DATA_BYTES_MAX}"
        ));
    }
    if has_nul(data) {
        return Err("data: found \\u0000, expected JSON without the character NUL".to_owned());
    }
    Ok(Row {
        user: name("user_id", &event.user_id)?,
        time_ms: time_ms.unwrap_or(now_ms),
        id: match &event.id {
            Some(id) => name("id", id)?,
            None => next_id(),
        },
        data: data.to_owned(),
        is_named,
    })
}

/// Whether a string of JSON has the character NUL, which `jsonb` of Postgres has not. JSON writes it as an escape alone.
fn has_nul(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at + 1..];
        if escape.starts_with("u0000") {
            return true;
        }
        // What is escaped may be a backslash itself.
        let mut behind = escape.chars();
        behind.next();
        rest = behind.as_str();
    }
    false
}

fn name(key: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => return Err(format!("{key}: expected a string or a whole number")),
    };
    check_name(key, &text)?;
    Ok(text)
}

/// # Errors
/// It cannot be the id of an event or of a user.
pub(super) fn check_name(key: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > ID_BYTES_MAX || text.contains('\0') {
        return Err(format!(
            "{key}: expected 1 to {ID_BYTES_MAX} bytes without a NUL"
        ));
    }
    Ok(())
}

fn of_value(value: &Value) -> Result<u64, String> {
    match value {
        Value::Number(number) => number.as_u64().ok_or(()).or(Err(wrong("timestamp"))),
        Value::String(text) => time_ms("timestamp", text),
        _ => Err(wrong("timestamp")),
    }
    .and_then(|time_ms| bounded("timestamp", time_ms))
}

/// A time as RFC 3339 has it, or in milliseconds since 1970.
///
/// # Errors
/// It is neither.
pub(super) fn time_ms(key: &str, text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok();
    let time = || Some(text.parse::<jiff::Timestamp>().ok()?.as_millisecond());
    let time_ms = number.or_else(|| u64::try_from(time()?).ok());
    bounded(key, time_ms.ok_or_else(|| wrong(key))?)
}

fn bounded(key: &str, time_ms: u64) -> Result<u64, String> {
    let is_time = time_ms <= TIME_MS_MAX;
    is_time.then_some(time_ms).ok_or_else(|| wrong(key))
}

fn wrong(key: &str) -> String {
    format!(
        "{key}: expected a time such as \"2026-07-01T12:00:00Z\", or milliseconds since 1970, before the year 10000"
    )
}

/// The answer to whoever has posted: the ids.
pub(super) fn told(rows: &[Row]) -> String {
    let ids: Vec<&str> = rows.iter().map(|row| &*row.id).collect();
    let mut text = serde_json::json!({ "ids": ids }).to_string();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, is_lines: bool) -> Result<Vec<Row>, String> {
        let mut count = 0;
        rows(body.as_bytes(), is_lines, 7, || {
            count += 1;
            format!("given-{count}")
        })
    }

    fn row_of(user: &str, time_ms: u64, id: &str, data: &str, is_named: bool) -> Row {
        Row {
            user: user.to_owned(),
            time_ms,
            id: id.to_owned(),
            data: data.to_owned(),
            is_named,
        }
    }

    #[test]
    fn an_event_is_an_object_a_list_has_several_and_so_have_lines() {
        let one = r#"{"user_id": "ann", "data": {"a":  1}}"#;
        let ann = row_of("ann", 7, "given-1", r#"{"a":  1}"#, false);
        assert_eq!(read(one, false), Ok(vec![ann.clone()]));
        let two = r#"{"user_id": 5, "id": "x", "timestamp": "1970-01-01T00:00:01.5Z"}"#;
        let five = row_of("5", 1500, "x", "null", true);
        let both = Ok(vec![ann, five]);
        assert_eq!(read(&format!("[{one}, {two}]"), false), both);
        assert_eq!(read(&format!("{one}\n\n{two}\n"), true), both);
    }

    #[test]
    fn a_nul_is_found_and_what_only_looks_like_one_is_not() {
        for (json, has) in [
            (r#""\u0000""#, true),
            (r#""\\\u0000""#, true),
            (r#"{"\"\u0000": "\u0001"}"#, true),
            (r#""\\u0000""#, false),
            (r#""\\\\u0000 \u00001 é\"""#, true),
            (r#""\\\\u0000 \u0001 é\"""#, false),
            (r#""u0000""#, false),
        ] {
            assert_eq!(has_nul(json), has, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let long = format!(
            r#"{{"user_id": 1, "data": "{}"}}"#,
            "x".repeat(DATA_BYTES_MAX)
        );
        for (body, complaint) in [
            ("", "EOF while parsing"),
            ("[]", "the body has 0 events, expected 1 to 10000"),
            ("[{\"user_id\": 1}", "the body: EOF while parsing a list"),
            ("{}", "missing field `user_id`"),
            ("[{\"user_id\": 1}, {}]", "event 2: missing field `user_id`"),
            ("{\"user_id\": 1} {}", "trailing characters"),
            ("{\"user_id\": 1, \"user\": 2}", "unknown field `user`"),
            ("{\"user_id\": \"\"}", "user_id: expected 1 to 256 bytes"),
            (
                "{\"user_id\": \"a\\u0000\"}",
                "user_id: expected 1 to 256 bytes without a NUL",
            ),
            (
                "{\"user_id\": 1.5}",
                "user_id: expected a string or a whole number",
            ),
            (
                "{\"user_id\": 1, \"id\": 1}",
                "timestamp: missing, expected one beside \"id\"",
            ),
            (
                "{\"user_id\": 1, \"timestamp\": -1}",
                "timestamp: expected a time such as",
            ),
            (
                "{\"user_id\": 1, \"timestamp\": \"today\"}",
                "timestamp: expected a time such as",
            ),
            (
                "{\"user_id\": 1, \"timestamp\": 253402300800000}",
                "timestamp: expected a time",
            ),
            (
                r#"{"user_id": 1, "data": {"a\\\u0000": 1}}"#,
                "data: found \\u0000",
            ),
            (&*long, "data: found 65538 bytes, expected at most 65536"),
        ] {
            let told = read(body, false).expect_err(body);
            assert!(told.contains(complaint), "{told}\n instead of {complaint}");
        }
        let told = read("{\"user_id\": 1}\n{", true).expect_err("it is no event");
        assert!(told.starts_with("event 2: EOF"), "{told}");
        let many = "{\"user_id\": 1}\n".repeat(EVENTS_MAX + 1);
        assert!(read(&many, true).is_err());
    }
}
