//! Texts with variables: what a config may say of a request without knowing it.
//!
//! [`Variable`] is the one vocabulary for the values of header fields, for the targets of redirects and for log lines.
//! [`TABLE`] is its list, from which the binary reads names and the reference is written. The binary parses texts into a
//! [`Template`]; the gateway fills it in `exchange/variables.rs`. Nothing here knows a request.

/// Something that is known of a request or of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table has a line for each")]
pub enum Variable {
    Time,
    RequestId,
    TraceId,
    Client,
    Peer,
    Method,
    Scheme,
    Host,
    Target,
    Path,
    Query,
    Protocol,
    Route,
    Referer,
    UserAgent,
    Status,
    Upstream,
    Endpoint,
    UpstreamUs,
    ConnectError,
    Cache,
    Failure,
    Fallback,
    BytesReceived,
    BytesSent,
    DurationUs,
    /// The first field of this name that the client has sent. In lower case.
    RequestHeader(String),
    /// The first field of this name that the client was sent. In lower case.
    ResponseHeader(String),
    /// A parameter of the route's path.
    Parameter(String),
}

/// From when on a variable has a value. Each moment knows what the earlier ones know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Once the request's head is here and its route is found.
    WithRequest,
    /// Once it is settled who answers, and with which status.
    WithAnswer,
    /// When all is over.
    AtEnd,
}

/// A variable as it is written, and what it stands for.
#[derive(Debug)]
pub struct Entry {
    /// Between the braces, and the name of a field in the log.
    pub name: &'static str,
    /// What it means.
    pub variable: Variable,
    /// When it is known.
    pub known: Known,
    /// A line of the reference.
    pub doc: &'static str,
}

/// What stands before the name of a field that the client has sent.
pub const REQUEST_HEADER: &str = "request_header:";
/// What stands before the name of a field that the client was sent.
pub const RESPONSE_HEADER: &str = "response_header:";

/// Every variable but those that have a name of their own in them: [`REQUEST_HEADER`], [`RESPONSE_HEADER`] and the
/// parameters of a path.
pub static TABLE: &[Entry] = {
    use Known::{AtEnd, WithAnswer, WithRequest};
    &[
        entry(
            "time",
            Variable::Time,
            WithRequest,
            "The time of now, in UTC with milliseconds: `2026-01-31T12:30:15.250Z`. In the log, when the request ended.",
        ),
        entry(
            "request_id",
            Variable::RequestId,
            WithRequest,
            "The id of the request, see [request ids](observing.md#request-ids).",
        ),
        entry(
            "trace_id",
            Variable::TraceId,
            WithRequest,
            "The id of the trace that `traceparent` names (W3C Trace Context), 32 hex digits.",
        ),
        entry(
            "client",
            Variable::Client,
            WithRequest,
            "The address of the client, behind [trusted proxies](config.md#trusted_proxies) too.",
        ),
        entry(
            "peer",
            Variable::Peer,
            WithRequest,
            "The address of the other end of the connection.",
        ),
        entry("method", Variable::Method, WithRequest, "The method."),
        entry(
            "scheme",
            Variable::Scheme,
            WithRequest,
            "`http` or `https`: how the client has connected, by the word of a [trusted proxy](config.md#trusted_proxies) or the connection itself.",
        ),
        entry(
            "host",
            Variable::Host,
            WithRequest,
            "The host that is asked for, with its port if that is not the usual one; in the log as it was sent.",
        ),
        entry(
            "target",
            Variable::Target,
            WithRequest,
            "The target as it was sent: path and query.",
        ),
        entry(
            "path",
            Variable::Path,
            WithRequest,
            "The path without the query, dot segments resolved.",
        ),
        entry(
            "query",
            Variable::Query,
            WithRequest,
            "The query, without its `?`.",
        ),
        entry(
            "protocol",
            Variable::Protocol,
            WithRequest,
            "`HTTP/1.1` or `HTTP/1.0`, as the client speaks it.",
        ),
        entry(
            "route",
            Variable::Route,
            WithRequest,
            "The name of the route.",
        ),
        entry(
            "referer",
            Variable::Referer,
            WithRequest,
            "The field `Referer`.",
        ),
        entry(
            "user_agent",
            Variable::UserAgent,
            WithRequest,
            "The field `User-Agent`.",
        ),
        entry(
            "status",
            Variable::Status,
            WithAnswer,
            "The status of the answer.",
        ),
        entry(
            "upstream",
            Variable::Upstream,
            WithAnswer,
            "The name of the upstream that was asked.",
        ),
        entry(
            "endpoint",
            Variable::Endpoint,
            WithAnswer,
            "The server that was asked, the last one of several, be it in vain.",
        ),
        entry(
            "upstream_us",
            Variable::UpstreamUs,
            WithAnswer,
            "Microseconds from choosing that server to the head of its response.",
        ),
        entry(
            "connect_error",
            Variable::ConnectError,
            WithAnswer,
            "Why no connection to that server could be opened: the name of the system's error, such as `ECONNREFUSED`, or its number.",
        ),
        entry(
            "cache",
            Variable::Cache,
            WithAnswer,
            "What the [cache](cache.md) did.",
        ),
        entry(
            "failure",
            Variable::Failure,
            WithAnswer,
            "What went wrong, from [What is refused](messages.md#what-is-refused).",
        ),
        entry(
            "fallback",
            Variable::Fallback,
            WithAnswer,
            "What was answered instead: `stale`, `upstream` or `answer`.",
        ),
        entry(
            "bytes_received",
            Variable::BytesReceived,
            AtEnd,
            "Bytes from the client, head and body.",
        ),
        entry(
            "bytes_sent",
            Variable::BytesSent,
            AtEnd,
            "Bytes to the client, head and body.",
        ),
        entry(
            "duration_us",
            Variable::DurationUs,
            AtEnd,
            "Microseconds from the request's head to the end of the answer.",
        ),
    ]
};

const fn entry(name: &'static str, variable: Variable, known: Known, doc: &'static str) -> Entry {
    Entry {
        name,
        variable,
        known,
        doc,
    }
}

impl Variable {
    /// From when on it has a value.
    pub fn known(&self) -> Known {
        match self {
            Self::RequestHeader(_) | Self::Parameter(_) => Known::WithRequest,
            Self::ResponseHeader(_) => Known::AtEnd,
            plain => plain.entry().map_or(Known::AtEnd, |entry| entry.known),
        }
    }

    /// Its line of the table, where it has one.
    fn entry(&self) -> Option<&'static Entry> {
        TABLE.iter().find(|entry| entry.variable == *self)
    }

    /// As it is written, without braces.
    pub fn name(&self) -> String {
        match self {
            Self::RequestHeader(name) => format!("{REQUEST_HEADER}{name}"),
            Self::ResponseHeader(name) => format!("{RESPONSE_HEADER}{name}"),
            Self::Parameter(name) => name.clone(),
            plain => plain.entry().map_or("", |entry| entry.name).to_owned(),
        }
    }
}

/// A text with variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    /// In their order; no two texts are neighbours, and none is empty.
    pub parts: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that is copied as it is.
    Text(String),
    /// What it stands for takes its place, nothing where that is not known.
    Variable(Variable),
}

impl Template {
    /// A text without variables.
    pub fn fixed(text: impl Into<String>) -> Self {
        let text = text.into();
        let parts = if text.is_empty() {
            Vec::new()
        } else {
            vec![Part::Text(text)]
        };
        Self { parts }
    }

    /// The text, if it has no variables.
    pub fn as_fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variables in their order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Text(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_has_one_name() {
        for entry in TABLE {
            assert_eq!(entry.variable.name(), entry.name);
            assert_eq!(entry.variable.known(), entry.known);
            let same = TABLE
                .iter()
                .filter(|other| other.name == entry.name || other.variable == entry.variable);
            assert_eq!(same.count(), 1, "{}", entry.name);
        }
    }
}
