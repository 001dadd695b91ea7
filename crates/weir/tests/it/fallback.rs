//! What a client gets whose request was refused or failed: each kind of fallback, and the order among them.

mod elsewhere;
mod fixed;
mod stored;

use std::net::SocketAddr;

use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, free_port};

/// Where nobody listens.
fn dead() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

/// A gateway with a log in JSON, in front of `app`; upstreams beside it are named in `upstreams`, by lines. Its one route
/// has `more`.
fn falling_back(app: SocketAddr, upstreams: &str, more: &str) -> Gateway {
    Gateway::start_in(|directory| {
        let log = directory.file("access.log");
        let log = log.display();
        format!(
            "[access_log]\npath = \"{log}\"\nformat = \"json\"\nflush = \"100ms\"\n\
             [upstream.app]\nservers = [\"{app}\"]\n{upstreams}\n\
             [[route]]\nname = \"it\"\npath = \"/{{*rest}}\"\nupstream = \"app\"\ntimeout = {{ response = \"500ms\" }}\n{more}\n"
        )
    })
}

/// How many clients got this kind in the place of an answer, once they are that many.
#[track_caller]
fn assert_fell_back(gateway: &Gateway, kind: &str, count: u64) {
    gateway.wait_for_metric(
        &format!("weir_fallbacks_total{{route=\"it\",kind=\"{kind}\"}}"),
        count,
    );
}

/// The breaker opens with the second failure and stays open for the length of a test.
const BREAKER: &str = "breaker = { ratio = 0.5, window = \"60s\", min_requests = 2, open_for = \"600s\", open_for_max = \"600s\" }";

/// An origin that answers 500 to everything.
fn broken() -> Origin {
    Origin::answering("HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n")
}

/// Opens the breaker of a gateway in front of [`broken`].
fn open_breaker(gateway: &Gateway) {
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        assert_eq!(connection.get("/").status, 500);
    }
}
