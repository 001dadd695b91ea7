//! What clients read with errors.

use crate::harness::Gateway;
use crate::harness::client::{self, Response};
use crate::harness::origin::Origin;

fn start(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "[error_pages]\n404 = {{ body = \"<h1>no such page</h1>\", content_type = \"text/html\" }}\n\
         5xx = {{ json = {{ error = \"down\" }} }}\n400 = {{ body = \"what?\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n[upstream.none]\nservers = [\"127.0.0.1:1\"]\n\
         [[route]]\npath = \"/plain/{{*rest}}\"\nupstream = \"app\"\n\
         [[route]]\npath = \"/own/{{*rest}}\"\nupstream = \"app\"\ncache = true\n\
         error_pages = {{ 4xx = {{ body = \"no\", replace_upstream = true }}, 410 = {{ body = \"gone\" }} }}\n\
         response_headers = {{ set = {{ cache-control = \"public, max-age=9\" }} }}\n\
         [[route]]\npath = \"/none\"\nupstream = \"none\"\nerror_pages = {{ 502 = {{ body = \"later\" }} }}\n\
         [[route]]\npath = \"/none/{{*rest}}\"\nupstream = \"none\"\n\
         [[route]]\npath = \"/fallback\"\nupstream = \"none\"\nfallback = {{ status = 503, body = \"fallback\" }}\n\
         [[route]]\npath = \"/respond\"\nrespond = {{ status = 404, body = \"own words\" }}\n",
        origin.address
    ))
}

/// It answers with the status that the path ends with, a length that is large for what follows.
fn origin() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).expect("a path");
            let status = path.rsplit('/').next().unwrap_or_default().to_owned();
            let body = "b".repeat(100_000);
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nCache-Control: max-age=60\r\nRetry-After: 7\r\nETag: \"1\"\r\nContent-Type: text/x\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            ));
            if !head.starts_with("HEAD") {
                peer.send(body);
            }
        }
    })
}

fn summary(response: &Response) -> (u16, String, &str) {
    let mut text = response.text();
    text.truncate(20);
    (
        response.status,
        text,
        response.field("content-type").unwrap_or_default(),
    )
}

#[test]
fn a_page_takes_the_place_of_words_and_of_nothing_else() {
    let origin = origin();
    let gateway = start(&origin);
    let plain = "text/plain; charset=utf-8";
    for (path, status, text, content_type) in [
        ("/nowhere", 404, "<h1>no such page</h1", "text/html"),
        ("/a%zz", 400, "what?", plain),
        ("/none", 502, "later", plain),
        ("/none/x", 502, "{\"error\":\"down\"}", "application/json"),
        ("/fallback", 503, "fallback", plain),
        ("/respond", 404, "own words", plain),
        // What the upstream says is its own, unless the route says otherwise.
        ("/plain/404", 404, "bbbbbbbbbbbbbbbbbbbb", "text/x"),
        ("/own/404", 404, "no", plain),
        ("/own/410", 410, "bbbbbbbbbbbbbbbbbbbb", "text/x"),
        ("/own/503", 503, "bbbbbbbbbbbbbbbbbbbb", "text/x"),
        ("/own/200", 200, "bbbbbbbbbbbbbbbbbbbb", "text/x"),
    ] {
        let answer = client::get(gateway.address, path);
        let expected = (status, text.to_owned(), content_type);
        assert_eq!(summary(&answer), expected, "{path}");
    }
    let mut connection = client::Connection::open(gateway.address);
    connection.send("HEAD /nowhere HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = connection.response_to("HEAD").expect("an answer");
    assert_eq!(head.field("content-length"), Some("21"));
    assert_eq!(connection.get("/respond").text(), "own words");
}

#[test]
fn what_is_stored_is_what_the_origin_said() {
    let origin = origin();
    let gateway = start(&origin);
    for status in ["fwd=uri-miss", "hit"] {
        let answer = client::get(gateway.address, "/own/404");
        assert_eq!(summary(&answer).1, "no");
        let said = answer.field("cache-status").unwrap();
        assert!(said.contains(status), "{said}");
        assert_eq!(answer.field("retry-after"), Some("7"));
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.field("etag"), None);
    }
    assert_eq!(origin.heads_waiting(), 1);
    // One that is not stored.
    let request = "GET /own/403 HTTP/1.1\r\nHost: test\r\nAuthorization: x\r\n\r\n";
    let answer = client::send(gateway.address, request);
    assert_eq!(
        summary(&answer),
        (403, "no".to_owned(), "text/plain; charset=utf-8")
    );
}
