//! What variables stand for, in the exchange that they are used in.
//!
//! The vocabulary is that of [`settings::template`](crate::settings::template). Whoever uses a value decides how it is
//! written: [`Place::write`] is for header fields, the access log and the `Location` of a redirect escape in ways of their own.
//! Nothing here allocates.

use weir_cache::Timestamp;
use weir_http::{FieldName, Version};

use crate::exchange::{Exchange, Id};
use crate::settings::template::{Part, Template, Variable};
use crate::state::health::errno_name;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;

/// What is asked for the values of variables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) x: &'a Exchange,
    pub(crate) worker: &'a Worker,
    pub(crate) view: &'a View,
}

/// What a variable stands for. Of a text that came from a client or an upstream nothing is known but that it has no line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a [u8]),
    Number(u64),
    /// 32 hex digits.
    Id(u128),
    Time(Timestamp),
}

impl<'a> Place<'a> {
    pub(crate) fn new(x: &'a Exchange, worker: &'a Worker, view: &'a View) -> Self {
        Self { x, worker, view }
    }

    /// What `variable` stands for; `None` where that is not known, or there is none.
    pub(crate) fn value(&self, variable: &'a Variable) -> Option<Value<'a>> {
        let x = self.x;
        Some(match variable {
            Variable::Time => self.time(),
            Variable::RequestId => self.id(),
            Variable::Client => Value::Text(x.client_address().as_bytes()),
            Variable::Peer => Value::Text(x.client.address.as_bytes()),
            Variable::Scheme => Value::Text(x.scheme().as_bytes()),
            Variable::Route => Value::Text(self.route_name()?),
            Variable::Status => Value::Number(u64::from(x.facts.status)),
            Variable::Upstream | Variable::Endpoint => Value::Text(self.asked(variable)?),
            Variable::UpstreamUs => Value::Number(x.facts.upstream_latency?.as_micros() as u64),
            Variable::ConnectError => {
                let errno = x.facts.connect_error?;
                errno_name(errno).map_or(
                    Value::Number(u64::from(errno.raw_os_error().unsigned_abs())),
                    |name| Value::Text(name.as_bytes()),
                )
            }
            Variable::Cache => Value::Text(x.recall.outcome?.as_bytes()),
            Variable::Failure => Value::Text(x.facts.failure?.name().as_bytes()),
            Variable::Fallback => Value::Text(x.facts.fallback?.name().as_bytes()),
            Variable::BytesReceived => Value::Number(x.bytes_received()),
            Variable::BytesSent => Value::Number(x.facts.bytes_sent),
            Variable::DurationUs => Value::Number(x.facts.duration?.as_micros() as u64),
            Variable::ResponseHeader(name) => Value::Text(self.noted(name)?),
            of_head if x.has_head => Value::Text(self.of_head(of_head)?),
            _ => return None,
        })
    }

    /// Now, or when the exchange ended.
    fn time(&self) -> Value<'a> {
        let facts = &self.x.facts;
        let ended = facts.started.zip(facts.duration);
        let at = ended.map_or_else(time::now, |(started, duration)| started + duration);
        Value::Time(self.worker.clock.timestamp(at))
    }

    /// The id of the request, which is made when it is asked for first.
    fn id(&self) -> Value<'a> {
        match self.x.id.get() {
            Some(Id::Taken(span)) => Value::Text(span.of(&self.x.head)),
            Some(Id::Made(id)) => Value::Id(id),
            None => {
                let id = self.worker.random.borrow_mut().u128(..);
                self.x.id.set(Some(Id::Made(id)));
                Value::Id(id)
            }
        }
    }

    /// What the head of the request says.
    fn of_head(&self, variable: &Variable) -> Option<&'a [u8]> {
        let x = self.x;
        let known = |id| Some(x.request.known_field(id)?.of(&x.head));
        match variable {
            Variable::TraceId => x.request.view(&x.head).trace_id(),
            Variable::Method => Some(x.request.method_name.of(&x.head)),
            Variable::Host => Some(x.request.authority?.of(&x.head)),
            Variable::Target => Some(x.request.target_text.of(&x.head)),
            Variable::Path => Some(match x.forwarded_path() {
                b"" | b"*" => b"/",
                path => path,
            }),
            Variable::Query => Some(x.request.target.query?.of(&x.head)),
            Variable::Protocol => Some(match x.request.version {
                Version::Http10 => b"HTTP/1.0",
                Version::Http11 => b"HTTP/1.1",
            }),
            Variable::Referer => known(FieldName::Referer),
            Variable::UserAgent => known(FieldName::UserAgent),
            Variable::RequestHeader(name) => x.request.field(&x.head, name),
            Variable::Parameter(name) => Some(self.parameter(name)?.as_bytes()),
            _ => None,
        }
    }

    /// A field of the answer.
    fn noted(&self, name: &str) -> Option<&'a [u8]> {
        let line = self.view.snapshot.log_line.as_ref()?;
        let place = line.noted.iter().position(|noted| noted == name)?;
        self.x.noted.value(place)
    }

    fn route_name(&self) -> Option<&'a [u8]> {
        let route = &self.view.snapshot.routes[self.x.facts.route?];
        Some(route.settings.name.as_bytes())
    }

    fn asked(&self, variable: &Variable) -> Option<&'a [u8]> {
        let facts = &self.x.facts;
        let name = match (facts.endpoint, variable) {
            (Some((upstream, _)), Variable::Upstream) => {
                &self.view.snapshot.upstreams[upstream].settings.name
            }
            (Some((upstream, endpoint)), _) => {
                &self.view.snapshot.upstreams[upstream].endpoints[endpoint].label
            }
            // A hit of the cache says which of several upstreams it is of.
            (None, Variable::Upstream) => self.view.side_name(facts.route, facts.side)?,
            (None, _) => return None,
        };
        Some(name.as_bytes())
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let x = self.x;
        let router = &self.view.snapshot.router;
        router.parameter(x.path(), x.facts.route?, name)
    }

    /// Appends `fields`, filled, as lines of a head. A field of variables alone of which none has a value is left out.
    pub(crate) fn write_fields(&self, fields: &'a [(String, Template)], out: &mut Vec<u8>) {
        for (name, template) in fields {
            let start = out.len();
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            let value = out.len();
            self.write(template, out);
            if out.len() == value && !template.parts.is_empty() {
                out.truncate(start);
            } else {
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends `template`, filled, as part of the value of a field.
    ///
    /// What a client has sent is made of the bytes that a field may have, so it ends no line; should it ever be made of others, a
    /// blank takes the place of each. It is as long as the head of a request may be.
    pub(crate) fn write(&self, template: &'a Template, out: &mut Vec<u8>) {
        for part in &template.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => match self.value(variable) {
                    Some(Value::Text(text)) => write_field_bytes(text, out),
                    Some(value) => self.write_plain(value, out),
                    None => {}
                },
            }
        }
    }

    /// Appends `value` as it is.
    pub(crate) fn write_plain(&self, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Text(text) => out.extend_from_slice(text),
            Value::Number(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            Value::Id(id) => write_hex(id, out),
            Value::Time(time) => self.worker.clock.write_iso8601_ms(time, out),
        }
    }
}

/// Appends what may stand in the value of a field (RFC 9110 §5.5), and a blank for everything else.
fn write_field_bytes(text: &[u8], out: &mut Vec<u8>) {
    let may_stand = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    if text.iter().all(|&byte| may_stand(byte)) {
        out.extend_from_slice(text);
    } else {
        out.extend(
            text.iter()
                .map(|&byte| if may_stand(byte) { byte } else { b' ' }),
        );
    }
}

fn write_hex(id: u128, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |at: u32| DIGITS[(id >> (4 * at)) as usize & 0xf];
    out.extend((0..32).rev().map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_line() {
        for (text, expected) in [
            (&b"a b\tc"[..], &b"a b\tc"[..]),
            (b"a\r\nSet-Cookie: b", b"a  Set-Cookie: b"),
            (b"\0\x1b[0m\x7f", b"  [0m "),
            (b"caf\xc3\xa9", b"caf\xc3\xa9"),
        ] {
            let mut out = Vec::new();
            write_field_bytes(text, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn ids_have_32_digits() {
        let mut out = Vec::new();
        write_hex(0x0123_4567_89ab_cdef_0000_0000_0000_000f, &mut out);
        assert_eq!(out, b"0123456789abcdef000000000000000f");
    }
}
