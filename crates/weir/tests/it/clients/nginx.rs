//! nginx on either side of the gateway.

use super::Service;
use crate::harness::Gateway;
use crate::harness::client::{self, Connection};
use crate::harness::nginx::Nginx;
use crate::harness::tool::run;

/// nginx as the upstream, with a page as a file, and one that it puts together while it sends. For a request with `Via`
/// it compresses only when told to.
fn behind() -> (Nginx, Gateway, Vec<u8>) {
    let page: Vec<u8> = (0..4_000).flat_map(|n: u32| n.to_le_bytes()).collect();
    let nginx = Nginx::start(
        "server { listen ADDRESS; root root; etag on;\n\
         gzip on; gzip_types text/plain; gzip_proxied any;\n\
         types { text/plain txt; text/html shtml; }\n\
         add_header X-Requests $connection_requests;\n\
         location ~ [.]shtml$ { ssi on; } }",
        &[
            ("page.bin", &page),
            ("words.txt", "weir ".repeat(2_000).as_bytes()),
            (
                "parts.shtml",
                b"<p>one <!--#include virtual=\"/words.txt\" -->two</p>",
            ),
        ],
    );
    let gateway = Gateway::to(&[nginx.address]);
    (nginx, gateway, page)
}

#[test]
fn a_file_from_nginx() {
    let (_nginx, gateway, page) = behind();
    let mut connection = Connection::open(gateway.address);
    let whole = connection.get("/page.bin");
    assert_eq!(whole.status, 200);
    assert_eq!(whole.field("content-length"), Some("16000"));
    assert!(whole.body == page, "the content is what nginx has");
    assert_eq!(connection.get("/none.bin").status, 404);
}

#[test]
fn ranges_and_304_from_nginx() {
    let (_nginx, gateway, page) = behind();
    let mut connection = Connection::open(gateway.address);
    let whole = connection.get("/page.bin");
    let mut conditional = |field: &str, value: &str| {
        connection.send(format!(
            "GET /page.bin HTTP/1.1\r\nHost: test\r\n{field}: {value}\r\n\r\n"
        ));
        connection.response()
    };
    let etag = whole.field("etag").expect("nginx sends an ETag");
    let unchanged = conditional("If-None-Match", etag);
    assert_eq!(unchanged.status, 304);
    assert_eq!(unchanged.field("etag"), Some(etag));
    let modified = whole.field("last-modified").expect("nginx sends a date");
    assert_eq!(conditional("If-Modified-Since", modified).status, 304);
    let part = conditional("Range", "bytes=100-299");
    assert_eq!(part.status, 206);
    assert_eq!(part.field("content-range"), Some("bytes 100-299/16000"));
    assert!(part.body == page[100..300], "the part that was asked for");
    let parts = conditional("Range", "bytes=0-0,15999-15999");
    assert_eq!(parts.status, 206);
    let kind = parts.field("content-type").expect("a type");
    assert!(kind.starts_with("multipart/byteranges"), "{kind}");
    assert_eq!(conditional("Range", "bytes=16000-").status, 416);
    assert_eq!(conditional("Range", "bytes=0-15999").body, page);
}

#[test]
fn chunks_from_nginx() {
    let (_nginx, gateway, _) = behind();
    let mut connection = Connection::open(gateway.address);
    let made = connection.get("/parts.shtml");
    assert_eq!(made.field("transfer-encoding"), Some("chunked"));
    let content = format!("<p>one {}two</p>", "weir ".repeat(2_000));
    assert_eq!(made.text(), content);
    // The connection goes on behind the last chunk.
    assert_eq!(connection.get("/page.bin").status, 200);
    // A client that knows no chunks gets what is in them.
    let url = format!("http://{}/parts.shtml", gateway.address);
    let unframed = run("curl", &["--silent", "--http1.0", &url]).stdout;
    assert_eq!(unframed, content);
    let url = format!("http://{}/words.txt", gateway.address);
    let unpacked = run("curl", &["--silent", "--compressed", &url]).stdout;
    assert!(unpacked == "weir ".repeat(2_000), "{unpacked:.100}");
    let head = run("curl", &["--silent", "--compressed", "--head", &url]).stdout;
    assert!(head.contains("Content-Encoding: gzip"), "{head}");
}

#[test]
fn connections_to_nginx_are_used_again() {
    let (_nginx, gateway, _) = behind();
    let mut connection = Connection::open(gateway.address);
    for number in 1..=20 {
        let response = connection.get("/words.txt");
        assert_eq!(response.field("x-requests"), Some(&*number.to_string()));
    }
    let url = format!("http://{}/words.txt", gateway.address);
    let printed = run("wrk", &["-t1", "-c32", "-d1s", "--timeout", "20s", &url]).stdout;
    assert!(
        !printed.contains("Socket errors") && !printed.contains("Non-2xx"),
        "{printed}"
    );
    assert!(gateway.metric("weir_upstream_connects_total") <= 40);
}

/// nginx in front, as people set it up for speed: HTTP/1.1 and connections that are kept.
#[test]
fn nginx_in_front_keeps_its_connections() {
    let service = Service::start();
    let front = Nginx::start(
        &format!(
            "upstream weir {{ server {}; keepalive 32; keepalive_requests 1000000; }}\n\
             server {{ listen ADDRESS; location / {{\n\
             proxy_pass http://weir; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header X-Forwarded-For $remote_addr; }} }}",
            service.gateway.address
        ),
        &[],
    );
    assert_front(&front);
    assert_load(&front);
    let opened = service.gateway.metric("weir_client_connections_total");
    assert!(opened <= 64, "{opened} connections for all of that");
}

/// nginx in front as its documentation begins: HTTP/1.0, a connection for each request.
#[test]
fn nginx_in_front_speaks_http10() {
    let service = Service::start();
    let front = Nginx::start(
        &format!(
            "server {{ listen ADDRESS; location / {{ proxy_pass http://{}; }} }}",
            service.gateway.address
        ),
        &[],
    );
    assert_front(&front);
    let url = format!("http://{}/", front.address);
    let printed = run("ab", &["-q", "-k", "-n1000", "-c16", &url]).stdout;
    assert!(printed.contains("Failed requests:        0"), "{printed}");
    assert!(!printed.contains("Non-2xx"), "{printed}");
}

/// The sample service works through `front`.
fn assert_front(front: &Nginx) {
    let mut connection = Connection::open(front.address);
    let page = connection.get("/");
    assert_eq!((page.status, page.body.len()), (200, 612));
    let dates: Vec<serde_json::Value> =
        serde_json::from_slice(&connection.get("/what-date-is-it").body).expect("a JSON array");
    assert_eq!(dates.len(), 10_000);
    connection.send(
        "POST /what-is-my-name HTTP/1.1\r\nHost: test\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nname=\r\n3\r\nIda\r\n0\r\n\r\n",
    );
    let names = connection.response();
    assert_eq!(names.status, 200);
    let names: Vec<serde_json::Value> = serde_json::from_slice(&names.body).expect("a JSON array");
    assert_eq!(names[0]["name"], "Ida");
    let head = client::send(front.address, "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(head.field("content-length"), Some("612"));
    assert_eq!(connection.get("/nothing").status, 404);
}

fn assert_load(front: &Nginx) {
    let url = format!("http://{}/", front.address);
    let printed = run("wrk", &["-t1", "-c16", "-d1s", "--timeout", "20s", &url]).stdout;
    assert!(
        !printed.contains("Socket errors") && !printed.contains("Non-2xx"),
        "{printed}"
    );
}
