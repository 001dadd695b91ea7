//! Names of fields that scripts take for others.

use crate::harness::Gateway;
use crate::harness::client;
use crate::harness::origin::Origin;

#[test]
fn nothing_passes_for_a_field_that_the_config_names() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nX_Set: forged\r\nX.Removed: 1\r\nX_Kept: 1\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway = Gateway::start(&format!(
        "[cache]\n[upstream.app]\nservers = [\"{address}\"]\n\
         [upstream.hashed]\nservers = [\"{address}\"]\nbalance = \"hash\"\nhash_on = \"header:x-shard\"\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n\
         request_headers = {{ set = {{ x-user = \"nobody\" }}, remove = [\"x-internal\"] }}\n\
         response_headers = {{ set = {{ x-set = \"1\" }}, remove = [\"x-removed\"] }}\n\
         [[route]]\npath = \"/elsewhere\"\nupstream = \"hashed\"\n\
         rate = {{ requests = 100, per = \"1s\", key = \"header:x-api-key\" }}\n\
         priority = {{ header = \"x-priority\" }}\n\
         cache = {{ key = {{ headers = [\"x-tenant\"] }}, bypass = [\"header:x-preview\"] }}\n",
        address = origin.address
    ));
    let forged = "X_User: root\r\nx.user: root\r\nX_Internal: 1\r\nX-Internal: 1\r\nX_Shard: 1\r\n\
        X_API_KEY: 1\r\nX_Priority: high\r\nx_tenant: 1\r\nX_Preview: 1\r\nIf_None_Match: *\r\n\
        X_Forwarded_For: 1\r\nAccept_Encoding: br\r\n";
    for path in ["/", "/elsewhere"] {
        let response = client::send(
            gateway.address,
            &format!(
                "GET {path} HTTP/1.1\r\nHost: test\r\n{forged}X_Own: 1\r\nX-Tenant: 2\r\n\r\n"
            ),
        );
        assert_eq!(response.status, 200);
        let head = origin.next_head().to_ascii_lowercase();
        let folded = head.replace(['_', '.'], "-");
        for (name, count) in [
            ("x-user", usize::from(path == "/")),
            ("x-internal", usize::from(path != "/")),
            ("x-shard", 0),
            ("x-api-key", 0),
            ("x-priority", 0),
            ("x-tenant", 1),
            ("x-preview", 0),
            ("if-none-match", 0),
            ("x-forwarded-for", 1),
            ("accept-encoding", 0),
        ] {
            let found = folded.matches(&format!("\r\n{name}:")).count();
            assert_eq!(found, count, "{name} in {head}");
        }
        assert!(head.contains("\r\nx_own: 1\r\n"), "{head}");
        if path == "/" {
            assert!(head.contains("\r\nx-user: nobody\r\n"), "{head}");
            assert_eq!(response.fields("x-set"), ["1"]);
            assert!(response.fields("x_set").is_empty());
            assert!(response.fields("x.removed").is_empty());
            assert_eq!(response.fields("x_kept"), ["1"]);
        }
    }
}

/// A route that says of requests and answers what it knows of them, and a fixed one, a redirect and one whose server is gone.
fn saying(origin: &Origin, gone: std::net::SocketAddr) -> Gateway {
    Gateway::start(&format!(
        "[response_headers]\nset = {{ x-all = \"all\" }}\nalways = {{ x-frame-options = \"DENY\", x-who = \"all\" }}\n\
         [cache]\n[upstream.app]\nservers = [\"{address}\"]\n[upstream.gone]\nservers = [\"{gone}\"]\n\
         [[route]]\npath = \"/t/{{tenant}}/{{*rest}}\"\nupstream = \"app\"\ncache = true\n\
         request_headers.set = {{ x-asks = \"{{client}} {{method}} {{host}} {{path}} {{query}} {{scheme}}\", x-tenant = \"{{tenant}}\", \
         x-copy = \"{{request_header:x-from}}\", x-brace = \"{{{{}}}}\" }}\n\
         request_headers.add = {{ accept = \"text/weir\" }}\n\
         response_headers.set = {{ x-says = \"{{status}} {{route}} {{cache}}\", server = \"weir\" }}\n\
         response_headers.add = {{ vary = \"X-Added\" }}\n\
         response_headers.always = {{ x-who = \"{{method}}\" }}\n\
         [[route]]\npath = \"/fixed\"\nrespond = {{ body = \"x\", headers = {{ x-path = \"{{path}}\", content-type = \"text/a\" }} }}\n\
         response_headers = {{ set = {{ content-type = \"text/b\" }}, remove = [\"x-path\"] }}\n\
         [[route]]\npath = \"/moved\"\nredirect = {{ to = \"/\" }}\n\
         [[route]]\npath = \"/gone\"\nupstream = \"gone\"\nresponse_headers.set = {{ cache-control = \"max-age=60\" }}\n\
         response_headers.always = {{ content-type = \"text/c\" }}\n",
        address = origin.address
    ))
}

#[test]
fn fields_are_filled_with_what_is_known() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nServer: origin\r\nVary: X-Own\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway = saying(&origin, "127.0.0.1:1".parse().expect("an address"));
    let ask = |fields: &str| {
        client::send(
            gateway.address,
            &format!(
                "GET /t/a%20b/c?d=e HTTP/1.1\r\nHost: Test\r\nAccept: text/own\r\nX-Asks: forged\r\nX_Copy: forged\r\n{fields}\r\n"
            ),
        )
    };
    let response = ask("X-From: \tyou\u{e9}\tand me \r\n");
    let head = origin.next_head();
    for line in [
        "x-asks: 127.0.0.1 GET test /t/a%20b/c d=e http\r\n",
        "x-tenant: a%20b\r\n",
        "x-copy: you\u{e9}\tand me\r\n",
        "x-brace: {}\r\n",
        "Accept: text/own\r\n",
        "accept: text/weir\r\n",
    ] {
        assert!(head.contains(line), "{line:?} in {head}");
    }
    assert!(!head.contains("forged"), "{head}");
    assert_eq!(response.fields("x-says"), ["200 /t/{tenant}/{*rest} miss"]);
    assert_eq!(response.fields("server"), ["weir"]);
    assert_eq!(response.fields("vary"), ["X-Own", "X-Added"]);
    assert_eq!(response.fields("x-all"), ["all"]);
    // A hit is told of itself, and a field of variables without a value is left out upstream.
    let hit = ask("X-From: x\r\n");
    assert_eq!(hit.fields("x-says"), ["200 /t/{tenant}/{*rest} hit"]);
    assert_eq!(hit.fields("x-who"), ["GET"]);
    ask("X-Own: 2\r\n");
    assert!(!origin.next_head().contains("x-copy"));
}

#[test]
fn answers_of_weirs_own_have_what_is_always_said() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gone = std::net::SocketAddr::from(([127, 0, 0, 1], crate::harness::free_port()));
    let gateway = saying(&origin, gone);
    for (path, status, who, fields) in [
        (
            "/fixed",
            200,
            "all",
            &[
                ("x-all", Some("all")),
                ("content-type", Some("text/b")),
                ("x-path", None),
            ][..],
        ),
        (
            "/moved",
            301,
            "all",
            &[("x-all", Some("all")), ("location", Some("/"))],
        ),
        (
            "/gone",
            502,
            "all",
            &[
                ("x-all", None),
                ("cache-control", None),
                ("content-type", Some("text/c")),
            ],
        ),
        (
            "/nowhere",
            404,
            "all",
            &[("x-all", None), ("content-type", Some("text/plain"))],
        ),
        ("/t/a/b", 200, "GET", &[("x-all", Some("all"))]),
    ] {
        let response = client::get(gateway.address, path);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.fields("x-frame-options"), ["DENY"], "{path}");
        assert_eq!(response.fields("x-who"), [who], "{path}");
        for (name, value) in fields {
            assert_eq!(
                response.fields(name),
                value.map_or(vec![], |value| vec![value]),
                "{path} {name}"
            );
        }
    }
}
