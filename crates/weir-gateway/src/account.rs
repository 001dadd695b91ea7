//! One outcome feeds counters, histograms and the log line.

use std::time::Duration;

use crate::exchange::Exchange;
use crate::exchange::variables::Place;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;

mod line;
mod redact;

/// Turns the outcome into numbers and a log line.
pub(crate) fn account(x: &mut Exchange, worker: &Worker, view: &View) {
    let latency = x.facts.started.map_or(Duration::ZERO, time::since);
    x.facts.duration = Some(latency);
    let metrics = &view.metrics;
    metrics.responses.add(x.facts.status);
    let failures = if let Some(route) = x.facts.route {
        let metrics = view.route_metrics(route);
        metrics.requests.add(x.facts.status);
        if let Some(received) = x.facts.tunnel_bytes_received {
            // It lasts as long as its client likes, which says nothing of how long requests take.
            metrics.tunnels.add(1);
            metrics.tunnel_us.add(latency.as_micros() as u64);
            metrics.tunnel_bytes_in.add(received);
            metrics.tunnel_bytes_out.add(x.facts.bytes_sent);
        } else {
            metrics.latency.record(latency);
        }
        let side = x.facts.side.and_then(|side| view.side_metrics(route, side));
        if let Some(requests) = side {
            requests.add(x.facts.status);
        }
        &metrics.failures
    } else {
        metrics.unrouted.add(x.facts.status);
        &metrics.failures
    };
    if let Some(failure) = x.facts.failure {
        failures.add(failure);
        if worker.is_cut_off() {
            worker.shared.cut_off.request();
        }
    }
    metrics.bytes_from_clients.add(x.bytes_received());
    metrics.bytes_to_clients.add(x.facts.bytes_sent);
    if let (Some(log), Some(line)) = (&worker.log, &view.snapshot.log_line)
        && !log.write(|lines| line::write(Place::new(x, worker, view), line, lines))
    {
        metrics.log_lines_dropped.add(1);
    }
}
