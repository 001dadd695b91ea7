//! What a run sends, where to, when, and for how long. Nothing here reads flags.

use std::time::Duration;

use serde_json::{Value, json};
pub use weir_socket::Address;

use crate::arrivals::Arrivals;
use crate::mix::Mix;
use crate::tls;

/// A complete description of a run: the same plan and seed send the same requests.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server under load.
    pub target: Target,
    /// The protocol it is asked in.
    pub protocol: Protocol,
    /// The requests it is asked.
    pub mix: Mix,
    /// When requests are meant to be sent.
    pub arrivals: Arrivals,
    /// When the run is over.
    pub end: End,
    /// How long requests are sent before the run without being counted.
    pub warm_up: Duration,
    /// Connections open at once, over all threads. At least one for each thread.
    pub connections: usize,
    /// Threads that send. Each has a runtime and its share of the connections and of the arrivals.
    pub threads: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// From the sending of a request, with the connection it needs, to the end of its response. It does not count
    /// from the due instant, so a server that catches up is still measured.
    pub timeout: Duration,
    /// The seed of everything that is drawn at random.
    pub seed: u64,
}

/// The server under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where to connect to.
    pub address: Address,
    /// The `Host` of requests that name none: the authority of the URL.
    pub authority: String,
    /// TLS to the server: it offers what the plan's [`Protocol`] is spoken by.
    pub tls: Option<tls::Client>,
}

/// The protocol of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 with up to `pipeline` requests in flight on a connection; 1 waits for each response.
    Http1 {
        /// At least 1.
        pipeline: usize,
    },
    /// HTTP/2 with up to `streams` requests in flight on a connection; by prior knowledge without TLS.
    Http2 {
        /// At least 1.
        streams: usize,
    },
}

impl Protocol {
    /// As people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 { .. } => "HTTP/1.1",
            Self::Http2 { .. } => "HTTP/2",
        }
    }
}

/// When a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After this long, warm-up not counted.
    After(Duration),
    /// After this many requests, warm-up not counted.
    Requests(u64),
}

/// Many times more than one machine has ports towards one server.
const CONNECTIONS_MAX: usize = 1_000_000;
/// More requests in flight on one connection than servers accept.
const DEPTH_MAX: usize = 65_536;

impl Plan {
    /// Finds a contradiction in the plan and says it in a sentence.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            connections,
            threads,
            ..
        } = self;
        if *connections > CONNECTIONS_MAX {
            return Err(format!(
                "{connections} connections are beyond {CONNECTIONS_MAX}"
            ));
        }
        if *connections == 0 {
            return Err("expected at least one connection".to_owned());
        }
        if *threads == 0 {
            return Err("expected at least one thread".to_owned());
        }
        if connections < threads {
            return Err(format!(
                "{connections} connections are too few for {threads} threads; each needs one of its own"
            ));
        }
        let depth = self.depth();
        if depth == 0 {
            return Err("expected at least one request at a time on a connection".to_owned());
        }
        if depth > DEPTH_MAX {
            return Err(format!(
                "{depth} requests at a time on a connection are beyond {DEPTH_MAX}"
            ));
        }
        if !self.keep_alive && depth > 1 {
            return Err(
                "a connection for each request leaves no second request to pipeline".to_owned(),
            );
        }
        match self.end {
            End::After(Duration::ZERO) => Err("expected a duration above zero".to_owned()),
            End::Requests(0) => Err("expected at least one request".to_owned()),
            end => self.arrivals.check(end),
        }
    }
}

impl Plan {
    /// Requests that may be in flight on one connection.
    pub(crate) fn depth(&self) -> usize {
        match self.protocol {
            Protocol::Http1 { pipeline } => pipeline,
            Protocol::Http2 { streams } => streams,
        }
    }

    /// Requests that may be in flight on all connections.
    pub(crate) fn at_once(&self) -> usize {
        self.connections * self.depth()
    }

    /// The plan as reports show it.
    pub fn to_json(&self) -> Value {
        let requests = self.mix.requests().iter().map(|request| {
            json!({"weight": request.weight, "method": request.method, "path": request.path.to_string()})
        });
        let (lasts_s, amount) = match self.end {
            End::After(lasts) => (Some(lasts.as_secs_f64()), None),
            End::Requests(requests) => (None, Some(requests)),
        };
        json!({
            "address": self.target.address.to_string(),
            "authority": self.target.authority,
            "tls": self.target.tls.is_some(),
            "protocol": self.protocol.name(),
            "at_once": self.depth(),
            "requests": requests.collect::<Vec<_>>(),
            "arrivals": self.arrivals.to_string(),
            "duration_s": lasts_s,
            "amount": amount,
            "warm_up_s": self.warm_up.as_secs_f64(),
            "connections": self.connections,
            "threads": self.threads,
            "keep_alive": self.keep_alive,
            "timeout_s": self.timeout.as_secs_f64(),
            "seed": self.seed,
        })
    }
}
