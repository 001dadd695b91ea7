//! What needs the machine to itself: these run apart from the tests of the binary, which load it.

mod endless;
mod pause;

use std::net::SocketAddr;
use std::time::Duration;

use weir_load::Plan;
use weir_load::arrivals::Arrivals;
use weir_load::mix::{Mix, Request};
use weir_load::plan::{Address, End, Protocol, Target};
use weir_load::template::Template;

/// One connection of one thread on which requests name their number.
fn plan(address: SocketAddr) -> Plan {
    let request = Request {
        path: Template::parse(b"/{seq}").expect("a template"),
        ..Request::get("/")
    };
    Plan {
        target: Target {
            address: Address::Tcp(address),
            authority: address.to_string(),
            tls: None,
        },
        protocol: Protocol::Http1 { pipeline: 1 },
        mix: Mix::only(request).expect("one request is a mix"),
        arrivals: Arrivals::Closed,
        end: End::Requests(1),
        warm_up: Duration::ZERO,
        connections: 1,
        threads: 1,
        keep_alive: true,
        timeout: Duration::from_secs(1),
        seed: 1,
    }
}
