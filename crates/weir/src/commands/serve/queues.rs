//! The queues of a gateway that runs: opened when a configuration has them, ended when none has them any more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use weir_gateway::service::{Courier, OrderError, QueueOrder, QueueStatus, Service};
use weir_queue::{Deferring, Logging, Prepared, Queue, Settings, Telling};

use crate::config::InProcessService;

/// The queues that are open, and the uses of them.
#[derive(Debug, Default)]
pub(super) struct OpenQueues {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Queues by their directories.
    queues: HashMap<PathBuf, Weak<Queue>>,
    /// The services that were made, each with the directory of its queue.
    services: Vec<(Weak<dyn Service>, PathBuf)>,
    /// What queues follow if the configuration that was read last is put to work.
    next: Vec<(Weak<Queue>, Prepared)>,
}

impl Open {
    /// The queue with these settings, opened if it is not.
    fn queue(&mut self, settings: &Settings, courier: &Courier) -> Result<Arc<Queue>, String> {
        if let Some(queue) = self.queues.get(&settings.path).and_then(Weak::upgrade) {
            let is_own = |next: &&(Weak<Queue>, Prepared)| next.0.as_ptr() == Arc::as_ptr(&queue);
            // Each of its services comes by here.
            if self.next.iter().find(is_own).is_none() {
                let prepared = queue.prepare(settings.clone());
                let prepared = prepared.map_err(|error| error.to_string())?;
                self.next.push((Arc::downgrade(&queue), prepared));
            }
            return Ok(queue);
        }
        let queue = Queue::open(settings.clone(), courier).map_err(|error| error.to_string())?;
        self.queues.retain(|_, queue| queue.strong_count() > 0);
        self.queues
            .insert(settings.path.clone(), Arc::downgrade(&queue));
        Ok(queue)
    }

    /// Whether a service is one of the queue in this directory.
    fn is_of(&self, service: &Arc<dyn Service>, path: &Path) -> bool {
        let mut services = self.services.iter();
        services.any(|(own, directory)| {
            let own = own.upgrade();
            own.is_some_and(|own| Arc::ptr_eq(&own, service)) && directory == path
        })
    }
}

impl OpenQueues {
    /// Those that are in use, in the order of their names.
    fn all(&self) -> Vec<Arc<Queue>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = open.queues.values().filter_map(Weak::upgrade);
        let mut queues: Vec<_> = queues.filter(|queue| queue.is_used()).collect();
        queues.sort_by_key(|queue| queue.settings().name.clone());
        queues
    }
}

impl OpenQueues {
    /// Whether the configuration that queues were prepared for is put to work.
    pub(super) fn decided(&self, is_put_to_work: bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let next = std::mem::take(&mut open.next);
        let following = next.into_iter().filter(|_| is_put_to_work);
        for (queue, prepared) in following {
            if let Some(queue) = queue.upgrade() {
                queue.follow(prepared);
            }
        }
    }

    pub(super) fn status(&self) -> Vec<QueueStatus> {
        self.all().iter().map(|queue| queue.status()).collect()
    }

    pub(super) fn order(&self, queue: &str, order: QueueOrder) -> Result<Value, OrderError> {
        let all = self.all();
        let (name, sink) = match queue.split_once('/') {
            Some((name, sink)) => (name, Some(sink)),
            None => (queue, None),
        };
        let mut names = Vec::new();
        for queue in &all {
            let settings = queue.settings();
            let has_sink = |sink| settings.sinks.iter().any(|own| own.name == sink);
            if settings.name == name && sink.is_none_or(has_sink) {
                return queue.order(sink, order);
            }
            names.push(settings.name.clone());
            let sinks = settings.sinks.iter();
            names.extend(sinks.map(|sink| format!("{}/{}", settings.name, sink.name)));
        }
        Err(OrderError::NoQueue(names))
    }

    /// A use of a queue with these settings; `open` is the one of before.
    pub(super) fn open(
        &self,
        (service, settings): (&InProcessService, &Settings),
        open: Option<&Arc<dyn Service>>,
        courier: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Also when the service stays: its queue follows what the file says now.
        let queue = all.queue(settings, courier)?;
        if let Some(open) = open
            && all.is_of(open, &settings.path)
        {
            return Ok(Arc::clone(open));
        }
        let made: Arc<dyn Service> = match service {
            InProcessService::Defer(_, deferral) => {
                Arc::new(Deferring::new(queue, deferral.clone()))
            }
            InProcessService::Tell(_) => Arc::new(Telling::new(queue)),
            InProcessService::Log(_) => Arc::new(Logging::new(queue)),
            InProcessService::Kv | InProcessService::Collect(_) => {
                return Err("it is no queue".to_owned());
            }
        };
        all.services.retain(|(own, _)| own.strong_count() > 0);
        all.services
            .push((Arc::downgrade(&made), settings.path.clone()));
        Ok(made)
    }
}
