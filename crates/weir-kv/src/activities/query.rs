//! What is asked for: the last rows of a user, or those of a time. Pure.

use serde_json::json;
use serde_json::value::RawValue;
use weir_http::form;

use super::event::{TIME_MS_MAX, check_name, time_ms};
use super::rows::Row;

/// Rows of an answer, at most.
const ROWS_MAX: u32 = 1000;
/// The same when nothing is said.
const ROWS: u32 = 100;

/// Which rows are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) user: String,
    /// From this millisecond on,
    pub(super) from_ms: u64,
    /// up to this one, without it.
    pub(super) to_ms: u64,
    /// So many, of the newest.
    pub(super) limit: u32,
}

/// Reads the query of a URL.
///
/// # Errors
/// What is wrong.
pub(super) fn parse(query: &[u8]) -> Result<Query, String> {
    const KNOWN: [&str; 5] = ["user_id", "last", "from", "to", "limit"];
    let parameters =
        form::parameters(query).map_err(|error| format!("the query is broken: {error}"))?;
    for (index, (name, _)) in parameters.iter().enumerate() {
        if !KNOWN.contains(&&**name) {
            return Err(format!("{name}: expected one of {}", KNOWN.join(", ")));
        }
        if parameters[..index].iter().any(|(other, _)| other == name) {
            return Err(format!("{name} is there twice"));
        }
    }
    let find = |name: &str| {
        let mut found = parameters.iter().filter(|(own, _)| own == name);
        found.next().map(|(_, value)| value.as_str())
    };
    let user = find("user_id").ok_or("user_id: missing")?;
    check_name("user_id", user)?;
    let time = |name| find(name).map(|text| time_ms(name, text)).transpose();
    let count = |name| find(name).map(|text| count(name, text)).transpose();
    let (from_ms, to_ms) = (time("from")?, time("to")?);
    let (last, limit) = (count("last")?, count("limit")?);
    if last.is_some() && (from_ms.is_some() || to_ms.is_some() || limit.is_some()) {
        return Err("last: expected it without from, to and limit".to_owned());
    }
    Ok(Query {
        user: user.to_owned(),
        from_ms: from_ms.unwrap_or(0),
        to_ms: to_ms.unwrap_or(TIME_MS_MAX + 1),
        limit: last.or(limit).unwrap_or(ROWS),
    })
}

fn count(name: &str, text: &str) -> Result<u32, String> {
    let count = text.parse().ok();
    let count = count.filter(|count| (1..=ROWS_MAX).contains(count));
    count.ok_or_else(|| format!("{name}: expected a number from 1 to {ROWS_MAX}"))
}

/// The rows as an answer has them.
pub(super) fn told(rows: &[Row]) -> String {
    let mut text = "[".to_owned();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let time = i64::try_from(row.time_ms).ok();
        let time = time.and_then(|time_ms| jiff::Timestamp::from_millisecond(time_ms).ok());
        let time = format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX));
        // What was kept is JSON; a row that somebody else has written may be anything.
        let is_json = serde_json::from_str::<&RawValue>(&row.data).is_ok();
        let data = if is_json { &*row.data } else { "null" };
        text.push_str("\n{\"id\":");
        text.push_str(&json!(row.id).to_string());
        text.push_str(",\"user_id\":");
        text.push_str(&json!(row.user).to_string());
        text.push_str(",\"timestamp\":\"");
        text.push_str(&time);
        text.push_str("\",\"data\":");
        text.push_str(data);
        text.push('}');
    }
    text.push_str("\n]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_rows() {
        let query = |from_ms, to_ms, limit| Query {
            user: "ann".to_owned(),
            from_ms,
            to_ms,
            limit,
        };
        for (text, expected) in [
            ("user_id=ann", query(0, TIME_MS_MAX + 1, 100)),
            ("user_id=ann&last=3", query(0, TIME_MS_MAX + 1, 3)),
            ("user_id=ann&from=5&to=9&limit=1000", query(5, 9, 1000)),
            (
                "user_id=ann&from=1970-01-01T00:00:01Z",
                query(1000, TIME_MS_MAX + 1, 100),
            ),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, complaint) in [
            ("", "user_id: missing"),
            ("user_id=", "user_id: expected 1 to 256 bytes"),
            ("user_id=a&user_id=b", "user_id is there twice"),
            (
                "user_id=a&n=1",
                "n: expected one of user_id, last, from, to, limit",
            ),
            ("user_id=a&last=0", "last: expected a number from 1 to 1000"),
            (
                "user_id=a&limit=1001",
                "limit: expected a number from 1 to 1000",
            ),
            (
                "user_id=a&last=1&to=5",
                "last: expected it without from, to and limit",
            ),
            ("user_id=a&from=yesterday", "from: expected a time such as"),
        ] {
            let told = parse(text.as_bytes()).expect_err(text);
            assert!(told.contains(complaint), "{told}\n instead of {complaint}");
        }
    }

    #[test]
    fn rows_are_json() {
        let row = Row {
            user: "a\"".to_owned(),
            time_ms: 1500,
            id: "1".to_owned(),
            data: "{\"n\":1}".to_owned(),
            is_named: false,
        };
        let other = Row {
            data: "broken".to_owned(),
            ..row.clone()
        };
        let told: serde_json::Value = serde_json::from_str(&told(&[row, other])).expect("JSON");
        assert_eq!(
            told[0],
            json!({"id": "1", "user_id": "a\"", "timestamp": "1970-01-01T00:00:01.500Z", "data": {"n": 1}})
        );
        assert_eq!(told[1]["data"], json!(null));
    }
}
