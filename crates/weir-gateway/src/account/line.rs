//! The shapes of a log line. Whatever a client sent is escaped: a line stays one line, and a terminal stays safe.

use std::io::Write as _;

use weir_http::FieldName;

use crate::account::redact::pieces;
use crate::exchange::Exchange;
use crate::exchange::variables::{Place, Value};
use crate::settings::Redact;
use crate::settings::template::{Part, Template, Variable};
use crate::state::log::{LogLine, Shape};

/// How a value that a client sent is escaped.
#[derive(Debug, Clone, Copy)]
enum Escapes {
    Text,
    Json,
}

/// Appends the line of an exchange that is over.
pub(super) fn write(of: Place<'_>, line: &LogLine, out: &mut Vec<u8>) {
    match &line.shape {
        Shape::Combined => combined(of, &line.redact, out),
        Shape::Json(members) => json(of, members, &line.redact, out),
        Shape::Text(template) => text(of, template, &line.redact, out),
    }
    out.push(b'\n');
}

/// `address - - [time] "request line" status body-bytes "referer" "user agent"`, as Apache httpd and nginx write it.
fn combined(of: Place<'_>, redact: &Redact, out: &mut Vec<u8>) {
    let x = of.x;
    out.extend_from_slice(x.client_address().as_bytes());
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(&of.worker.clock.texts().clf);
    out.extend_from_slice(b"] \"");
    request_line(x, redact, out);
    out.extend_from_slice(b"\" ");
    number(u64::from(x.facts.status), out);
    out.push(b' ');
    number(
        x.facts.bytes_sent.saturating_sub(x.facts.head_bytes_sent),
        out,
    );
    out.extend_from_slice(b" \"");
    match field(x, FieldName::Referer) {
        Some(url) => pieces(url, false, redact, |piece| {
            escape(piece, Escapes::Text, out);
        }),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b"\" \"");
    match field(x, FieldName::UserAgent) {
        Some(agent) => escape(agent, Escapes::Text, out),
        None => out.push(b'-'),
    }
    out.push(b'"');
}

/// One object with these members; those without a value are left out. Durations are in microseconds.
fn json(of: Place<'_>, members: &[(Vec<u8>, Variable)], redact: &Redact, out: &mut Vec<u8>) {
    out.push(b'{');
    let start = out.len();
    for (key, variable) in members {
        let Some(value) = value(of, variable) else {
            continue;
        };
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(key);
        match value {
            Value::Number(value) => number(value, out),
            value => {
                out.push(b'"');
                quoted(of, variable, value, (redact, Escapes::Json), out);
                out.push(b'"');
            }
        }
    }
    out.push(b'}');
}

/// A text of its own. What has no value is a hyphen.
fn text(of: Place<'_>, template: &Template, redact: &Redact, out: &mut Vec<u8>) {
    for part in &template.parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => match value(of, variable) {
                Some(Value::Number(value)) => number(value, out),
                Some(value) => quoted(of, variable, value, (redact, Escapes::Text), out),
                None => out.push(b'-'),
            },
        }
    }
}

/// The value of a variable as the log has it: a host as it was sent.
fn value<'a>(of: Place<'a>, variable: &'a Variable) -> Option<Value<'a>> {
    let x = of.x;
    match variable {
        Variable::Host if x.has_head => Some(Value::Text(x.request.authority_text?.of(&x.head))),
        other => of.value(other),
    }
}

/// Appends a value that stands between quotes.
fn quoted(
    of: Place<'_>,
    variable: &Variable,
    value: Value<'_>,
    (redact, shape): (&Redact, Escapes),
    out: &mut Vec<u8>,
) {
    let Value::Text(text) = value else {
        return of.write_plain(value, out);
    };
    match variable {
        Variable::Target
        | Variable::Referer
        | Variable::RequestHeader(_)
        | Variable::ResponseHeader(_) => {
            pieces(text, false, redact, |piece| escape(piece, shape, out));
        }
        Variable::Query => pieces(text, true, redact, |piece| escape(piece, shape, out)),
        _ => escape(text, shape, out),
    }
}

fn request_line(x: &Exchange, redact: &Redact, out: &mut Vec<u8>) {
    if !x.has_head {
        return out.push(b'-');
    }
    let end = memchr::memchr(b'\r', &x.head).unwrap_or(x.head.len());
    let line = &x.head[..end];
    let target = x.request.target_text;
    let (before, behind) = (target.start as usize, target.end as usize);
    // A method and a version have no byte that would be escaped.
    out.extend_from_slice(&line[..before]);
    pieces(target.of(&x.head), false, redact, |piece| {
        escape(piece, Escapes::Text, out);
    });
    out.extend_from_slice(&line[behind..]);
}

fn field(x: &Exchange, id: FieldName) -> Option<&[u8]> {
    if !x.has_head {
        return None;
    }
    x.request.known_field(id).map(|value| value.of(&x.head))
}

fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Copies `value`; quotes, backslashes and what is not printable ASCII come out as `\xHH`, in JSON as `\u00HH`.
fn escape(value: &[u8], shape: Escapes, out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| IS_PLAIN[usize::from(*byte)];
    // Most values are plain: to look at all bytes is cheaper than to stop at the first that is not.
    if value.iter().fold(true, |all, byte| all & is_plain(byte)) {
        return out.extend_from_slice(value);
    }
    for byte in value {
        // Writing to a vector cannot fail.
        let _ = match shape {
            _ if is_plain(byte) => {
                out.push(*byte);
                Ok(())
            }
            Escapes::Text => write!(out, "\\x{byte:02X}"),
            Escapes::Json => write!(out, "\\u{byte:04x}"),
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
        escape(b"a\"b\\c\n\x1b[0m\xff", Escapes::Text, &mut out);
        assert_eq!(out, br"a\x22b\x5Cc\x0A\x1B[0m\xFF");
        out.clear();
        escape(b"a\"\xff", Escapes::Json, &mut out);
        assert_eq!(out, br"a\u0022\u00ff");
    }
}
