//! Routes by fields and query, and what caches make of them.

use crate::harness::Gateway;
use crate::harness::client::{self, Response};
use crate::harness::origin::Origin;

fn ask(gateway: &Gateway, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    client::send(gateway.address, &request)
}

/// An origin whose answers are stored, and say who it is.
fn saying(name: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{name}",
                name.len()
            ));
        }
    })
}

#[test]
fn routes_of_one_url_share_nothing_that_is_stored() {
    let [stable, beta, traced] = ["stable", "beta", "traced"].map(saying);
    let gateway = Gateway::start(&format!(
        "[upstream.stable]\nservers = [\"{}\"]\n[upstream.beta]\nservers = [\"{}\"]\n[upstream.traced]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/a/{{*rest}}\"\nupstream = \"beta\"\ncache = true\nheaders = {{ X-Beta = \"1\" }}\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"stable\"\ncache = true\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"traced\"\ncache = {{ key = {{ query = false }} }}\nquery = {{ trace = true }}\n",
        stable.address, beta.address, traced.address
    ));
    for status in ["fwd=uri-miss", "hit"] {
        for (target, fields, name) in [
            ("/a/b", "X-Beta: 1\r\n", "beta"),
            ("/a/b", "", "stable"),
            ("/a/b?trace", "", "traced"),
        ] {
            let answer = ask(&gateway, target, fields);
            assert_eq!(answer.text(), name, "{target} {fields:?}");
            let said = answer.field("cache-status").unwrap();
            assert!(said.contains(status), "{said}");
            // A cache in front of weir must tell them apart too.
            assert_eq!(answer.field("vary"), Some("x-beta"), "{target} {fields:?}");
        }
    }
    // It has no part in what the route with the condition cannot serve.
    let elsewhere = ask(&gateway, "/elsewhere", "X-Beta: 1\r\n");
    assert_eq!(elsewhere.text(), "stable");
    assert_eq!(elsewhere.field("vary"), None);
    // Nor is it left out where no route is found for want of it: a 404 may be stored as well.
    let lonely =
        Gateway::start("[[route]]\npath = \"/a\"\nrespond = {}\nheaders = { X-Beta = \"1\" }\n");
    for (fields, status) in [("X-Beta: 1\r\n", 200), ("", 404)] {
        let answer = ask(&lonely, "/a", fields);
        assert_eq!(
            (answer.status, answer.field("vary")),
            (status, Some("x-beta"))
        );
    }
    // What scripts would take for the field is not it, and is not sent on.
    assert_eq!(ask(&gateway, "/a/c", "X_Beta: 1\r\n").text(), "stable");
    let heads = [stable.heads(), beta.heads(), traced.heads()].concat();
    assert_eq!(heads.len(), 5, "{heads:?}");
    assert!(!heads.concat().contains("X_Beta"), "{heads:?}");
    // A purge of the URL is one of all that is stored of it.
    let what = "{\"url\": \"http://test/a/b\"}";
    let purge = format!(
        "POST /cache/purge HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{what}",
        gateway.admin,
        what.len()
    );
    assert_eq!(client::send(gateway.admin, &purge).status, 200);
    for (fields, name) in [("X-Beta: 1\r\n", "beta"), ("", "stable")] {
        let answer = ask(&gateway, "/a/b", fields);
        assert_eq!(answer.text(), name);
        let said = answer.field("cache-status").unwrap();
        assert!(said.contains("fwd=uri-miss"), "{said}");
    }
    // So is a write, whichever route it takes.
    client::send(
        gateway.address,
        "DELETE /a/b HTTP/1.1\r\nHost: test\r\n\r\n",
    );
    let said = ask(&gateway, "/a/b", "X-Beta: 1\r\n");
    let said = said.field("cache-status").unwrap();
    assert!(said.contains("fwd=uri-miss"), "{said}");
}
