//! One configuration as the workers see it: immutable, shared, held by a request for its whole life.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_http::HeadLimits;

use crate::router::{RouteConflict, Router};
use crate::settings::{ClientTimeouts, Route, ServerAddress, Settings, Upstream};
use crate::upstream::health::Health;

/// What requests are decided by.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) router: Router,
    pub(crate) routes: Vec<Route>,
    pub(crate) upstreams: Vec<UpstreamState>,
    pub(crate) head_limits: HeadLimits,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) body_rate: u64,
    /// Idle upstream connections, of all workers.
    pub(crate) idle_connections: usize,
    started: Instant,
}

/// An upstream and what is known about its endpoints.
#[derive(Debug)]
pub(crate) struct UpstreamState {
    pub(crate) settings: Upstream,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// One server of an upstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) label: String,
    pub(crate) address: ServerAddress,
    pub(crate) health: Health,
}

impl Snapshot {
    pub(crate) fn new(settings: &Settings) -> Result<Arc<Self>, RouteConflict> {
        Ok(Arc::new(Self {
            router: Router::new(&settings.routes)?,
            routes: settings.routes.clone(),
            upstreams: settings.upstreams.iter().map(UpstreamState::new).collect(),
            head_limits: HeadLimits {
                bytes: settings.limits.header_bytes,
                fields: settings.limits.header_count.min(HeadLimits::FIELDS_CEILING),
            },
            timeouts: settings.timeouts,
            body_rate: settings.limits.body_rate,
            idle_connections: settings.limits.idle_connections,
            started: Instant::now(),
        }))
    }

    /// The time that the health of endpoints is kept in.
    pub(crate) fn since_start(&self) -> Duration {
        self.started.elapsed()
    }
}

impl UpstreamState {
    fn new(settings: &Upstream) -> Self {
        let endpoints = settings.servers.iter().map(|server| Endpoint {
            label: server.label.clone(),
            address: server.address.clone(),
            health: Health::default(),
        });
        Self {
            settings: settings.clone(),
            endpoints: endpoints.collect(),
        }
    }
}
