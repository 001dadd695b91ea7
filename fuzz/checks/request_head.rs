//! What must hold of every request head, whatever the bytes.

use weir_http::body::Framing;
use weir_http::forward::{self, Edits, RequestRewrite, ViaName};
use weir_http::head::{FieldName, HeadScan, Span};
use weir_http::request::Progress;
use weir_http::{HeadLimits, Method, NamedFields, Reject, RequestHead, Version, readings, target};

use super::lenient;

/// The gateway's defaults.
const LIMITS: HeadLimits = HeadLimits {
    bytes: 32 << 10,
    fields: 100,
};
/// Within reach of small inputs.
const TIGHT: HeadLimits = HeadLimits {
    bytes: 80,
    fields: 3,
};
/// Room for what rewriting adds.
const ROOMY: HeadLimits = HeadLimits {
    bytes: 128 << 10,
    fields: 110,
};

const CLIENT: &[u8] = b"192.0.2.7";
const DEFAULT_HOST: &[u8] = b"default.example:8080";

/// Panics if reading or rewriting the head at the start of `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    for limits in [LIMITS, TIGHT] {
        let whole = read_in_pieces(data, data.len().max(1), limits);
        for step in [1, 2, 7, 40] {
            assert_eq!(
                read_in_pieces(data, step, limits),
                whole,
                "in pieces of {step}"
            );
        }
    }
    let mut request = RequestHead::default();
    let progress = request.parse(data, &mut HeadScan::default(), LIMITS);
    let Ok(Progress::Complete(end)) = progress else {
        return;
    };
    let head = &data[..end];
    check_lines(head);
    check_agreement(&request, head);
    check_path(request.target.path.of(head));
    check_rewritten(&request, head, false);
    if request.upgrade.is_some() && request.framing == Framing::Empty {
        check_rewritten(&request, head, true);
    }
    check_settled(request, head);
}

/// What a reader can tell when the bytes arrive `step` at a time.
fn read_in_pieces(
    data: &[u8],
    step: usize,
    limits: HeadLimits,
) -> Result<Option<(usize, Framing, bool, usize)>, Reject> {
    let (mut request, mut scan) = (RequestHead::default(), HeadScan::default());
    let mut arrived = 0;
    while arrived < data.len() {
        arrived = (arrived + step).min(data.len());
        if let Progress::Complete(end) = request.parse(&data[..arrived], &mut scan, limits)? {
            let fields = request.fields.len();
            assert!(end <= limits.bytes && fields <= limits.fields);
            return Ok(Some((end, request.framing, request.keep_alive, fields)));
        }
    }
    Ok(None)
}

/// Lines end with CRLF, none is continued, and no other control byte is anywhere.
fn check_lines(head: &[u8]) {
    let (lines, end) = head.split_at(head.len() - 4);
    assert_eq!(end, b"\r\n\r\n");
    for line in lines.split(|&b| b == b'\n') {
        let is_last = std::ptr::eq(line.as_ptr_range().end, lines.as_ptr_range().end);
        let line = line.strip_suffix(b"\r").or(is_last.then_some(line));
        let line = line.expect("every line ends with CRLF");
        assert!(line.first().is_some_and(u8::is_ascii_graphic));
        assert!(!line.iter().any(|&b| b != b'\t' && b.is_ascii_control()));
    }
}

/// Whoever reads the head less strictly sees the same message.
fn check_agreement(request: &RequestHead, head: &[u8]) {
    let lenient = lenient::read(head);
    lenient.must_agree(request.framing, false);
    assert!(lenient.hosts.len() <= 1, "{lenient:?}");
    match (request.authority, lenient.hosts.first()) {
        (Some(authority), Some(host)) => assert_eq!(authority.of(head), host),
        (Some(_), None) => assert!(request.target.authority.is_some()),
        (None, host) => assert_eq!((host, request.version), (None, Version::Http10)),
    }
}

/// A normal path is normal, and stays what it is.
fn check_path(path: &[u8]) {
    if matches!(path, b"" | b"*") {
        return;
    }
    let (mut normal, mut again) = (Vec::new(), Vec::new());
    if target::normalize(path, &mut normal).is_err() {
        assert!(!target::is_normal(path));
        return;
    }
    // Of a path that passes, every reading is one that has nothing left to resolve.
    let is_resolved = |read: &[u8]| {
        let mut segments = read.split(|&b| b == b'/');
        !segments.any(|segment| matches!(segment, b"." | b".."))
    };
    let agreed = readings::agree(path, is_resolved);
    if target::is_normal(path) {
        assert_eq!(normal, path);
        assert_eq!(agreed, Ok(()));
    }
    assert_eq!(target::normalize(&normal, &mut again), Ok(()));
    assert_eq!(again, normal);
    let segments = normal
        .strip_prefix(b"/")
        .expect("a path begins at the root");
    let inner = segments.strip_suffix(b"/").unwrap_or(segments);
    let is_left_out = |segment: &[u8]| matches!(segment, b"" | b"." | b"..");
    assert!(inner.is_empty() || !inner.split(|&b| b == b'/').any(is_left_out));
}

/// The authority that is sent on is the one that the gateway goes by, and in normal form.
fn check_settled(mut request: RequestHead, head: &[u8]) {
    let mut head = head.to_vec();
    request.settle_authority(b"http", &mut head);
    let out = rewritten(&request, &head, false);
    let text = out.escape_ascii();
    let mut sent = RequestHead::default();
    let progress = sent.parse(&out, &mut HeadScan::default(), ROOMY);
    assert_eq!(progress, Ok(Progress::Complete(out.len())), "{text}");
    let Some(authority) = request.authority.map(|span| span.of(&head)) else {
        return;
    };
    for id in [FieldName::Host, FieldName::XForwardedHost] {
        let value = sent.known_field(id).map(|span| span.of(&out));
        assert_eq!(value, Some(authority), "{text}");
    }
    let mut again = out.clone();
    sent.settle_authority(b"http", &mut again);
    assert_eq!(again, out, "{text}");
}

fn rewritten(request: &RequestHead, head: &[u8], upgrade: bool) -> Vec<u8> {
    let rewrite = RequestRewrite {
        wants_whole: false,
        conditions: None,
        path: request.target.path.of(head),
        client_address: CLIENT,
        scheme: weir_http::Scheme::Http,
        default_host: DEFAULT_HOST,
        upgrade,
        via: &ViaName::new("weir"),
        edits: Edits::default(),
        named: &NamedFields::NONE,
    };
    let mut out = Vec::new();
    forward::write_request(request, head, &rewrite, &mut out);
    out
}

/// The head that is sent on means what the head that was received means.
fn check_rewritten(request: &RequestHead, head: &[u8], upgrade: bool) {
    let out = rewritten(request, head, upgrade);
    let text = out.escape_ascii();
    let mut sent = RequestHead::default();
    let progress = sent.parse(&out, &mut HeadScan::default(), ROOMY);
    assert_eq!(progress, Ok(Progress::Complete(out.len())), "{text}");

    let authority = request.authority.map_or(DEFAULT_HOST, |span| span.of(head));
    assert_eq!(sent.method_name.of(&out), request.method_name.of(head));
    assert_eq!(sent.version, Version::Http11);
    assert_eq!(sent.framing, request.framing, "{text}");
    assert_eq!(sent.authority.map(|span| span.of(&out)), Some(authority));
    assert_eq!(sent.target.authority, None, "{text}");
    assert_eq!(sent.target.path.of(&out), sent_path(request, head));
    let query = |span: Option<Span>, of| span.map(|span| Span::of(span, of).to_vec());
    assert_eq!(
        query(sent.target.query, &out),
        query(request.target.query, head)
    );
    // Whoever lists `Expect` in `Connection` gives up the 100.
    let expects = request.expects_continue
        && !connection_options(request, head).contains(&"expect".to_owned());
    assert_eq!(sent.expects_continue, expects, "{text}");
    assert_eq!(sent.upgrade.is_some(), upgrade, "{text}");
    assert!(sent.keep_alive, "{text}");
    check_sent_fields(request, head, &sent, &out, upgrade);
}

fn sent_path<'h>(request: &RequestHead, head: &'h [u8]) -> &'h [u8] {
    match request.target.path.of(head) {
        b"" if request.method == Method::Options && request.target.query.is_none() => b"*",
        b"" => b"/",
        path => path,
    }
}

/// Every end-to-end field is sent as it came and in its place, no other one is, and the gateway's own come after them.
fn check_sent_fields(
    request: &RequestHead,
    head: &[u8],
    sent: &RequestHead,
    out: &[u8],
    upgrade: bool,
) {
    let options = connection_options(request, head);
    let expected: Vec<_> = pairs(request, head)
        .filter(|(name, _)| match name.as_str() {
            "connection" | "keep-alive" | "proxy-connection" | "te" | "http2-settings"
            | "proxy" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto" => false,
            "host" | "content-length" | "transfer-encoding" => true,
            "upgrade" => upgrade,
            "expect" if !request.expects_continue => false,
            name if passes_for_known(name) => false,
            name => !options.iter().any(|option| option == name),
        })
        .collect();
    let mut found: Vec<_> = pairs(sent, out).collect();
    let text = out.escape_ascii();
    if request.known_field(FieldName::Host).is_none() {
        assert_eq!(found.remove(0).0, "host", "{text}");
    }
    assert!(found.starts_with(&expected), "{expected:?} in {text}");
    // The route allows one protocol, so no other one may go along with it.
    let upgrades = found.iter().filter(|(name, _)| name == "upgrade").count();
    assert_eq!(upgrades, usize::from(upgrade), "{text}");
    let mut own: Vec<_> = found[expected.len()..]
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(!own.contains(&"host"), "{text}");
    assert_eq!(own.contains(&"connection"), upgrade || own.contains(&"te"));
    for name in ["x-forwarded-for", "x-forwarded-proto", "via"] {
        assert!(own.contains(&name), "no {name} in {text}");
    }
    let forwarded_for = sent.known_field(FieldName::XForwardedFor);
    assert!(forwarded_for.is_some_and(|span| span.of(out).ends_with(CLIENT)));
    let own_fields = own.len();
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), own_fields, "{text}");
}

/// Whether a script would take `name` for a field that is known here, which `name` itself is not.
fn passes_for_known(name: &str) -> bool {
    let folded = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    folded != name && FieldName::of(folded.as_bytes()) != FieldName::Other
}

/// Names in lower case, and values.
fn pairs(request: &RequestHead, head: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    request.fields.iter().map(|field| {
        let name = field.name.of(head).escape_ascii().to_string();
        (name.to_ascii_lowercase(), field.value.of(head).to_vec())
    })
}

/// What `Connection` lists, in lower case.
fn connection_options(request: &RequestHead, head: &[u8]) -> Vec<String> {
    pairs(request, head)
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, value)| {
            let value = value.escape_ascii().to_string();
            value
                .split(',')
                .map(|option| option.replace("\\t", " ").trim().to_ascii_lowercase())
                .collect::<Vec<_>>()
        })
        .collect()
}
