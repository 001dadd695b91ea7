//! Requests as the bytes of HTTP/1.1. A request without fields is written once, before the run.

use weir_http::Method;

use crate::mix::{Mix, Request};
use crate::plan::Plan;
use crate::template::{Filling, append_number};

/// Writes the requests of a run; each thread has its own.
#[derive(Debug)]
pub(crate) struct Wire {
    mix: Mix,
    seed: u64,
    prepared: Vec<Prepared>,
    form: Form,
}

#[derive(Debug)]
struct Prepared {
    method: Method,
    /// The whole request, when no part of it changes.
    bytes: Option<Vec<u8>>,
}

impl Wire {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut form = Form {
            authority: plan.target.authority.clone(),
            is_kept_alive: plan.keep_alive,
            body: Vec::new(),
        };
        let prepare = |request: &Request| Prepared {
            // A mix holds no method that is refused.
            method: Method::of(request.method.as_bytes()).unwrap_or(Method::Other),
            bytes: request.is_fixed().then(|| {
                let mut bytes = Vec::new();
                form.render(request, &mut Filling::new(0, 0), &mut bytes);
                bytes
            }),
        };
        Self {
            prepared: plan.mix.requests().iter().map(prepare).collect(),
            mix: plan.mix.clone(),
            seed: plan.seed,
            form,
        }
    }

    /// Appends the request of this number; always the same bytes for the same number.
    pub(crate) fn write(&mut self, number: u64, out: &mut Vec<u8>) -> Method {
        // The usual case needs no random numbers, and no time to prepare them.
        if let [
            Prepared {
                method,
                bytes: Some(bytes),
            },
        ] = &self.prepared[..]
        {
            out.extend_from_slice(bytes);
            return *method;
        }
        let mut filling = Filling::new(self.seed, number);
        let chosen = self.mix.choose(&mut filling);
        let prepared = &self.prepared[chosen];
        if let Some(bytes) = &prepared.bytes {
            out.extend_from_slice(bytes);
        } else {
            let request = &self.mix.requests()[chosen];
            self.form.render(request, &mut filling, out);
        }
        prepared.method
    }
}

/// What all requests have in common, and room for a body whose length has to be known first.
#[derive(Debug)]
struct Form {
    authority: String,
    is_kept_alive: bool,
    body: Vec<u8>,
}

impl Form {
    fn render(&mut self, request: &Request, filling: &mut Filling, out: &mut Vec<u8>) {
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        fill_path(request, filling, out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let names_host = |(name, _): &(String, _)| name.eq_ignore_ascii_case("host");
        if !request.headers.iter().any(names_host) {
            append_field(out, "Host", self.authority.as_bytes());
        }
        for (name, value) in &request.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            value.fill(filling, out);
            out.extend_from_slice(b"\r\n");
        }
        if !self.is_kept_alive {
            append_field(out, "Connection", b"close");
        }
        self.body.clear();
        request.body.fill(filling, &mut self.body);
        if !self.body.is_empty() || announces_empty(&request.method) {
            out.extend_from_slice(b"Content-Length: ");
            append_number(out, self.body.len() as u64);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

/// The path and query, with the bytes that a request line cannot hold percent-encoded (RFC 3986 §2.1): lines of a file
/// may be any text.
pub(crate) fn fill_path(request: &Request, filling: &mut Filling, out: &mut Vec<u8>) {
    let start = out.len();
    request.path.fill(filling, out);
    let is_allowed = |byte: &u8| (b'!'..=b'~').contains(byte);
    if out[start..].iter().all(is_allowed) {
        return;
    }
    for byte in out.split_off(start) {
        if is_allowed(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0xF)]);
        }
    }
}

/// Methods whose requests are expected to have a body say that there is none (RFC 9110 §8.6).
fn announces_empty(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

fn append_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
