//! What one configuration has that the other has not, in words for an operator.
//!
//! It compares settings and nothing else; what has to be done about a difference is the business of `control.rs`.

use std::collections::BTreeMap;

use crate::settings::{Forward, Route, Server, Settings, Upstream};

/// What a new configuration changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// A line for each thing.
    pub lines: Vec<String>,
    /// Keys that stay as they are until the gateway is started anew. All else is changed.
    pub waiting: Vec<&'static str>,
}

impl Changes {
    /// A line for each key that waits.
    pub fn waits(&self) -> impl Iterator<Item = String> {
        let waiting = self.waiting.iter();
        waiting.map(|key| format!("needs a restart: {key} stays as it is until then"))
    }

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
            ("admin.token", token(old) != token(new)),
            ("log", old.messages != new.messages),
            ("access_log", old.access_log != new.access_log),
            ("limits", old.limits != new.limits),
            ("timeouts", old.timeouts != new.timeouts),
            (
                "trusted_proxies",
                old.trusted_proxies != new.trusted_proxies,
            ),
            ("dns", old.dns != new.dns),
            ("error_pages", old.error_pages != new.error_pages),
        ] {
            if is_changed {
                changes.lines.push(format!("{section} changed"));
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
                None => self.lines.push(format!("{kind} {name} added")),
                Some(was) if is_changed(was, is) => {
                    self.lines.push(format!("{kind} {name} changed"));
                }
                Some(_) => {}
            }
        }
        let removed = old.keys().filter(|name| !new.contains_key(*name));
        let removed = removed.map(|name| format!("{kind} {name} removed"));
        self.lines.extend(removed);
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
                let lines = Self::in_servers(&was.servers, &is.servers).into_iter();
                let lines = lines.map(|line| format!("upstream {name}: {line}"));
                self.lines.extend(lines);
            }
        }
    }

    /// How `new` differs from `old`, the servers of one upstream.
    pub(crate) fn in_servers(old: &[Server], new: &[Server]) -> Vec<String> {
        let find = |servers: &'_ [Server], server: &Server| {
            let mut servers = servers.iter();
            servers
                .find(|other| other.address == server.address)
                .cloned()
        };
        let mut lines = Vec::new();
        for server in new {
            let label = &server.label;
            let Some(was) = find(old, server) else {
                lines.push(format!("server {label} added"));
                continue;
            };
            if was.weight != server.weight {
                let (is, was) = (server.weight, was.weight);
                lines.push(format!("server {label} has weight {is}, it had {was}"));
            }
            match (was.is_draining, server.is_draining) {
                (false, true) => lines.push(format!("server {label} is drained")),
                (true, false) => lines.push(format!("server {label} is drained no longer")),
                _ => {}
            }
        }
        let gone = old.iter().filter(|server| find(new, server).is_none());
        lines.extend(gone.map(|server| format!("server {} removed", server.label)));
        lines
    }
}

fn token(settings: &Settings) -> Option<&str> {
    settings.admin.as_ref()?.token.as_deref()
}

/// Routes by what they are asked: no two routes of a configuration have the same. Of conditions only the names are told, since
/// values may be secret; routes that differ in values alone are counted in the order of the values.
fn by_requests(settings: &Settings) -> impl Iterator<Item = (String, Route)> {
    let mut routes: Vec<&Route> = settings.routes.iter().collect();
    routes.sort_by_cached_key(|route| route.conditions.text());
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    let named = routes.into_iter().map(move |route| {
        let methods = route.methods.as_ref().map(|methods| methods.join(", "));
        let methods = methods.map_or_else(String::new, |methods| format!(" ({methods})"));
        let conditions = route.conditions.names();
        let requests = format!("{}{}{methods}{conditions}", route.host, route.path);
        let seen = count.entry(requests.clone()).or_default();
        *seen += 1;
        let requests = match *seen {
            1 => requests,
            number => format!("{requests} #{number}"),
        };
        (requests, route.clone())
    });
    named.collect::<Vec<_>>().into_iter()
}

/// Whether two routes do the same; upstreams are the same when they have the same name.
fn is_alike((old, was): (&Settings, &Route), (new, is): (&Settings, &Route)) -> bool {
    let mut was = was.clone();
    if let (Some(was), Some(is)) = (was.action.rule_mut(), is.action.rule()) {
        let names = |of: &Settings, rule: &Forward| -> Vec<String> {
            let indexes = rule.upstreams().into_iter();
            indexes
                .map(|index| of.upstreams[index].name.clone())
                .collect()
        };
        if names(old, was) != names(new, is) {
            return false;
        }
        let mut indexes = is.upstreams().into_iter();
        was.each_upstream(|index| *index = indexes.next().unwrap_or(*index));
    }
    was == *is
}
