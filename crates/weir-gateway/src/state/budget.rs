//! How many requests of one upstream may be sent again, over all workers.
//!
//! Only routes that retry or hedge ask it. A caller that is allowed a retry must then make it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_policy::retry::{Budget, BudgetSettings};

use crate::lock::lock;
use crate::state::carried::carried;
use crate::time;

/// The retry budget of one upstream.
#[derive(Debug)]
pub(crate) struct SharedBudget {
    settings: BudgetSettings,
    budget: Mutex<Budget>,
}

impl SharedBudget {
    /// The budget for `settings`: the one `before`, unless they have changed.
    pub(crate) fn succeed(before: Option<&Arc<Self>>, settings: BudgetSettings) -> Arc<Self> {
        let before = before.filter(|before| before.settings == settings);
        carried(before, || Self {
            settings,
            budget: Mutex::new(Budget::new(settings, time::now())),
        })
    }

    /// A request is sent for the first time.
    pub(crate) fn on_request(&self, now: Instant) {
        lock(&self.budget).on_request(now);
    }

    /// Takes one retry or hedge from the budget, if there is one.
    pub(crate) fn try_spend(&self, now: Instant) -> bool {
        lock(&self.budget).try_spend(now)
    }
}
