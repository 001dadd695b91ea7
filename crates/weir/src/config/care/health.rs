//! `health`: how the endpoints of an upstream are asked whether they are well.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::{HealthCheck, Probe, StatusSet};
use weir_policy::health::check;

use super::{count, set, status};
use crate::config::file::DEADLINE;
use crate::config::read::Table;
use crate::config::value::Value;

const EXPECTED: &str = "\"tcp\", or a table such as `{ path = \"/healthz\", interval = \"2s\" }`";
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
const IN_A_ROW: RangeInclusive<u64> = 1..=100;
const PATH_EXPECTED: &str = "a path such as \"/healthz\"";
const HOST_EXPECTED: &str = "a host such as \"app.internal\"";
const BODY_EXPECTED: &str = "a text that the answer contains";
/// Keys that say something of an answer.
const OF_AN_ANSWER: [&str; 4] = ["path", "host", "statuses", "body"];

/// Reads a health check.
pub(super) fn read(value: &Value) -> Option<HealthCheck> {
    let mut health = HealthCheck {
        check: check::Settings::default(),
        timeout: HealthCheck::TIMEOUT_DEFAULT,
        probe: Probe::Tcp,
    };
    if value.as_str() == Some("tcp") {
        return Some(health);
    }
    if !value.is_table() {
        value.expected(EXPECTED);
        return None;
    }
    let mut table = value.table(EXPECTED)?;
    let probe = probe(&mut table);
    set(
        &mut table,
        "interval",
        &mut health.check.interval,
        |value| value.duration(&INTERVAL),
    );
    set(&mut table, "timeout", &mut health.timeout, |value| {
        value.duration(&DEADLINE)
    });
    set(&mut table, "rise", &mut health.check.rise, |value| {
        count(value, IN_A_ROW)
    });
    set(&mut table, "fall", &mut health.check.fall, |value| {
        count(value, IN_A_ROW)
    });
    table.finish();
    health.probe = probe?;
    Some(health)
}

/// `tcp = true`, or what is asked with which `path` and expected of the answer.
fn probe(table: &mut Table) -> Option<Probe> {
    let tcp = table.optional("tcp").and_then(|value| value.boolean());
    if tcp == Some(true) {
        for value in OF_AN_ANSWER
            .into_iter()
            .filter_map(|key| table.optional(key))
        {
            value.wrong("has no meaning with `tcp = true`, which asks for a connection alone");
        }
        return Some(Probe::Tcp);
    }
    let path = table.required("path", "a path such as \"/healthz\", or `tcp = true`");
    let path = path.and_then(|value| value.parsed(PATH_EXPECTED, target));
    let host = table.optional("host");
    let host = host.and_then(|value| value.parsed(HOST_EXPECTED, authority));
    let mut statuses = StatusSet(vec![200..=399]);
    set(table, "statuses", &mut statuses, |value| {
        let set = status::set(value)?;
        if set.0.is_empty() {
            value.wrong("found an empty list, expected at least one status");
        }
        Some(set)
    });
    let body = table.optional("body");
    let body = body.and_then(|value| {
        value.parsed(BODY_EXPECTED, |text| match text {
            "" => Err(format!("expected {BODY_EXPECTED}")),
            _ => Ok(text.to_owned()),
        })
    });
    Some(Probe::Http {
        path: path?,
        host,
        statuses,
        body,
    })
}

/// A path and perhaps a query, in characters that a URI has (RFC 3986 §3.3 and §3.4).
fn target(text: &str) -> Result<String, String> {
    let is_of_uri = |byte: u8| byte.is_ascii_alphanumeric() || URI_SIGNS.contains(&byte);
    if text.starts_with('/') && text.bytes().all(is_of_uri) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected {PATH_EXPECTED}"))
    }
}

const URI_SIGNS: &[u8] = b"-._~!$&'()*+,;=:@/?%";

/// A host and perhaps a port, as it can stand in `Host`.
fn authority(text: &str) -> Result<String, String> {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_sound) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected {HOST_EXPECTED}"))
    }
}
