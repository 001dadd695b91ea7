//! Stored responses: each form is made once, and is a hit like any other.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::{CODINGS, accepting, decode, decoded, gateway, get, text, vary};
use crate::harness::client::{self, Connection, Response};
use crate::harness::origin::Origin;
use crate::harness::{Directory, Gateway, wait_until};

const KEYS: &str = "cache = true\ncompress = true";
const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n";
/// Small enough for the worker that needs a form to make it.
const SMALL_BYTES: usize = 5000;
/// So large that the form is made elsewhere.
const LARGE_BYTES: usize = 400_000;

/// An origin that answers with `bytes` bytes of text, head and body in one piece.
fn origin(bytes: usize) -> Origin {
    let answer = format!("{HEAD}Content-Length: {bytes}\r\n\r\n{}", text(bytes));
    Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(&answer);
        }
    })
}

fn forms(gateway: &Gateway, coding: &str) -> u64 {
    gateway.metric(&format!("weir_compress_forms_total{{coding=\"{coding}\"}}"))
}

/// The first answer in `coding` with a length: the form that is stored.
fn stored_form(gateway: &Gateway, coding: &str) -> Response {
    let mut form = None;
    wait_until("the form is made", || {
        let response = accepting(gateway.address, coding);
        let is_form = response.field("content-encoding").is_some()
            && response.field("content-length").is_some();
        form = Some(response).filter(|_| is_form);
        form.is_some()
    });
    form.expect("it is made")
}

#[test]
fn each_form_is_made_once_and_sent_from_then_on() {
    for bytes in [SMALL_BYTES, LARGE_BYTES] {
        let origin = origin(bytes);
        let gateway = gateway(origin.address, KEYS);
        for coding in CODINGS {
            let form = stored_form(&gateway, coding);
            assert_eq!(decoded(&form, coding), text(bytes));
            assert!(form.body.len() < bytes / 2, "{}", form.head);
            assert_eq!(form.field("etag"), Some("W/\"1\""));
            assert_eq!(vary(&form), Some("Accept-Encoding"));
            for _ in 0..5 {
                let hit = accepting(gateway.address, coding);
                assert_eq!(hit.body, form.body, "{}", hit.head);
                assert!(hit.field("age").is_some());
                assert!(
                    hit.field("cache-status")
                        .is_some_and(|said| said.contains("hit"))
                );
            }
            assert_eq!(forms(&gateway, coding), 1);
        }
        let plain = get(gateway.address, "");
        assert_eq!(
            (plain.text(), plain.field("etag")),
            (text(bytes), Some("\"1\""))
        );
        assert_eq!(vary(&plain), Some("Accept-Encoding"));
        assert_eq!(origin.heads_waiting(), 1);
    }
}

#[test]
fn a_small_response_is_compressed_from_the_first_answer_on() {
    let origin = origin(SMALL_BYTES);
    let gateway = gateway(origin.address, KEYS);
    let first = accepting(gateway.address, "br");
    assert_eq!(decoded(&first, "br"), text(SMALL_BYTES));
    assert_eq!(
        first.field("content-length"),
        Some(first.body.len().to_string().as_str())
    );
    assert_eq!(forms(&gateway, "br"), 1);
}

#[test]
fn many_at_once_cause_one_compression() {
    let origin = origin(LARGE_BYTES);
    let gateway = gateway(origin.address, KEYS);
    assert_eq!(get(gateway.address, "").text(), text(LARGE_BYTES));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let response = accepting(gateway.address, "gzip");
                    // Before the form is there, the response as it is.
                    let content = match response.field("content-encoding") {
                        Some(coding) => decode(&response.body, coding),
                        None => response.text(),
                    };
                    assert_eq!(content, text(LARGE_BYTES));
                }
            });
        }
    });
    stored_form(&gateway, "gzip");
    assert_eq!(forms(&gateway, "gzip"), 1);
    assert_eq!(origin.heads_waiting(), 1);
}

#[test]
fn parts_and_conditions_are_told_by_the_tag() {
    let origin = origin(SMALL_BYTES);
    let gateway = gateway(origin.address, KEYS);
    stored_form(&gateway, "gzip");
    let ask = |fields: &str| {
        get(
            gateway.address,
            &format!("Accept-Encoding: gzip\r\n{fields}"),
        )
    };
    let part = ask("Range: bytes=0-9\r\n");
    assert_eq!(
        (part.status, part.text()),
        (206, text(SMALL_BYTES)[..10].to_owned())
    );
    assert_eq!(part.field("content-encoding"), None);
    assert_eq!(part.field("etag"), Some("\"1\""));
    assert_eq!(vary(&part), Some("Accept-Encoding"));
    assert_eq!(ask("Range: bytes=0-9\r\nIf-Range: \"1\"\r\n").status, 206);
    // A weak tag is no promise of the same bytes, so the whole is sent.
    let whole = ask("Range: bytes=0-9\r\nIf-Range: W/\"1\"\r\n");
    assert_eq!((whole.status, whole.text()), (200, text(SMALL_BYTES)));
    for tag in ["\"1\"", "W/\"1\"", "\"0\", W/\"1\"", "*"] {
        let confirmed = ask(&format!("If-None-Match: {tag}\r\n"));
        assert_eq!(confirmed.status, 304, "{tag}");
        assert_eq!(confirmed.field("etag"), Some("W/\"1\""), "{tag}");
        assert_eq!(vary(&confirmed), Some("Accept-Encoding"), "{tag}");
        assert_eq!(confirmed.field("content-encoding"), None, "{tag}");
    }
    assert_eq!(
        decoded(&ask("If-None-Match: \"0\"\r\n"), "gzip"),
        text(SMALL_BYTES)
    );
    let plain = get(gateway.address, "If-None-Match: W/\"1\"\r\n");
    assert_eq!((plain.status, plain.field("etag")), (304, Some("W/\"1\"")));
    let plain = get(gateway.address, "If-None-Match: \"1\"\r\n");
    assert_eq!((plain.status, plain.field("etag")), (304, Some("\"1\"")));
    assert_eq!(origin.heads_waiting(), 1);
}

#[test]
fn what_stays_on_disk_is_sent_as_it_is_and_says_that_others_may_get_a_form() {
    let bytes = 2 << 20;
    let origin = origin(bytes);
    let directory = Directory::new();
    let path = directory.file("store");
    let gateway = Gateway::start(&format!(
        "[cache]\nmemory = \"8MiB\"\ndisk = {{ path = \"{}\", size = \"1GiB\" }}\n[upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n{KEYS}\n",
        path.display(),
        origin.address
    ));
    gateway.wait_for_metric("weir_cache_disk_indexed", 1);
    assert_eq!(get(gateway.address, "").text(), text(bytes));
    wait_until("it is a hit from disk", || {
        let hit = accepting(gateway.address, "gzip");
        assert_eq!(vary(&hit), Some("Accept-Encoding"), "{}", hit.head);
        hit.field("age").is_some() && hit.field("content-encoding").is_none()
    });
    for _ in 0..3 {
        let hit = accepting(gateway.address, "gzip");
        assert_eq!(hit.text(), text(bytes));
        assert_eq!(vary(&hit), Some("Accept-Encoding"), "{}", hit.head);
    }
    assert_eq!(forms(&gateway, "gzip"), 0);
}

#[test]
fn an_answer_to_head_has_the_head_of_the_form() {
    let origin = origin(SMALL_BYTES);
    let gateway = gateway(origin.address, KEYS);
    let form = stored_form(&gateway, "zstd");
    let request = "HEAD / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: zstd\r\n\r\n";
    let head = client::send(gateway.address, request);
    for name in ["content-length", "content-encoding", "etag", "vary"] {
        assert_eq!(head.field(name), form.field(name), "{}", head.head);
    }
}

#[test]
fn a_confirmed_response_keeps_its_form_and_a_new_one_gets_another() {
    let version = Mutex::new((1, SMALL_BYTES));
    let version: &'static Mutex<(u32, usize)> = Box::leak(Box::new(version));
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let (tag, bytes) = *version.lock().expect("nobody panicked");
            let fields =
                "Content-Type: text/css\r\nCache-Control: max-age=0, stale-while-revalidate=0";
            if head.contains(&format!("If-None-Match: \"{tag}\"")) {
                peer.send(format!("HTTP/1.1 304 Not Modified\r\nETag: \"{tag}\"\r\n{fields}\r\nX-Seen: again\r\n\r\n"));
            } else {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nETag: \"{tag}\"\r\n{fields}\r\nContent-Length: {bytes}\r\n\r\n{}",
                    text(bytes)
                ));
            }
        }
    });
    let gateway = gateway(origin.address, KEYS);
    assert_eq!(
        decoded(&accepting(gateway.address, "gzip"), "gzip"),
        text(SMALL_BYTES)
    );
    for _ in 0..3 {
        let confirmed = accepting(gateway.address, "gzip");
        assert_eq!(decoded(&confirmed, "gzip"), text(SMALL_BYTES));
        assert_eq!(confirmed.field("x-seen"), Some("again"));
        // The origin is asked with the tag that it gave, not with the weak one of the form.
        assert!(origin.next_head().contains("GET"));
    }
    assert_eq!(forms(&gateway, "gzip"), 1);
    *version.lock().expect("nobody panicked") = (2, 6000);
    let new = accepting(gateway.address, "gzip");
    assert_eq!(decoded(&new, "gzip"), text(6000));
    assert_eq!(new.field("etag"), Some("W/\"2\""));
    assert_eq!(forms(&gateway, "gzip"), 2);
}

#[test]
fn what_ends_a_response_ends_its_forms() {
    let origin = origin(SMALL_BYTES);
    let gateway = gateway(origin.address, KEYS);
    stored_form(&gateway, "gzip");
    let deleted = client::send(gateway.address, "DELETE / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(deleted.status, 200);
    let again = accepting(gateway.address, "gzip");
    assert_eq!(decoded(&again, "gzip"), text(SMALL_BYTES));
    assert_eq!((forms(&gateway, "gzip"), origin.heads_waiting()), (2, 3));
}

#[test]
fn variants_have_forms_of_their_own() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let bytes = if head.contains("Accept-Language: de") {
                3000
            } else {
                2000
            };
            peer.send(format!(
                "{HEAD}Vary: Accept-Language\r\nContent-Length: {bytes}\r\n\r\n{}",
                text(bytes)
            ));
        }
    });
    let gateway = gateway(origin.address, KEYS);
    for _ in 0..3 {
        for (language, bytes) in [("de", 3000), ("en", 2000)] {
            let fields = format!("Accept-Encoding: br\r\nAccept-Language: {language}\r\n");
            let response = get(gateway.address, &fields);
            assert_eq!(decoded(&response, "br"), text(bytes));
            assert_eq!(vary(&response), Some("Accept-Language, Accept-Encoding"));
        }
    }
    assert_eq!((forms(&gateway, "br"), origin.heads_waiting()), (2, 2));
}

#[test]
fn a_form_that_is_no_smaller_is_not_sent_and_not_made_again() {
    // Every byte value equally often, in no order: there is nothing to save.
    let mut random = fastrand::Rng::with_seed(7);
    let body: Vec<u8> = (0..4000).map(|_| random.u8(..)).collect();
    let sent = body.clone();
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let head = format!("{HEAD}Content-Length: 4000\r\n\r\n");
            // In one piece, so that the first answer too is one of what is stored.
            peer.send([head.as_bytes(), &sent].concat());
        }
    });
    let gateway = gateway(origin.address, KEYS);
    for _ in 0..4 {
        let response = accepting(gateway.address, "gzip");
        assert_eq!(response.field("content-encoding"), None);
        assert!(response.body == body, "{}", response.head);
    }
    gateway.wait_for_metric("weir_compress_useless_total", 1);
    assert_eq!(forms(&gateway, "gzip"), 0);
}

#[test]
fn an_encoded_response_is_stored_as_it_came() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\
         Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nbytes",
    );
    let gateway = gateway(origin.address, "cache = true\ncompress = { min_bytes = 0 }");
    for _ in 0..3 {
        let response = accepting(gateway.address, "gzip");
        assert_eq!(
            (response.text().as_str(), response.field("etag")),
            ("bytes", Some("\"1\""))
        );
    }
    assert_eq!(origin.heads_waiting(), 1);
}

/// An origin whose body comes in two pieces, the second one once `go_on` was told, or broken off.
fn slow_origin(is_whole: bool) -> (Origin, std::sync::mpsc::Sender<()>) {
    let (go_on, told) = channel::<()>();
    let told = Mutex::new(told);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let body = text(LARGE_BYTES);
            peer.send(format!(
                "{HEAD}Content-Length: {LARGE_BYTES}\r\n\r\n{}",
                &body[..1000]
            ));
            let _ = told.lock().expect("nobody panicked").recv();
            if !is_whole {
                return;
            }
            peer.send(&body[1000..]);
        }
    });
    (origin, go_on)
}

#[test]
fn who_waits_for_the_origin_reads_compressed_pieces_as_they_come() {
    let (origin, go_on) = slow_origin(true);
    let gateway = gateway(origin.address, KEYS);
    let mut leader = Connection::open(gateway.address);
    leader.send("GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = String::from_utf8(leader.until(b"\r\n\r\n")).expect("a head");
    assert!(
        head.contains("Content-Encoding: gzip\r\n") && head.contains("chunked"),
        "{head}"
    );
    let size = usize::from_str_radix(&leader.line(), 16).expect("a size");
    let mut encoded = leader.exactly(size);
    leader.line();
    // The one that joins reads the bytes as they are, and their length is known.
    let mut other = Connection::open(gateway.address);
    other.send("GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
    gateway.wait_for_metric("weir_cache_waits_total", 1);
    go_on.send(()).expect("the origin waits");
    let joined = other.response();
    assert_eq!(joined.field("content-encoding"), None);
    assert_eq!(vary(&joined), Some("Accept-Encoding"));
    assert_eq!(joined.text(), text(LARGE_BYTES));
    loop {
        let size = usize::from_str_radix(&leader.line(), 16).expect("a size");
        encoded.extend(leader.exactly(size));
        leader.line();
        if size == 0 {
            break;
        }
    }
    assert_eq!(decode(&encoded, "gzip"), text(LARGE_BYTES));
    assert_eq!(
        decoded(&stored_form(&gateway, "gzip"), "gzip"),
        text(LARGE_BYTES)
    );
    assert_eq!(origin.heads_waiting(), 1);
}

#[test]
fn a_fill_that_breaks_off_does_not_end_cleanly() {
    let (origin, go_on) = slow_origin(false);
    let gateway = gateway(origin.address, KEYS);
    let mut leader = Connection::open(gateway.address);
    leader.send("GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
    leader.until(b"\r\n\r\n");
    go_on.send(()).expect("the origin waits");
    let mut rest = Vec::new();
    let end = std::io::Read::read_to_end(&mut leader.stream, &mut rest);
    assert!(end.is_err() && !rest.ends_with(b"0\r\n\r\n"));
    assert_eq!(forms(&gateway, "gzip"), 0);
}
