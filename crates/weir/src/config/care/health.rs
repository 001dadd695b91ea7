//! `health`: how the endpoints of an upstream are asked whether they are well.

use weir_gateway::settings::{HealthCheck, Probe, StatusSet};
use weir_policy::health::check;

use super::{count, set, status};
use crate::config::declared::Key;
use crate::config::declared::care::health::{
    self as declared, BODY_EXPECTED, HOST_EXPECTED, PATH_EXPECTED,
};
use crate::config::entries::Entries;
use crate::config::entry::Entry;

/// Keys that say something of an answer.
const OF_AN_ANSWER: [&Key; 4] = [
    &declared::PATH,
    &declared::HOST,
    &declared::STATUSES,
    &declared::BODY,
];

/// Reads a health check.
pub(super) fn read(value: &Entry) -> Option<HealthCheck> {
    let mut health = HealthCheck {
        check: check::Settings::default(),
        timeout: HealthCheck::TIMEOUT_DEFAULT,
        probe: Probe::Tcp,
    };
    if value.as_str() == Some("tcp") {
        return Some(health);
    }
    if !value.is_table() {
        value.unexpected();
        return None;
    }
    let mut table = value.table()?;
    let probe = probe(&mut table);
    let check = &mut health.check;
    let interval = &mut check.interval;
    set(&mut table, &declared::INTERVAL, interval, Entry::duration);
    let timeout = &mut health.timeout;
    set(&mut table, &declared::TIMEOUT, timeout, Entry::duration);
    set(&mut table, &declared::RISE, &mut check.rise, count);
    set(&mut table, &declared::FALL, &mut check.fall, count);
    table.finish();
    health.probe = probe?;
    Some(health)
}

/// `tcp = true`, or what is asked with which `path` and expected of the answer.
fn probe(table: &mut Entries) -> Option<Probe> {
    if table.boolean(&declared::TCP) == Some(true) {
        for value in OF_AN_ANSWER
            .into_iter()
            .filter_map(|key| table.optional(key))
        {
            value.wrong("has no meaning with `tcp = true`, which asks for a connection alone");
        }
        return Some(Probe::Tcp);
    }
    let path = table.required(&declared::PATH);
    let path = path.and_then(|value| value.parsed(target));
    let host = table.optional(&declared::HOST);
    let host = host.and_then(|value| value.parsed(authority));
    let mut statuses = StatusSet(vec![200..=399]);
    set(table, &declared::STATUSES, &mut statuses, |value| {
        let set = status::set(value)?;
        if set.0.is_empty() {
            value.wrong("found an empty list, expected at least one status");
        }
        Some(set)
    });
    let body = table.optional(&declared::BODY);
    let body = body.and_then(|value| {
        value.parsed(|text| match text {
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
