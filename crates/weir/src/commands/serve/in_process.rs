//! The services inside the process of a gateway that runs: opened when a configuration has them, ended when none has them any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use weir_gateway::service::{
    Courier, DatabaseStatus, OrderError, QueueOrder, QueueStatus, Service, Services, StoreOrder,
    StoreStatus,
};
use weir_kv::activities::{self, Activities, TableSettings};
use weir_kv::database::OpenError;
use weir_kv::engine::EngineSettings;
use weir_kv::{Late, Store, VALUE_BYTES_MAX};

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
    store: Opened<Store>,
}

/// A service that is open, or is as soon as its database answers.
#[derive(Debug)]
enum Opened<S> {
    Here(Weak<S>),
    InDatabase(Weak<Late<S>>),
}

impl<S: Service + 'static> Opened<S> {
    fn service(&self) -> Option<Arc<dyn Service>> {
        Some(match self {
            Self::Here(service) => service.upgrade()?,
            Self::InDatabase(late) => late.upgrade()?,
        })
    }

    /// Does something with it, if it is open.
    fn with<T>(&self, what: impl FnOnce(&S) -> T) -> Option<T> {
        match self {
            Self::Here(service) => Some(what(&*service.upgrade()?)),
            Self::InDatabase(late) => late.upgrade()?.opened().map(what),
        }
    }

    fn database(&self) -> Option<DatabaseStatus> {
        match self {
            Self::Here(_) => None,
            Self::InDatabase(late) => Some(late.upgrade()?.status()),
        }
    }
}

/// A table that is open, and by what settings.
#[derive(Debug)]
struct OpenTable {
    settings: TableSettings,
    table: Opened<Activities>,
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
        let mut open_store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*open_store
            && let Some(store) = open.store.service()
        {
            if open.settings == *settings {
                return Ok(store);
            }
            return Err("[kv] is another one, which takes a restart".to_owned());
        }
        let (service, store) = open(
            ("store".to_owned(), VALUE_BYTES_MAX),
            settings.engine.are_of_a_database(),
            {
                let settings = settings.clone();
                move || opened_store(&settings)
            },
        )?;
        *open_store = Some(OpenStore {
            settings: settings.clone(),
            store,
        });
        Ok(service)
    }

    /// The table of this name with these settings, opened if it is not.
    fn table(&self, name: &str, settings: &TableSettings) -> Result<Arc<dyn Service>, String> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = tables.get(name)
            && let Some(table) = open.table.service()
        {
            if open.settings == *settings {
                return Ok(table);
            }
            return Err(format!(
                "[table.{name}] is another one, which takes a restart"
            ));
        }
        let (service, table) = open(
            (format!("table {name}"), activities::BODY_BYTES_MAX),
            settings.engine.are_of_a_database(),
            {
                let settings = settings.clone();
                move || Activities::open(&settings)
            },
        )?;
        let open = OpenTable {
            settings: settings.clone(),
            table,
        };
        tables.insert(name.to_owned(), open);
        Ok(service)
    }

    /// Does something with the store, if one is open.
    fn with_store<T>(&self, what: impl FnOnce(&Store) -> T) -> Option<T> {
        let open = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref()?.store.with(what)
    }
}

/// Opens a service. One whose data is in a database is opened as soon as that answers.
fn open<S: Service + 'static>(
    (of, body_bytes_max): (String, u64),
    is_of_a_database: bool,
    open: impl Fn() -> Result<S, OpenError> + Send + 'static,
) -> Result<(Arc<dyn Service>, Opened<S>), String> {
    if is_of_a_database {
        let late = Arc::new(Late::open(of, body_bytes_max, open)?);
        let opened = Opened::InDatabase(Arc::downgrade(&late));
        return Ok((late, opened));
    }
    let service = Arc::new(open().map_err(|error| error.why)?);
    let opened = Opened::Here(Arc::downgrade(&service));
    Ok((service, opened))
}

fn opened_store(settings: &StoreSettings) -> Result<Store, OpenError> {
    let engine = weir_kv::engine::open(&settings.engine)?;
    let store = match settings.cluster.as_ref().zip(settings.upkeep) {
        None => Store::alone(engine, settings.upkeep),
        Some((cluster, upkeep)) => Store::among(cluster, engine, upkeep),
    };
    let store = store.map_err(|why| match &settings.engine {
        EngineSettings::Embedded(own) => format!("{}: {why}", own.path.display()),
        EngineSettings::Postgres(_) | EngineSettings::Cassandra(_) => why,
    });
    Ok(store?)
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
        self.with_store(Store::status)
    }

    fn databases(&self) -> Vec<DatabaseStatus> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let store = store.iter().filter_map(|open| open.store.database());
        let tables = tables.values().filter_map(|open| open.table.database());
        store.chain(tables).collect()
    }

    fn store_order(&self, order: StoreOrder) -> Result<(), String> {
        let is_done = self.with_store(|store| match order {
            StoreOrder::Repair => store.repair(),
        });
        let why = "the database of the store sees to its data itself";
        let is_done = is_done.ok_or("there is no store")?;
        is_done.then_some(()).ok_or_else(|| why.to_owned())
    }
}
