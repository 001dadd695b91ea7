//! Which endpoints of an upstream are much worse than their siblings, as seen by all workers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_policy::Outcome;
use weir_policy::ejection::{Ejection, Place, Settings, Status, Token};

use crate::ended::{Ended, is_server_error};
use crate::lock::lock;
use crate::time;

/// Watches the endpoints of one upstream, by their position in one configuration.
#[derive(Debug)]
pub(crate) struct Watch {
    settings: Settings,
    ejection: Mutex<Watched>,
}

/// The state machine, and its source of random numbers.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) ejection: Ejection,
    random: fastrand::Rng,
    /// When it was last looked at.
    pub(crate) looked: Instant,
}

impl Watch {
    /// The watch for `settings`. The one `before` stays if neither settings nor endpoints have changed. Otherwise what
    /// it knows of endpoints that stay is taken over: `places` has the old position of each endpoint.
    pub(crate) fn succeed(
        before: Option<&Arc<Self>>,
        settings: Option<&Settings>,
        places: &[Option<usize>],
    ) -> Option<Arc<Self>> {
        let settings = settings?;
        let now = time::now();
        let ejection = match before {
            None => Ejection::new(*settings, places.len(), now),
            Some(before) if before.settings != *settings => {
                let watched = lock(&before.ejection);
                watched.ejection.anew(*settings, places, now)
            }
            Some(before) => {
                let watched = lock(&before.ejection);
                if watched.ejection.has_places(places) {
                    return Some(Arc::clone(before));
                }
                watched.ejection.succeed(places, now)
            }
        };
        Some(Arc::new(Self {
            settings: *settings,
            ejection: Mutex::new(Watched {
                random: fastrand::Rng::new(),
                ejection,
                looked: now,
            }),
        }))
    }

    /// For one choice, made at the time [`Watched::looked`]. A request may have waited before it comes here, and
    /// workers may come in another order than that of their clock readings.
    pub(crate) fn look(&self) -> MutexGuard<'_, Watched> {
        let mut watched = lock(&self.ejection);
        let now = time::now();
        let Watched {
            ejection,
            random,
            looked,
            ..
        } = &mut *watched;
        ejection.sweep(now, random);
        *looked = now;
        watched
    }

    /// Checks all endpoints, if it is time; `are_there` says of each whether it can be asked at all. Calls `is_out` for each
    /// that is out, with the number of its ejections.
    pub(crate) fn sweep(
        &self,
        are_there: impl ExactSizeIterator<Item = bool>,
        mut is_out: impl FnMut(usize, u64),
    ) {
        let endpoints = are_there.len();
        let mut watched = lock(&self.ejection);
        for (endpoint, is_there) in are_there.enumerate() {
            watched.ejection.attend(endpoint, is_there);
        }
        drop(watched);
        let watched = self.look();
        for endpoint in 0..endpoints {
            let status = watched.ejection.status(endpoint, watched.looked);
            if matches!(status.place, Place::Out(_)) {
                is_out(endpoint, status.ejections_total);
            }
        }
    }

    /// What the admin listener shows of an endpoint.
    pub(crate) fn status(&self, endpoint: usize, now: Instant) -> Status {
        lock(&self.ejection).ejection.status(endpoint, now)
    }

    /// Whether ejection is suspended, because too many endpoints look bad.
    pub(crate) fn is_suspended(&self) -> bool {
        lock(&self.ejection).ejection.is_suspended()
    }
}

impl Watched {
    /// A request of this kind is sent to an endpoint.
    pub(crate) fn start(
        &mut self,
        watch: &Arc<Watch>,
        endpoint: usize,
        kind: u64,
        now: Instant,
    ) -> Watching {
        let token = self.ejection.start(endpoint, kind, now, &mut self.random);
        Watching {
            watch: Arc::clone(watch),
            token: Some(token),
        }
    }
}

/// One request to one endpoint. Dropped without a report, it says nothing.
#[derive(Debug)]
pub(crate) struct Watching {
    watch: Arc<Watch>,
    token: Option<Token>,
}

impl Watching {
    /// Reports how the request ended, after `latency`.
    pub(crate) fn report(mut self, now: Instant, ended: Ended, latency: Duration) {
        let outcome = ended.outcome(is_server_error, latency);
        self.give_back(now, outcome);
    }

    fn give_back(&mut self, now: Instant, outcome: Outcome) {
        if let Some(token) = self.token.take() {
            let Watched {
                ejection, random, ..
            } = &mut *lock(&self.watch.ejection);
            ejection.finish(now, token, outcome, random);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.token.is_some() {
            self.give_back(time::now(), Outcome::Ignored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last one that can be asked stays, whatever it does.
    #[test]
    fn who_is_away_counts_as_one_that_is_out() {
        for (is_there, is_ejected) in [(true, true), (false, false)] {
            let watch = Watch::succeed(None, Some(&Settings::default()), &[None, None]);
            let watch = watch.expect("there are settings");
            let mut out = Vec::new();
            watch.sweep([true, is_there].into_iter(), |endpoint, _| {
                out.push(endpoint);
            });
            let now = time::now();
            for kind in 0..20 {
                for (endpoint, ended) in [(0, Ended::Answered(503)), (1, Ended::Answered(200))] {
                    let watching = watch.look().start(&watch, endpoint, kind, now);
                    watching.report(now, ended, Duration::from_millis(1));
                }
            }
            watch.sweep([true, is_there].into_iter(), |endpoint, _| {
                out.push(endpoint);
            });
            assert_eq!(out == [0], is_ejected, "{out:?}");
        }
    }
}
