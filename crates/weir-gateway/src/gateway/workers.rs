//! The threads of the workers: how they are started, and what each runs until it has drained.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc;

use super::DRAIN_POLL;
use crate::errands;
use crate::listener::{self, Arrival, Reception};
use crate::service::{Courier, Parcels};
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::state::log::{LogBuffer, LogWriter};
use crate::state::shared::Shared;
use crate::state::worker::Worker;

/// Tasks that a worker runs before it looks for events of its sockets: a whole round of a busy worker, so that one
/// system call asks about many sockets.
const EVENT_INTERVAL: u32 = 512;

/// Starts a thread for each worker.
pub(super) fn start_workers(
    settings: &Settings,
    shared: &Arc<Shared>,
    log: Option<&LogWriter>,
    (courier, parcels): (&Courier, Vec<Parcels>),
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let workers = 0..settings.workers;
    let (senders, receivers): (Vec<_>, Vec<_>) = workers
        .map(|_| mpsc::channel(listener::HANDOVER_QUEUE))
        .unzip();
    let mut threads = Vec::with_capacity(settings.workers);
    for (index, (arrivals, parcels)) in receivers.into_iter().zip(parcels).enumerate() {
        let log = log.zip(settings.access_log.as_ref());
        let start = WorkerStart {
            index,
            shared: Arc::clone(shared),
            log: log.map(|(writer, settings)| LogBuffer::new(settings, writer.sink.clone())),
            senders: senders.clone(),
            arrivals,
            courier: courier.clone(),
            parcels,
        };
        threads.push(start.spawn().map_err(StartError::Thread)?);
    }
    Ok(threads)
}

/// What the thread of a worker starts with.
struct WorkerStart {
    index: usize,
    shared: Arc<Shared>,
    log: Option<LogBuffer>,
    senders: Vec<mpsc::Sender<Arrival>>,
    arrivals: mpsc::Receiver<Arrival>,
    courier: Courier,
    parcels: Parcels,
}

impl WorkerStart {
    fn spawn(self) -> io::Result<JoinHandle<()>> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let _ = builder.enable_all().event_interval(EVENT_INTERVAL);
        let (says, built) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("worker-{}", self.index))
            .spawn(move || {
                // It must stay on the thread where it is made.
                let runtime: io::Result<LocalRuntime> =
                    builder.build_local(LocalOptions::default());
                match runtime {
                    Ok(runtime) => {
                        let _ = says.send(Ok(()));
                        runtime.block_on(self.run());
                    }
                    Err(error) => {
                        let _ = says.send(Err(error));
                    }
                }
            })?;
        let built = built.recv().map_err(io::Error::other)?;
        built.map(|()| thread)
    }

    /// Runs the worker until it has drained.
    async fn run(self) {
        let worker = Worker::new(self.index, self.shared, self.log);
        worker.clock.update();
        let keep_time = worker.begin(Rc::clone(&worker).keep_time());
        let reception = Reception {
            worker: Rc::clone(&worker),
            others: Rc::new(self.senders),
            rounds: Rc::default(),
        };
        let receive = worker.begin(listener::receive(self.arrivals, reception.clone()));
        let errands = worker.begin(errands::receive(self.parcels, Rc::clone(&worker)));
        reception.follow().await;
        let _ = receive.await;
        let is_serving = || worker.shared.open[worker.index].load(Ordering::Relaxed) > 0;
        while is_serving() || self.courier.under_way(worker.index) > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        errands.abort();
        worker.end();
        let _ = keep_time.await;
    }
}
