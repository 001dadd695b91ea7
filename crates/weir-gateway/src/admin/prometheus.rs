//! The counts in Prometheus text format (version 0.0.4), summed over the workers.

mod cache;
mod care;
mod compress;
mod fallbacks;
mod transient;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::failure::{Failure, Fault};
use crate::metrics::{
    ByClass, CLASSES, Counter, EndpointMetrics, Histogram, LATENCY_BOUNDS_US, PerWorker,
    RetryReason, RouteMetrics, WorkerMetrics, added,
};
use crate::state::shared::Shared;
use crate::state::snapshot::{Endpoint, Snapshot, UpstreamState};

/// The whole page.
pub(crate) fn write(shared: &Shared) -> String {
    let mut page = Page {
        text: String::with_capacity(16 << 10),
        shared,
        snapshot: shared.snapshot(),
    };
    page.connections();
    page.routes();
    page.endpoints();
    page.failures();
    page.configuration();
    care::write(&mut page);
    cache::write(&mut page);
    compress::write(&mut page);
    transient::write(&mut page);
    page.text
}

/// A count of an endpoint that is written as one line.
struct EndpointCount {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&EndpointMetrics) -> &Counter,
}

const ENDPOINT_COUNTS: [EndpointCount; 8] = [
    EndpointCount {
        name: "weir_upstream_connects_total",
        kind: "counter",
        help: "Connections opened.",
        of: |endpoint| &endpoint.connects,
    },
    EndpointCount {
        name: "weir_upstream_connect_failures_total",
        kind: "counter",
        help: "Connections that did not stand.",
        of: |endpoint| &endpoint.connect_failures,
    },
    EndpointCount {
        name: "weir_upstream_pool_hits_total",
        kind: "counter",
        help: "Requests sent on a kept connection.",
        of: |endpoint| &endpoint.pool_hits,
    },
    EndpointCount {
        name: "weir_upstream_retries_refused_total",
        kind: "counter",
        help: "Retries and hedges after this endpoint for which the budget had nothing left.",
        of: |endpoint| &endpoint.retries_refused,
    },
    EndpointCount {
        name: "weir_upstream_hedges_total",
        kind: "counter",
        help: "Second copies of requests sent to this endpoint.",
        of: |endpoint| &endpoint.hedges,
    },
    EndpointCount {
        name: "weir_upstream_hedges_won_total",
        kind: "counter",
        help: "Second copies that were answered first.",
        of: |endpoint| &endpoint.hedges_won,
    },
    EndpointCount {
        name: "weir_upstream_idle_connections",
        kind: "gauge",
        help: "Kept connections.",
        of: |endpoint| &endpoint.idle,
    },
    EndpointCount {
        name: "weir_upstream_in_flight",
        kind: "gauge",
        help: "Requests on their way, tunnels included.",
        of: |endpoint| &endpoint.in_flight,
    },
];

struct Page<'s> {
    text: String,
    shared: &'s Shared,
    snapshot: Arc<Snapshot>,
}

impl Page<'_> {
    fn connections(&mut self) {
        self.family(
            "weir_client_connections_total",
            "counter",
            "Client connections accepted.",
        );
        self.plain("weir_client_connections_total", |worker| &worker.accepted);
        self.family(
            "weir_client_connections",
            "gauge",
            "Client connections open, by worker.",
        );
        for (index, worker) in self.shared.metrics.iter().enumerate() {
            let open = worker.open.read();
            let _ = writeln!(
                self.text,
                "weir_client_connections{{worker=\"{index}\"}} {open}"
            );
        }
        self.family(
            "weir_worker_standstill_seconds",
            "gauge",
            "Time since a worker last turned: a tenth of a second, or more when it is stuck.",
        );
        for (index, for_ms) in self.shared.standstills().enumerate() {
            let seconds = seconds(for_ms * 1_000);
            let _ = writeln!(
                self.text,
                "weir_worker_standstill_seconds{{worker=\"{index}\"}} {seconds}"
            );
        }
        self.family(
            "weir_client_connections_refused_total",
            "counter",
            "Client connections over a limit.",
        );
        self.plain("weir_client_connections_refused_total", |worker| {
            &worker.connections_refused
        });
        self.family(
            "weir_client_bytes_total",
            "counter",
            "Bytes exchanged with clients, heads included.",
        );
        for (direction, counter) in [
            (
                "received",
                (|w| &w.bytes_from_clients) as fn(&WorkerMetrics) -> &Counter,
            ),
            ("sent", |w| &w.bytes_to_clients),
        ] {
            let sum = self.sum(counter);
            let _ = writeln!(
                self.text,
                "weir_client_bytes_total{{direction=\"{direction}\"}} {sum}"
            );
        }
        self.family(
            "weir_access_log_lines_dropped_total",
            "counter",
            "Log lines lost because the disk was behind.",
        );
        self.plain("weir_access_log_lines_dropped_total", |worker| {
            &worker.log_lines_dropped
        });
    }

    fn routes(&mut self) {
        let snapshot = Arc::clone(&self.snapshot);
        // Routes may share a name, as those of one path for different methods do: they are one series.
        let routes = snapshot.routes.iter();
        let series: BTreeMap<&str, &PerWorker<RouteMetrics>> = routes
            .map(|route| (route.settings.name.as_str(), &*route.metrics))
            .collect();
        self.family(
            "weir_requests_total",
            "counter",
            "Requests answered, by route and class of status.",
        );
        for (name, tables) in &series {
            let labels = format!("route=\"{}\"", escape(name));
            let requests = tables.iter().map(|table| &table.requests);
            self.by_class("weir_requests_total", &labels, requests);
        }
        let shared = self.shared;
        let unrouted = shared.metrics.iter().map(|worker| &worker.unrouted);
        self.by_class("weir_requests_total", "route=\"\"", unrouted);
        self.family(
            "weir_request_duration_seconds",
            "histogram",
            "From the request head to the end of the response.",
        );
        for (name, tables) in &series {
            let labels = format!("route=\"{}\"", escape(name));
            let latencies = tables.iter().map(|table| &table.latency);
            self.histogram("weir_request_duration_seconds", &labels, latencies);
        }
        fallbacks::write(self, &series);
    }

    fn endpoints(&mut self) {
        self.family(
            "weir_upstream_responses_total",
            "counter",
            "Responses of endpoints, by class of status.",
        );
        self.each_endpoint(|page, labels, tables| {
            let responses = tables.iter().map(|table| &table.responses);
            page.by_class("weir_upstream_responses_total", labels, responses);
        });
        self.family(
            "weir_upstream_latency_seconds",
            "histogram",
            "From choosing the endpoint to the response head.",
        );
        self.each_endpoint(|page, labels, tables| {
            let latencies = tables.iter().map(|table| &table.latency);
            page.histogram("weir_upstream_latency_seconds", labels, latencies);
        });
        for EndpointCount {
            name,
            kind,
            help,
            of: count,
        } in ENDPOINT_COUNTS
        {
            self.family(name, kind, help);
            self.each_endpoint(|page, labels, tables| {
                let sum = tables.sum(count);
                let _ = writeln!(page.text, "{name}{{{labels}}} {sum}");
            });
        }
        self.retries();
        self.endpoints_up();
    }

    fn retries(&mut self) {
        let name = "weir_upstream_retries_total";
        self.family(
            name,
            "counter",
            "Requests sent again after this endpoint, by why.",
        );
        self.each_endpoint(|page, labels, tables| {
            for (index, why) in RetryReason::ALL.into_iter().enumerate() {
                let sum = tables.sum(|endpoint| &endpoint.retries[index]);
                let reason = why.name();
                let _ = writeln!(page.text, "{name}{{{labels},reason=\"{reason}\"}} {sum}");
            }
        });
    }

    fn endpoints_up(&mut self) {
        let name = "weir_upstream_endpoint_up";
        self.family(
            name,
            "gauge",
            "0 while the endpoint is passed over: it refused, or its checks say so.",
        );
        let now_ms = self.shared.since_start().as_millis() as u64;
        let snapshot = Arc::clone(&self.snapshot);
        for upstream in &snapshot.upstreams {
            for endpoint in &upstream.endpoints {
                let labels = endpoint_labels(upstream, endpoint);
                let up = u8::from(endpoint.state.health.is_available(now_ms));
                let _ = writeln!(self.text, "{name}{{{labels}}} {up}");
            }
        }
    }

    fn configuration(&mut self) {
        let name = "weir_config_generation";
        self.family(name, "gauge", "Configurations put to work since the start.");
        let generation = self.snapshot.generation;
        let _ = writeln!(self.text, "{name} {generation}");
        let name = "weir_config_reloads_total";
        self.family(
            name,
            "counter",
            "Times that the configuration was read again.",
        );
        for (result, count) in ["applied", "refused"].into_iter().zip(&self.shared.reloads) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(self.text, "{name}{{result=\"{result}\"}} {count}");
        }
    }

    fn failures(&mut self) {
        self.family(
            "weir_failures_total",
            "counter",
            "Requests that failed, by whose fault it was and why.",
        );
        for failure in Failure::all() {
            let sum: u64 = self
                .shared
                .metrics
                .iter()
                .map(|worker| worker.failures[failure.index()].read())
                .sum();
            if sum > 0 {
                let fault = match failure.fault() {
                    Fault::Client => "client",
                    Fault::Gateway => "gateway",
                    Fault::Upstream => "upstream",
                };
                let reason = failure.name();
                let _ = writeln!(
                    self.text,
                    "weir_failures_total{{fault=\"{fault}\",reason=\"{reason}\"}} {sum}"
                );
            }
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn plain(&mut self, name: &str, counter: fn(&WorkerMetrics) -> &Counter) {
        let sum = self.sum(counter);
        let _ = writeln!(self.text, "{name} {sum}");
    }

    fn sum(&self, counter: fn(&WorkerMetrics) -> &Counter) -> u64 {
        // Wrapping, because a gauge of one worker may be below zero while another's is above.
        self.shared
            .metrics
            .iter()
            .map(|worker| counter(worker).read())
            .fold(0, u64::wrapping_add)
    }

    fn by_class<'m>(
        &mut self,
        name: &str,
        labels: &str,
        tables: impl Iterator<Item = &'m ByClass>,
    ) {
        let counts = added(tables.map(ByClass::counts));
        for (class, count) in CLASSES.iter().zip(counts) {
            if count > 0 {
                let _ = writeln!(self.text, "{name}{{{labels},class=\"{class}\"}} {count}");
            }
        }
    }

    fn histogram<'m>(
        &mut self,
        name: &str,
        labels: &str,
        tables: impl Iterator<Item = &'m Histogram> + Clone,
    ) {
        let bounds = LATENCY_BOUNDS_US.map(seconds);
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        let mut below = 0;
        for (bound, count) in bounds.zip(added(tables.clone().map(Histogram::counts))) {
            below += count;
            let _ = writeln!(
                self.text,
                "{name}_bucket{{{labels},le=\"{bound}\"}} {below}"
            );
        }
        let sum = seconds(tables.map(|table| table.sum_us.read()).sum());
        let _ = writeln!(
            self.text,
            "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {below}"
        );
    }

    /// Calls `write` for each endpoint with its labels and the tables of the workers.
    fn each_endpoint(&mut self, write: impl Fn(&mut Self, &str, &PerWorker<EndpointMetrics>)) {
        let snapshot = Arc::clone(&self.snapshot);
        for upstream in &snapshot.upstreams {
            for endpoint in &upstream.endpoints {
                let labels = endpoint_labels(upstream, endpoint);
                write(self, &labels, &endpoint.state.metrics);
            }
        }
    }
}

fn endpoint_labels(upstream: &UpstreamState, endpoint: &Endpoint) -> String {
    let (upstream, endpoint) = (escape(&upstream.settings.name), escape(&endpoint.label));
    format!("upstream=\"{upstream}\",endpoint=\"{endpoint}\"")
}

/// Microseconds as seconds, without the error of a binary fraction.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label value: backslash, quote and line feed are escaped.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (micros, text) in [
            (0, "0"),
            (100, "0.0001"),
            (2_500_000, "2.5"),
            (60_000_000, "60"),
        ] {
            assert_eq!(seconds(micros), text);
        }
    }
}
