//! What is known about an endpoint, whoever asks it.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use crate::metrics::{EndpointMetrics, PerWorker};
use crate::settings::Level;
use crate::state::checked::Checked;
use crate::state::health::{Health, Leave};
use crate::tell::tell;

/// What is known about an endpoint, as long as its upstream has its address.
#[derive(Debug)]
pub(crate) struct EndpointState {
    /// `ENDPOINT of upstream NAME`, for the operator.
    pub(crate) name: String,
    pub(crate) health: Health,
    pub(crate) checked: Checked,
    pub(crate) metrics: PerWorker<EndpointMetrics>,
    /// Whether it is being drained, or is in no configuration any more: requests go elsewhere. It is not part of the
    /// snapshot, so that it also holds for requests that began with an older one.
    is_leaving: AtomicBool,
}

impl EndpointState {
    pub(crate) fn new(upstream: &str, endpoint: &str, workers: usize) -> Self {
        Self {
            name: format!("{endpoint} of upstream {upstream}"),
            health: Health::default(),
            checked: Checked::default(),
            metrics: PerWorker::new(workers),
            is_leaving: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    /// Whether requests go elsewhere from now on.
    pub(crate) fn leaves(&self, is_leaving: bool) {
        self.is_leaving.store(is_leaving, Ordering::Release);
    }

    /// It has accepted a connection.
    pub(crate) fn accepted(&self) {
        if self.health.connected() {
            let name = &self.name;
            tell(
                Level::Info,
                format_args!("{name} accepts connections again"),
            );
        }
    }

    /// It has refused a connection to a request with this `leave`, or has not accepted it in time.
    pub(crate) fn refused(&self, leave: Leave, now_ms: u64, errno: Errno) {
        let random = &mut fastrand::Rng::new();
        let is_news = self.health.refused(leave, (now_ms, errno), random);
        if is_news && !self.is_leaving() {
            let why = std::io::Error::from(errno);
            let name = &self.name;
            tell(
                Level::Warning,
                format_args!("{name} refuses connections and is passed over: {why}"),
            );
        }
    }
}
