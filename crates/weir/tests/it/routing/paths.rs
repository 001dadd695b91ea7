//! Paths that the server behind reads in another way than the gateway, with a real one behind.

use crate::harness::Gateway;
use crate::harness::client;
use crate::harness::nginx::Nginx;

/// Says where it was led, and what it was asked for.
fn nginx() -> Nginx {
    Nginx::start(
        "server {\nlisten ADDRESS;\n\
         location /admin/ { return 200 \"secret $request_uri\"; }\n\
         location / { return 200 \"page $request_uri\"; }\n}",
        &[],
    )
}

fn gateway(nginx: &Nginx) -> Gateway {
    Gateway::start(&format!(
        "[upstream.nginx]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/admin/{{*rest}}\"\nrespond = {{ status = 403 }}\n\
         [[route]]\npath = \"/old/{{*rest}}\"\nredirect = {{ to = \"/new/{{rest}}\" }}\n\
         [[route]]\npath = \"/upload/{{*rest}}\"\nupstream = \"nginx\"\nmethods = [\"PUT\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"nginx\"\n",
        nginx.address
    ))
}

#[test]
fn no_escape_leads_nginx_to_what_is_forbidden() {
    let nginx = nginx();
    let gateway = gateway(&nginx);
    for path in [
        "/x/..%2fadmin/secret",
        "/admin%2fsecret",
        "/%2fadmin/secret",
        "/x%2f..%2Fadmin%2F",
        "/x%2f../admin/secret",
    ] {
        let direct = client::get(nginx.address, path).text();
        assert!(direct.starts_with("secret"), "{path}: {direct}");
        let response = client::get(gateway.address, path);
        let text = response.text();
        assert!(
            response.status == 400 && text.contains("path_ambiguous"),
            "{path}: {text}"
        );
    }
    for path in [
        "/x/..;/admin/secret",
        "/admin;x/secret",
        "/x/..\\admin/secret",
        "/x/%252e%252e/admin/secret",
        "/x%2500",
        "/old/..%2fadmin",
        "/old%2fx",
        "/upload%2fx",
        "http://test/x/..%2fadmin/secret",
    ] {
        assert_eq!(client::get(gateway.address, path).status, 400, "{path}");
    }
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"client\",reason=\"path_ambiguous\"}",
        14,
    );
}

#[test]
fn names_with_escaped_slashes_pass_to_the_letter() {
    let nginx = nginx();
    let gateway = gateway(&nginx);
    for path in [
        "/@scope%2fname",
        "/@scope%2Fname?a=..%2f..",
        "/api/v4/projects/group%2Fproject/raw/a%20b;c",
        "/shop;jsessionid=1/x",
        "/a%5Cb/100%25/%2541",
    ] {
        let text = client::get(gateway.address, path).text();
        assert_eq!(text, format!("page {path}"));
    }
    // Plain dot segments are resolved here, so that it matters to nobody who resolves them.
    let text = client::get(gateway.address, "/admin/../%7Epage").text();
    assert_eq!(text, "page /~page");
}
