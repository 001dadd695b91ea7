//! curl: what people try first.

use serde_json::Value;

use super::Service;
use crate::harness::origin::{Origin, Peer};
use crate::harness::tool::run;
use crate::harness::{Directory, Gateway};

/// Prints, behind the body, the status, the connections that were opened, and the bytes of the body.
const FIGURES: &[&str] = &[
    "--silent",
    "--show-error",
    "--max-time",
    "60",
    "--write-out",
    "\n%{http_code} %{num_connects} %{size_download}\n",
];

/// What curl prints for `arguments`: the body, and the line of figures.
fn curl(arguments: &[&str]) -> (String, String) {
    let printed = run("curl", &[FIGURES, arguments].concat()).stdout;
    let (body, figures) = printed
        .trim_end_matches('\n')
        .rsplit_once('\n')
        .expect("figures behind the body");
    (body.to_owned(), figures.to_owned())
}

fn records(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("a JSON array")
}

#[test]
fn get() {
    let service = Service::start();
    let (page, figures) = curl(&[&service.url("/")]);
    assert_eq!(figures, "200 1 612");
    assert!(page.contains("This page is 612 bytes long"), "{page}");
    let (dates, figures) = curl(&[&service.url("/what-date-is-it")]);
    assert!(figures.starts_with("200 1 "), "{figures}");
    let dates = records(&dates);
    assert_eq!(dates.len(), 10_000);
    assert!(dates[0]["year"].is_number(), "{}", dates[0]);
}

#[test]
fn several_urls_over_one_connection() {
    let service = Service::start();
    let url = service.url("/healthz");
    let printed = run("curl", &[FIGURES, &[&url, &url, &url]].concat()).stdout;
    assert_eq!(printed, "ok\n200 1 2\nok\n200 0 2\nok\n200 0 2\n");
}

#[test]
fn head() {
    let service = Service::start();
    let (head, figures) = curl(&["--head", &service.url("/")]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.to_ascii_lowercase()
            .contains("\r\ncontent-length: 612\r\n"),
        "{head}"
    );
    assert_eq!(figures, "200 1 0");
}

#[test]
fn post_a_form() {
    let service = Service::start();
    let url = service.url("/what-is-my-name");
    let (names, figures) = curl(&["--data-urlencode", "name=Zoë & co", &url]);
    assert!(figures.starts_with("200 1 "), "{figures}");
    let names = records(&names);
    assert_eq!(names.len(), 10_000);
    assert_eq!(names[9_999]["name"], "Zoë & co");
    let (_, figures) = curl(&["--data", "nom=x", &url]);
    assert!(figures.starts_with("400 1 "), "{figures}");
}

/// A chunked request body arrives chunked and whole; curl waits for the 100 that it asks for with a body of this size.
#[test]
fn upload_in_chunks() {
    const LINES: usize = 300_000;
    let origin = Origin::start(|mut peer, _| {
        let head = peer.head().expect("a request").to_ascii_lowercase();
        assert!(head.contains("\r\nexpect: 100-continue\r\n"), "{head}");
        peer.send("HTTP/1.1 100 Continue\r\n\r\n");
        let content = chunks(&mut peer);
        let length = content.len().to_string();
        let framing = if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            "chunked"
        } else {
            "other"
        };
        let is_whole = content == numbers(LINES);
        let said = format!("{framing} {length} {is_whole}");
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}",
            said.len()
        ));
        peer.head();
    });
    let gateway = Gateway::to(&[origin.address]);
    let directory = Directory::new();
    let file = directory.write("numbers", numbers(LINES));
    let (said, figures) = curl(&[
        "--header",
        "Transfer-Encoding: chunked",
        "--expect100-timeout",
        "60",
        "--upload-file",
        file.to_str().expect("UTF-8"),
        &format!("http://{}/upload", gateway.address),
    ]);
    assert_eq!(said, format!("chunked {} true", numbers(LINES).len()));
    assert!(figures.starts_with("200 1 "), "{figures}");
}

/// The content of a chunked body.
fn chunks(peer: &mut Peer) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let line = peer.until(b"\r\n");
        let size = line.trim_ascii_end();
        let size = std::str::from_utf8(size).expect("a chunk size is ASCII");
        let size = usize::from_str_radix(size, 16).expect("a chunk size, curl adds nothing to it");
        content.extend(peer.body(size));
        assert_eq!(peer.body(2), b"\r\n");
        if size == 0 {
            return content;
        }
    }
}

fn numbers(count: usize) -> Vec<u8> {
    let lines: Vec<_> = (0..count).map(|number| number.to_string()).collect();
    lines.join("\n").into_bytes()
}

/// A client that does not know of connections that are kept.
#[test]
fn http10() {
    let service = Service::start();
    let (page, figures) = curl(&["--http1.0", &service.url("/")]);
    assert_eq!(figures, "200 1 612");
    assert!(page.contains("This page is 612 bytes long"), "{page}");
    let (answer, _) = curl(&["--http1.0", "--include", &service.url("/what-date-is-it")]);
    let (head, dates) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.contains("\r\nConnection: close"), "{head}");
    assert_eq!(records(dates).len(), 10_000);
    let form = [
        "--http1.0",
        "--data",
        "name=x",
        &service.url("/what-is-my-name"),
    ];
    assert_eq!(records(&curl(&form).0).len(), 10_000);
}
