//! Starting and ending a gateway: sockets first, then threads, so that a start that fails leaves nothing behind.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc;

use crate::access_log::{LogBuffer, LogWriter};
use crate::admin;
use crate::cache::Cache;
use crate::listener::{self, Admission, Arrival};
use crate::metrics::WorkerMetrics;
use crate::router::{RouteConflict, Router};
use crate::settings::{LogTarget, Settings};
use crate::snapshot::Snapshot;
use crate::worker::{Shared, Worker};

/// Tasks that a worker runs before it looks for news from its sockets: a whole round of a busy worker, so that sockets
/// are asked about together.
const EVENT_INTERVAL: u32 = 512;
/// How often a draining gateway looks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// How long cut off exchanges have to be noticed and told, and the log then has to be written.
const CUT_OFF: Duration = Duration::from_secs(2);

/// A running gateway. Dropping it does not end it; see [`Gateway::drain`].
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    workers: Vec<JoinHandle<()>>,
    log: Option<LogWriter>,
    drain_timeout: Duration,
}

/// Why a gateway does not start.
#[derive(Debug)]
pub enum StartError {
    /// Two routes that no request can tell apart.
    Routes(RouteConflict),
    /// An address that cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// A log that cannot be opened.
    AccessLog(String, io::Error),
    /// A directory of the cache that cannot be used.
    Cache(String, String),
    /// A thread or runtime that cannot be made.
    Thread(io::Error),
}

/// Finds what is wrong with `settings` that only shows when they are put to work, without starting anything.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    Router::new(&settings.routes)
        .map(drop)
        .map_err(StartError::Routes)
}

impl Gateway {
    /// Binds every address, opens the log, and starts the workers.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let snapshot = Snapshot::new(settings).map_err(StartError::Routes)?;
        let sockets = bind_all(settings)?;
        let bound = sockets[0].iter().map(StdListener::local_addr);
        let addresses = bound
            .collect::<io::Result<_>>()
            .map_err(StartError::Thread)?;
        let admin = settings.admin.as_ref().map(admin::bind).transpose()?;
        let log = start_log(settings)?;
        let cache = settings.cache.as_ref();
        let cache = cache
            .map(|storage| Cache::open(storage, &settings.routes))
            .transpose()?;
        let workers = 0..settings.workers;
        let shared = Arc::new(Shared {
            admission: Admission::new(&settings.limits),
            open: workers.clone().map(|_| AtomicUsize::new(0)).collect(),
            metrics: workers
                .clone()
                .map(|_| WorkerMetrics::new(&snapshot))
                .collect(),
            cache: cache.map(Arc::new),
            is_draining: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            snapshot,
        });
        let (senders, receivers): (Vec<_>, Vec<_>) = workers
            .map(|_| mpsc::channel(listener::HANDOVER_QUEUE))
            .unzip();
        let mut threads = Vec::with_capacity(settings.workers);
        for (index, (sockets, arrivals)) in sockets.into_iter().zip(receivers).enumerate() {
            let log = log.as_ref().zip(settings.access_log.as_ref());
            let start = WorkerStart {
                index,
                shared: Arc::clone(&shared),
                log: log.map(|(writer, settings)| LogBuffer::new(settings, writer.sink.clone())),
                sockets,
                senders: senders.clone(),
                arrivals,
            };
            threads.push(start.spawn().map_err(StartError::Thread)?);
        }
        if let Some(admin) = admin {
            admin
                .serve(Arc::clone(&shared))
                .map_err(StartError::Thread)?;
        }
        Ok(Self {
            shared,
            addresses,
            workers: threads,
            log,
            drain_timeout: settings.timeouts.drain,
        })
    }

    /// Where clients connect, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What reopens the access log: for the handler of SIGUSR1.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.sink.reopen();
        }
    }

    /// Stops accepting, lets what was accepted end, and returns when everything did or the time for it is over. The
    /// access log is complete then, unless nobody takes it. `false` when connections were cut off.
    pub fn drain(self) -> bool {
        self.shared.is_draining.store(true, Ordering::Relaxed);
        let started = Instant::now();
        while !self.workers.iter().all(JoinHandle::is_finished) {
            if started.elapsed() >= self.drain_timeout {
                self.shared.is_cut_off.store(true, Ordering::Relaxed);
            }
            if started.elapsed() >= self.drain_timeout + CUT_OFF {
                break;
            }
            std::thread::sleep(DRAIN_POLL);
        }
        for worker in self.workers.into_iter().filter(JoinHandle::is_finished) {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
        if let Some(LogWriter { sink, thread }) = self.log {
            drop(sink);
            let ended = Instant::now();
            // The disk, or whoever reads the pipe, may take as little as it likes.
            while !thread.is_finished() && ended.elapsed() < CUT_OFF {
                std::thread::sleep(DRAIN_POLL);
            }
        }
        !self.shared.is_cut_off.load(Ordering::Relaxed)
    }
}

/// Every worker's sockets.
fn bind_all(settings: &Settings) -> Result<Vec<Vec<StdListener>>, StartError> {
    let mut sockets: Vec<Vec<_>> = (0..settings.workers).map(|_| Vec::new()).collect();
    for &address in &settings.listeners {
        let fail = |error| StartError::Listen(address, error);
        refuse_taken(address)?;
        // Port 0 asks the kernel for one; it must be the same for all workers.
        let mut chosen = address;
        for worker in &mut sockets {
            let socket = listener::bind(chosen).map_err(fail)?;
            chosen = socket.local_addr().map_err(fail)?;
            worker.push(socket);
        }
    }
    Ok(sockets)
}

/// `SO_REUSEPORT` would let a second gateway of the same user share the address, and halve its traffic silently.
fn refuse_taken(address: SocketAddr) -> Result<(), StartError> {
    StdListener::bind(address)
        .map(drop)
        .map_err(|error| StartError::Listen(address, error))
}

fn start_log(settings: &Settings) -> Result<Option<LogWriter>, StartError> {
    let Some(log) = &settings.access_log else {
        return Ok(None);
    };
    let name = match &log.target {
        LogTarget::Stdout => "standard output".to_owned(),
        LogTarget::File(path) => path.display().to_string(),
    };
    LogWriter::start(log, settings.workers)
        .map(Some)
        .map_err(|error| StartError::AccessLog(name, error))
}

/// What a worker's thread begins with.
struct WorkerStart {
    index: usize,
    shared: Arc<Shared>,
    log: Option<LogBuffer>,
    sockets: Vec<StdListener>,
    senders: Vec<mpsc::Sender<Arrival>>,
    arrivals: mpsc::Receiver<Arrival>,
}

impl WorkerStart {
    fn spawn(self) -> io::Result<JoinHandle<()>> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let _ = builder.enable_all().event_interval(EVENT_INTERVAL);
        std::thread::Builder::new()
            .name(format!("worker-{}", self.index))
            .spawn(move || {
                let runtime: LocalRuntime = builder
                    .build_local(LocalOptions::default())
                    .expect("a worker has a runtime");
                runtime.block_on(self.run());
            })
    }

    /// Runs the worker until it has drained.
    async fn run(self) {
        let worker = Worker::new(self.index, self.shared, self.log);
        worker.clock.update();
        let keep_time = tokio::task::spawn_local(Rc::clone(&worker).keep_time());
        let receive = listener::receive(self.arrivals, Rc::clone(&worker));
        let receive = tokio::task::spawn_local(receive);
        let senders = Rc::new(self.senders);
        let mut accepting = Vec::new();
        for socket in self.sockets {
            let listener =
                TcpListener::from_std(socket).expect("the socket belongs to this runtime");
            let accept = listener::accept(listener, Rc::clone(&worker), Rc::clone(&senders));
            accepting.push(tokio::task::spawn_local(accept));
        }
        for accept in accepting {
            let _ = accept.await;
        }
        let _ = receive.await;
        while worker.shared.open[worker.index].load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        worker.end();
        let _ = keep_time.await;
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Routes(conflict) => {
                write!(f, "route[{}]: {}", conflict.route + 1, conflict.reason)
            }
            Self::Listen(address, error) => match error.kind() {
                io::ErrorKind::AddrInUse => {
                    write!(
                        f,
                        "cannot listen on {address}: another process does; stop it or choose another address"
                    )
                }
                io::ErrorKind::PermissionDenied => {
                    write!(
                        f,
                        "cannot listen on {address}: ports below 1024 need CAP_NET_BIND_SERVICE or root"
                    )
                }
                _ => write!(f, "cannot listen on {address}: {error}"),
            },
            Self::AccessLog(name, error) => write!(f, "cannot open the access log {name}: {error}"),
            Self::Cache(path, error) => write!(f, "cannot cache in {path}: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
