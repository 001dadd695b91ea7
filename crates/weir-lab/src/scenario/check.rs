//! What in a scenario does not fit together.

use super::{Amount, Configuration, Events, Fault, Kind, Load, Scenario};
use crate::generator::KEY;
use crate::services::placeholder::{self, Placeholder};

/// Which part of a scenario does not fit; entries are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The name of the baseline.
    Baseline,
    /// A load.
    Load(usize),
    /// A configuration.
    Configuration(usize),
    /// The services between which events are counted.
    Events,
}

impl Scenario {
    /// What does not fit together, in words; empty when the scenario can run.
    pub fn validate(&self) -> Vec<(Part, String)> {
        let mut problems = Vec::new();
        for (index, load) in self.loads.iter().enumerate() {
            let same_name = self.loads[..index]
                .iter()
                .any(|other| other.name == load.name);
            let repeated = same_name.then(|| format!("a second load called {:?}", load.name));
            problems.extend(
                repeated
                    .or(load.check().err())
                    .or_else(|| self.problem_of_fault(load))
                    .or_else(|| self.problem_of_values(load))
                    .or_else(|| self.problem_beside(load))
                    .or_else(|| self.problem_of_keys(load))
                    .map(|why| (Part::Load(index), why)),
            );
        }
        for (index, configuration) in self.configurations.iter().enumerate() {
            let mut found = self.problems_of(configuration);
            if self.configurations[..index]
                .iter()
                .any(|other| other.name == configuration.name)
            {
                found.push(format!(
                    "a second configuration called {:?}",
                    configuration.name
                ));
            }
            problems.extend(
                found
                    .into_iter()
                    .map(|problem| (Part::Configuration(index), problem)),
            );
        }
        let events = self.events.iter();
        let events = events.flat_map(|events| self.problems_of_events(events));
        problems.extend(events.map(|problem| (Part::Events, problem)));
        if self.configuration(&self.baseline).is_none() {
            let problem = format!("there is no configuration {:?}", self.baseline);
            problems.push((Part::Baseline, problem));
        }
        problems
    }

    fn problem_of_fault(&self, load: &Load) -> Option<String> {
        let Fault {
            service, from, to, ..
        } = load.fault.as_ref()?;
        let is_timed = |amount| matches!(amount, Amount::Time(_));
        let takes_faults = |kind: &Kind| matches!(kind, Kind::App { flags, .. } if flags.iter().any(|flag| flag == "--faults"));
        let lacking = self
            .configurations
            .iter()
            .find(|configuration| !configuration.services.contains(service));
        if load.rate.is_none() || !is_timed(load.amount) || !is_timed(load.quick) {
            Some("a fault takes a load with a rate and a duration".to_owned())
        } else if from >= to {
            Some("a fault begins before it ends".to_owned())
        } else if !self.services.get(service).is_some_and(takes_faults) {
            Some(format!(
                "{service:?} is not a service of kind \"app\" with the flag \"--faults\""
            ))
        } else {
            lacking.map(|it| format!("{service:?} is not among the services of {:?}", it.name))
        }
    }

    fn problem_beside(&self, load: &Load) -> Option<String> {
        let beside = load.beside.as_ref()?;
        let other = self.loads.iter().find(|other| other.name == beside.load);
        let Some(other) = other.filter(|other| other.beside.is_none()) else {
            let name = &beside.load;
            return Some(format!(
                "it is to run beside {name:?}, which is no load that runs by itself"
            ));
        };
        let lasts = |amount, delay| matches!(amount, Amount::Time(time) if delay < time);
        if !lasts(other.amount, beside.delay) || !lasts(other.quick, beside.quick_delay) {
            Some(format!(
                "it begins when {:?} has ended; a load beside another one takes a duration there, and a shorter delay here",
                other.name
            ))
        } else if load.fault.is_some() || self.events.is_some() {
            Some("faults and events are followed under a load that runs by itself".to_owned())
        } else {
            None
        }
    }

    /// Where a rung is led, keys are what it is led by.
    fn problem_of_keys(&self, load: &Load) -> Option<String> {
        let led = self.configurations.iter().find(|it| it.is_led)?;
        let names_key = load.path.contains(KEY) && load.keys.is_some();
        if !names_key || load.fault.is_some() {
            let name = &led.name;
            return Some(format!(
                "{name:?} is led, which takes loads without a fault and with \"keys\", one of which is {KEY} in the path"
            ));
        }
        None
    }

    fn problems_of_events(&self, events: &Events) -> Vec<String> {
        let problem = |name: &String| match self.services.get(name) {
            Some(Kind::App { .. }) => self
                .configurations
                .iter()
                .find(|configuration| !configuration.services.contains(name))
                .map(|it| format!("{name:?} is not among the services of {:?}", it.name)),
            _ => Some(format!("{name:?} is not a service of kind \"app\"")),
        };
        [&events.from, &events.to]
            .into_iter()
            .filter_map(problem)
            .collect()
    }

    /// A value that a service needs and the load does not have.
    fn problem_of_values(&self, load: &Load) -> Option<String> {
        let services = self.configurations.iter().flat_map(|configuration| {
            let names = configuration.services.iter();
            let known = names.filter(|name| self.services.contains_key(*name));
            known.map(|name| self.service(name, configuration))
        });
        let lacking = |kind: Kind| {
            let texts = kind.texts();
            let mut used = texts.into_iter().flat_map(placeholder::all);
            used.find_map(|used| match used {
                Placeholder::With(name) if !load.with.contains_key(name) => Some(format!(
                    "a service takes {{with:{name}}}, which is not in \"with\""
                )),
                _ => None,
            })
        };
        services.into_iter().find_map(lacking)
    }

    fn problems_of(&self, configuration: &Configuration) -> Vec<String> {
        let mut problems = Vec::new();
        let Configuration {
            services,
            entry,
            cpu_share,
            flags,
            ..
        } = configuration;
        let limited = cpu_share.keys().chain(flags.keys());
        for name in services.iter().chain([entry]).chain(limited) {
            if !self.services.contains_key(name) {
                problems.push(format!("there is no service {name:?}"));
            } else if !services.contains(name) {
                problems.push(format!("{name:?} is not among its services"));
            }
        }
        for name in flags.keys() {
            if !matches!(self.services.get(name), Some(Kind::App { .. }) | None) {
                problems.push(format!("{name:?} takes no flags: it is no \"app\""));
            }
        }
        for name in services {
            if !self.services.contains_key(name) {
                continue;
            }
            let kind = self.service(name, configuration);
            for used in kind.texts().into_iter().flat_map(placeholder::all) {
                if let Placeholder::PortOf(other)
                | Placeholder::InnerOf(other)
                | Placeholder::SocketOf(other) = used
                    && !services.iter().any(|service| service == other)
                {
                    problems.push(format!(
                        "{name:?} refers to {other:?}, which is not among its services"
                    ));
                }
            }
        }
        let figures = self
            .published
            .iter()
            .filter(|figure| figure.configuration == configuration.name);
        let unknown =
            figures.filter(|figure| self.loads.iter().all(|load| load.name != figure.load));
        problems.extend(unknown.map(|figure| {
            format!(
                "a figure is published for the load {:?}, which there is not",
                figure.load
            )
        }));
        problems.sort();
        problems.dedup();
        problems
    }
}
