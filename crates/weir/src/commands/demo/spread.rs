//! How requests spread over the replicas, from two readings of `/status`. It knows only the parts that it reads; the
//! gateway defines the whole.

use std::fmt::Write as _;
use std::io;

use serde::Deserialize;

use crate::commands::client::Client;

/// What the gateway had counted at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    uptime_ms: u64,
    requests: u64,
    responses: Responses,
    upstreams: Vec<Upstream>,
}

#[derive(Debug, Deserialize)]
struct Responses {
    #[serde(rename = "5xx")]
    server_errors: u64,
}

#[derive(Debug, Deserialize)]
struct Upstream {
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    requests: u64,
}

impl Status {
    pub(super) fn read(admin: &mut Client) -> io::Result<Self> {
        Ok(serde_json::from_slice(&admin.get("/status")?)?)
    }
}

/// One line of figures: requests answered a second, in all and by each replica, and failures since the start. Requests
/// of all clients count. Failed are those that the gateway answered 5xx; `unanswered` adds those without an answer.
/// `replicas` are names and whether they run, in the order of the config.
pub(super) fn line<'r>(
    before: &Status,
    now: &Status,
    replicas: impl IntoIterator<Item = (&'r str, bool)>,
    unanswered: u64,
) -> String {
    let ms = now.uptime_ms.saturating_sub(before.uptime_ms).max(1);
    let per_second = |before: u64, now: u64| (now.saturating_sub(before) * 1000 + ms / 2) / ms;
    let mut line = format!("{:>5} req/s", per_second(before.requests, now.requests));
    let answered = endpoints(before).zip(endpoints(now));
    for ((name, is_running), (before, now)) in replicas.into_iter().zip(answered) {
        let _ = if is_running {
            write!(line, "   {name} {:>4}", per_second(before, now))
        } else {
            write!(line, "   {name} away")
        };
    }
    let failed = now.responses.server_errors + unanswered;
    let _ = write!(line, "   failed {failed}");
    line
}

fn endpoints(status: &Status) -> impl Iterator<Item = u64> {
    let endpoints = status
        .upstreams
        .iter()
        .flat_map(|upstream| &upstream.endpoints);
    endpoints.map(|endpoint| endpoint.requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uptime_ms: u64, endpoints: [u64; 3], server_errors: u64) -> Status {
        let requests = endpoints.iter().sum::<u64>() + server_errors;
        let endpoints =
            endpoints.map(|requests| serde_json::json!({ "endpoint": "a", "requests": requests }));
        let status = serde_json::json!({
            "uptime_ms": uptime_ms,
            "requests": requests,
            "responses": { "2xx": 1, "5xx": server_errors },
            "upstreams": [{ "name": "app", "endpoints": endpoints }],
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn rates_are_of_the_time_between_and_failures_are_all_there_were() {
        let before = status(10_000, [100, 100, 100], 2);
        let now = status(12_000, [142, 141, 100], 3);
        let replicas = [
            ("replica-1", true),
            ("replica-2", true),
            ("replica-3", false),
        ];
        assert_eq!(
            line(&before, &now, replicas, 4),
            "   42 req/s   replica-1   21   replica-2   21   replica-3 away   failed 7"
        );
    }

    #[test]
    fn two_looks_at_the_same_moment_are_no_reason_to_panic() {
        let (status, replicas) = (status(0, [1, 1, 1], 0), [("replica-1", true)]);
        assert_eq!(
            line(&status, &status, replicas, 0),
            "    0 req/s   replica-1    0   failed 0"
        );
    }
}
