//! Deciding about a hit and writing its head allocates nothing. A binary of its own, because the counting allocator would
//! count what other tests allocate.

use weir_cache::freshness::Exchanged;
use weir_cache::key::{self, Inputs};
use weir_cache::policy::{KeyParts, QueryKey};
use weir_cache::range::{self, Multipart, Wanted};
use weir_cache::store_rule::{self, Answered};
use weir_cache::stored_head::Arrived;
use weir_cache::{CachePolicy, RequestControl, Reuse, StoredHead, Timestamp};
use weir_cache::{cache_status::CacheStatus, negotiate::Accepted, reuse, validate, vary};
use weir_http::forward::Edits;
use weir_http::head::HeadScan;
use weir_http::{HeadLimits, Method, RequestHead, ResponseHead};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const NOW: Timestamp = Timestamp::from_secs(784_111_777);
const LIMITS: HeadLimits = HeadLimits {
    bytes: 1 << 16,
    fields: 100,
};
const REQUEST: &[u8] = b"GET /a?c=3&b=2&a=1 HTTP/1.1\r\nHost: www.example.com\r\n\
    Accept-Language: en, de;q=0.5\r\nAccept-Encoding: gzip, br\r\nCookie: a=b; tier=gold\r\n\
    Cache-Control: max-age=600, min-fresh=1\r\nIf-None-Match: \"x\", \"y\"\r\nRange: bytes=0-0, 5-6\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"a\"\r\n\
    Cache-Control: max-age=600\r\nVary: Accept-Language, Accept-Encoding\r\nContent-Type: text/html\r\n\r\n";

/// What the gateway of a worker keeps between requests.
struct Buffers {
    key: Vec<u8>,
    scratch: Vec<u8>,
    out: Vec<u8>,
}

fn stored(request: &RequestHead, policy: &CachePolicy) -> StoredHead {
    let mut head = ResponseHead::default();
    head.parse(RESPONSE, &mut HeadScan::default(), LIMITS, Method::Get)
        .expect("a response");
    let answered = Answered {
        method: Method::Get,
        is_keyed_by_body: false,
        target: b"/a",
        authority: b"h",
        request: request.view(REQUEST),
        has_cookies: request.view(REQUEST).has(weir_http::FieldName::Cookie),
        status: 200,
        response: head.view(RESPONSE),
        body_bytes: Some(10),
        exchanged: Exchanged {
            request_time: NOW,
            response_time: NOW,
        },
    };
    let meta = store_rule::decide(&answered, policy).expect("it may be stored");
    let arrived = Arrived {
        status_text: b"200 OK",
        version: head.version,
        response: head.view(RESPONSE),
        request: request.view(REQUEST),
        has_cookies: request.view(REQUEST).has(weir_http::FieldName::Cookie),
        selecting: request.view(REQUEST),
    };
    let mut head = StoredHead::new(&arrived, meta, policy);
    head.complete(10);
    head
}

fn hit(request: &RequestHead, stored: &StoredHead, policy: &CachePolicy, buffers: &mut Buffers) {
    let fields = request.view(REQUEST);
    let asked = Inputs {
        scheme: b"http",
        authority: request.authority.expect("a host").of(REQUEST),
        path: request.target.path.of(REQUEST),
        query: request.target.query.map(|query| query.of(REQUEST)),
        fields,
    };
    buffers.key.clear();
    buffers.out.clear();
    assert!(key::class(Method::Get, false, &asked, policy).is_ok());
    key::write(&policy.key, &asked, None, &mut buffers.key);
    let variants = std::iter::once((stored.secondary(), &stored.meta));
    let chosen = vary::choose(variants, fields, true, &mut buffers.scratch);
    assert_eq!(chosen, Some(0));
    let verdict = reuse::decide(&stored.meta, &RequestControl::of(fields), policy, NOW);
    assert_eq!(verdict, Reuse::Fresh { refresh: false });
    Accepted::of(fields).choose(&[]);
    let precondition = validate::evaluate(Method::Get, fields, stored, NOW);
    assert_eq!(precondition, validate::Precondition::Holds);
    let edits = Edits::default();
    stored.write(NOW, edits, &mut buffers.out);
    stored.write_not_modified(NOW, edits, &mut buffers.out);
    let Wanted::Many(ranges) = range::resolve(Method::Get, fields, stored, 10, NOW) else {
        panic!("two ranges");
    };
    let multipart = Multipart::new(stored, &ranges, 10, 7);
    multipart.write_head(NOW, edits, &mut buffers.out);
    for &range in ranges.each() {
        multipart.write_part_head(range, &mut buffers.out);
        range::write_single(stored, range, 10, NOW, edits, &mut buffers.out);
    }
    CacheStatus::default().write(&mut buffers.out);
}

#[test]
fn a_hit_allocates_nothing() {
    let policy = CachePolicy {
        key: KeyParts {
            query: QueryKey::Sorted,
            headers: vec!["accept-language".to_owned()],
            cookies: vec!["tier".to_owned()],
            ..KeyParts::default()
        },
        ..CachePolicy::default()
    };
    let mut request = RequestHead::default();
    request
        .parse(REQUEST, &mut HeadScan::default(), LIMITS)
        .expect("a request");
    let stored = stored(&request, &policy);
    let mut buffers = Buffers {
        key: Vec::with_capacity(4096),
        scratch: Vec::with_capacity(4096),
        out: Vec::with_capacity(4096),
    };
    let _profiler = dhat::Profiler::builder().testing().build();
    for _ in 0..10 {
        hit(&request, &stored, &policy, &mut buffers);
    }
    let stats = dhat::HeapStats::get();
    dhat::assert_eq!(stats.total_blocks, 0);
}
