//! The admin listener: the metrics count what happened, and a configured token is asked for.

use std::net::SocketAddr;

use super::prometheus::Page;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{Directory, Gateway, free_port, wait_until};

pub(super) fn metrics(gateway: &Gateway) -> Page {
    let response = client::ask_admin(gateway.admin, "/metrics");
    assert_eq!(response.status, 200);
    let content_type = response.field("content-type").expect("a type");
    assert!(content_type.starts_with("text/plain; version=0.0.4"));
    Page::parse(&response.text())
}

/// What [`ask_for_everything`] put into the metrics. `ENDPOINT` is that of the upstream `app`.
const COUNTED: &str = r#"
weir_requests_total{route="/get/{*rest}",class="2xx"} 8
weir_requests_total{route="/get/{*rest}",class="5xx"} 2
weir_requests_total{route="a \"b\" \\c",class="2xx"} 1
weir_requests_total{route="/dead",class="5xx"} 1
weir_requests_total{route="",class="4xx"} 3
weir_requests_total 15
weir_request_duration_seconds_count{route="/get/{*rest}"} 10
weir_request_duration_seconds_count{route="/dead"} 1
weir_upstream_responses_total{upstream="app",endpoint="ENDPOINT",class="2xx"} 8
weir_upstream_responses_total{upstream="app",endpoint="ENDPOINT",class="5xx"} 1
weir_upstream_latency_seconds_count{upstream="app",endpoint="ENDPOINT"} 9
weir_upstream_connects_total{upstream="app",endpoint="ENDPOINT"} 2
weir_upstream_connect_failures_total{upstream="app"} 0
weir_upstream_connect_failures_total{upstream="dead"} 1
weir_upstream_pool_hits_total{upstream="app",endpoint="ENDPOINT"} 8
weir_upstream_retries_total 0
weir_upstream_endpoint_up{upstream="app",endpoint="ENDPOINT"} 1
weir_failures_total{fault="upstream",reason="length_invalid"} 1
weir_failures_total{fault="upstream",reason="connect_failed"} 1
weir_failures_total{fault="gateway",reason="no_route"} 1
weir_failures_total{fault="gateway",reason="method_not_allowed"} 1
weir_failures_total{fault="client",reason="space_before_colon"} 1
weir_failures_total 5
weir_client_connections_refused_total 0
weir_access_log_lines_dropped_total 0
"#;

/// Makes requests of every kind; the bytes that the client sent and received.
fn ask_for_everything(gateway: &Gateway) -> (usize, usize) {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut requests = vec![(get("/get/x"), 200); 7];
    let put = "PUT /get/x HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody";
    let post = "POST /get/x HTTP/1.1\r\nHost: test\r\n\r\n";
    requests.extend([
        (get("/get/broken"), 502),
        (put.to_owned(), 200),
        (get("/get/sorry"), 503),
        (get("/named"), 204),
        (get("/dead"), 502),
        (get("/nowhere"), 404),
        (post.to_owned(), 405),
    ]);
    let mut connection = Connection::open(gateway.address);
    let (mut sent, mut received) = (0, 0);
    for (request, status) in requests {
        connection.send(&request);
        let response = connection.response();
        assert_eq!(response.status, status, "{request}");
        sent += request.len();
        received += response.head.len() + response.body.len();
    }
    // A head that is refused was not received as one.
    let refused = client::send(gateway.address, "GET / HTTP/1.1\r\nHost : test\r\n\r\n");
    assert_eq!(refused.status, 400);
    received += refused.head.len() + refused.body.len();
    (sent, received)
}

#[test]
fn metrics_count_what_happened() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send(match () {
                () if head.contains("/broken") => "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
                () if head.contains("/sorry") => "HTTP/1.1 503 S\r\nContent-Length: 0\r\n\r\n",
                () => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            });
        }
    });
    // Two routes share a path, so that they share a name too; another name has to be escaped.
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 1\n[upstream.app]\nservers = [\"{}\"]\n[upstream.dead]\nservers = [\"127.0.0.1:{}\"]\n\
         [[route]]\npath = \"/get/{{*rest}}\"\nmethods = [\"GET\"]\nupstream = \"app\"\n\
         [[route]]\npath = \"/get/{{*rest}}\"\nmethods = [\"PUT\"]\nupstream = \"app\"\n\
         [[route]]\nname = 'a \"b\" \\c'\npath = \"/named\"\nrespond = {{ status = 204 }}\n\
         [[route]]\npath = \"/dead\"\nupstream = \"dead\"\n",
        origin.address,
        free_port()
    ));
    metrics(&gateway);
    let (sent, received) = ask_for_everything(&gateway);
    wait_until(
        "the connections are gone and one to the origin is idle",
        || {
            let page = metrics(&gateway);
            page.sum("weir_client_connections") == 0
                && page.sum("weir_upstream_idle_connections") == 1
        },
    );
    let page = metrics(&gateway);
    let expected = COUNTED.replace("ENDPOINT", &origin.address.to_string());
    for line in expected.trim().lines() {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert_eq!(page.sum(series).to_string(), value, "{series}");
    }
    for (direction, bytes) in [("received", sent), ("sent", received)] {
        let series = format!("weir_client_bytes_total{{direction=\"{direction}\"}}");
        assert_eq!(page.sum(&series), bytes as u64, "{direction}");
    }
}

/// A config with a token for the admin listener.
fn with_token(directory: &Directory, port: u16, admin: u16) -> Process {
    let path = directory.write(
        "weir.toml",
        format!(
            "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             token = \"sesame-0123456789\"\n[[route]]\npath = \"/\"\nrespond = {{}}\n"
        ),
    );
    let path = path.to_str().expect("UTF-8");
    Process::weir(&["serve", "--config", path], directory)
}

#[test]
fn a_configured_token_is_asked_for() {
    let directory = Directory::new();
    let admin = free_port();
    let process = with_token(&directory, free_port(), admin);
    let admin = SocketAddr::from(([127, 0, 0, 1], admin));
    process.wait_for_port(admin);
    for path in ["/metrics", "/status", "/healthz", "/upstreams", "/nowhere"] {
        for wrong in [
            "",
            "Authorization: Bearer sesame-0123456780\r\n",
            "Authorization: Bearer sesame-012345678\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Basic sesame-0123456789\r\n",
            "X-Token: sesame-0123456789\r\n",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{wrong}\r\n");
            let response = client::send(admin, &request);
            assert_eq!(response.status, 401, "{path} {wrong}");
            assert_eq!(response.field("www-authenticate"), Some("Bearer"));
            assert!(!response.text().contains("weir_") && !response.text().contains("sesame"));
        }
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer sesame-0123456789\r\n\r\n"
        );
        let expected = if path == "/nowhere" { 404 } else { 200 };
        assert_eq!(client::send(admin, &request).status, expected, "{path}");
    }
}
