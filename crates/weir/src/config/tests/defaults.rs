//! What a config means that leaves things out, and every name that a choice offers.

use std::time::Duration;

use weir_gateway::settings::template::{Template, Variable};
use weir_gateway::settings::{
    Action, AllRoutes, HashOn, HostPattern, Limits, LogFormat, PerAddress, Redact, TrustId,
    Upstream,
};
use weir_policy::balance::Method;

use super::examples::forward;
use super::{LISTENER, ROUTE, UPSTREAM, valid};

#[test]
fn what_is_absent_has_its_default() {
    let settings = valid(
        &[
            LISTENER,
            UPSTREAM,
            "[[route]]\npath = \"/\"\nupstream = \"app\"",
        ]
        .concat(),
    );
    assert!(settings.workers >= 1);
    assert!(settings.admin.is_none() && settings.access_log.is_none());
    let limits = Limits::default();
    assert_eq!(settings.limits.connections, limits.connections);
    assert_eq!(
        settings.limits.connections_per_address,
        PerAddress::Remote(1024)
    );
    let upstream = &settings.upstreams[0];
    assert_eq!(upstream.hash_on, HashOn::ClientAddress);
    assert_eq!(upstream.idle_connections, Upstream::IDLE_CONNECTIONS);
    assert_eq!(upstream.idle_timeout, Upstream::IDLE_TIMEOUT);
    let route = &settings.routes[0];
    assert_eq!((route.name.as_str(), &route.host), ("/", &HostPattern::Any));
    assert_eq!(route.methods, None);
    assert_eq!(route.limits.body_bytes, limits.body_bytes);
    let buffers = (
        forward(route).request_buffer,
        forward(route).response_buffer,
    );
    assert_eq!(buffers, (256 << 10, 256 << 10));
    assert_eq!(settings.limits.held_body_bytes, 128 << 20);
    assert_eq!(forward(route).upgrade, ["websocket"]);
    assert_eq!(settings.all_routes, AllRoutes::default());
    let limited = valid(
        &[
            LISTENER,
            UPSTREAM,
            "limits.body = 7\n[[route]]\npath = \"/\"\nupstream = \"app\"",
        ]
        .concat(),
    );
    assert_eq!(limited.routes[0].limits.body_bytes, 7);
}

#[test]
fn what_is_absent_of_a_log_has_its_default() {
    let log = valid(&[LISTENER, ROUTE, "access_log.path = \"a\""].concat()).access_log;
    let log = log.expect("an access log");
    assert_eq!(log.format, LogFormat::Combined);
    assert_eq!(
        (log.buffer_bytes, log.flush),
        (256 << 10, Duration::from_secs(10))
    );
    assert_eq!(log.redact, Redact::Nothing);
    let at_once = "access_log = { path = \"-\", format = \"json\" }\n[request_id]\n";
    let settings = valid(&[LISTENER, at_once, "[[route]]\npath = \"/\"\nrespond = {}"].concat());
    let log = settings.access_log.expect("an access log");
    // Who reads standard output is waiting.
    assert!(log.flush < Duration::from_secs(1));
    let LogFormat::Json(members) = log.format else {
        panic!("JSON");
    };
    assert!(members.contains(&Variable::RequestId) && !members.contains(&Variable::Peer));
    let id = settings.all_routes.request_id.expect("an id");
    assert_eq!(
        (id.field.as_str(), id.trust, id.respond),
        ("x-request-id", TrustId::Proxies, false)
    );
}

#[test]
fn what_is_absent_of_answers_has_its_default() {
    let answers =
        "route = [{ path = \"/\", redirect.to = \"/x\" }, { path = \"/x\", respond.body = \"x\" }]";
    let answers = valid(&[LISTENER, answers].concat()).routes;
    assert!(matches!(&answers[0].action, Action::Redirect(redirect) if redirect.status == 301));
    let Action::Respond(respond) = &answers[1].action else {
        panic!("a fixed response");
    };
    let content_type = (
        "content-type".to_owned(),
        Template::fixed("text/plain; charset=utf-8"),
    );
    assert_eq!(
        (respond.status, &respond.headers),
        (200, &vec![content_type])
    );
}

#[test]
fn every_name_of_a_method_and_of_a_part_to_hash() {
    for (name, method) in Method::NAMES {
        let upstream =
            format!("upstream.app = {{ servers = [\"localhost:1\"], balance = \"{name}\" }}");
        assert_eq!(
            valid(&[LISTENER, ROUTE, &upstream].concat()).upstreams[0].balance,
            *method
        );
    }
    for (name, part) in [
        ("client-address", HashOn::ClientAddress),
        ("host", HashOn::Host),
        ("path", HashOn::Path),
        ("target", HashOn::Target),
        ("header:Host", HashOn::Header("host".to_owned())),
        ("cookie:Session", HashOn::Cookie("Session".to_owned())),
        ("query:user%20id", HashOn::Query("user%20id".to_owned())),
    ] {
        let upstream = format!(
            "upstream.app = {{ servers = [\"localhost:1\"], balance = \"hash\", hash_on = \"{name}\" }}"
        );
        assert_eq!(
            valid(&[LISTENER, ROUTE, &upstream].concat()).upstreams[0].hash_on,
            part
        );
    }
}

#[test]
fn routes_that_only_look_alike_stand_side_by_side() {
    let routes = r#"route = [
      { path = "/", respond = {} },
      { path = "/{*rest}", respond = {} },
      { path = "/{id}", respond = {} },
      { path = "/{id}/", respond = {} },
      { path = "/id", methods = ["GET"], respond = {} },
      { path = "/id", methods = ["POST"], respond = {} },
      { path = "/id", host = "a.example", respond = {} },
      { path = "/id", host = "*.a.example", respond = {} },
      { path = "/id", host = "[::1]", respond = {} },
    ]"#;
    assert_eq!(valid(&[LISTENER, routes].concat()).routes.len(), 9);
}
