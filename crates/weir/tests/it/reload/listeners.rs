//! Listeners come and go; those that stay are not touched.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use super::responding;
use crate::failover::Load;
use crate::harness::client::Connection;
use crate::harness::{App, Gateway, forward_everything, free_port, wait_until};

fn listener(address: SocketAddr) -> String {
    format!("[[listener]]\naddress = \"{address}\"\n")
}

fn other() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn refuses(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The load on the listener that stays sees nothing of it: not a failed request, not a closed connection.
#[test]
fn listeners_come_and_go_under_load() {
    let app = App::start("a");
    let forward = forward_everything(&[app.address], "");
    let gateway = Gateway::start(&forward);
    let load = Load::start(gateway.address, 8);
    for _ in 0..5 {
        let second = other();
        gateway.configure(&format!("{}{forward}", listener(second)));
        assert_eq!(gateway.reload(), format!("listener {second} added\n"));
        let on_second = Load::start(second, 4);
        on_second.wait_for(200);
        assert_eq!(on_second.end(), [""; 0]);

        let mut idle = Connection::open(second);
        assert_eq!(idle.get("/").status, 200);
        gateway.configure(&forward);
        assert_eq!(gateway.reload(), format!("listener {second} removed\n"));
        assert!(refuses(second), "it was closed before the answer");
        assert!(idle.is_closed(), "its idle connections end");
        load.wait_for(200);
    }
    assert_eq!(load.end(), [""; 0]);
}

/// What is on its way when its listener goes is answered, and its connection says that it ends.
#[test]
fn a_request_outlives_its_listener() {
    let slow = App::start_with("slow", free_port(), &["--delay", "700ms"]);
    let forward = forward_everything(&[slow.address], "");
    let second = other();
    let gateway = Gateway::start(&format!("{}{forward}", listener(second)));
    let mut connection = Connection::open(second);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("it is on its way", || {
        gateway.metric("weir_upstream_in_flight{upstream=\"app\"") == 1
    });
    gateway.configure(&forward);
    gateway.reload();
    assert!(refuses(second));
    let response = connection.response();
    assert_eq!((response.status, response.body.len()), (200, 612));
    assert!(connection.is_closed());
}

#[test]
fn a_listener_that_cannot_be_bound_changes_nothing() {
    let gateway = Gateway::start(&responding("/", "one"));
    let (free, taken) = (other(), other());
    let _holder = std::net::TcpListener::bind(taken).expect("it was free");
    gateway.configure(&format!(
        "{}{}{}",
        listener(free),
        listener(taken),
        responding("/", "two")
    ));
    let run = gateway.try_reload();
    assert_eq!(run.status.code(), Some(2));
    let expected = format!("listener[3].address: cannot listen on {taken}: another process does");
    assert!(run.stderr.contains(&expected), "{}", run.stderr);
    assert!(refuses(free), "the one before it is not bound either");
    assert_eq!(Connection::open(gateway.address).get("/").text(), "one");
}

/// An address gives way to all of this machine's, which it is one of, and the other way round; nobody is refused meanwhile.
#[test]
fn an_address_gives_way_to_one_that_holds_it() {
    let app = App::start("a");
    let forward = forward_everything(&[app.address], "");
    let one = other();
    let all = SocketAddr::from(([0, 0, 0, 0], one.port()));
    let gateway = Gateway::start(&format!("{}{forward}", listener(one)));
    for (address, before) in [(all, one), (one, all)] {
        gateway.configure(&format!("{}{forward}", listener(address)));
        let told = gateway.reload();
        assert!(
            told.contains(&format!("listener {address} added"))
                && told.contains(&format!("listener {before} removed")),
            "{told}"
        );
        for _ in 0..20 {
            assert_eq!(Connection::open(one).get("/").status, 200);
        }
    }
}
