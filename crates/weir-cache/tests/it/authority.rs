//! Who share a key ask the origin for the same: however a request spells its host, what is forwarded is what the key says.

use proptest::prelude::*;
use proptest::sample::select;

use weir_cache::key::{self, Inputs};
use weir_cache::policy::KeyParts;
use weir_http::forward::{self, Edits, RequestRewrite, ViaName};
use weir_http::head::HeadScan;
use weir_http::host::Authority;
use weir_http::{FieldName, HeadLimits, NamedFields, RequestHead, Scheme};

/// A head as the gateway keeps it.
fn read(text: &str) -> Option<(RequestHead, Vec<u8>)> {
    let limits = HeadLimits {
        bytes: 4096,
        fields: 10,
    };
    let mut request = RequestHead::default();
    let mut head = text.as_bytes().to_vec();
    request
        .parse(&head, &mut HeadScan::default(), limits)
        .ok()?;
    request.settle_authority(b"http", &mut head);
    Some((request, head))
}

/// The key of a request, and the lines that name its host upstream.
fn key_and_hosts(text: &str) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let (request, head) = read(text)?;
    let authority = request.authority?;
    let read = Authority::parse(authority.of(&head)).expect("it was read before");
    assert!(read.is_normal(b"http"), "{text}");
    let asked = Inputs {
        scheme: b"http",
        authority: authority.of(&head),
        path: b"/",
        query: None,
        fields: request.view(&head),
    };
    let mut key = Vec::new();
    key::write_url(&KeyParts::default(), &asked, &mut key);
    let rewrite = RequestRewrite {
        path: b"/",
        client_address: b"192.0.2.1",
        scheme: Scheme::Http,
        default_host: b"default",
        upgrade: false,
        conditions: None,
        wants_whole: false,
        via: &ViaName::new("weir"),
        edits: Edits::default(),
        named: &NamedFields::NONE,
    };
    let mut sent = Vec::new();
    forward::write_request(&request, &head, &rewrite, &mut sent);
    let is_host = |line: &&[u8]| {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        matches!(
            FieldName::of(name),
            FieldName::Host | FieldName::XForwardedHost
        )
    };
    let lines = sent.split(|&b| b == b'\n').filter(is_host);
    Some((key, lines.map(<[u8]>::to_vec).collect()))
}

fn host() -> impl Strategy<Value = String> {
    let name = select(vec![
        "a", "A", "a.b", "A.b", "%61", "%4A", "%4a", "1.2.3.4", "[::1]", "[0::1]", "[::A]", "[::a]",
    ]);
    let dot = select(vec!["", "", ".", ".."]);
    let port = select(vec![
        "", "", ":", ":80", ":080", ":81", ":0081", ":443", ":65536",
    ]);
    (name, dot, port).prop_map(|(name, dot, port)| format!("{name}{dot}{port}"))
}

fn request(host: &str, form: usize) -> String {
    match form {
        0 => format!("GET / HTTP/1.1\r\nHost: {host}\r\nA: b\r\n\r\n"),
        1 => format!("GET http://{host} HTTP/1.1\r\nA: b\r\nhost:{host} \r\n\r\n"),
        2 => format!("GET HTTPS://{host}/ HTTP/1.0\r\n\r\n"),
        _ => format!("GET / HTTP/1.0\r\nA: b\r\nHOST:\t{host}\r\n\r\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn one_key_is_one_host_upstream(one in host(), other in host(), forms in (0usize..4, 0usize..4)) {
        let [one, other] = [(one, forms.0), (other, forms.1)].map(|(host, form)| request(&host, form));
        if let (Some(one), Some(other)) = (key_and_hosts(&one), key_and_hosts(&other)) {
            prop_assert_eq!(one.1.len(), 2);
            // Names may be spelled as they like; the values may not.
            let values = |lines: &[Vec<u8>]| {
                let value = |line: &Vec<u8>| {
                    let colon = line.iter().position(|&b| b == b':').unwrap();
                    line[colon + 1..].trim_ascii().to_vec()
                };
                let mut values: Vec<_> = lines.iter().map(value).collect();
                values.dedup();
                values
            };
            prop_assert_eq!(values(&one.1).len(), 1, "Host and X-Forwarded-Host are the same");
            prop_assert_eq!(one.0 == other.0, values(&one.1) == values(&other.1));
        }
    }
}
