//! What an [`Ejection`] passes on to its successor when endpoints come or go.

use super::chance::Shown;
use super::evidence::Evidence;
use super::{Ejection, Endpoint, Settings, State};
use std::time::Instant;

impl Ejection {
    /// Whether all endpoints are at the positions in `places`, which holds the old position of each endpoint.
    pub fn has_places(&self, places: &[Option<usize>]) -> bool {
        let same = (0..self.endpoints.len()).map(Some);
        places.iter().copied().eq(same)
    }

    /// The successor when the endpoints change. `places` holds the old position of each endpoint, if it was there. What
    /// is known of these goes with them. Those that are out stay out as far as the cap allows; the others become
    /// suspects. Requests that began earlier come back here, not to the successor.
    #[must_use]
    pub fn succeed(&self, places: &[Option<usize>], now: Instant) -> Self {
        let mut next = Self::new(self.settings, places.len(), now);
        next.is_suspended = self.is_suspended;
        let stay: Vec<&Evidence> = places
            .iter()
            .flatten()
            .map(|&place| &self.endpoints[place].evidence)
            .collect();
        if !stay.is_empty() {
            next.typical = self.typical.succeed(stay.into_iter(), now);
        }
        let cap = next.cap();
        for (it, place) in next.endpoints.iter_mut().zip(places) {
            let Some(before) = place.map(|place| &self.endpoints[place]) else {
                it.evidence.join(&next.typical, Shown::default());
                continue;
            };
            let is_kept_out = !before.is_in() && next.ejected < cap;
            next.ejected += usize::from(is_kept_out);
            let mut evidence = before.evidence.succeed(&self.settings, now);
            let since_row = before.evidence.shown_since_row(&self.typical);
            evidence.join(&next.typical, since_row);
            if !before.is_in() && !is_kept_out {
                evidence.restart(now, &next.typical);
                evidence.suspect();
            }
            let state = match before.state {
                State::Out { until } if is_kept_out => State::Out { until },
                State::Trial {
                    successes,
                    chance,
                    doubts,
                    ..
                } if is_kept_out => State::Trial {
                    sent_at: None,
                    successes,
                    chance,
                    doubts,
                },
                State::Rising { since } => State::Rising { since },
                State::In | State::Out { .. } | State::Trial { .. } => State::In,
            };
            *it = Endpoint {
                state,
                epoch: 0,
                evidence,
                ..*before
            };
        }
        next
    }

    /// A successor with other settings, which begins from nothing. Only the counts of ejections go on.
    #[must_use]
    pub fn anew(&self, settings: Settings, places: &[Option<usize>], now: Instant) -> Self {
        let mut next = Self::new(settings, places.len(), now);
        for (it, place) in next.endpoints.iter_mut().zip(places) {
            let before = place.map(|place| &self.endpoints[place]);
            it.ejections_total = before.map_or(0, |before| before.ejections_total);
        }
        next
    }
}
