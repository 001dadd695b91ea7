//! Who may purge, and what is said of input that makes no sense.

use super::{Versions, caching, purge_request, version_of, weir_cache};
use crate::harness::client::{get, send};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, Gateway, free_port};

#[test]
fn what_makes_no_sense_is_refused_with_what_would_do() {
    let versions = Versions::start("Cache-Control: max-age=600\r\n");
    let gateway = caching(versions.origin.address, "true");
    let cases = [
        ("", "expected an object such as"),
        ("[]", "expected an object such as"),
        ("{\"tag\": 1}", "expected a string"),
        (
            "{\"tags\": \"a\"}",
            "unknown field `tags`, expected one of `url`",
        ),
        ("{}", "expected exactly one of"),
        ("{\"soft\": true}", "expected exactly one of"),
        ("{\"tag\": \"a\", \"all\": true}", "expected exactly one of"),
        ("{\"url\": \"\"}", "found nothing, expected a URL such as"),
        ("{\"url\": \"/a\"}", "a path on all hosts is a prefix"),
        ("{\"url\": \"ftp://h/a\"}", "expected http:// or https://"),
        ("{\"url\": \"http://h/ä\"}", "which may be http://h/%C3%A4"),
        (
            "{\"url\": \"http://h/a/../../b\"}",
            "a path that a request can have",
        ),
        ("{\"url\": \"http://u@h/\"}", "expected a URL such as"),
        (
            "{\"prefix\": \"http://\"}",
            "a path on all hosts is a prefix",
        ),
        ("{\"prefix\": \"a b\"}", "which may be a%20b"),
        ("{\"tag\": \"\"}", "expected one tag of a Cache-Tag"),
        ("{\"tag\": \" a\"}", "expected one tag of a Cache-Tag"),
    ];
    for (what, expected) in cases {
        let response = send(gateway.admin, &purge_request(gateway.admin, what));
        assert_eq!(response.status, 400, "{what}");
        let error = response.text().replace("\\\"", "\"");
        assert!(
            error.starts_with("{\"error\":\"") && error.contains(expected),
            "{what}: {error}"
        );
    }
    let long = format!("{{\"tag\": \"{}\"}}", "x".repeat(70_000));
    let response = send(gateway.admin, &purge_request(gateway.admin, &long));
    assert_eq!(response.status, 400);
    for query in [
        "objects?limit=0",
        "objects?limit=1001",
        "objects?limit=a",
        "objects?after=z",
        "objects?after=123",
        "objects?prefix=/&tag=a",
        "objects?prefix=a&prefix=b",
        "objects?what=1",
        "objects?prefix=%zz",
        "object",
        "object?url=/a",
    ] {
        let host = gateway.admin;
        let request = format!("GET /cache/{query} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let response = send(gateway.admin, &request);
        assert_eq!(response.status, 400, "{query}");
        assert!(response.text().starts_with("{\"error\":\""), "{query}");
    }
}

#[test]
fn a_web_page_of_somebody_else_can_neither_purge_nor_look() {
    let versions = Versions::start("Cache-Control: max-age=600\r\n");
    let gateway = caching(versions.origin.address, "true");
    assert_eq!(version_of(&get(gateway.address, "/a")), 1);
    versions.next();
    let body = "{\"all\": true}";
    let host = format!("Host: {}\r\n", gateway.admin);
    let json = "Content-Type: application/json\r\n";
    let port = gateway.admin.port();
    let origin = |of: &str| format!("{host}{json}Origin: {of}\r\n");
    let cases = [
        // What a form can send, and what a script can without asking.
        ("POST", host.clone(), 415),
        ("POST", format!("{host}Content-Type: text/plain\r\n"), 415),
        (
            "POST",
            format!("{host}Content-Type: application/x-www-form-urlencoded\r\n"),
            415,
        ),
        ("GET", format!("{host}{json}"), 405),
        ("PURGE", format!("{host}{json}"), 405),
        // What a script must ask for, and is not granted.
        ("OPTIONS", origin("http://evil.example"), 403),
        ("POST", origin("http://evil.example"), 403),
        ("POST", origin("null"), 403),
        (
            "POST",
            origin(&format!("http://127.0.0.1:{}", port ^ 1)),
            403,
        ),
        (
            "POST",
            format!("{host}{json}Sec-Fetch-Site: cross-site\r\n"),
            403,
        ),
        (
            "POST",
            format!("{host}{json}Sec-Fetch-Site: same-site\r\n"),
            403,
        ),
        // A name that was made to lead here.
        (
            "POST",
            format!("Host: evil.example:{port}\r\nOrigin: http://evil.example:{port}\r\n{json}"),
            403,
        ),
    ];
    for (method, fields, status) in cases {
        let length = body.len();
        let request = format!(
            "{method} /cache/purge HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        let response = send(gateway.admin, &request);
        assert_eq!(response.status, status, "{method} {fields}");
        assert!(response.text().starts_with("{\"error\":\""));
        assert_eq!(response.field("access-control-allow-origin"), None);
        assert_eq!(response.field("allow"), (status == 405).then_some("POST"));
        assert_eq!(
            version_of(&get(gateway.address, "/a")),
            1,
            "it is still there"
        );
    }
    let look = format!("GET /cache/objects HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n");
    assert_eq!(send(gateway.admin, &look).status, 403);
    // A page of the control listener itself may.
    let own = origin(&format!("http://{}", gateway.admin));
    let length = body.len();
    let request =
        format!("POST /cache/purge HTTP/1.1\r\n{own}Content-Length: {length}\r\n\r\n{body}");
    assert_eq!(send(gateway.admin, &request).status, 200);
    assert_eq!(version_of(&get(gateway.address, "/a")), 2);
}

/// What `weir cache` prints when it fails.
fn failure(arguments: &[&str]) -> String {
    let run = run_to_end(
        env!("CARGO_BIN_EXE_weir"),
        &[&["cache"], arguments].concat(),
    );
    assert_eq!(run.status.code(), Some(2), "{arguments:?}: {}", run.stdout);
    assert_eq!(run.stdout, "", "{arguments:?}");
    run.stderr
}

#[test]
fn the_command_says_what_to_do_when_it_cannot() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let origin = Versions::start("");
    let other = origin.origin.address.to_string();
    let uncached = Gateway::to(&[origin.origin.address]);
    let uncached = uncached.admin.to_string();
    let cases: [(&[&str], &str); 8] = [
        (
            &["ls", "--admin", &nobody],
            "start the gateway with `[admin]`",
        ),
        (
            &["ls", "--admin", &other],
            "is not the admin listener of a weir",
        ),
        (
            &["ls", "--admin", &uncached],
            "no route of this gateway has a cache; give one `cache = true`",
        ),
        (
            &["purge", "--all", "--admin", &uncached],
            "no route of this gateway has a cache",
        ),
        (
            &["ls", "--admin", "nonsense"],
            "expected an address such as 127.0.0.1:9901",
        ),
        (&["purge"], "required"),
        (&["ls", "--limit", "0"], "--limit"),
        (
            &["ls", "--prefix", "/a", "--tag", "b"],
            "cannot be used with",
        ),
    ];
    for (arguments, expected) in cases {
        let said = failure(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn the_token_is_asked_for_and_given() {
    let versions = Versions::start("Cache-Control: max-age=600\r\n");
    let directory = Directory::new();
    let (port, admin) = (free_port(), free_port());
    let config = directory.write(
        "weir.toml",
        format!(
            "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             token = \"sesame-0123456789\"\n[upstream.app]\nservers = [\"{}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
            versions.origin.address
        ),
    );
    let config = config.to_str().expect("UTF-8");
    let process = Process::weir(&["serve", "--config", config], &directory);
    let admin = format!("127.0.0.1:{admin}");
    process.wait_for_port(admin.parse().expect("an address"));
    let said = failure(&["purge", "--all", "--admin", &admin]);
    assert!(
        said.contains("asks for its token: give it with --token"),
        "{said}"
    );
    assert!(failure(&["ls", "--admin", &admin, "--token", "wrong"]).contains("asks for its token"));
    let given = [
        "cache",
        "purge",
        "--all",
        "--admin",
        &admin,
        "--token",
        "sesame-0123456789",
    ];
    let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &given);
    assert_eq!(
        run.stdout, "everything: purged, 0 in memory, 0 on disk\n",
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("nothing that is stored matched; `weir cache ls`"),
        "{}",
        run.stderr
    );
    // Whoever has the token may ask by any name.
    let named = "GET /cache/objects HTTP/1.1\r\nHost: cache.internal\r\nAuthorization: Bearer sesame-0123456789\r\n\r\n";
    assert_eq!(send(admin.parse().expect("an address"), named).status, 200);
}

/// nginx and Varnish are often told to purge by a request like this. Here it is one like any other, which the origin
/// answers: only its success would end what is stored, as that of a DELETE.
#[test]
fn clients_of_the_gateway_cannot_purge() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send(if head.starts_with("PURGE") {
                "HTTP/1.1 405 No\r\nAllow: GET\r\nContent-Length: 0\r\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\nx"
            });
        }
    });
    let gateway = caching(origin.address, "true");
    let ask = |method: &str| {
        let request = format!("{method} /a HTTP/1.1\r\nHost: test\r\n\r\n");
        send(gateway.address, &request).status
    };
    assert_eq!(["GET", "PURGE", "GET"].map(ask), [200, 405, 200]);
    assert_eq!(origin.heads_waiting(), 2, "the second GET was a hit");
    let run = weir_cache(&gateway, &["purge", "http://test/a", "--json"]);
    let answer = "{\"disk\":0,\"kind\":\"hard\",\"memory\":1,\"url\":\"http://test/a\"}\n";
    assert_eq!(run.stdout, answer, "{}", run.stderr);
    assert_eq!((ask("GET"), origin.heads_waiting()), (200, 1));
}
