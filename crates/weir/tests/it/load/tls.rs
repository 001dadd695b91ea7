//! HTTPS and HTTP/2, against nginx.

use super::{Measured, load};
use crate::harness::Directory;
use crate::harness::nginx::Nginx;
use crate::harness::tool::run;

const ANSWER: &str = "location / { return 200 \"hello\"; }";

/// nginx with a certificate that it signed itself, in a directory of its own.
fn start(listen: &str, directory: &Directory) -> (Nginx, String) {
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| {
        let path = directory.file(name);
        path.to_str().expect("UTF-8").to_owned()
    });
    run(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ],
    );
    let http = format!(
        "server {{ listen ADDRESS {listen}; ssl_certificate {certificate}; ssl_certificate_key {key}; {ANSWER} }}"
    );
    (Nginx::start(&http, &[]), certificate)
}

#[test]
fn https_with_a_certificate_that_is_trusted_or_not() {
    let directory = Directory::new();
    let (nginx, certificate) = start("ssl http2", &directory);
    let url = format!("https://{}/", nginx.address);
    for flags in [
        &["--insecure"][..],
        &["--ca", &certificate],
        &["--insecure", "--http2", "--streams", "5"],
        &["--insecure", "--no-keep-alive"],
        &["--insecure", "--pipeline", "4"],
    ] {
        let measured = Measured::by(&[&[&*url, "-c", "4", "-n", "200"], flags].concat());
        assert_eq!(measured.requests(), 200, "{flags:?}");
        measured.assert_all("2xx");
    }
    let refused = load(&[&url, "-n", "1", "-c", "1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("cannot speak TLS with"),
        "{}",
        refused.stderr
    );
}

#[test]
fn http2_is_agreed_to_or_refused() {
    let directory = Directory::new();
    let (nginx, _) = start("ssl", &directory);
    let url = format!("https://{}/", nginx.address);
    let refused = load(&[&url, "-n", "1", "-c", "1", "--insecure", "--http2"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("does not speak HTTP/2"),
        "{}",
        refused.stderr
    );
}

/// Also when the server ends each connection after a hundred requests.
#[test]
fn http2_by_prior_knowledge() {
    let http = format!(
        "server {{ listen ADDRESS http2; keepalive_requests 100; {ANSWER} location /no {{ return 503; }} }}"
    );
    let nginx = Nginx::start(&http, &[]);
    for (path, outcome) in [("/", "2xx"), ("/no", "5xx")] {
        let url = format!("http://{}{path}", nginx.address);
        for flags in [
            &["--streams", "8"][..],
            &["--rate", "4000"],
            &["--streams", "2", "--body", "{seq}"],
        ] {
            let flags = [&[&*url, "--http2", "-c", "3", "-n", "900"], flags].concat();
            let measured = Measured::by(&flags);
            assert_eq!(measured.requests(), 900, "{flags:?}");
            measured.assert_all(outcome);
        }
    }
}
