//! The queues of a gateway that runs: opened when a configuration has them, ended when none has them any more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use weir_gateway::service::{Courier, OrderError, QueueOrder, QueueStatus, Service, Services};
use weir_queue::{Deferring, Logging, Prepared, Queue, Settings, Telling};

use crate::config::{QueueService, Queues};

/// The services of a configuration, each of which is some use of a queue.
#[derive(Debug)]
pub(in crate::commands) struct OpenQueues {
    /// What was read last.
    read: Arc<Mutex<Queues>>,
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

impl OpenQueues {
    pub(in crate::commands) fn new(read: Arc<Mutex<Queues>>) -> Self {
        Self {
            read,
            open: Mutex::default(),
        }
    }
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

impl Services for OpenQueues {
    fn decided(&self, is_put_to_work: bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let next = std::mem::take(&mut open.next);
        let following = next.into_iter().filter(|_| is_put_to_work);
        for (queue, prepared) in following {
            if let Some(queue) = queue.upgrade() {
                queue.follow(prepared);
            }
        }
    }

    fn queues(&self) -> Vec<QueueStatus> {
        self.all().iter().map(|queue| queue.status()).collect()
    }

    fn order(&self, queue: &str, order: QueueOrder) -> Result<Value, OrderError> {
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

    fn open(
        &self,
        name: &str,
        open: Option<&Arc<dyn Service>>,
        courier: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let service = read.services.get(name).ok_or("there is no such service")?;
        let (QueueService::Defer(queue, _) | QueueService::Tell(queue) | QueueService::Log(queue)) =
            service;
        let settings = read.settings.get(queue).ok_or("there is no such queue")?;
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Also when the service stays: its queue follows what the file says now.
        let queue = all.queue(settings, courier)?;
        if let Some(open) = open
            && all.is_of(open, &settings.path)
        {
            return Ok(Arc::clone(open));
        }
        let made: Arc<dyn Service> = match service {
            QueueService::Defer(_, deferral) => Arc::new(Deferring::new(queue, deferral.clone())),
            QueueService::Tell(_) => Arc::new(Telling::new(queue)),
            QueueService::Log(_) => Arc::new(Logging::new(queue)),
        };
        all.services.retain(|(own, _)| own.strong_count() > 0);
        all.services
            .push((Arc::downgrade(&made), settings.path.clone()));
        Ok(made)
    }
}
