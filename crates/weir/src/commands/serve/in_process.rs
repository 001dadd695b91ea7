//! The services inside the process of a gateway that runs: opened when a configuration has them, ended when none has them any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use weir_gateway::service::{
    Courier, OrderError, QueueOrder, QueueStatus, Service, Services, StoreOrder, StoreStatus,
};
use weir_kv::Store;
use weir_kv::activities::{Activities, TableSettings};

use super::queues::OpenQueues;
use crate::config::{InProcess, InProcessService, StoreSettings};

/// The services of a configuration.
#[derive(Debug)]
pub(in crate::commands) struct OpenServices {
    /// What was read last.
    read: Arc<Mutex<InProcess>>,
    queues: OpenQueues,
    store: Mutex<Option<OpenStore>>,
    /// Tables of activities by their names.
    tables: Mutex<BTreeMap<String, OpenTable>>,
}

/// A store that is open, and by what settings.
#[derive(Debug)]
struct OpenStore {
    settings: StoreSettings,
    store: Weak<Store>,
}

/// A table that is open, and by what settings.
#[derive(Debug)]
struct OpenTable {
    settings: TableSettings,
    table: Weak<Activities>,
}

impl OpenServices {
    pub(in crate::commands) fn new(read: Arc<Mutex<InProcess>>) -> Self {
        Self {
            read,
            queues: OpenQueues::default(),
            store: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// The store with these settings, opened if it is not.
    fn open_store(&self, settings: &StoreSettings) -> Result<Arc<dyn Service>, String> {
        let mut open = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open
            && let Some(store) = open.store.upgrade()
        {
            if open.settings == *settings {
                return Ok(store);
            }
            return Err("[kv] is another one, which takes a restart".to_owned());
        }
        let engine = weir_kv::engine::open(&settings.engine)?;
        let store = Arc::new(match settings.cluster.as_ref().zip(settings.upkeep) {
            None => Store::alone(engine, settings.upkeep)?,
            Some((cluster, upkeep)) => Store::among(cluster, engine, upkeep)?,
        });
        *open = Some(OpenStore {
            settings: settings.clone(),
            store: Arc::downgrade(&store),
        });
        Ok(store)
    }

    /// The table of this name with these settings, opened if it is not.
    fn table(&self, name: &str, settings: &TableSettings) -> Result<Arc<dyn Service>, String> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = tables.get(name)
            && let Some(table) = open.table.upgrade()
        {
            if open.settings == *settings {
                return Ok(table);
            }
            return Err(format!(
                "[table.{name}] is another one, which takes a restart"
            ));
        }
        let table = Arc::new(Activities::open(settings)?);
        let open = OpenTable {
            settings: settings.clone(),
            table: Arc::downgrade(&table),
        };
        tables.insert(name.to_owned(), open);
        Ok(table)
    }

    /// The store, if one is open.
    fn opened_store(&self) -> Option<Arc<Store>> {
        let open = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref()?.store.upgrade()
    }
}

impl Services for OpenServices {
    fn open(
        &self,
        name: &str,
        open: Option<&Arc<dyn Service>>,
        courier: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let service = read.services.get(name).ok_or("there is no such service")?;
        match service {
            InProcessService::Kv => {
                let settings = read.kv.as_ref().ok_or("there is no store")?;
                self.open_store(settings)
            }
            InProcessService::Collect(table) => {
                let settings = read.tables.get(table).ok_or("there is no such table")?;
                self.table(table, settings)
            }
            InProcessService::Defer(queue, _)
            | InProcessService::Tell(queue)
            | InProcessService::Log(queue) => {
                let settings = read.queues.get(queue).ok_or("there is no such queue")?;
                self.queues.open((service, settings), open, courier)
            }
        }
    }

    fn decided(&self, is_put_to_work: bool) {
        self.queues.decided(is_put_to_work);
    }

    fn queues(&self) -> Vec<QueueStatus> {
        self.queues.status()
    }

    fn order(&self, queue: &str, order: QueueOrder) -> Result<Value, OrderError> {
        self.queues.order(queue, order)
    }

    fn store(&self) -> Option<StoreStatus> {
        Some(self.opened_store()?.status())
    }

    fn store_order(&self, order: StoreOrder) -> Result<(), String> {
        let store = self.opened_store().ok_or("there is no store")?;
        let is_done = match order {
            StoreOrder::Repair => store.repair(),
        };
        let why = "the database of the store sees to its data itself";
        is_done.then_some(()).ok_or_else(|| why.to_owned())
    }
}
