//! Copies of requests to another upstream.

use std::net::SocketAddr;

use super::{ask, origin};
use crate::harness::Gateway;
use crate::harness::client::{Connection, send};
use crate::harness::origin::Origin;

fn config(app: SocketAddr, shadow: SocketAddr, more: &str) -> String {
    format!(
        "[upstream.app]\nservers = [\"{app}\"]\n[upstream.shadow]\nservers = [\"{shadow}\"]\n\
         [[route]]\nname = \"all\"\npath = \"/{{*rest}}\"\nupstream = \"app\"\nmirror = {{ upstream = \"shadow\"{more} }}\n"
    )
}

const ANSWERED: &str = "weir_mirrored_requests_total{route=\"all\",outcome=\"answered\"}";
const FAILED: &str = "weir_mirrored_requests_total{route=\"all\",outcome=\"failed\"}";
const BUSY: &str = "weir_mirrored_requests_total{route=\"all\",outcome=\"dropped_busy\"}";
const BODY: &str = "weir_mirrored_requests_total{route=\"all\",outcome=\"dropped_body\"}";

#[test]
fn what_is_forwarded_is_copied_and_marked() {
    let app = origin("app", "Cache-Control: max-age=600\r\n");
    let shadow = origin("shadow", "");
    let config = config(app.address, shadow.address, "");
    let gateway = Gateway::start(&format!("{config}cache = true\n"));
    // The second is a hit, and a client cannot pass for a copy.
    for _ in 0..2 {
        assert_eq!(ask(gateway.address, "/a?b=c", "d=1").text(), "app");
    }
    let copy = shadow.next_head();
    assert!(
        copy.starts_with("GET /a?b=c HTTP/1.1\r\nHost: test\r\n"),
        "{copy}"
    );
    assert!(copy.contains("\r\nCookie: d=1\r\n"), "{copy}");
    assert!(copy.contains("\r\nx-weir-mirror: 1\r\n"), "{copy}");
    let marked = "GET /other HTTP/1.1\r\nHost: test\r\nX-Weir-Mirror: 1\r\n\r\n";
    assert_eq!(send(gateway.address, marked).status, 200);
    let changes = "DELETE / HTTP/1.1\r\nHost: test\r\n\r\n";
    assert_eq!(send(gateway.address, changes).status, 200);
    gateway.wait_for_metric(ANSWERED, 1);
    assert!(
        app.heads()
            .iter()
            .all(|head| !head.to_lowercase().contains("x-weir-mirror"))
    );
    assert_eq!(shadow.heads(), Vec::<String>::new());
}

/// Or nobody could tell which request a copy is of.
#[test]
fn a_copy_has_the_id_of_its_request() {
    let (app, shadow) = (origin("app", ""), origin("shadow", ""));
    let config = config(app.address, shadow.address, "");
    let gateway = Gateway::start(&format!("[request_id]\ntrust = \"any\"\n{config}"));
    let id = |head: String| {
        let mut lines = head.lines().map(str::to_lowercase);
        let line = lines.find(|line| line.starts_with("x-request-id:"));
        line.expect("it has an id")
    };
    for sent in ["", "X-Request-ID: of-the-client\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{sent}\r\n");
        assert_eq!(send(gateway.address, &request).status, 200);
        let (of_request, of_copy) = (id(app.next_head()), id(shadow.next_head()));
        assert_eq!(of_request, of_copy);
        assert_eq!(of_copy.contains("of-the-client"), !sent.is_empty());
    }
}

/// What a request has changed is for the service to say, not for its shadow.
#[test]
fn what_a_shadow_says_of_a_change_ends_nothing_that_is_stored() {
    let app = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let status = if head.starts_with("POST") { 500 } else { 200 };
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nCache-Control: max-age=600\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let shadow = origin("shadow", "Location: /other\r\n");
    let config = config(app.address, shadow.address, ", methods = [\"POST\"]");
    let gateway = Gateway::start(&format!("{config}cache = true\n"));
    let paths = ["/a", "/other"];
    for path in paths {
        assert_eq!(ask(gateway.address, path, "").status, 200);
    }
    let change = "POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(send(gateway.address, change).status, 500);
    gateway.wait_for_metric(ANSWERED, 1);
    for path in paths {
        let again = ask(gateway.address, path, "");
        let status = again.field("cache-status").unwrap_or_default();
        assert!(status.contains("hit"), "{path}: {status}");
    }
}

/// However a body comes, the copy has it whole, with its length.
#[test]
fn bodies_are_copied_where_they_fit() {
    let app = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("chunked") {
                peer.until(b"0\r\n\r\n");
            } else {
                let length = head
                    .split("Content-Length: ")
                    .nth(1)
                    .and_then(|it| it.split('\r').next());
                peer.body(length.and_then(|it| it.parse().ok()).unwrap_or(0));
            }
            peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let shadow = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            assert!(head.contains("Content-Length: 11\r\n"), "{head}");
            let body = peer.body(11);
            let status = if body == b"hello world" { 200 } else { 500 };
            peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let more = ", methods = [\"POST\"], body = \"100B\"";
    let gateway = Gateway::start(&config(app.address, shadow.address, more));
    let post = |pieces: &[&str]| {
        let mut connection = Connection::open(gateway.address);
        connection.send("POST / HTTP/1.1\r\nHost: test\r\n");
        for piece in pieces {
            connection.send(piece);
        }
        assert_eq!(connection.response().status, 204);
    };
    post(&["Content-Length: 11\r\n\r\nhello world"]);
    post(&["Content-Length: 11\r\n\r\n", "hello ", "world"]);
    post(&[
        "Transfer-Encoding: chunked\r\n\r\n",
        "6\r\nhello \r\n",
        "5\r\nworld\r\n0\r\n\r\n",
    ]);
    gateway.wait_for_metric(ANSWERED, 3);
    let large = format!("Content-Length: 101\r\n\r\n{}", "x".repeat(101));
    post(&[&large]);
    gateway.wait_for_metric(BODY, 1);
    let ok = "weir_upstream_responses_total{upstream=\"shadow\",endpoint=\"";
    let ok = format!("{ok}{}\",class=\"2xx\"}}", shadow.address);
    assert_eq!(gateway.metric(&ok), 3);
}

/// A shadow that never answers delays nobody, and holds no more copies than it may.
#[test]
fn a_shadow_that_hangs_or_is_gone_is_noticed_by_nobody() {
    let app = origin("app", "");
    let shadow = Origin::start(|mut peer, _| while peer.head().is_some() {});
    let gateway = Gateway::start(&config(app.address, shadow.address, ", in_flight = 2"));
    for _ in 0..10 {
        assert_eq!(ask(gateway.address, "/", "").text(), "app");
    }
    gateway.wait_for_metric(BUSY, 8);

    let nobody = SocketAddr::from(([127, 0, 0, 1], crate::harness::free_port()));
    let gateway = Gateway::start(&config(app.address, nobody, ""));
    for _ in 0..5 {
        assert_eq!(ask(gateway.address, "/", "").text(), "app");
    }
    gateway.wait_for_metric(FAILED, 5);
}

#[test]
fn about_a_share_is_copied() {
    let (app, shadow) = (origin("app", ""), origin("shadow", ""));
    let gateway = Gateway::start(&config(app.address, shadow.address, ", share = 0.5"));
    let mut connection = Connection::open(gateway.address);
    for _ in 0..200 {
        assert_eq!(connection.get("/").text(), "app");
    }
    // 100, give or take five standard deviations.
    let copied = || gateway.metric(ANSWERED);
    crate::harness::wait_until("copies are answered", || copied() >= 65);
    assert!(copied() <= 135, "{}", copied());
}
