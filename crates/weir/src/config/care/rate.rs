//! `rate`: how often one key may ask a route.

use weir_gateway::settings::{RateKey, RateRule};
use weir_policy::limit::rate::Quota;

use super::{count, field_name, set};
use crate::config::declared::care::rate::{BURST, KEY, KEY_EXPECTED, KEYS, PER, REQUESTS};
use crate::config::entries::Entries;
use crate::config::entry::Entry;
use crate::config::pattern::{PathPattern, no_parameter};
use crate::config::suggest::{did_you_mean, nearest};

/// What is remembered of a route that is one key.
const KEYS_OF_A_ROUTE: usize = 16;

/// Reads the limits of a route with `path`, which is `None` when it had a mistake.
pub(super) fn rules(value: &Entry, path: Option<&PathPattern>) -> Vec<RateRule> {
    let items = value.as_list();
    if !value.is_table() && items.is_none() {
        value.unexpected();
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

fn rule(value: &Entry, path: Option<&PathPattern>) -> Option<RateRule> {
    let mut table = value.table()?;
    let requests = table.required(&REQUESTS);
    let requests = requests.and_then(|value| count(&value));
    let mut quota = Quota {
        requests: requests.unwrap_or(1),
        per: PER.preset.duration(),
        burst: requests.unwrap_or(1),
    };
    set(&mut table, &PER, &mut quota.per, Entry::duration);
    set(&mut table, &BURST, &mut quota.burst, count);
    let key = table.optional(&KEY);
    let key = key.map_or(Some(RateKey::ClientAddress), |value| {
        value.parsed(|text| key_of(text, path))
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
fn keys_max(table: &mut Entries, key: Option<&RateKey>) -> usize {
    let value = table.optional(&KEYS);
    if key == Some(&RateKey::Route) {
        if let Some(value) = value {
            value.wrong("has no meaning with key = \"route\", which is one key");
        }
        return KEYS_OF_A_ROUTE;
    }
    let keys = value.and_then(|value| value.integer());
    keys.unwrap_or(KEYS.preset.integer()) as usize
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
