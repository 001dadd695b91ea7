//! What the gateway tells its operator: the access log, the metrics, and what is wrong with a config or a start.

mod prometheus;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::Value;

use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{Directory, Gateway, forward_everything, free_port, wait_until};
use prometheus::Page;

/// A gateway that writes an access log in `format` at once, in front of `servers`.
fn logging(format: &str, servers: &[SocketAddr]) -> Gateway {
    let forward = forward_everything(servers, "");
    Gateway::start_in(|directory| {
        let path = directory.file("access.log");
        let path = path.display();
        format!(
            "[access_log]\npath = \"{path}\"\nformat = \"{format}\"\nflush = \"100ms\"\n{forward}"
        )
    })
}

fn answering() -> Origin {
    Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello")
}

/// The lines of a log, once there are `count` of them.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wait_until("the log has its lines", || {
        let bytes = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8(bytes).expect("a log is ASCII");
        lines = text.lines().map(str::to_owned).collect();
        lines.len() >= count
    });
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

#[test]
fn the_combined_log_has_the_fields_of_apache() {
    let origin = answering();
    let gateway = logging("combined", &[origin.address]);
    let requests: [&[u8]; 5] = [
        b"GET /a?b=c HTTP/1.1\r\nHost: test\r\nReferer: http://before.test/\r\nUser-Agent: curl/8\r\n\r\n",
        b"HEAD / HTTP/1.0\r\nHost: test\r\n\r\n",
        b"GET /\"quoted\" HTTP/1.1\r\nHost: test\r\nReferer: \"\r\nUser-Agent: a\\b\t\xc3\xa9\" 200 1 \"x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for (count, request) in requests.iter().enumerate() {
        let mut connection = Connection::open(gateway.address);
        connection.send(request);
        let method = if request.starts_with(b"HEAD") {
            "HEAD"
        } else {
            "GET"
        };
        connection.response_to(method).expect("an answer");
        drop(connection);
        // One at a time: workers write their lines apart.
        lines(&gateway.directory.file("access.log"), count + 1);
    }
    let lines = lines(&gateway.directory.file("access.log"), 5);
    let after_time: Vec<_> = lines
        .iter()
        .map(|line| {
            let (start, rest) = line.split_once(" [").expect("a time");
            assert_eq!(start, "127.0.0.1 - -");
            let (time, rest) = rest.split_once("] ").expect("the end of the time");
            let shape: String = time
                .chars()
                .map(|c| match c {
                    '0'..='9' => '9',
                    'a'..='z' | 'A'..='Z' => 'a',
                    other => other,
                })
                .collect();
            assert_eq!(shape, "99/aaa/9999:99:99:99 +9999");
            rest
        })
        .collect();
    let refused = "400 Bad Request: host_missing\n".len();
    assert_eq!(
        after_time,
        [
            r#""GET /a?b=c HTTP/1.1" 200 5 "http://before.test/" "curl/8""#.to_owned(),
            r#""HEAD / HTTP/1.0" 200 0 "-" "-""#.to_owned(),
            r#""GET /\x22quoted\x22 HTTP/1.1" 200 5 "\x22" "a\x5Cb\x09\xC3\xA9\x22 200 1 \x22x""#
                .to_owned(),
            format!(r#""-" 400 {refused} "-" "-""#),
            r#""POST / HTTP/1.1" 200 5 "-" "-""#.to_owned(),
        ]
    );
}

#[test]
fn the_json_log_has_every_field() {
    let origin = answering();
    let gateway = logging("json", &[origin.address]);
    let request = "POST /a?b=\"c\" HTTP/1.1\r\nHost: www.example.com:80\r\nReferer: a\\b\tc\r\n\
                   User-Agent: \"caf\u{e9}\"\r\nContent-Length: 3\r\n\r\nabc";
    let mut connection = Connection::open(gateway.address);
    connection.send(request);
    let response = connection.response();
    let line = lines(&gateway.directory.file("access.log"), 1).remove(0);
    let line: Value = serde_json::from_str(&line).expect("a line is an object");
    let object = line.as_object().expect("a line is an object");
    let mut names: Vec<_> = object.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "bytes_received",
            "bytes_sent",
            "client",
            "duration_us",
            "endpoint",
            "host",
            "method",
            "referer",
            "route",
            "status",
            "target",
            "time",
            "upstream",
            "upstream_us",
            "user_agent"
        ]
    );
    for (name, expected) in [
        ("client", "127.0.0.1"),
        ("method", "POST"),
        ("target", "/a?b=\"c\""),
        ("host", "www.example.com:80"),
        ("route", "/{*rest}"),
        ("upstream", "app"),
        ("endpoint", &origin.address.to_string()),
        ("referer", "a\\b\tc"),
        // Bytes, not characters: what a client sends need not be UTF-8.
        ("user_agent", "\"caf\u{c3}\u{a9}\""),
    ] {
        assert_eq!(line[name], expected, "{name}");
    }
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes_received"], request.len());
    assert_eq!(line["bytes_sent"], response.head.len() + 5);
    let number = |name: &str| line[name].as_u64().expect("microseconds");
    assert!(number("upstream_us") <= number("duration_us"));
    let time = line["time"].as_str().expect("a time");
    assert!(time.len() >= 20 && time.as_bytes()[10] == b'T', "{time}");
}

/// Requests that fail say why; what is not known of them is left out.
#[test]
fn the_json_log_names_the_failure() {
    let origin = Origin::answering("HTTP/1.1 200 OK\nContent-Length: 0\n\n");
    let gateway = logging("json", &[origin.address]);
    let log = gateway.directory.file("access.log");
    client::send(
        gateway.address,
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    );
    lines(&log, 1);
    client::get(gateway.address, "/b");
    let lines: Vec<Value> = lines(&log, 2)
        .iter()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    assert_eq!(lines[0]["failure"], "host_repeated");
    assert_eq!(lines[0]["status"], 400);
    for absent in ["method", "target", "host", "route", "upstream", "endpoint"] {
        assert_eq!(lines[0].get(absent), None, "{absent}");
    }
    assert_eq!(lines[1]["failure"], "bare_lf");
    assert_eq!(lines[1]["status"], 502);
    assert_eq!(lines[1]["target"], "/b");
}

#[test]
fn the_log_is_reopened_on_sigusr1() {
    let origin = answering();
    let gateway = logging("combined", &[origin.address]);
    let (log, rotated) = (
        gateway.directory.file("access.log"),
        gateway.directory.file("access.log.1"),
    );
    client::get(gateway.address, "/before");
    lines(&log, 1);
    std::fs::rename(&log, &rotated).expect("the log can be renamed");
    // Until it is told, it writes where it wrote.
    client::get(gateway.address, "/between");
    lines(&rotated, 2);
    gateway.process.signal("USR1");
    wait_until("the log is there again", || log.exists());
    client::get(gateway.address, "/after");
    assert!(lines(&log, 1)[0].contains("/after"));
    let rotated = lines(&rotated, 2);
    assert!(rotated[0].contains("/before") && rotated[1].contains("/between"));
}

#[test]
fn the_log_can_go_to_standard_output() {
    let origin = answering();
    let forward = forward_everything(&[origin.address], "");
    let gateway = Gateway::start(&format!(
        "[access_log]\npath = \"-\"\nflush = \"100ms\"\n{forward}"
    ));
    client::get(gateway.address, "/seen");
    wait_until("the line is printed", || {
        gateway
            .process
            .output()
            .contains("\"GET /seen HTTP/1.1\" 200 5")
    });
    // SIGUSR1 has nothing to reopen and does no harm.
    gateway.process.signal("USR1");
    client::get(gateway.address, "/still");
    wait_until("the line is printed", || {
        gateway.process.output().contains("/still")
    });
}

fn metrics(gateway: &Gateway) -> Page {
    let response = client::get(gateway.admin, "/metrics");
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
    for path in ["/", "/metrics", "/status", "/healthz", "/nowhere"] {
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

/// Runs `weir` to its end; its exit status and what it printed.
fn run(directory: &Directory, arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = Process::weir(arguments, directory);
    let code = process.wait().code();
    (code, process.output())
}

const GOOD: &str = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[upstream.app]\nservers = [\"127.0.0.1:9001\"]\n\
                    [[route]]\npath = \"/{*rest}\"\nupstream = \"app\"\n";

#[test]
fn check_accepts_a_good_file_and_starts_nothing() {
    let directory = Directory::new();
    let path = directory.write("weir.toml", GOOD);
    let path = path.to_str().expect("UTF-8");
    let (code, output) = run(&directory, &["check", "--config", path]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(output, format!("{path}: ok, 1 routes, 1 upstreams\n"));
}

/// Every mistake of a file is told at once: file, line, key, what was found, what was expected, what was meant.
#[test]
fn check_and_serve_say_what_is_wrong_with_a_file() {
    let directory = Directory::new();
    let path = directory.write(
        "weir.toml",
        "[server]\nworker = 2\n[[listener]]\naddress = \"127.0.0.1\"\n[timeouts]\nidle = \"60\"\n\
         [upstream.app]\nservers = [\"127.0.0.1:9001\"]\nbalance = \"round-robbin\"\n\
         [[route]]\npath = \"/{*rest}\"\nupstream = \"ap\"\n",
    );
    let path = path.to_str().expect("UTF-8");
    for command in ["check", "serve"] {
        let (code, output) = run(&directory, &[command, "--config", path]);
        assert_eq!(code, Some(2), "{output}");
        let lines: Vec<_> = output.lines().collect();
        let expected: [(&str, &[&str]); 5] = [
            (
                "2: server.worker: ",
                &["unknown key", "did you mean \"workers\"?"],
            ),
            (
                "4: listener[1].address: ",
                &["found \"127.0.0.1\"", "expected an IP address and a port"],
            ),
            (
                "6: timeouts.idle: ",
                &["found \"60\"", "expected a duration"],
            ),
            (
                "9: upstream.app.balance: ",
                &[
                    "found \"round-robbin\"",
                    "expected one of",
                    "did you mean \"round-robin\"?",
                ],
            ),
            (
                "12: route[1].upstream: ",
                &["\"ap\"", "did you mean \"app\"?"],
            ),
        ];
        assert_eq!(lines.len(), expected.len(), "{output}");
        for (line, (start, parts)) in lines.iter().zip(expected) {
            assert!(line.starts_with(&format!("{path}:{start}")), "{line}");
            for part in parts {
                assert!(line.contains(part), "{part} in {line}");
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let directory = Directory::new();
    let broken = directory.write("broken.toml", "[[listener]]\naddress = \"127.0.0.1:1\n");
    let missing = directory.file("missing.toml");
    for (path, parts) in [
        (broken, &["broken.toml:2: "][..]),
        (missing, &["cannot read ", "missing.toml: No such file"]),
    ] {
        let path = path.to_str().expect("UTF-8");
        let (code, output) = run(&directory, &["check", "--config", path]);
        assert_eq!((code, output.lines().count()), (Some(2), 1), "{output}");
        for part in parts {
            assert!(output.contains(part), "{part} in {output}");
        }
    }
}

/// Another process listens there: one line says so, and nothing is left running.
#[test]
fn a_taken_port_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    let directory = Directory::new();
    let path = directory.write(
        "weir.toml",
        GOOD.replace("127.0.0.1:8080", &address.to_string()),
    );
    let admin = directory.write(
        "admin.toml",
        GOOD.replace(":8080", &format!(":{}", free_port()))
            + &format!("[admin]\nlisten = \"{address}\"\n"),
    );
    let (path, admin) = (
        path.to_str().expect("UTF-8"),
        admin.to_str().expect("UTF-8"),
    );
    let listen = address.to_string();
    for arguments in [
        &["serve", "--config", path][..],
        &["serve", "--config", admin],
        &["serve", "--listen", &listen, "--to", "http://127.0.0.1:1"],
    ] {
        let (code, output) = run(&directory, arguments);
        assert_eq!((code, output.lines().count()), (Some(2), 1), "{output}");
        let expected = format!("cannot listen on {address}: another process does");
        assert!(output.contains(&expected), "{output}");
    }
}

/// Two gateways of one user could share a port by `SO_REUSEPORT`; the second one is refused instead.
#[test]
fn a_second_gateway_does_not_share_the_port() {
    let origin = answering();
    let first = Gateway::to(&[origin.address]);
    let directory = Directory::new();
    let listen = first.address.to_string();
    let to = format!("http://{}", origin.address);
    let (code, output) = run(&directory, &["serve", "--listen", &listen, "--to", &to]);
    assert_eq!(code, Some(2), "{output}");
    assert_eq!(client::get(first.address, "/").text(), "hello");
}

/// No file is needed for the plain case.
#[test]
fn serve_takes_its_settings_from_flags() {
    let origins = [answering(), answering()];
    let directory = Directory::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let to = origins
        .each_ref()
        .map(|origin| format!("http://{}", origin.address));
    let listen = address.to_string();
    let arguments = ["serve", "--listen", &listen, "--to", &to[0], "--to", &to[1]];
    let process = Process::weir(&arguments, &directory);
    process.wait_for_port(address);
    let mut connection = Connection::open(address);
    for _ in 0..4 {
        assert_eq!(connection.get("/").text(), "hello");
    }
    assert_eq!(origins.map(|origin| origin.heads_waiting()), [2, 2]);
}
