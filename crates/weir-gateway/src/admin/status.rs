//! The state of the gateway as one JSON object: what the dashboard shows, and scripts may read.

use std::fmt::Write as _;

use crate::metrics::EndpointMetrics;
use crate::worker::Shared;

/// `{"connections", "workers", "requests", "upstreams": [{"name", "endpoints": [{"endpoint", "up", "requests",
/// "failures"}]}]}`; all counts since the start.
pub(crate) fn write(shared: &Shared) -> String {
    let snapshot = &shared.snapshot;
    let now_ms = snapshot.since_start().as_millis() as u64;
    let requests: u64 = shared.metrics.iter().map(|worker| worker.requests()).sum();
    let (connections, workers) = (shared.admission.open(), shared.metrics.len());
    let mut text = format!(
        "{{\"connections\":{connections},\"workers\":{workers},\"requests\":{requests},\"upstreams\":["
    );
    for (u, upstream) in snapshot.upstreams.iter().enumerate() {
        let name = quoted(&upstream.settings.name);
        let _ = write!(text, "{}{{\"name\":{name},\"endpoints\":[", separator(u));
        for (e, endpoint) in upstream.endpoints.iter().enumerate() {
            let sum = |of: fn(&EndpointMetrics) -> u64| -> u64 {
                shared
                    .metrics
                    .iter()
                    .map(|worker| of(&worker.upstreams[u][e]))
                    .sum()
            };
            let (requests, failures) = (
                sum(|e| e.responses.sum()),
                sum(|e| e.connect_failures.read()),
            );
            let (label, up) = (
                quoted(&endpoint.label),
                endpoint.health.is_available(now_ms),
            );
            let _ = write!(
                text,
                "{}{{\"endpoint\":{label},\"up\":{up},\"requests\":{requests},\"failures\":{failures}}}",
                separator(e)
            );
        }
        text.push_str("]}");
    }
    text.push_str("]}\n");
    text
}

fn separator(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

/// A JSON string (RFC 8259 §7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
