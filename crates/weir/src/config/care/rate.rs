//! `rate`: how often one key may ask a route.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::{RateKey, RateRule};
use weir_policy::limit::rate::Quota;

use super::{COUNT, count, field_name, set};
use crate::config::pattern::{PathPattern, no_parameter};
use crate::config::read::Table;
use crate::config::suggest::{did_you_mean, nearest};
use crate::config::value::Value;

const EXPECTED: &str =
    "a table such as `{ requests = 100, per = \"1s\" }`, or a list of such tables";
const EXAMPLE: &str = "{ requests = 100, per = \"1s\" }";
const REQUESTS_EXPECTED: &str = "how many requests a key may make, such as 100";
const PER: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
const PER_DEFAULT: Duration = Duration::from_secs(1);
/// All of the memory, 16 bytes a key, is taken at the start.
const KEYS: RangeInclusive<u64> = 16..=10_000_000;
/// What is remembered of a route that is one key.
const KEYS_OF_A_ROUTE: usize = 16;
const KEY_EXPECTED: &str = "one of \"client-address\", \"route\", \"header:NAME\" or \"path:NAME\"";

/// Reads the limits of a route with `path`, which is `None` when it had a mistake.
pub(super) fn rules(value: &Value, path: Option<&PathPattern>) -> Vec<RateRule> {
    let items = value.as_list();
    if !value.is_table() && items.is_none() {
        value.expected(EXPECTED);
        return Vec::new();
    }
    let Some(items) = items else {
        return rule(value, path).into_iter().collect();
    };
    if items.is_empty() {
        value.wrong("found an empty list, expected at least one limit, or no \"rate\"");
    }
    let mut rules = Vec::new();
    for item in items {
        match rule(&item, path) {
            Some(rule) if rules.contains(&rule) => item.expected("each limit only once"),
            Some(rule) => rules.push(rule),
            None => {}
        }
    }
    rules
}

fn rule(value: &Value, path: Option<&PathPattern>) -> Option<RateRule> {
    let mut table = value.table(EXAMPLE)?;
    let requests = table.required("requests", REQUESTS_EXPECTED);
    let requests = requests.and_then(|value| count(&value, COUNT));
    let mut quota = Quota {
        requests: requests.unwrap_or(1),
        per: PER_DEFAULT,
        burst: requests.unwrap_or(1),
    };
    set(&mut table, "per", &mut quota.per, |value| {
        value.duration(&PER)
    });
    set(&mut table, "burst", &mut quota.burst, |value| {
        count(value, COUNT)
    });
    let key = table.optional("key");
    let key = key.map_or(Some(RateKey::ClientAddress), |value| {
        value.parsed(KEY_EXPECTED, |text| key_of(text, path))
    });
    let keys_max = keys_max(&mut table, key.as_ref());
    table.finish();
    requests?;
    Some(RateRule {
        quota,
        key: key?,
        keys_max,
    })
}

/// `key` is `None` when it had a mistake.
fn keys_max(table: &mut Table, key: Option<&RateKey>) -> usize {
    let value = table.optional("keys");
    if key == Some(&RateKey::Route) {
        if let Some(value) = value {
            value.wrong("has no meaning with key = \"route\", which is one key");
        }
        return KEYS_OF_A_ROUTE;
    }
    let keys = value.and_then(|value| value.integer(KEYS));
    keys.map_or(RateRule::KEYS_MAX_DEFAULT, |keys| keys as usize)
}

fn key_of(text: &str, path: Option<&PathPattern>) -> Result<RateKey, String> {
    match text.split_once(':') {
        Some(("header", name)) => return field_name(name).map(RateKey::Header),
        Some(("path", name)) => {
            // Without a sound path nobody knows which parameters there are.
            let known = path.map_or(&[][..], |path| &path.parameters);
            if path.is_some() && !known.iter().any(|known| known == name) {
                return Err(no_parameter(name, known));
            }
            return Ok(RateKey::Parameter(name.to_owned()));
        }
        _ => {}
    }
    match text {
        "client-address" => Ok(RateKey::ClientAddress),
        "route" => Ok(RateKey::Route),
        _ => {
            let meant = nearest(text, ["client-address", "route"]);
            Err(format!("expected {KEY_EXPECTED}{}", did_you_mean(meant)))
        }
    }
}
