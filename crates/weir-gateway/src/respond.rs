//! Responses that the gateway makes itself: fixed ones, redirects, and what a failure looks like to the client.

use std::io::Write as _;
use std::time::Duration;

use weir_http::forward::write_field;
use weir_http::opening::End;
use weir_http::{Method, Reject};

use crate::connection::After;
use crate::error_pages;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{Behind, COPIED_BODY_BYTES_MAX, send};
use crate::exchange::variables::{Place, Value};
use crate::failure::{Failure, Fault};
use crate::router::Found;
use crate::serving::Serving;
use crate::settings::template::{Part, Variable};
use crate::settings::{Redirect, Respond};
use crate::state::view::View;
use crate::state::worker::Worker;

/// `431 Request Header Fields Too Large` is the longest.
const STATUS_TEXT_BYTES_MAX: usize = 40;

/// Sends a response that the configuration holds: what a route answers, or what it answers when it cannot.
pub(crate) async fn fixed(
    x: &mut Exchange,
    at: Serving<'_>,
    fixed: &Respond,
) -> Result<After, Failure> {
    let after = begin(x, at.worker, fixed.status);
    let mut out = std::mem::take(&mut x.outgoing.bytes);
    Place::new(x, at.worker, at.view).write_fields(&fixed.headers, &mut out);
    x.outgoing.bytes = out;
    let says_when = fixed.headers.iter().any(|(name, _)| name == "retry-after");
    if !says_when {
        write_retry_after(x);
    }
    finish(x, at.answering(), (fixed.status, after), &fixed.body).await?;
    Ok(after)
}

/// Sends the client elsewhere. The query goes along unless the location has one of its own.
pub(crate) async fn redirect(
    x: &mut Exchange,
    at: Serving<'_>,
    redirect: &Redirect,
) -> Result<After, Failure> {
    let after = begin(x, at.worker, redirect.status);
    let mut outgoing = std::mem::take(&mut x.outgoing.bytes);
    outgoing.extend_from_slice(b"Location: ");
    let start = outgoing.len();
    let written = write_location(x, at, redirect, &mut outgoing);
    if let Some(query) = x.request.target.query
        && !outgoing[start..].contains(&b'?')
    {
        outgoing.push(b'?');
        outgoing.extend_from_slice(query.of(&x.head));
    }
    outgoing.extend_from_slice(b"\r\n");
    x.outgoing.bytes = outgoing;
    written?;
    finish(x, at.answering(), (redirect.status, after), b"").await?;
    Ok(after)
}

/// Tells the client of a failure, if there still is a client and it has not been told anything else.
pub(crate) async fn failure(
    x: &mut Exchange,
    worker: &Worker,
    view: &View,
    failure: Failure,
) -> After {
    let failure = worker.meaning_of(failure);
    x.facts.failure = Some(failure);
    x.facts.status = failure.status();
    if let Some(said) = &mut x.recall.status {
        said.detail = Some(failure.name());
    }
    if failure == Failure::ClientGone {
        return After::Leave;
    }
    let must_close = matches!(
        failure,
        Failure::Request(_) | Failure::HeadTimeout | Failure::BodyTimeout
    );
    // So that the response says it too.
    x.request.keep_alive &= !must_close;
    let allow = if failure == Failure::MethodNotAllowed {
        allowed_methods(x, view)
    } else {
        None
    };
    let after = begin(x, worker, failure.status());
    if let Some(allow) = allow {
        write_field(&mut x.outgoing.bytes, b"Allow", allow.as_bytes());
    }
    write_retry_after(x);
    if let Some(page) = error_pages::of_failure(x, view, failure.status()) {
        let content_type = page.content_type.as_bytes();
        write_field(&mut x.outgoing.bytes, b"Content-Type", content_type);
        let said = (failure.status(), after);
        return match finish(x, (worker, view), said, &page.body).await {
            Ok(()) => after,
            Err(_) => After::Leave,
        };
    }
    write_field(&mut x.outgoing.bytes, b"Content-Type", b"text/plain");
    // What the client did wrong helps it; what is wrong behind the gateway is for the log alone.
    let status = failure.status();
    let body = match failure.fault() {
        Fault::Client => format!("{status} {}: {}\n", reason_phrase(status), failure.name()),
        Fault::Gateway | Fault::Upstream => format!("{status} {}\n", reason_phrase(status)),
    };
    let answer = finish(x, (worker, view), (status, after), body.as_bytes());
    match answer.await {
        Ok(()) => after,
        Err(_) => After::Leave,
    }
}

/// Begins a response, and settles what becomes of the connection: it goes on if the whole request has arrived, so that the next
/// one can be told from it.
pub(crate) fn begin(x: &mut Exchange, worker: &Worker, status: u16) -> After {
    let is_whole = x.has_head && x.upload.discard_rest(&mut x.client);
    let keep_alive = is_whole && x.client_keeps_alive(worker);
    let mut text = [0; STATUS_TEXT_BYTES_MAX];
    x.outgoing.begin(status_text(status, &mut text));
    x.outgoing.is_instead = x.facts.failure.is_some();
    let line = &worker.clock.texts().date_line;
    x.outgoing.bytes.extend_from_slice(line);
    After::keep_alive(keep_alive)
}

/// Tells a client that was refused when to come back.
fn write_retry_after(x: &mut Exchange) {
    if let Some(wait) = x.retry_after {
        // Writing to a vector cannot fail.
        let _ = write!(x.outgoing.bytes, "Retry-After: {}\r\n", whole_seconds(wait));
    }
}

/// Rounded up, because who comes back too early is refused again; at least 1.
fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}

/// Adds a line to the head that was begun.
pub(crate) fn write_line(x: &mut Exchange, name: &str, value: &[u8]) {
    write_field(&mut x.outgoing.bytes, name.as_bytes(), value);
}

/// Takes off what the configuration removes or replaces of the lines written so far.
pub(crate) fn edit(x: &mut Exchange, view: &View) {
    let drops = x.says(view).drops();
    let head = &mut x.outgoing.bytes;
    if let Some(end) = memchr::memchr(b'\n', head).filter(|_| !drops.is_empty()) {
        drops.drop_lines(head, end + 1);
    }
}

/// Says how long the body will be.
pub(crate) fn write_length(x: &mut Exchange, length: u64) {
    // Writing to a vector cannot fail.
    let _ = write!(x.outgoing.bytes, "Content-Length: {length}\r\n");
}

/// Ends the head, and sends it with its body.
pub(crate) async fn finish(
    x: &mut Exchange,
    by: (&Worker, &View),
    how: (u16, After),
    body: &[u8],
) -> Result<(), Failure> {
    let rest = end_head(x, by, how, body);
    send(x, Behind::Pieces(rest, b"")).await
}

/// Ends the head, and has what is short of its body sent with it. The rest is returned.
pub(crate) fn end_head<'b>(
    x: &mut Exchange,
    by: (&Worker, &View),
    (status, after): (u16, After),
    body: &'b [u8],
) -> &'b [u8] {
    edit(x, by.1);
    if !matches!(status, 204 | 304) {
        write_length(x, body.len() as u64);
    }
    x.finish_head(by, status, End::InHead, after == After::KeepAlive);
    let is_head = x.has_head && x.request.method == Method::Head;
    if is_head {
        return b"";
    }
    if body.len() <= COPIED_BODY_BYTES_MAX {
        x.outgoing.bytes.extend_from_slice(body);
        return b"";
    }
    body
}

/// Fills the location with what the request says.
///
/// # Errors
/// It says no host where one is asked for.
fn write_location(
    x: &Exchange,
    at: Serving<'_>,
    redirect: &Redirect,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let place = Place::new(x, at.worker, at.view);
    for part in &redirect.location.parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => match place.value(variable) {
                Some(Value::Text(text)) => write_url_bytes(text, out),
                None if *variable == Variable::Host => {
                    return Err(Failure::Request(Reject::HostMissing));
                }
                _ => {}
            },
        }
    }
    Ok(())
}

/// To a browser a backslash is a slash, and two slashes begin another host.
fn write_url_bytes(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"%5C"),
            byte => out.push(byte),
        }
    }
}

fn allowed_methods(x: &Exchange, view: &View) -> Option<String> {
    match view.snapshot.router.find(&x.route_key()) {
        Found::MethodNotAllowed(allow) => Some(allow.into_owned()),
        _ => None,
    }
}

/// A status and its phrase, as the status line has them.
fn status_text(status: u16, text: &mut [u8; STATUS_TEXT_BYTES_MAX]) -> &[u8] {
    let mut rest = &mut text[..];
    write!(rest, "{status} {}", reason_phrase(status)).expect("every phrase fits");
    let left = rest.len();
    &text[..STATUS_TEXT_BYTES_MAX - left]
}

/// The phrase that goes with a status (RFC 9110 §15); none for those without a registered one.
pub(crate) fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        418 => "I'm a Teapot",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        508 => "Loop Detected",
        _ => "",
    }
}
