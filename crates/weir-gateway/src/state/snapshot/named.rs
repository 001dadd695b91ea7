//! Which fields of requests a configuration names. A field that scripts would mistake for one of them is not forwarded.

use weir_cache::policy::Bypass;
use weir_http::NamedFields;

use crate::settings::{Forward, HashOn, RateKey, Settings, SplitBy};

/// The fields of all routes. A request may take another route than the one that names the field, and reach the same
/// script.
pub(super) fn named_fields(settings: &Settings) -> NamedFields {
    let mut names: Vec<String> = Vec::new();
    for route in &settings.routes {
        let wanted = route.conditions.headers.iter();
        names.extend(wanted.map(|(name, _)| name.clone()));
        names.extend(
            route
                .limits
                .rates
                .iter()
                .filter_map(|rate| match &rate.key {
                    RateKey::Header(name) => Some(name.clone()),
                    RateKey::Route | RateKey::ClientAddress | RateKey::Parameter(_) => None,
                }),
        );
        if let Some(rule) = route.action.rule() {
            add_rule(rule, &mut names);
        }
    }
    for upstream in &settings.upstreams {
        if let HashOn::Header(name) = &upstream.hash_on {
            names.push(name.clone());
        }
    }
    let id = settings.all_routes.request_id.as_ref();
    names.extend(id.map(|id| id.field.clone()));
    NamedFields::new(names)
}

fn add_rule(rule: &Forward, names: &mut Vec<String>) {
    let edits = &rule.request_headers;
    let fields = edits.set.iter().chain(&edits.add);
    names.extend(fields.map(|(name, _)| name.clone()));
    names.extend(edits.remove.iter().cloned());
    names.extend(rule.care.priority.header.clone());
    let split_by = rule.split.as_ref().and_then(|split| split.by.as_ref());
    if let Some(SplitBy::Part(HashOn::Header(name))) = split_by {
        names.push(name.clone());
    }
    let Some(policy) = &rule.cache else { return };
    names.extend(policy.key.headers.iter().cloned());
    names.extend(policy.bypass.iter().filter_map(|bypass| match bypass {
        Bypass::Header(name, _) => Some(name.clone()),
        Bypass::Cookie(_) | Bypass::Query(_) => None,
    }));
}
