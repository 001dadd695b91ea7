//! What of a message goes into which column.

use jiff::Timestamp;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// What is in it.
    pub source: Source,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A UUID that no other message has, and the same when it is written again.
    Id,
    /// Its offset in the queue.
    Offset,
    /// When it came.
    Time,
    /// The name of its queue.
    Queue,
    /// The name of the route that it came by.
    Route,
    /// What it is ordered by.
    Key,
    /// The method of the request.
    Method,
    /// Its path and query.
    Path,
    /// The address of the client.
    Client,
    /// The value of a field, whose name is in lower case.
    Field(String),
    /// The content.
    Body,
    /// A value in a content that is JSON (RFC 6901).
    Pointer(String),
}

impl Source {
    /// The columns of a table that weir makes.
    pub const PRESET: &[(&str, Source)] = &[
        ("id", Self::Id),
        ("received", Self::Time),
        ("key", Self::Key),
        ("method", Self::Method),
        ("path", Self::Path),
        ("body", Self::Body),
    ];
}

/// The method of a request that is kept, and its path with its query.
pub(crate) fn request_line(head: &[u8]) -> (&[u8], &[u8]) {
    let line = head.split(|&byte| byte == b'\r').next();
    let mut words = line.unwrap_or_default().split(|&byte| byte == b' ');
    let mut word = || words.next().unwrap_or_default();
    (word(), word())
}

/// The fields of a request that is kept.
#[cfg(any(feature = "postgres", feature = "cassandra", feature = "kafka"))]
pub(crate) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|&byte| byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// A time as RFC 3339 has it, in milliseconds.
pub(crate) fn rfc3339(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok();
    let time = time.and_then(|time_ms| Timestamp::from_millisecond(time_ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

/// A UUID as it is written.
pub(crate) fn uuid(id: u128) -> String {
    let digits = format!("{id:032x}");
    let [time, version, variant, node] = [8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{}-{time}-{version}-{variant}-{node}", &digits[..8])
}
