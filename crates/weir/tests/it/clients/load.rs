//! Load generators: everything they ask for is answered, and every replica has its share of it.

use super::Service;
use crate::harness::tool::run;

impl Service {
    /// All three replicas answered, nothing but 2xx, and `at_least` requests in all.
    fn assert_spread(&self, at_least: u64) {
        let answered = self.responses("2xx");
        let sum: u64 = answered.iter().sum();
        assert!(sum >= at_least, "{answered:?}, not {at_least}");
        assert!(
            answered.iter().all(|&own| own >= sum / 4),
            "every replica has its share: {answered:?}"
        );
        for class in ["1xx", "3xx", "4xx", "5xx"] {
            assert_eq!(self.responses(class), [0; 3], "{class}");
        }
        assert_eq!(self.gateway.metric("weir_upstream_retries_total"), 0);
    }
}

/// The number behind `label` in what a program printed.
fn figure(printed: &str, label: &str) -> u64 {
    let (_, rest) = printed
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label:?} in: {printed}"));
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number behind {label:?} in: {printed}"))
}

#[test]
fn wrk() {
    let service = Service::start();
    let url = service.url("/");
    let printed = run("wrk", &["-t2", "-c64", "-d2s", "--timeout", "20s", &url]).stdout;
    assert!(
        !printed.contains("Socket errors") && !printed.contains("Non-2xx"),
        "{printed}"
    );
    service.assert_spread(100);
}

/// HTTP/1.0, a connection for each request.
#[test]
fn ab() {
    let service = Service::start();
    let printed = run("ab", &["-q", "-n2000", "-c32", &service.url("/")]).stdout;
    assert_eq!(figure(&printed, "Complete requests:"), 2_000);
    assert_eq!(figure(&printed, "Failed requests:"), 0);
    assert_eq!(figure(&printed, "HTML transferred:"), 2_000 * 612);
    assert!(!printed.contains("Non-2xx"), "{printed}");
    service.assert_spread(2_000);
}

/// HTTP/1.0 with `Connection: keep-alive`, which is answered in kind.
#[test]
fn ab_with_keep_alive() {
    let service = Service::start();
    let printed = run("ab", &["-q", "-k", "-n2000", "-c32", &service.url("/")]).stdout;
    assert_eq!(figure(&printed, "Complete requests:"), 2_000);
    assert_eq!(figure(&printed, "Failed requests:"), 0);
    assert_eq!(figure(&printed, "Keep-Alive requests:"), 2_000);
    assert_eq!(figure(&printed, "HTML transferred:"), 2_000 * 612);
    assert!(!printed.contains("Non-2xx"), "{printed}");
    service.assert_spread(2_000);
}

/// Pipelines too: four requests are on their way on each connection.
#[test]
fn h2load() {
    let service = Service::start();
    for streams in ["-m1", "-m4"] {
        let url = service.url("/");
        let arguments = ["--h1", "-n4000", "-c32", "-t2", streams, &url];
        let printed = run("h2load", &arguments).stdout;
        assert!(
            printed.contains(
                "4000 total, 4000 started, 4000 done, 4000 succeeded, 0 failed, 0 errored, 0 timeout"
            ),
            "{printed}"
        );
        assert!(
            printed.contains("status codes: 4000 2xx, 0 3xx, 0 4xx, 0 5xx"),
            "{printed}"
        );
    }
    service.assert_spread(8_000);
}
