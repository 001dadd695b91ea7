//! The head that a gateway sends on: hop-by-hop fields are removed, the gateway's own are added, and all others stay as
//! they came.
//!
//! Fields that stay are copied in runs of whole lines, so a head with nothing to remove costs one copy.
//! Sources: RFC 9110 §7.6 (forwarding), RFC 9112 §6 and §9 (framing, persistence).

use crate::body::Framing;
use crate::head::{Field, FieldName, Span, Version, for_each_element};
use crate::opening::End;
use crate::request::Spelling;
use crate::variable::{NamedFields, is_same_variable};
use crate::{Content, Method, RequestHead, ResponseHead, Scheme};

/// The value of `Via` for a response received in `version`: that version, and the name of the gateway (RFC 9110 §7.6.3).
pub fn via(version: Version) -> &'static [u8] {
    let line = via_line(version);
    &line[b"Via: ".len()..line.len() - b"\r\n".len()]
}

fn via_line(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"Via: 1.0 weir\r\n",
        Version::Http11 => b"Via: 1.1 weir\r\n",
    }
}

/// What one gateway calls itself in the `Via` of requests. No other has this name, so that a request which comes back is
/// known from one that has passed another gateway of the same kind (RFC 9110 §7.6.3).
#[derive(Debug, Clone)]
pub struct ViaName {
    name: String,
    /// The lines for HTTP/1.0 and HTTP/1.1.
    lines: [String; 2],
}

impl ViaName {
    /// `name` is a token.
    pub fn new(name: &str) -> Self {
        Self {
            lines: ["1.0", "1.1"].map(|version| format!("Via: {version} {name}\r\n")),
            name: name.to_owned(),
        }
    }

    fn line(&self, version: Version) -> &[u8] {
        let [http10, http11] = &self.lines;
        match version {
            Version::Http10 => http10.as_bytes(),
            Version::Http11 => http11.as_bytes(),
        }
    }

    /// Whether a request has passed the gateway of this name. A client that says so without need harms itself alone.
    pub fn is_in(&self, request: &RequestHead, head: &[u8]) -> bool {
        if request.via_fields == 0 {
            return false;
        }
        let fields = request.fields.iter();
        let mut values = fields.filter(|field| field.id == FieldName::Via);
        values.any(|field| {
            let mut hops = field.value.of(head).split(|&b| b == b',');
            hops.any(|hop| {
                let mut words = hop.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
                words.nth(1) == Some(self.name.as_bytes())
            })
        })
    }
}

fn proto_line(scheme: Scheme) -> &'static [u8] {
    match scheme {
        Scheme::Http => b"X-Forwarded-Proto: http\r\n",
        Scheme::Https => b"X-Forwarded-Proto: https\r\n",
    }
}

/// What a route changes of the fields of a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edits<'a> {
    /// Names in lower case. Fields of these names are left out, and of every name that scripts read as the same
    /// variable: they are removed, or others take their place.
    pub drops: &'a [String],
    /// The lines of the fields that are added.
    pub lines: &'a [u8],
}

impl Edits<'_> {
    /// Whether the message's own fields called `name` are left out.
    pub fn drops(&self, name: &[u8]) -> bool {
        let is_it = |other: &String| is_same_variable(name, other.as_bytes());
        self.drops.iter().any(is_it)
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.drops.is_empty() && self.lines.is_empty()
    }

    /// Appends the fields that are added.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.lines);
    }

    /// Takes the lines off `head`, from byte `start` on, whose fields are left out. They are whole lines of fields.
    pub fn drop_lines(&self, head: &mut Vec<u8>, start: usize) {
        if self.drops.is_empty() {
            return;
        }
        let (mut read, mut kept) = (start, start);
        while read < head.len() {
            let line = &head[read..];
            let end = memchr::memchr(b'\n', line).map_or(head.len(), |at| read + at + 1);
            let name = memchr::memchr(b':', line).map_or(&b""[..], |colon| &line[..colon]);
            if !self.drops(name) {
                head.copy_within(read..end, kept);
                kept += end - read;
            }
            read = end;
        }
        head.truncate(kept);
    }
}

/// Whether a request's field of this name is sent on as it came, if the route does not change it. All others belong to
/// the gateway or to one connection, or make the request differ from one for the whole response.
pub fn passes_as_sent(name: &[u8]) -> bool {
    let id = FieldName::of(name);
    let is_own = matches!(
        id,
        FieldName::Expect
            | FieldName::Host
            | FieldName::Http2Settings
            | FieldName::Proxy
            | FieldName::Via
            | FieldName::XForwardedFor
            | FieldName::XForwardedHost
            | FieldName::XForwardedProto
    );
    !is_own && !id.is_hop_by_hop() && !id.makes_conditional() && !name.contains(&b'_')
}

/// What a forwarded request head depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'a> {
    /// The path to ask for, without the query; empty asks for `/`.
    pub path: &'a [u8],
    /// The address of the client, for `X-Forwarded-For`.
    pub client_address: &'a [u8],
    /// `http` or `https`: how the client connected.
    pub scheme: Scheme,
    /// The `Host` of a request that came without one.
    pub default_host: &'a [u8],
    /// Whether the upgrade that the client wants is passed on.
    pub upgrade: bool,
    /// Conditions of a cache, as lines. They replace the client's own conditions and its `Range`.
    pub conditions: Option<&'a [u8]>,
    /// Whether all of the response is wanted although the client wants a part: `Range` and `If-Range` are left out.
    pub wants_whole: bool,
    /// What the gateway calls itself.
    pub via: &'a ViaName,
    /// What the route changes.
    pub edits: Edits<'a>,
    /// The names that the configuration uses. Fields that scripts would mistake for one of them are left out.
    pub named: &'a NamedFields,
}

/// Appends the head to send for `request`, whose own bytes are at the start of `head`.
pub fn write_request(
    request: &RequestHead,
    head: &[u8],
    rewrite: &RequestRewrite<'_>,
    out: &mut Vec<u8>,
) {
    write_target(request, head, rewrite.path, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    // An absolute target is sent on in origin form, so `Host` alone carries its authority.
    let host = request
        .authority
        .map_or(rewrite.default_host, |span| span.of(head));
    let is_settled = request.spelling == Spelling::Settled;
    let has_own_host = request.known_field(FieldName::Host).is_some() && !is_settled;
    if !has_own_host && !rewrite.edits.drops(b"host") {
        write_field(out, b"Host", host);
    }
    let mut forwarded_for = None;
    let mut te_trailers = false;
    let is_dropped = |field: &Field| match field.id {
        FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Http2Settings
        | FieldName::Te
        // A CGI script would read it as HTTP_PROXY (httpoxy, CVE-2016-5385).
        | FieldName::Proxy
        | FieldName::XForwardedFor
        | FieldName::XForwardedHost
        | FieldName::XForwardedProto => true,
        FieldName::Host => is_settled,
        FieldName::Upgrade => !rewrite.upgrade,
        FieldName::Expect => !request.expects_continue,
        FieldName::Other => rewrite.named.has_impostor(field.name.of(head)),
        FieldName::Range | FieldName::IfRange if rewrite.wants_whole => true,
        id => rewrite.conditions.is_some() && id.makes_conditional(),
    };
    copy_fields(&head[..request.head_bytes], &request.fields, out, |field| {
        is_dropped(field)
            || (request.connection_names_fields
                && is_named_by_connection(head, &request.fields, field))
            || rewrite.edits.drops(field.name.of(head))
    });
    for field in &request.fields {
        match field.id {
            FieldName::XForwardedFor => forwarded_for = Some(field.value),
            FieldName::Te => te_trailers |= names_trailers(field.value.of(head)),
            _ => {}
        }
    }
    if !rewrite.edits.drops(b"x-forwarded-for") {
        write_forwarded_for(request, head, forwarded_for, rewrite.client_address, out);
    }
    if !rewrite.edits.drops(b"x-forwarded-proto") {
        out.extend_from_slice(proto_line(rewrite.scheme));
    }
    if request.authority.is_some() && !rewrite.edits.drops(b"x-forwarded-host") {
        write_field(out, b"X-Forwarded-Host", host);
    }
    if !rewrite.edits.drops(b"via") {
        out.extend_from_slice(rewrite.via.line(request.version));
    }
    if rewrite.upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if te_trailers {
        out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    out.extend_from_slice(rewrite.conditions.unwrap_or_default());
    rewrite.edits.write(out);
    out.extend_from_slice(b"\r\n");
}

/// What the lines of a forwarded response depend on besides the response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseRewrite<'a> {
    /// How the client learns of the end of the body.
    pub end: End,
    /// What is done with its content.
    pub content: Content<'a>,
    /// The line of `Date` with the time of now, for a response without one (RFC 9110 §6.6.1).
    pub date_line: &'a [u8],
    /// What the route changes.
    pub edits: Edits<'a>,
}

/// Appends the end-to-end lines to send for `response`, whose own bytes are `head`. [`opening`](crate::opening) writes
/// what comes before and after them.
pub fn write_response(
    response: &ResponseHead,
    head: &[u8],
    rewrite: &ResponseRewrite<'_>,
    out: &mut Vec<u8>,
) {
    let is_upgrade = response.status == 101;
    let no_length = response.status < 200 || response.status == 204;
    // Some announced trailers may describe the content before it was encoded.
    let has_trailers = response.framing == Framing::Chunked
        && rewrite.end == End::Chunks
        && !matches!(rewrite.content, Content::Encoded(_));
    let mut has_date = false;
    copy_fields(head, &response.fields, out, |field| {
        let is_hop_by_hop = match field.id {
            FieldName::Connection
            | FieldName::KeepAlive
            | FieldName::ProxyConnection
            | FieldName::Http2Settings
            | FieldName::TransferEncoding
            | FieldName::Te => true,
            FieldName::Upgrade => !is_upgrade,
            FieldName::ContentLength => no_length,
            FieldName::Trailer => !has_trailers,
            _ => false,
        };
        let is_dropped = is_hop_by_hop
            || rewrite.content.replaces(field.id, field.name.of(head))
            || (response.connection_names_fields
                && is_named_by_connection(head, &response.fields, field))
            || rewrite.edits.drops(field.name.of(head));
        has_date |= field.id == FieldName::Date && !is_dropped;
        is_dropped
    });
    if response.is_interim() {
        return;
    }
    if !has_date && !rewrite.edits.drops(b"date") {
        out.extend_from_slice(rewrite.date_line);
    }
    if !rewrite.edits.drops(b"via") {
        out.extend_from_slice(via_line(response.version));
    }
    let fields = response.view(head);
    rewrite.content.write(fields, rewrite.edits, out);
    rewrite.edits.write(out);
}

/// Appends the `trailers` of a chunked body that are still true for the response with `content`, and that the route
/// does not remove.
pub fn write_trailers(trailers: &[u8], content: Content<'_>, edits: Edits<'_>, out: &mut Vec<u8>) {
    for line in trailers.split_inclusive(|&byte| byte == b'\n') {
        let end = line.iter().position(|&byte| byte == b':');
        let name = &line[..end.unwrap_or(line.len())];
        let id = FieldName::of(name);
        if !id.is_hop_by_hop() && !content.replaces(id, name) && !edits.drops(name) {
            out.extend_from_slice(line);
        }
    }
}

/// Appends `name: value` as a line.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the method, and the target in origin form, without the end of the line.
pub(crate) fn write_target(request: &RequestHead, head: &[u8], path: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(request.method_name.of(head));
    out.push(b' ');
    out.extend_from_slice(match path {
        // The absolute form of `OPTIONS *` ends with its authority (RFC 9112 §3.2.4).
        b"" if request.method == Method::Options && request.target.query.is_none() => b"*",
        b"" => b"/",
        path => path,
    });
    if let Some(query) = request.target.query {
        out.push(b'?');
        out.extend_from_slice(query.of(head));
    }
}

/// Copies the lines of the fields that are not dropped, neighbours together.
pub(crate) fn copy_fields(
    head: &[u8],
    fields: &[Field],
    out: &mut Vec<u8>,
    mut is_dropped: impl FnMut(&Field) -> bool,
) {
    let fields_end = head.len() - 2;
    let mut run_start = None;
    for field in fields {
        let line_start = field.name.start as usize;
        if is_dropped(field) {
            if let Some(start) = run_start.take() {
                out.extend_from_slice(&head[start..line_start]);
            }
        } else {
            run_start.get_or_insert(line_start);
        }
    }
    if let Some(start) = run_start {
        out.extend_from_slice(&head[start..fields_end]);
    }
}

/// Whether `Connection` lists `field`, which makes it hop-by-hop. `Host` and the framing fields cannot be stripped
/// that way: their removal would change what the message is. `Upgrade` is always listed when it counts, and has a rule
/// of its own.
pub(crate) fn is_named_by_connection(head: &[u8], fields: &[Field], field: &Field) -> bool {
    if matches!(
        field.id,
        FieldName::Host
            | FieldName::ContentLength
            | FieldName::TransferEncoding
            | FieldName::Upgrade
    ) {
        return false;
    }
    let name = field.name.of(head);
    let mut is_named = false;
    for connection in fields
        .iter()
        .filter(|other| other.id == FieldName::Connection)
    {
        for_each_element(connection.value.of(head), |option| {
            is_named |= option.eq_ignore_ascii_case(name);
        });
    }
    is_named
}

/// One line with the list of earlier proxies, then the address of the peer, which nobody can forge.
fn write_forwarded_for(
    request: &RequestHead,
    head: &[u8],
    last: Option<Span>,
    client: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    if last.is_some() {
        for field in request
            .fields
            .iter()
            .filter(|field| field.id == FieldName::XForwardedFor)
        {
            out.extend_from_slice(field.value.of(head));
            out.extend_from_slice(b", ");
        }
    }
    out.extend_from_slice(client);
    out.extend_from_slice(b"\r\n");
}

fn names_trailers(te: &[u8]) -> bool {
    let mut found = false;
    for_each_element(te, |coding| {
        found |= coding.eq_ignore_ascii_case(b"trailers");
    });
    found
}

#[cfg(test)]
mod tests;
