//! Paths made of parameters, as the upstream gets them.

use crate::harness::Gateway;
use crate::harness::client;
use crate::harness::origin::Origin;

#[test]
fn an_upstream_is_asked_for_the_path_of_the_rule() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/v1/{{version}}/{{*rest}}\"\nupstream = \"app\"\nrewrite = \"/v2/{{rest}}/of/{{version}}.json\"\n\
         [[route]]\npath = \"/old/{{*rest}}\"\nupstream = \"app\"\nrewrite = \"/{{rest}}\"\n",
        origin.address
    ));
    for (asked, expected) in [
        ("/v1/a/b/c", "/v2/b/c/of/a.json"),
        ("/v1/a/b?c=/../d&e={x}", "/v2/b/of/a.json?c=/../d&e={x}"),
        ("/v1/a/", "/v2/of/a.json"),
        ("/v1/a/b/", "/v2/b/of/a.json"),
        ("/v1/%41%20b/%3Fx", "/v2/%3Fx/of/A%20b.json"),
        ("/v1/a/x/../y", "/v2/y/of/a.json"),
        ("/v1/a//y//z", "/v2/y/z/of/a.json"),
        ("/old/", "/"),
        ("/old/@scope%2Fname", "/@scope%2Fname"),
        ("/old//evil.test/x", "/evil.test/x"),
    ] {
        let answer = client::get(gateway.address, asked);
        assert_eq!(answer.status, 200, "{asked}");
        let head = origin.next_head();
        let expected = format!("GET {expected} HTTP/1.1\r\n");
        assert!(head.starts_with(&expected), "{asked}: {head}");
    }
    for asked in [
        "/v1/..%2fx/b",
        "/v1/a/..%2f..%2fb",
        "/old/..;/x",
        "/old/%2e%2e%2fx",
    ] {
        assert_eq!(client::get(gateway.address, asked).status, 400, "{asked}");
    }
    assert_eq!(origin.heads_waiting(), 0);
}
