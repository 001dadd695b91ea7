//! The two shapes of a log line. Whatever a client sent is escaped: a line stays one line, and a terminal stays safe.

use std::io::Write as _;
use std::time::Duration;

use weir_http::FieldName;

use crate::exchange::Exchange;
use crate::settings::LogFormat;
use crate::state::view::View;
use crate::state::worker::Worker;

/// `address - - [time] "request line" status body-bytes "referer" "user agent"`, as Apache httpd and nginx write it.
pub(super) fn combined(x: &Exchange, worker: &Worker, out: &mut Vec<u8>) {
    out.extend_from_slice(x.client_address().as_bytes());
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(&worker.clock.texts().clf);
    out.extend_from_slice(b"] \"");
    escape(request_line(x), LogFormat::Combined, out);
    out.extend_from_slice(b"\" ");
    number(u64::from(x.facts.status), out);
    out.push(b' ');
    number(
        x.facts.bytes_sent.saturating_sub(x.facts.head_bytes_sent),
        out,
    );
    for id in [FieldName::Referer, FieldName::UserAgent] {
        out.extend_from_slice(b" \"");
        escape(field(x, id).unwrap_or(b"-"), LogFormat::Combined, out);
        out.push(b'"');
    }
    out.push(b'\n');
}

/// One object with the members below; those that do not apply are left out. Durations are in microseconds.
pub(super) fn json(
    x: &Exchange,
    worker: &Worker,
    view: &View,
    latency: Duration,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(&worker.clock.texts().iso8601);
    out.push(b'"');
    text("client", x.client_address().as_bytes(), out);
    if x.has_head {
        text("method", x.request.method_name.of(&x.head), out);
        text("target", x.request.target_text.of(&x.head), out);
        if let Some(host) = x.request.authority_text {
            text("host", host.of(&x.head), out);
        }
    }
    member("status", u64::from(x.facts.status), out);
    member(
        "bytes_received",
        x.head_bytes() + x.upload.received() + x.facts.tunnel_bytes_received,
        out,
    );
    member("bytes_sent", x.facts.bytes_sent, out);
    member("duration_us", latency.as_micros() as u64, out);
    if let Some(route) = x.facts.route {
        text(
            "route",
            view.snapshot.routes[route].settings.name.as_bytes(),
            out,
        );
    }
    if let Some(outcome) = x.recall.outcome {
        text("cache", outcome.as_bytes(), out);
    }
    if let Some((upstream, endpoint)) = x.facts.endpoint {
        let upstream = &view.snapshot.upstreams[upstream];
        text("upstream", upstream.settings.name.as_bytes(), out);
        text(
            "endpoint",
            upstream.endpoints[endpoint].label.as_bytes(),
            out,
        );
    }
    if let Some(latency) = x.facts.upstream_latency {
        member("upstream_us", latency.as_micros() as u64, out);
    }
    if let Some(failure) = x.facts.failure {
        text("failure", failure.name().as_bytes(), out);
    }
    if let Some(kind) = x.facts.fallback {
        text("fallback", kind.name().as_bytes(), out);
    }
    for (name, id) in [
        ("referer", FieldName::Referer),
        ("user_agent", FieldName::UserAgent),
    ] {
        if let Some(value) = field(x, id) {
            text(name, value, out);
        }
    }
    out.extend_from_slice(b"}\n");
}

fn request_line(x: &Exchange) -> &[u8] {
    if !x.has_head {
        return b"-";
    }
    let end = memchr::memchr(b'\r', &x.head).unwrap_or(x.head.len());
    &x.head[..end]
}

fn field(x: &Exchange, id: FieldName) -> Option<&[u8]> {
    if !x.has_head {
        return None;
    }
    x.request.known_field(id).map(|value| value.of(&x.head))
}

fn text(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    escape(value, LogFormat::Json, out);
    out.push(b'"');
}

fn member(name: &str, value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    number(value, out);
}

fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Copies `value`; quotes, backslashes and what is not printable ASCII come out as `\xHH`, in JSON as `\u00HH`.
fn escape(value: &[u8], format: LogFormat, out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| IS_PLAIN[usize::from(*byte)];
    // Most values are short and plain.
    if value.iter().all(is_plain) {
        return out.extend_from_slice(value);
    }
    for byte in value {
        // Writing to a vector cannot fail.
        let _ = match format {
            _ if is_plain(byte) => {
                out.push(*byte);
                Ok(())
            }
            LogFormat::Combined => write!(out, "\\x{byte:02X}"),
            LogFormat::Json => write!(out, "\\u{byte:04x}"),
        };
    }
}

/// The bytes that a line holds as they are.
const IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        table[byte as usize] = !matches!(byte, b'"' | b'\\');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        let mut out = Vec::new();
        escape(b"a\"b\\c\n\x1b[0m\xff", LogFormat::Combined, &mut out);
        assert_eq!(out, br"a\x22b\x5Cc\x0A\x1B[0m\xFF");
        out.clear();
        escape(b"a\"\xff", LogFormat::Json, &mut out);
        assert_eq!(out, br"a\u0022\u00ff");
    }
}
