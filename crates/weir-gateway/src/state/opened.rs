//! The services of a configuration by their names, and those that it has no longer until they have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::service::{Courier, Service, Services};
use crate::settings::{Action, Route, Settings};
use crate::start_error::StartError;

/// Open services by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opened(BTreeMap<String, Arc<dyn Service>>);

impl Opened {
    /// Opens what `settings` name. What `before` has stays open where `services` say so.
    pub(crate) fn of(
        settings: &Settings,
        before: &Self,
        services: &dyn Services,
        courier: &Courier,
    ) -> Result<Self, StartError> {
        let mut opened = Self::default();
        for name in settings.routes.iter().filter_map(name_of) {
            if opened.0.contains_key(name) {
                continue;
            }
            let service = services
                .open(name, before.0.get(name), courier)
                .map_err(|error| StartError::Service(name.to_owned(), error))?;
            let _ = opened.0.insert(name.to_owned(), service);
        }
        Ok(opened)
    }

    /// What answers the requests of a route, if a service does.
    pub(crate) fn of_route(&self, route: &Route) -> Option<&Arc<dyn Service>> {
        self.0.get(name_of(route)?)
    }

    /// Those that are not in `next`.
    fn gone<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = &'a Arc<dyn Service>> {
        let stays = |service: &Arc<dyn Service>| next.0.values().any(|it| Arc::ptr_eq(it, service));
        self.0.values().filter(move |service| !stays(service))
    }
}

fn name_of(route: &Route) -> Option<&str> {
    match &route.action {
        Action::Serve(serve) => Some(&serve.service),
        Action::Forward(_) | Action::Redirect(_) | Action::Respond(_) => None,
    }
}

/// Services that no configuration has any more. Requests from before may still be with them.
#[derive(Debug, Default)]
pub(crate) struct Retired(Vec<Arc<dyn Service>>);

impl Retired {
    /// What `before` has and `next` has not is told to end, and kept until it has. What has ended since is let go.
    pub(crate) fn take_over(&mut self, before: &Opened, next: &Opened) {
        for service in before.gone(next) {
            service.drain();
            self.0.push(Arc::clone(service));
        }
        // The last one who has it drops it, which may take a while: not a worker.
        self.0
            .retain(|service| !(service.is_drained() && Arc::strong_count(service) == 1));
    }

    /// Whether nothing is under way in any of them.
    pub(crate) fn are_drained(&self) -> bool {
        self.0.iter().all(|service| service.is_drained())
    }
}
