//! The services of a configuration by their names, and those that it has no longer until they have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::service::{Courier, Service, Services};
use crate::settings::{Action, LogTarget, Route, Settings};
use crate::start_error::StartError;

/// Open services by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opened(BTreeMap<String, Arc<dyn Service>>);

impl Opened {
    /// Opens what `settings` name. What is open `before` stays open where `services` say so. No service is open twice: a name
    /// that is `retired` waits until it has ended. What was opened in vain is retired too.
    pub(crate) fn of(
        settings: &Settings,
        before: &Self,
        retired: &mut Retired,
        (services, courier): (&dyn Services, &Courier),
    ) -> Result<Self, StartError> {
        let mut opened = Self::default();
        let log = settings.access_log.as_ref();
        let log = log.and_then(|log| match &log.target {
            LogTarget::Service(name) => Some(name.as_str()),
            LogTarget::Stdout | LogTarget::File(_) => None,
        });
        for name in settings.routes.iter().filter_map(name_of).chain(log) {
            if opened.0.contains_key(name) {
                continue;
            }
            let found = if retired.has(name) {
                Err("it is still ending from before; try again in a moment".to_owned())
            } else {
                services.open(name, before.0.get(name), courier)
            };
            match found {
                Ok(service) => drop(opened.0.insert(name.to_owned(), service)),
                Err(error) => {
                    retired.take_over(&opened, before);
                    return Err(StartError::Service(name.to_owned(), error));
                }
            }
        }
        Ok(opened)
    }

    /// A service by its name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Service>> {
        self.0.get(name)
    }

    /// What answers the requests of a route, if a service does.
    pub(crate) fn of_route(&self, route: &Route) -> Option<&Arc<dyn Service>> {
        self.0.get(name_of(route)?)
    }
}

fn name_of(route: &Route) -> Option<&str> {
    match &route.action {
        Action::Serve(serve) => Some(&serve.service),
        Action::Forward(_) | Action::Redirect(_) | Action::Respond(_) => None,
    }
}

/// Services that no configuration has any more, with their names. Requests from before may still be with them.
#[derive(Debug, Default)]
pub(crate) struct Retired(Vec<(String, Arc<dyn Service>)>);

impl Retired {
    /// What `before` has and `next` has not is told to end, and kept until it has.
    pub(crate) fn take_over(&mut self, before: &Opened, next: &Opened) {
        for (name, service) in &before.0 {
            let stays = next.0.values().any(|it| Arc::ptr_eq(it, service));
            if !stays {
                service.drain();
                self.0.push((name.clone(), Arc::clone(service)));
            }
        }
    }

    /// Those that have ended, and that nobody has any more. Whoever drops them may have to wait: no worker, and no lock is held.
    pub(crate) fn take_ended(&mut self) -> Vec<Arc<dyn Service>> {
        let has_ended = |(_, service): &mut (String, Arc<dyn Service>)| {
            service.is_drained() && Arc::strong_count(service) == 1
        };
        let ended = self.0.extract_if(.., has_ended);
        ended.map(|(_, service)| service).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// Whether nothing is under way in any of them.
    pub(crate) fn are_drained(&self) -> bool {
        self.0.iter().all(|(_, service)| service.is_drained())
    }
}
