//! The gateway's own code between simulated clients and simulated origins, in simulated time.
//!
//! Requests go through the real connections, story, cache and pools, over socket pairs; what clients ask and origins answer
//! is drawn from a seed, and so are the configuration, the purges and who leaves when. What everybody got is judged by an
//! oracle that is written from RFC 9111 and knows nothing of how the cache works ([`oracle`]):
//!
//! - nobody is given what was not meant for him: another variant, a private answer, something stale, changed or purged;
//! - every byte is right, and what broke off is whole for nobody;
//! - nobody waits for ever, and nobody asks the origin more than a bounded number of times;
//! - no budget is exceeded, and when all have left, nothing is held.
//!
//! Time stands still while anything can go on without it ([`tasks`]). A seed that fails is printed; it can be
//! run again by itself with `WEIR_SEED`, and `WEIR_SEEDS` says how many there are (`make soak` runs 10,000).
//!
//! What is told rather than drawn is in [`late`], and in the tables of [`scripts`].
//!
//! Not here: the disk, whose threads have a time of their own (`it/store/` of weir-cache, `scripts/kill-cache`); TLS; the
//! listener; what another process does.

mod client;
mod late;
mod oracle;
mod origin;
mod plan;
mod scripts;
mod tasks;
mod world;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{LocalOptions, LocalRuntime};
use weir_cache::store::Transient;

use crate::listener::h1;
use crate::listener::round::Rounds;
use crate::names::Known;
use crate::router::Router;
use crate::settings::Settings;
use crate::simulation::plan::Plan;
use crate::simulation::tasks::{STEP, Tasks};
use crate::simulation::world::World;
use crate::state::admission::Admission;
use crate::state::opened::Opened;
use crate::state::shared::Shared;
use crate::state::slow::SlowClients;
use crate::state::snapshot::{Made, Snapshot};
use crate::state::storage::Cache;
use crate::state::worker::Worker;

/// Simulated time within which everybody has been answered: the longest deadlines, one after the other.
const PATIENCE: Duration = Duration::from_secs(300);
/// Real time for one seed, after which something never gives the thread back.
const REAL_PATIENCE: Duration = Duration::from_secs(60);

/// A gateway of some workers on one thread.
#[derive(Clone)]
pub(super) struct Gateway {
    pub(super) shared: Arc<Shared>,
    pub(super) workers: Vec<Rc<Worker>>,
    rounds: Vec<Rc<Rounds>>,
}

impl Gateway {
    fn start(settings: &Settings) -> Self {
        let router = Router::new(&settings.routes).expect("routes can be told apart");
        let made = Made {
            router,
            names: &Known::default(),
            listeners: Vec::new(),
            services: &Opened::default(),
        };
        let snapshot = Snapshot::succeed(None, settings, made);
        let admission = Admission::new(&settings.limits, &settings.trusted_proxies);
        let transient = Transient::new(u64::MAX);
        let slow = SlowClients::new(Arc::clone(&transient));
        let shared = Arc::new(Shared::new(snapshot, settings.workers, admission, slow));
        if let Some(storage) = &settings.cache {
            let cache = Cache::open(storage, &transient).expect("there is no disk to fail");
            let _ = shared.cache.set(Arc::new(cache));
        }
        let workers = (0..settings.workers).map(|index| {
            let worker = Worker::new(index, Arc::clone(&shared), None);
            worker.clock.update();
            worker.begin(Rc::clone(&worker).keep_time());
            worker
        });
        Self {
            workers: workers.collect(),
            rounds: (0..settings.workers).map(|_| Rc::default()).collect(),
            shared,
        }
    }
}

/// Runs `simulate` on a runtime whose time is the simulation's, and fails when that does not come back.
fn in_simulated_time(name: &str, simulate: impl AsyncFnOnce()) {
    let (end, has_ended) = std::sync::mpsc::channel::<()>();
    let name = name.to_owned();
    let watchdog = std::thread::spawn(move || {
        let waited = has_ended.recv_timeout(REAL_PATIENCE);
        if waited == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name}: something goes round without end");
            std::process::abort();
        }
    });
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let _ = builder.enable_all().start_paused(true);
    let runtime: LocalRuntime = builder
        .build_local(LocalOptions::default())
        .expect("there is a runtime");
    runtime.block_on(simulate());
    drop((runtime, end));
    let _ = watchdog.join();
}

/// One simulated minute or so; what went wrong.
fn simulate(seed: u64) -> Result<(), String> {
    fastrand::seed(seed);
    let plan = Plan::draw(&mut fastrand::Rng::with_seed(seed));
    let mut verdict = Ok(());
    in_simulated_time(&format!("seed {seed}"), async || {
        let world = World::new(plan);
        origin::listen(&world);
        let gateway = Gateway::start(&world.plan.settings);
        client::send_all(&world, &gateway);
        let mut excess = None;
        let all_ended = world
            .tasks
            .run(PATIENCE, || {
                excess = excess.take().or_else(|| oracle::budgets(&gateway));
            })
            .await;
        // What goes on for nobody has its own deadlines.
        let left = run_out(&world.tasks, &gateway).await;
        verdict = match (all_ended, excess, left) {
            (false, ..) => Err(format!("somebody waits for ever: {}", world.waiting())),
            (_, Some(excess), _) => Err(excess),
            (.., Err(left)) => Err(left),
            _ => oracle::judge(&world),
        };
    });
    verdict
}

/// Waits until the gateway holds nothing any more but what it stores.
async fn run_out(tasks: &Tasks, gateway: &Gateway) -> Result<(), String> {
    let mut held = Ok(());
    for _ in 0..PATIENCE.as_secs() {
        for _ in 0..10 {
            tasks.settle().await;
            tokio::time::advance(10 * STEP).await;
        }
        held = oracle::nothing_held(gateway);
        if held.is_ok() {
            break;
        }
    }
    gateway.workers.iter().for_each(|worker| worker.end());
    held
}

/// Serves one connection of a client.
fn serve(gateway: &Gateway, tasks: &Tasks, client: crate::connection::Client, worker: usize) {
    let rounds = Rc::clone(&gateway.rounds[worker]);
    let worker = Rc::clone(&gateway.workers[worker]);
    tasks.spawn_quietly(h1::serve(Box::new(client), worker, rounds));
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn a_worker_has_failed_when_something_panics_without_which_it_serves_nobody() {
    in_simulated_time("a panic", async || {
        let plan = Plan::draw(&mut fastrand::Rng::with_seed(1));
        let Gateway {
            shared, workers, ..
        } = Gateway::start(&plan.settings);
        let stuck = || shared.stuck().map(|(worker, _)| worker).collect::<Vec<_>>();
        let _ = workers[0].begin(async {}).await;
        assert!(!shared.has_failed(0), "it may end");
        let _ = workers[0]
            .begin(async { panic!("this is to be seen") })
            .await;
        assert!(shared.has_failed(0));
        for _ in 0..30 {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(stuck(), [0], "it is told of as one that does not turn");
        for worker in workers {
            worker.end();
        }
    });
}

#[test]
fn what_everybody_gets_is_meant_for_him() {
    let (first, count) = match number("WEIR_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("WEIR_SEEDS").unwrap_or(200)),
    };
    let mut failed = Vec::new();
    for seed in first..first + count {
        if let Err(why) = simulate(seed) {
            println!("WEIR_SEED={seed}: {why}");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "{} of {count}: {failed:?}", failed.len());
}
