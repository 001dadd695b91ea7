//! One outcome feeds counters, histograms and the log line.

use std::time::Duration;

use crate::exchange::Exchange;
use crate::settings::LogFormat;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;

mod line;

/// Turns the outcome into numbers and a log line.
pub(crate) fn account(x: &mut Exchange, worker: &Worker, view: &View) {
    let latency = x.facts.started.map_or(Duration::ZERO, time::since);
    let metrics = &view.metrics;
    metrics.responses.add(x.facts.status);
    match x.facts.route {
        Some(route) => {
            let metrics = view.route_metrics(route);
            metrics.requests.add(x.facts.status);
            metrics.latency.record(latency);
        }
        None => metrics.unrouted.add(x.facts.status),
    }
    if let Some(failure) = x.facts.failure {
        metrics.failed(failure);
    }
    metrics
        .bytes_from_clients
        .add(x.head_bytes() + x.upload.received() + x.facts.tunnel_bytes_received);
    metrics.bytes_to_clients.add(x.facts.bytes_sent);
    if let Some(log) = &worker.log {
        let line = |format, lines: &mut Vec<u8>| match format {
            LogFormat::Combined => line::combined(x, worker, lines),
            LogFormat::Json => line::json(x, worker, view, latency, lines),
        };
        if !log.write(line) {
            metrics.log_lines_dropped.add(1);
        }
    }
}
