//! What refusing knows outlives a reload: an open breaker stays open, an endpoint that is out stays out, a key that has
//! asked too often still has. What is said otherwise in the file begins anew.

use serde_json::Value;

use crate::harness::Gateway;
use crate::harness::client;
use crate::harness::origin::Origin;

fn status(gateway: &Gateway) -> Value {
    let response = client::ask_admin(gateway.admin, "/status");
    serde_json::from_slice(&response.body).expect("/status is JSON")
}

fn failing() -> Origin {
    Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
}

fn well() -> Origin {
    Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

/// One upstream, and one route with `care`; `more` goes behind them.
fn config(servers: &[&Origin], upstream: &str, care: &str, more: &str) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|it| format!("\"{}\"", it.address))
        .collect();
    format!(
        "[upstream.app]\nservers = [{}]\n{upstream}\n[[route]]\npath = \"/\"\nupstream = \"app\"\n{care}\n{more}",
        servers.join(", ")
    )
}

const MORE: &str = "[[route]]\npath = \"/more\"\nrespond = {}\n";

#[test]
fn an_open_breaker_stays_open_unless_it_is_another_one() {
    let origin = failing();
    let breaker = "breaker = { consecutive = 2, open_for = \"1h\" }";
    let gateway = Gateway::start(&config(&[&origin], breaker, breaker, ""));
    let ask = || client::get(gateway.address, "/").status;
    assert_eq!([ask(), ask(), ask()], [500, 500, 503]);
    let states = || {
        let status = status(&gateway);
        let endpoint = &status["upstreams"][0]["endpoints"][0];
        [&status["routes"][0]["breakers"][0], &endpoint["breaker"]].map(|it| it["state"].clone())
    };
    assert_eq!(states(), ["open", "open"]);

    gateway.configure(&config(&[&origin], breaker, breaker, MORE));
    gateway.reload();
    assert_eq!(states(), ["open", "open"]);
    assert_eq!(ask(), 503);

    let other = "breaker = { consecutive = 3, open_for = \"1h\" }";
    gateway.configure(&config(&[&origin], breaker, other, MORE));
    gateway.reload();
    assert_eq!(states(), ["closed", "open"]);
    gateway.configure(&config(&[&origin], other, other, MORE));
    gateway.reload();
    assert_eq!(states(), ["closed", "closed"]);
    assert_eq!(ask(), 500);
}

#[test]
fn an_endpoint_that_is_out_stays_out_when_another_one_comes() {
    let (sick, first, second) = (failing(), well(), well());
    let ejection = "ejection = { consecutive = 2, eject_for = \"1h\" }";
    let gateway = Gateway::start(&config(&[&first, &sick], ejection, "", ""));
    let ask = |count: usize| -> Vec<u16> {
        let each = std::iter::repeat_with(|| client::get(gateway.address, "/").status);
        each.take(count).collect()
    };
    let statuses = ask(40);
    let failures = statuses.iter().filter(|status| **status == 500).count();
    assert!((2..12).contains(&failures), "{statuses:?}");

    // It stands elsewhere in the list, too.
    gateway.configure(&config(&[&sick, &first, &second], ejection, "", MORE));
    gateway.reload();
    let place = &status(&gateway)["upstreams"][0]["endpoints"][0]["place"];
    assert_eq!(
        (&place["state"], &place["ejections"]),
        (&"out".into(), &1.into())
    );
    assert_eq!(ask(8), [200; 8]);
}

#[test]
fn a_key_that_has_asked_too_often_still_has() {
    let origin = well();
    let rate = "rate = { requests = 2, per = \"24h\" }";
    let gateway = Gateway::start(&config(&[&origin], "", rate, ""));
    let ask = || client::get(gateway.address, "/").status;
    assert_eq!([ask(), ask(), ask()], [200, 200, 429]);
    gateway.configure(&config(&[&origin], "", rate, MORE));
    gateway.reload();
    assert_eq!(ask(), 429);
    let other = "rate = { requests = 3, per = \"24h\" }";
    gateway.configure(&config(&[&origin], "", other, MORE));
    gateway.reload();
    assert_eq!([ask(), ask(), ask(), ask()], [200, 200, 200, 429]);
}
