//! What one configuration has that the other has not, in words for an operator.
//!
//! It compares settings and nothing else; what has to be done about a difference is the business of `control.rs`.

use std::collections::BTreeMap;
use std::fmt;

use crate::settings::{Route, Server, Settings, Upstream};

/// What a new configuration changed, a line for each thing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes(pub(crate) Vec<String>);

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing changed");
        }
        f.write_str(&self.0.join("\n"))
    }
}

impl Changes {
    pub(crate) fn between(old: &Settings, new: &Settings) -> Self {
        let mut changes = Self::default();
        let listeners = |settings: &Settings| -> BTreeMap<_, _> {
            let listeners = settings.listeners.iter();
            let named = listeners.map(|address| (address.to_string(), *address));
            named.collect()
        };
        let (was, is) = (listeners(old), listeners(new));
        changes.members("listener", &was, &is, |_, _| false);
        changes.upstreams(old, new);
        let routes = |settings| -> BTreeMap<_, _> { by_requests(settings).collect() };
        changes.members(
            "route",
            &routes(old),
            &routes(new),
            |old_route, new_route| !is_alike((old, old_route), (new, new_route)),
        );
        for (section, is_changed) in [
            ("limits", old.limits != new.limits),
            ("timeouts", old.timeouts != new.timeouts),
            (
                "trusted_proxies",
                old.trusted_proxies != new.trusted_proxies,
            ),
            ("dns", old.dns != new.dns),
        ] {
            if is_changed {
                changes.0.push(format!("{section} changed"));
            }
        }
        changes
    }

    /// What came, what went, and of what stays whether it `is_changed`.
    fn members<T>(
        &mut self,
        kind: &str,
        old: &BTreeMap<String, T>,
        new: &BTreeMap<String, T>,
        is_changed: impl Fn(&T, &T) -> bool,
    ) {
        for (name, is) in new {
            match old.get(name) {
                None => self.0.push(format!("{kind} {name} added")),
                Some(was) if is_changed(was, is) => self.0.push(format!("{kind} {name} changed")),
                Some(_) => {}
            }
        }
        let removed = old.keys().filter(|name| !new.contains_key(*name));
        let removed = removed.map(|name| format!("{kind} {name} removed"));
        self.0.extend(removed);
    }

    fn upstreams(&mut self, old: &Settings, new: &Settings) {
        let named = |settings: &'_ Settings| -> BTreeMap<String, Upstream> {
            let upstreams = settings.upstreams.iter();
            upstreams.map(|up| (up.name.clone(), up.clone())).collect()
        };
        let (old, new) = (named(old), named(new));
        self.members("upstream", &old, &new, |was, is| {
            let servers = is.servers.clone();
            Upstream {
                servers,
                ..was.clone()
            } != *is
        });
        for (name, is) in &new {
            if let Some(was) = old.get(name) {
                self.servers(name, was, is);
            }
        }
    }

    fn servers(&mut self, upstream: &str, old: &Upstream, new: &Upstream) {
        let find = |upstream: &Upstream, server: &Server| {
            let mut servers = upstream.servers.iter();
            servers
                .find(|other| other.address == server.address)
                .cloned()
        };
        for server in &new.servers {
            let label = &server.label;
            let Some(was) = find(old, server) else {
                self.0
                    .push(format!("upstream {upstream}: server {label} added"));
                continue;
            };
            if was.weight != server.weight {
                self.0.push(format!(
                    "upstream {upstream}: server {label} has weight {}, it had {}",
                    server.weight, was.weight
                ));
            }
            match (was.is_draining, server.is_draining) {
                (false, true) => self
                    .0
                    .push(format!("upstream {upstream}: server {label} is drained")),
                (true, false) => self.0.push(format!(
                    "upstream {upstream}: server {label} is drained no longer"
                )),
                _ => {}
            }
        }
        let gone = old
            .servers
            .iter()
            .filter(|server| find(new, server).is_none());
        let gone =
            gone.map(|server| format!("upstream {upstream}: server {} removed", server.label));
        self.0.extend(gone);
    }
}

/// Routes by what they are asked: no two routes of a configuration have the same.
fn by_requests(settings: &Settings) -> impl Iterator<Item = (String, Route)> {
    settings.routes.iter().map(|route| {
        let methods = route.methods.as_ref().map(|methods| methods.join(", "));
        let methods = methods.map_or_else(String::new, |methods| format!(" ({methods})"));
        let requests = format!("{}{}{methods}", route.host, route.path);
        (requests, route.clone())
    })
}

/// Whether two routes do the same; upstreams are the same when they have the same name.
fn is_alike((old, was): (&Settings, &Route), (new, is): (&Settings, &Route)) -> bool {
    let mut was = was.clone();
    if let (Some(was), Some(is)) = (was.action.rule_mut(), is.action.rule()) {
        if old.upstreams[was.upstream].name != new.upstreams[is.upstream].name {
            return false;
        }
        was.upstream = is.upstream;
    }
    was == *is
}
