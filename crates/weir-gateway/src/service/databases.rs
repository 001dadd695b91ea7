//! What operators see of services whose data is in a database, and of all services together.

use serde::Serialize;

use crate::service::{QueueStatus, StoreStatus};

/// A database that a service has its data in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseStatus {
    /// Whose it is: `store`, or `table NAME`.
    pub of: String,
    /// Whether it was reached since the start. Until then the service answers nothing.
    pub is_reached: bool,
    /// How often it was tried in vain before that.
    pub failed_tries: u64,
    /// What the last one of these failed by.
    pub why: Option<String>,
}

/// The services inside the process, as an operator sees them.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    pub(crate) queues: Vec<QueueStatus>,
    pub(crate) store: Option<StoreStatus>,
    pub(crate) databases: Vec<DatabaseStatus>,
}
