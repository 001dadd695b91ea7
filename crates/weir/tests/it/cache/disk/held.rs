//! Clients that are sent to from disk and do not read.

use super::{Directory, FRESH, Gateway, MIB, config, fetch, indexed, origin, wait_for_files};
use crate::harness::client::Connection;
use crate::harness::pattern::{read_head, read_pattern};
use crate::harness::wait_until;

const LENGTH: u64 = 24 * MIB;

/// Beyond the budget they give back what they do not take, and have it read again when they do: nobody is cut off.
#[test]
fn who_does_not_read_holds_no_block_that_others_need() {
    const CLIENTS: usize = 40;
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let config = config(origin.address, &directory, "true");
    let config = config.replace("[cache]\n", "[cache]\ntransient = \"1MiB\"\n");
    let gateway = indexed(Gateway::start(&config));
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    let ask = |_| {
        let mut client = Connection::open(gateway.address);
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        read_head(&mut client.stream);
        client
    };
    // Each has got its head, and so a block; at most eight blocks fit.
    let mut clients: Vec<_> = (0..CLIENTS).map(ask).collect();
    fetch(gateway.address, LENGTH);
    wait_until("there is room", || {
        gateway.metric("weir_transient_bytes") <= MIB
    });
    for client in &mut clients {
        read_pattern(&mut client.stream, 0..LENGTH);
    }
    assert_eq!(gateway.metric("weir_slow_clients_cut_total"), 0);
    assert_eq!(origin.heads_waiting(), 1);
}
