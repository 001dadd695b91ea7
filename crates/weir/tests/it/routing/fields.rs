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
