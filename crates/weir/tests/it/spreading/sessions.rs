//! Clients that come back to the endpoint that has served them.

use super::{ask, origin, set_cookie};
use crate::harness::{App, Gateway, free_port, wait_until};

fn config(servers: &[std::net::SocketAddr], more: &str) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|server| format!("\"{server}\""))
        .collect();
    let servers = servers.join(", ");
    format!(
        "[upstream.app]\nservers = [{servers}]\nsticky = {{ cookie = \"weir\", secret = \"0123456789abcdef\" }}\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n{more}\n"
    )
}

#[test]
fn a_client_comes_back_as_long_as_its_endpoint_is_well() {
    let names = ["a", "b", "c"];
    let mut apps = names.map(|name| App::start_with(name, free_port(), &[]));
    let addresses = [apps[0].address, apps[1].address, apps[2].address];
    let gateway = Gateway::start(&config(&addresses, ""));
    let turned: Vec<_> = addresses.iter().rev().copied().collect();
    let other = Gateway::start(&config(&turned, ""));
    let served_by = |response: &crate::harness::client::Response| {
        response.field("x-served-by").expect("a name").to_owned()
    };
    let first = ask(gateway.address, "/", "");
    let cookie = set_cookie(&first).expect("a cookie");
    let home = served_by(&first);
    for gateway in [&gateway, &other, &gateway, &other] {
        for _ in 0..4 {
            let again = ask(gateway.address, "/", &cookie);
            assert_eq!(
                (served_by(&again), set_cookie(&again)),
                (home.clone(), None)
            );
        }
    }
    // What names nobody is as good as no cookie.
    for broken in ["weir=0123456789abcdef", "weir=\"\"", "weir"] {
        assert!(
            set_cookie(&ask(gateway.address, "/", broken)).is_some(),
            "{broken}"
        );
    }
    let place = names
        .iter()
        .position(|name| *name == home)
        .expect("one of them");
    apps[place].process.kill();
    let moved = ask(gateway.address, "/", &cookie);
    let renewed = set_cookie(&moved).expect("another cookie");
    assert_ne!(served_by(&moved), home);
    let new_home = served_by(&moved);
    for _ in 0..4 {
        let again = ask(gateway.address, "/", &renewed);
        assert_eq!(
            (served_by(&again), set_cookie(&again)),
            (new_home.clone(), None)
        );
    }
}

/// A hit sets no cookie, and what is stored has none: it would send everybody to one endpoint.
#[test]
fn what_is_stored_binds_nobody() {
    let app = origin("app", "Cache-Control: max-age=600\r\n");
    let gateway = Gateway::start(&config(&[app.address], "cache = true"));
    assert!(set_cookie(&ask(gateway.address, "/", "")).is_some());
    for _ in 0..3 {
        let hit = ask(gateway.address, "/", "");
        assert_eq!(hit.fields("set-cookie"), Vec::<&str>::new(), "{}", hit.head);
        assert_eq!(hit.fields("cache-control"), ["max-age=600"]);
    }
}

#[test]
fn an_endpoint_that_is_drained_gives_its_clients_up() {
    let apps = [App::start("a"), App::start("b")];
    let addresses = [apps[0].address, apps[1].address];
    let gateway = Gateway::start(&config(&addresses, ""));
    let first = ask(gateway.address, "/", "");
    let cookie = set_cookie(&first).expect("a cookie");
    let home = first.field("x-served-by").expect("a name").to_owned();
    let stays = usize::from(home == "a");
    gateway.configure(&config(&addresses[stays..=stays], ""));
    gateway.reload();
    wait_until("it is served elsewhere", || {
        let moved = ask(gateway.address, "/", &cookie);
        set_cookie(&moved).is_some() && moved.field("x-served-by") != Some(&home)
    });
}
