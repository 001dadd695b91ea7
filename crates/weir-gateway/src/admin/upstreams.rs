//! The upstreams as one JSON object: their servers, the endpoints that these stand for now, and what is under way to each.

use crate::admin::status::{list, object, quoted};
use crate::control::Control;
use crate::settings::{Server, ServerAddress};
use crate::state::snapshot::{Endpoint, UpstreamState};

/// `{"generation", "upstreams": [{"name", "servers": [{"server", "weight", "draining", "dns", "endpoints":
/// [{"endpoint", "up", "in_flight", "idle"}]}]}]}`
///
/// `generation` counts the configurations since the start. `dns` is only there for a name: `{"age_ms", "next_in_ms",
/// "error"}`, the age of the last good answer, the time until the name is asked for again, and why the last answer was of
/// no use, if it was not. `in_flight` are the requests that are on their way to the endpoint, tunnels included.
pub(super) fn write(control: &Control) -> String {
    let snapshot = control.shared.snapshot();
    let now_ms = control.shared.since_start().as_millis() as u64;
    let upstreams = snapshot.upstreams.iter().map(|upstream| {
        let servers = upstream.settings.servers.iter().enumerate();
        let servers = servers.map(|(index, it)| server(control, (index, it), upstream, now_ms));
        object([
            ("name", quoted(&upstream.settings.name)),
            ("servers", list(servers)),
        ])
    });
    let mut text = object([
        ("generation", snapshot.generation.to_string()),
        ("upstreams", list(upstreams)),
    ]);
    text.push('\n');
    text
}

fn server(
    control: &Control,
    (index, server): (usize, &Server),
    upstream: &UpstreamState,
    now_ms: u64,
) -> String {
    let endpoints = upstream.endpoints.iter();
    let endpoints = endpoints.filter(|endpoint| endpoint.server == index);
    let mut members = vec![
        ("server", quoted(&server.label)),
        ("weight", server.weight.to_string()),
        ("draining", server.is_draining.to_string()),
    ];
    if let ServerAddress::Name(host, _) = &server.address
        && let Some(status) = control.names.status(host)
    {
        let mut dns = vec![
            ("age_ms", status.age.as_millis().to_string()),
            ("next_in_ms", status.next_in.as_millis().to_string()),
        ];
        dns.extend(status.error.map(|error| ("error", quoted(&error))));
        members.push(("dns", object(dns)));
    }
    let endpoints = list(endpoints.map(|it| endpoint(it, now_ms)));
    members.push(("endpoints", endpoints));
    object(members)
}

fn endpoint(endpoint: &Endpoint, now_ms: u64) -> String {
    let tables = &endpoint.state.metrics;
    let is_up = endpoint.state.health.is_available(now_ms);
    object([
        ("endpoint", quoted(&endpoint.label)),
        ("up", is_up.to_string()),
        (
            "in_flight",
            tables.sum(|table| &table.in_flight).to_string(),
        ),
        ("idle", tables.sum(|table| &table.idle).to_string()),
    ])
}
