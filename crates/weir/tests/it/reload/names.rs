//! Names of servers, asked of a name server that speaks real packets.

use std::net::{Ipv4Addr, SocketAddr};

use super::servers::{Load, wait_until_asked};
use super::{ask, forwarding, responding, upstreams};
use crate::harness::client::{self, Connection};
use crate::harness::name_server::{NameServer, Says};
use crate::harness::origin::Origin;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, Gateway, free_port, wait_until};

const ONE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Origins at two addresses of one port, which say `one` and `two`.
fn origins() -> ([Origin; 2], u16) {
    let port = free_port();
    let at = |address: Ipv4Addr, name| Origin::saying(SocketAddr::from((address, port)), name);
    ([at(ONE, "one"), at(TWO, "two")], port)
}

fn config(names: &NameServer, port: u16) -> String {
    let forward = forwarding("/", "app");
    let dns = format!("[dns]\nservers = [\"{}\"]\n", names.address);
    format!("{dns}[upstream.app]\nservers = [\"app.test:{port}\"]\n{forward}")
}

fn answer(gateway: &Gateway) -> String {
    client::get(gateway.address, "/").text()
}

/// What `GET /upstreams` says of the one server.
fn server(gateway: &Gateway) -> serde_json::Value {
    upstreams(gateway)["upstreams"][0]["servers"][0].take()
}

#[test]
fn requests_follow_the_addresses_of_a_name() {
    let (_origins, port) = origins();
    let names = NameServer::start(Says::Addresses(vec![ONE]));
    let gateway = Gateway::start(&config(&names, port));
    assert_eq!(answer(&gateway), "one");
    names.say(Says::Addresses(vec![TWO]));
    wait_until("requests go to the new address", || {
        answer(&gateway) == "two"
    });
    assert!(server(&gateway)["endpoints"][0]["endpoint"] == format!("127.0.0.2:{port}").as_str());
    // All addresses of a name are endpoints, each with the weight of the server.
    names.say(Says::Addresses(vec![TWO, ONE]));
    wait_until("both are endpoints", || {
        server(&gateway)["endpoints"]
            .as_array()
            .expect("a list")
            .len()
            == 2
    });
    let mut connection = Connection::open(gateway.address);
    let said: Vec<_> = (0..10).map(|_| connection.get("/").text()).collect();
    assert_eq!(said.iter().filter(|by| *by == "one").count(), 5, "{said:?}");
    assert!(
        gateway
            .process
            .output()
            .contains("app.test is now 127.0.0.2; it was 127.0.0.1")
    );
}

/// An origin that two names lead to, and load that never fails while one of them moves to and fro.
#[test]
fn addresses_that_change_under_load_fail_no_request() {
    let ([one, two], port) = origins();
    let names = NameServer::start(Says::Addresses(vec![ONE]));
    let gateway = Gateway::start(&config(&names, port));
    let load = Load::start(gateway.address);
    for _ in 0..2 {
        for (address, origin) in [(TWO, &two), (ONE, &one)] {
            names.say(Says::Addresses(vec![address]));
            origin.heads_waiting();
            wait_until_asked(origin, 20);
        }
    }
    load.end();
}

/// Whatever a name server does wrong, the last good answer stays in use, and it is said that it is old.
#[test]
fn the_last_good_answer_is_kept() {
    let (_origins, port) = origins();
    let names = NameServer::start(Says::Addresses(vec![ONE]));
    let gateway = Gateway::start(&config(&names, port));
    for says in [
        Says::Failure,
        Says::NoSuchName,
        Says::Addresses(vec![]),
        Says::Nothing,
    ] {
        names.say(says.clone());
        wait_until(&format!("{says:?} is noticed"), || {
            server(&gateway)["dns"]["error"].is_string()
        });
        assert_eq!(answer(&gateway), "one", "{says:?}");
        // A config that brings no new name needs no name server.
        gateway.configure(&format!(
            "{}{}",
            config(&names, port),
            responding("/x", "x")
        ));
        gateway.reload();
        assert_eq!(client::get(gateway.address, "/x").text(), "x");
        assert_eq!(answer(&gateway), "one", "{says:?}");
        gateway.configure(&config(&names, port));
        gateway.reload();
        names.say(Says::Addresses(vec![ONE]));
        wait_until("it answers again", || {
            server(&gateway)["dns"]["error"].is_null()
        });
    }
    names.say(Says::Addresses(vec![TWO]));
    wait_until("the new address is taken", || answer(&gateway) == "two");
    let output = gateway.process.output();
    assert!(
        output.contains("app.test cannot be looked up, 127.0.0.1 stays in use: "),
        "{output}"
    );
    assert!(
        output.contains("app.test can be looked up again"),
        "{output}"
    );
}

#[test]
fn a_name_without_an_address_is_a_mistake_with_a_line() {
    let names = NameServer::start(Says::NoSuchName);
    let directory = Directory::new();
    let config = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n{}",
        config(&names, 80)
    );
    let path = directory.write("weir.toml", config);
    let path = path.to_str().expect("UTF-8");
    // The name may have an address tomorrow, so a gateway that is started again may do.
    for (command, code) in [("check", 2), ("serve", 1)] {
        let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &[command, "--config", path]);
        assert_eq!(run.status.code(), Some(code), "{command}");
        let told = "weir.toml:6: upstream.app.servers[1]: found \"app.test:80\", expected a host name that \
                    resolves, but looking up \"app.test\" failed: ";
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
}

/// A name that is added through the admin listener is kept up like one of the file, and forgotten when it is removed.
#[test]
fn a_name_can_be_added_and_removed() {
    let ([one, _two], port) = origins();
    let names = NameServer::start(Says::Addresses(vec![TWO]));
    let dns = format!("[dns]\nservers = [\"{}\"]\n", names.address);
    let servers = super::upstream("app", &[one.address]);
    let gateway = Gateway::start(&format!("{dns}{servers}{}", forwarding("/", "app")));
    assert_eq!(names.questions(), 0);
    let path = format!("/upstreams/app/servers/app.test:{port}");
    assert_eq!(ask(&gateway, "PUT", &path, "").status, 200);
    let mut connection = Connection::open(gateway.address);
    let said: Vec<_> = (0..4).map(|_| connection.get("/").text()).collect();
    assert!(said.contains(&"two".to_owned()), "{said:?}");
    let asked = names.questions();
    wait_until("it is asked for again", || names.questions() > asked);
    assert_eq!(ask(&gateway, "DELETE", &path, "").status, 200);
    let said: Vec<_> = (0..4).map(|_| connection.get("/").text()).collect();
    assert!(!said.contains(&"two".to_owned()), "{said:?}");
}
