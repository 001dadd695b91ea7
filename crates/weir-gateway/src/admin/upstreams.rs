//! The upstreams as one JSON object: their servers, the endpoints that these stand for now, and what is under way to each.

use serde::Serialize;

use crate::changes::Changes;
use crate::control::Control;
use crate::settings::{Server, ServerAddress, Upstream};
use crate::state::snapshot::{Endpoint, Snapshot, UpstreamState};

/// All upstreams.
#[derive(Debug, Serialize)]
pub(super) struct Listing<'s> {
    /// Configurations since the start.
    generation: u64,
    /// Where changes of servers are kept; `None`: they end with the process.
    changes_file: Option<String>,
    upstreams: Vec<UpstreamNow<'s>>,
}

/// One upstream.
#[derive(Debug, Serialize)]
struct UpstreamNow<'s> {
    name: &'s str,
    servers: Vec<ServerNow<'s>>,
    /// What was changed since the file was read.
    changes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ServerNow<'s> {
    server: &'s str,
    weight: u32,
    draining: bool,
    /// Only there for a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<Lookups>,
    endpoints: Vec<EndpointNow<'s>>,
}

/// How it stands with the name of a server.
#[derive(Debug, Serialize)]
struct Lookups {
    /// Of the last good answer.
    age_ms: u64,
    /// Until the name is asked for again.
    next_in_ms: u64,
    /// Why the last answer was of no use, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct EndpointNow<'s> {
    endpoint: &'s str,
    up: bool,
    /// Requests on their way to it, tunnels included.
    in_flight: u64,
    /// Connections kept to it.
    idle: u64,
}

impl<'s> Listing<'s> {
    /// Those of `snapshot`, which is the current one.
    pub(super) fn read(control: &Control, snapshot: &'s Snapshot) -> Self {
        let in_file = control.in_file();
        let upstreams = snapshot.upstreams.iter().map(|upstream| {
            let Upstream {
                name, servers: now, ..
            } = &upstream.settings;
            let file = in_file.iter().find(|other| other.name == *name);
            let changes = file.map(|file| Changes::in_servers(&file.servers, now));
            let changes = changes.unwrap_or_default().into_iter();
            let servers = now.iter().enumerate();
            let servers = servers.map(|(index, server)| ServerNow {
                server: &server.label,
                weight: server.weight,
                draining: server.is_draining,
                dns: Lookups::read(control, server),
                endpoints: endpoints(upstream, index),
            });
            UpstreamNow {
                name,
                servers: servers.collect(),
                changes: changes
                    .map(|change| format!("upstream {name}: {change}"))
                    .collect(),
            }
        });
        Self {
            generation: snapshot.generation,
            changes_file: control
                .kept
                .as_ref()
                .map(|kept| kept.path.display().to_string()),
            upstreams: upstreams.collect(),
        }
    }
}

impl Lookups {
    fn read(control: &Control, server: &Server) -> Option<Self> {
        let ServerAddress::Name(host, _) = &server.address else {
            return None;
        };
        let status = control.names.status(host)?;
        Some(Self {
            age_ms: status.age.as_millis() as u64,
            next_in_ms: status.next_in.as_millis() as u64,
            error: status.error,
        })
    }
}

/// What the server of this index stands for.
fn endpoints(upstream: &UpstreamState, server: usize) -> Vec<EndpointNow<'_>> {
    let of_server = |endpoint: &&Endpoint| endpoint.server == server;
    let endpoints = upstream.endpoints.iter().filter(of_server);
    let endpoints = endpoints.map(|endpoint| {
        let tables = &endpoint.state.metrics;
        EndpointNow {
            endpoint: &endpoint.label,
            up: endpoint.state.health.is_up(),
            in_flight: tables.sum(|table| &table.in_flight),
            idle: tables.sum(|table| &table.idle),
        }
    });
    endpoints.collect()
}
