//! What a file says of services inside the process. The gateway knows them by names alone.

use std::collections::BTreeMap;

use weir_kv::activities::TableSettings;
use weir_queue::{Deferral, Settings};

use super::kv::StoreSettings;

/// What a file says of services inside the process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct InProcess {
    /// Queues by their names.
    pub(crate) queues: BTreeMap<String, Settings>,
    /// The key-value store.
    pub(crate) kv: Option<StoreSettings>,
    /// Tables of activities by their names.
    pub(crate) tables: BTreeMap<String, TableSettings>,
    /// What each service does, by its name.
    pub(crate) services: BTreeMap<String, Service>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Service {
    /// Keeps requests.
    Defer(String, Deferral),
    /// Says what became of one.
    Tell(String),
    /// Keeps the lines of the access log.
    Log(String),
    /// Answers out of the store.
    Kv,
    /// Keeps events in a table, and reads them back.
    Collect(String),
}
