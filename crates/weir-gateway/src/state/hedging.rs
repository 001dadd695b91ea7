//! How long the answers of one route take, as seen by all workers: it says when a second copy of a
//! request is sent.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_policy::hedge::{Hedge, Settings};

use crate::lock::lock;
use crate::state::carried::carried;
use crate::time;

/// The hedge of one route.
#[derive(Debug)]
pub(crate) struct SharedHedge {
    settings: Settings,
    hedge: Mutex<Hedge>,
}

impl SharedHedge {
    /// The hedge for `settings`: the one `before`, unless they have changed.
    pub(crate) fn succeed(
        before: Option<&Arc<Self>>,
        settings: Option<&Settings>,
    ) -> Option<Arc<Self>> {
        let settings = *settings?;
        let before = before.filter(|before| before.settings == settings);
        Some(carried(before, || Self {
            settings,
            hedge: Mutex::new(Hedge::new(settings, time::now())),
        }))
    }

    /// How long after the first copy the second is sent; `None` while too little is known.
    pub(crate) fn delay(&self, now: Instant) -> Option<Duration> {
        lock(&self.hedge).delay(now)
    }

    /// A request was answered, `latency` after its first copy was sent.
    pub(crate) fn on_answer(&self, now: Instant, latency: Duration) {
        lock(&self.hedge).on_answer(now, latency);
    }
}
