//! Several upstreams that share the requests of a route.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{ask, origin, set_cookie};
use crate::harness::client::send;
use crate::harness::{Gateway, free_port};

/// A route over two upstreams, with `more` in it.
fn config(stable: SocketAddr, next: SocketAddr, shares: (u32, u32), more: &str) -> String {
    let (of_stable, of_next) = shares;
    format!(
        "[upstream.stable]\nservers = [\"{stable}\"]\n[upstream.next]\nservers = [\"{next}\"]\n\
         [[route]]\nname = \"all\"\npath = \"/{{*rest}}\"\nsplit = {{ stable = {of_stable}, next = {of_next} }}\n{more}\n"
    )
}

const STICKY: &str = "sticky = { cookie = \"version\" }";

#[test]
fn clients_stay_with_their_side_and_move_only_to_the_one_that_grows() {
    let (stable, next) = (origin("stable", ""), origin("next", ""));
    let with = |shares| config(stable.address, next.address, shares, STICKY);
    let gateway = Gateway::start(&with((1, 1)));
    let mut clients = BTreeMap::new();
    for _ in 0..40 {
        let response = ask(gateway.address, "/", "");
        let cookie = set_cookie(&response).expect("a cookie");
        clients.insert(cookie, response.text());
    }
    let sides = |of: &str| clients.values().filter(|side| *side == of).count();
    assert!(sides("stable") > 0 && sides("next") > 0, "{clients:?}");
    // Its own cookie is the gateway's business alone.
    assert_eq!(stable.heads().len() + next.heads().len(), 40);
    let now = |cookie: &String| {
        let response = ask(gateway.address, "/", &format!("a=1; {cookie}; b=2"));
        assert_eq!(set_cookie(&response), None);
        response.text()
    };
    for (cookie, side) in &clients {
        assert_eq!(now(cookie), *side);
    }
    let mut heads = stable.heads().into_iter().chain(next.heads());
    assert!(heads.all(|head| head.contains("\r\nCookie: a=1; b=2\r\n")));

    gateway.configure(&with((1, 3)));
    gateway.reload();
    let moved = clients.iter().filter(|(cookie, was)| {
        let is = now(cookie);
        assert!(is == **was || is == "next");
        is != **was
    });
    let moved = moved.count();
    assert!(moved < sides("stable"), "{moved} of {clients:?}");

    gateway.configure(&with((1, 0)));
    gateway.reload();
    assert!(clients.keys().all(|cookie| now(cookie) == "stable"));
    gateway.wait_for_metric(
        "weir_split_requests_total{route=\"all\",upstream=\"next\"",
        {
            let all = gateway.metric("weir_requests_total{route=\"all\"");
            all - gateway.metric("weir_split_requests_total{route=\"all\",upstream=\"stable\"")
        },
    );
}

/// A part of the request decides, wherever it comes in; who does not have it is drawn each time.
#[test]
fn the_same_part_goes_to_the_same_side_on_every_gateway() {
    let (stable, next) = (origin("stable", ""), origin("next", ""));
    let more = "sticky = { hash_on = \"header:x-user\" }";
    let config = config(stable.address, next.address, (1, 1), more);
    let gateways = [Gateway::start(&config), Gateway::start(&config)];
    let mut found = BTreeMap::<String, u32>::new();
    for user in 0..20 {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\nX-User: {user}\r\n\r\n");
        let sides = [0, 1, 0].map(|at: usize| send(gateways[at].address, &request).text());
        assert!(sides.iter().all(|side| *side == sides[0]), "{sides:?}");
        *found.entry(sides[0].clone()).or_default() += 1;
    }
    assert_eq!(found.len(), 2, "{found:?}");
    let drawn: Vec<_> = (0..60)
        .map(|_| ask(gateways[0].address, "/", "").text())
        .collect();
    assert!(drawn.contains(&"stable".to_owned()) && drawn.contains(&"next".to_owned()));
}

/// Nobody is given what was stored of the other version, and what is stored has no cookie.
#[test]
fn each_side_has_its_own_part_of_the_cache() {
    let stored = "Cache-Control: max-age=600\r\n";
    let (stable, next) = (origin("stable", stored), origin("next", stored));
    let more = format!("{STICKY}\ncache = true");
    let gateway = Gateway::start(&config(stable.address, next.address, (1, 1), &more));
    let mut clients = BTreeMap::new();
    while clients.len() < 2 {
        let response = ask(gateway.address, "/", "");
        let cookie = set_cookie(&response).expect("a cookie, on hits too");
        assert_eq!(response.fields("set-cookie").len(), 1);
        clients.insert(response.text(), cookie);
    }
    for _ in 0..3 {
        for (side, cookie) in &clients {
            let response = ask(gateway.address, "/", cookie);
            assert_eq!(
                (response.text(), set_cookie(&response)),
                (side.clone(), None)
            );
            assert!(
                response
                    .field("cache-status")
                    .is_some_and(|it| it.contains("hit"))
            );
        }
    }
    assert_eq!((stable.heads().len(), next.heads().len()), (1, 1));
    // A purge of the URL is of both.
    let admin = gateway.admin;
    let purge = format!(
        "POST /cache/purge HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n{{\"url\":\"http://test/\"}}      "
    );
    assert_eq!(send(admin, &purge).status, 200);
    for cookie in clients.values() {
        ask(gateway.address, "/", cookie);
    }
    assert_eq!((stable.heads().len(), next.heads().len()), (1, 1));
}

/// A new version that is down takes nothing from the old one: its breaker is its own, and the old one stands in.
#[test]
fn a_side_that_fails_is_broken_alone() {
    let stable = origin("stable", "");
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let more = "breaker = { ratio = 0.5, min_requests = 3 }\nfallback = { upstream = \"stable\" }";
    let gateway = Gateway::start(&config(stable.address, nobody, (1, 1), more));
    for _ in 0..40 {
        let response = ask(gateway.address, "/", "");
        assert_eq!(
            (response.status, response.text()),
            (200, "stable".to_owned())
        );
    }
    assert_eq!(
        gateway.metric("weir_breaker_openings_total{route=\"all\"}"),
        1
    );
    let page = crate::harness::client::ask_admin(gateway.admin, "/status").text();
    let status: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    let state_of = |upstream: &str| {
        let breakers = status["routes"][0]["breakers"].as_array().expect("a list");
        let found = breakers
            .iter()
            .find(|breaker| breaker["upstream"] == upstream);
        found.expect("a breaker")["state"].clone()
    };
    assert_eq!(
        (state_of("stable"), state_of("next")),
        ("closed".into(), "open".into())
    );
}
