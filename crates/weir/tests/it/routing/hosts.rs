//! One host in many spellings: routes, keys, and what the upstream is told.

use super::answering;
use crate::harness::Gateway;
use crate::harness::client;
use crate::harness::origin::Origin;

/// All mean `www.admin.test`.
const SPELLINGS: [&str; 7] = [
    "www.admin.test",
    "WWW.Admin.TEST",
    "www.admin.test.",
    "www.admin.test:80",
    "www.admin.test:",
    "www.admin.test:080",
    "Www.Admin.Test.:0080",
];

/// Asks for `/` as `host`, in origin form and in absolute form.
fn ask(gateway: &Gateway, method: &str, host: &str) -> [client::Response; 2] {
    ["/".to_owned(), format!("http://{host}/")].map(|target| {
        client::send(
            gateway.address,
            &format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"),
        )
    })
}

#[test]
fn no_spelling_of_a_host_passes_by_its_route() {
    let gateway = Gateway::start(
        &[
            answering("path = \"/{*rest}\"\nhost = \"www.admin.test\"", "admin"),
            answering("path = \"/{*rest}\"\nhost = \"*.wild.test\"", "wild"),
            answering(
                "path = \"/{*rest}\"\nhost = \"[2001:DB8:0:0::1]\"",
                "address",
            ),
            answering("path = \"/{*rest}\"", "any"),
        ]
        .concat(),
    );
    let others = [
        ("a.WILD.test.:81", "wild"),
        ("[2001:db8::1]", "address"),
        ("[2001:0db8:0::0001]:80", "address"),
        ("admin.test", "any"),
        // Nobody decodes a host.
        ("www.%61dmin.test", "any"),
    ];
    for (host, expected) in SPELLINGS
        .map(|host| (host, "admin"))
        .into_iter()
        .chain(others)
    {
        for response in ask(&gateway, "GET", host) {
            assert_eq!(response.text(), expected, "{host}");
        }
    }
    for host in [
        "www.admin.test..",
        "www..admin.test",
        ".wild.test",
        ".",
        "a:65616",
        "[::1",
        "[1]",
    ] {
        for response in ask(&gateway, "GET", host) {
            let text = response.text();
            assert!(
                response.status == 400 && text.contains("host_invalid"),
                "{host}: {text}"
            );
        }
    }
}

/// What is stored is what the origin says to the host of the key, whoever asked first and however.
#[test]
fn the_origin_is_told_the_host_of_the_key() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let is_known = head.contains("\r\nHost: www.admin.test\r\n")
                && head.contains("\r\nX-Forwarded-Host: www.admin.test\r\n");
            let status = if is_known { "200 OK" } else { "404 Not Found" };
            peer.send(format!(
                "HTTP/1.1 {status}\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    for first in SPELLINGS {
        let gateway = Gateway::start(&format!(
            "[cache]\n[upstream.app]\nservers = [\"{}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = {{ key = {{ headers = [\"host\"] }} }}\n",
            origin.address
        ));
        for host in std::iter::once(first).chain(SPELLINGS) {
            for response in ask(&gateway, "GET", host) {
                assert_eq!(response.status, 200, "{host} after {first}");
            }
        }
        assert_eq!(origin.heads_waiting(), 1, "after {first}");
        // What changes something changes it for all of them.
        let [changed, _] = ask(&gateway, "POST", "WWW.ADMIN.test.:80");
        assert_eq!((changed.status, origin.heads_waiting()), (200, 2));
        ask(&gateway, "GET", "www.admin.test");
        assert_eq!(origin.heads_waiting(), 1, "after {first} and a change");
    }
}

/// A client is not another one for spelling its host in another way.
#[test]
fn a_rate_by_host_counts_all_spellings() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n\
         rate = {{ requests = 2, per = \"1h\", key = \"header:host\" }}\n",
        origin.address
    ));
    let statuses: Vec<_> = SPELLINGS
        .iter()
        .flat_map(|host| ask(&gateway, "GET", host))
        .map(|response| response.status)
        .collect();
    assert_eq!(statuses[..2], [200, 200]);
    assert!(
        statuses[2..].iter().all(|&status| status == 429),
        "{statuses:?}"
    );
}
