//! What must hold of every response head, whatever the bytes.

use weir_http::body::Framing;
use weir_http::forward::{self, Edits, ResponseRewrite};
use weir_http::head::HeadScan;
use weir_http::opening::{self, End, Opening};
use weir_http::request::Progress;
use weir_http::{Content, HeadLimits, Method, Reject, ResponseHead, Version};

use super::lenient;

/// The bounds that the gateway puts on its upstreams.
const LIMITS: HeadLimits = HeadLimits {
    bytes: 128 << 10,
    fields: HeadLimits::FIELDS_CEILING,
};
/// Within reach of small inputs.
const TIGHT: HeadLimits = HeadLimits {
    bytes: 80,
    fields: 3,
};

const NOW: &[u8] = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

/// Panics if reading or rewriting the head at the start of `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    for method in [Method::Get, Method::Head] {
        for limits in [LIMITS, TIGHT] {
            let whole = read_in_pieces(data, data.len().max(1), limits, method);
            for step in [1, 2, 7, 40] {
                assert_eq!(
                    read_in_pieces(data, step, limits, method),
                    whole,
                    "in pieces of {step}"
                );
            }
        }
        let mut response = ResponseHead::default();
        let progress = response.parse(data, &mut HeadScan::default(), LIMITS, method);
        let Ok(Progress::Complete(end)) = progress else {
            continue;
        };
        let head = &data[..end];
        assert_eq!(response.head_bytes, end);
        assert!((100..600).contains(&response.status));
        let no_body =
            method == Method::Head || response.status < 200 || matches!(response.status, 204 | 304);
        assert!(!no_body || response.framing == Framing::Empty);
        lenient::read(head).must_agree(response.framing, no_body);
        // An upstream takes the same head for the answer to one request and reads the next one behind it.
        assert!(response.framing != Framing::UntilClose || !response.keep_alive);
        // The table of the parser is full, so there would be no room for what rewriting adds.
        if response.fields.len() + 4 <= LIMITS.fields {
            for version in [Version::Http11, Version::Http10] {
                check_rewritten(&response, head, method, version, true);
                check_rewritten(&response, head, method, version, false);
            }
        }
    }
}

/// What a reader can tell when the bytes arrive `step` at a time.
fn read_in_pieces(
    data: &[u8],
    step: usize,
    limits: HeadLimits,
    method: Method,
) -> Result<Option<(usize, u16, Framing, bool)>, Reject> {
    let (mut response, mut scan) = (ResponseHead::default(), HeadScan::default());
    let mut arrived = 0;
    while arrived < data.len() {
        arrived = (arrived + step).min(data.len());
        let progress = response.parse(&data[..arrived], &mut scan, limits, method)?;
        if let Progress::Complete(end) = progress {
            assert!(end <= limits.bytes && response.fields.len() <= limits.fields);
            let (status, framing) = (response.status, response.framing);
            return Ok(Some((end, status, framing, response.keep_alive)));
        }
    }
    Ok(None)
}

/// The head that is sent on means to the client what the head that was received means to the gateway.
fn check_rewritten(
    response: &ResponseHead,
    head: &[u8],
    method: Method,
    version: Version,
    keep_alive: bool,
) {
    let end = End::of(response.framing, version);
    let opening = Opening {
        end,
        version,
        keep_alive: keep_alive && end != End::Close,
        is_upgrade: response.status == 101,
    };
    let rewrite = ResponseRewrite {
        end,
        date_line: NOW,
        content: Content::AsIs,
        edits: Edits::default(),
    };
    let mut out = Vec::new();
    opening::begin(response.status_text.of(head), &mut out);
    forward::write_response(response, head, &rewrite, &mut out);
    if response.is_interim() {
        out.extend_from_slice(b"\r\n");
    } else {
        opening.finish(&mut out);
    }
    let text = out.escape_ascii();
    let mut sent = ResponseHead::default();
    let progress = sent.parse(&out, &mut HeadScan::default(), LIMITS, method);
    assert_eq!(progress, Ok(Progress::Complete(out.len())), "{text}");

    assert_eq!(sent.status_text.of(&out), response.status_text.of(head));
    assert_eq!(
        (sent.status, sent.version),
        (response.status, Version::Http11)
    );
    let expected = match end {
        End::InHead => response.framing,
        End::Chunks => Framing::Chunked,
        End::Close => Framing::UntilClose,
    };
    assert_eq!(sent.framing, expected, "{text}");
    if response.status >= 200 {
        assert_eq!(sent.keep_alive, opening.keep_alive, "{text}");
    }
    check_sent_fields(response, head, opening, &sent, &out);
}

/// Every end-to-end field is sent as it came and in its place, no other one is, and the gateway's own come after them.
fn check_sent_fields(
    response: &ResponseHead,
    head: &[u8],
    opening: Opening,
    sent: &ResponseHead,
    out: &[u8],
) {
    let options = connection_options(response, head);
    let no_length = response.status < 200 || response.status == 204;
    let has_trailers = response.framing == Framing::Chunked && opening.end == End::Chunks;
    let expected: Vec<_> = pairs(response, head)
        .filter(|(name, _)| match name.as_str() {
            "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" => false,
            "host" => true,
            "content-length" => !no_length,
            "upgrade" => response.status == 101,
            "trailer" if !has_trailers => false,
            name => !options.iter().any(|option| option == name),
        })
        .collect();
    let found: Vec<_> = pairs(sent, out).collect();
    let text = out.escape_ascii();
    assert!(found.starts_with(&expected), "{expected:?} in {text}");
    let own: Vec<_> = found[expected.len()..]
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    if response.is_interim() {
        assert!(own.is_empty(), "{text}");
        return;
    }
    let has_date = expected.iter().any(|(name, _)| name == "date");
    let is_closed = response.status != 101 && !opening.keep_alive;
    let says_so = response.status == 101 || is_closed || opening.version == Version::Http10;
    let adds_chunks = opening.end == End::Chunks;
    let expected_own = [
        ("date", !has_date),
        ("via", true),
        ("transfer-encoding", adds_chunks),
        ("connection", says_so),
    ];
    let expected_own: Vec<_> = expected_own
        .iter()
        .filter(|(_, is_due)| *is_due)
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(own, expected_own, "{text}");
}

/// Names in lower case, and values.
fn pairs(response: &ResponseHead, head: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    response.fields.iter().map(|field| {
        let name = field.name.of(head).escape_ascii().to_string();
        (name.to_ascii_lowercase(), field.value.of(head).to_vec())
    })
}

/// What `Connection` lists, in lower case.
fn connection_options(response: &ResponseHead, head: &[u8]) -> Vec<String> {
    pairs(response, head)
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
