//! What connections cost: memory while they are idle, and nothing but answers while all of them are busy.

use crate::harness::client::{self, Connection};
use crate::harness::tool::run;
use crate::harness::{App, Gateway, wait_until};

const IDLE_CONNECTIONS: usize = 9_000;
/// What that many may add, all in all: some 1,400 bytes for each.
const ADDED_BYTES_MAX: u64 = 12 << 20;
/// Enough for either test, and what the children inherit. Their own half of the connections needs as many again.
const DESCRIPTORS: u64 = 20_000;

fn raise_descriptor_limit() {
    let limit = rlimit::increase_nofile_limit(DESCRIPTORS).expect("the limit can be read");
    assert!(
        limit >= DESCRIPTORS,
        "{limit} open files are allowed; this test needs {DESCRIPTORS} (ulimit -Hn)"
    );
}

fn open_connections(gateway: &Gateway) -> u64 {
    gateway.metric("weir_client_connections{worker=\"0\"}")
        + gateway.metric("weir_client_connections{worker=\"1\"}")
}

/// An idle connection holds no buffer; what is left is its task, its socket's registration and its deadline.
#[test]
fn idle_connections_take_little_memory() {
    raise_descriptor_limit();
    let app = App::start("a");
    let gateway = Gateway::to(&[app.address]);
    let open = |_| {
        let mut connection = Connection::open(gateway.address);
        assert_eq!(connection.get("/").body.len(), 612);
        connection
    };
    // What any first requests take is not what idle connections add.
    (0..100).map(open).for_each(drop);
    wait_until("these are gone", || open_connections(&gateway) == 0);
    let before = gateway.process.resident_bytes();

    let mut connections: Vec<_> = (0..IDLE_CONNECTIONS).map(open).collect();
    assert_eq!(open_connections(&gateway), IDLE_CONNECTIONS as u64);
    let added = gateway.process.resident_bytes().saturating_sub(before);
    println!(
        "{IDLE_CONNECTIONS} idle connections add {:.1} MiB, {} bytes each",
        added as f64 / f64::from(1 << 20),
        added / IDLE_CONNECTIONS as u64
    );
    assert!(added <= ADDED_BYTES_MAX, "{added} bytes were added");

    // They were idle, not gone.
    for connection in &mut connections {
        assert_eq!(connection.get("/healthz").status, 200);
    }
    drop(connections);
    wait_until("all are gone", || open_connections(&gateway) == 0);
    assert_eq!(client::get(gateway.address, "/").body.len(), 612);
}

#[test]
fn many_busy_connections_without_an_error() {
    raise_descriptor_limit();
    let apps = [App::start("a"), App::start("b"), App::start("c")];
    let gateway = Gateway::to(&[0, 1, 2].map(|index: usize| apps[index].address));
    let url = format!("http://{}/", gateway.address);
    let printed = run("wrk", &["-t2", "-c2048", "-d2s", "--timeout", "60s", &url]).stdout;
    assert!(
        !printed.contains("Socket errors") && !printed.contains("Non-2xx"),
        "{printed}"
    );
    // wrk leaves in the middle of a request, and of nothing else may there be a failure.
    let page = client::ask_admin(gateway.admin, "/metrics").text();
    let failures: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("weir_failures_total") && !line.contains("client_gone"))
        .collect();
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(gateway.metric("weir_client_connections_refused_total"), 0);
}
