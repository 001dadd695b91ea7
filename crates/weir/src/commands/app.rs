//! `weir app`: a small service with work to do, made to stand behind a gateway and under load.
//!
//! Its functions are those of the services that weir was measured with: two that answer with large JSON, two that burn
//! CPU, a page of 612 bytes and a health check. Flags make it slow or faulty on purpose. [`Service::respond`] is the
//! way of a request; `functions.rs` makes the answers.
//!
//! It is an origin, not a gateway, and shares nothing with weir-gateway. Between requests it keeps only what waits for
//! a slot. On Ctrl-C or SIGTERM it ends at once, with requests in flight: that is how a replica fails.

mod args;
mod events;
mod fault;
mod flags;
mod functions;
#[cfg(feature = "kafka")]
mod kafka;
mod ledger;
mod listener;
mod payload;
mod receive;
mod slots;

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::set_parent_process_death_signal;
use tokio::signal::unix::{SignalKind, signal};

use args::{Pauses, Spread};
use events::{Maker, Outlet};
use fault::Faults;
pub(crate) use flags::AppArgs;
use functions::{Function, Route, Work};
use ledger::Ledger;
use listener::{Listener, Socket};
use payload::Payload;
use slots::Slots;

/// How long a client may take to send a request head, counted from the end of the request before. An idle connection
/// stays open just as long.
const HEAD_DEADLINE: Duration = Duration::from_secs(75);

/// How long to wait after a failed accept, which mostly means that file descriptors are short. Trying again at once
/// would use the CPU time that could free them.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");

/// Serves until Ctrl-C or SIGTERM.
///
/// Once the socket is bound, it prints one line `NAME listens on ADDR`. A script then knows that it may send requests
/// and, after port 0, where to. Fails when it cannot bind, or when NAME cannot stand in a header.
pub(crate) fn run(args: AppArgs) -> anyhow::Result<()> {
    if let Some(parent) = args.parent {
        end_with(parent)?;
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(args.threads.get()))
        .enable_all()
        .build()
        .context("cannot start the threads")?
        .block_on(serve(args))
}

/// Has the system send SIGTERM to this process when its parent ends.
pub(super) fn end_with(parent: u32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .context("cannot ask for a signal at the end of the parent")?;
    // If the parent ended earlier, no signal came, but this process has another parent now.
    anyhow::ensure!(
        std::os::unix::process::parent_id() == parent,
        "process {parent} is not the parent of this one, or has ended"
    );
    Ok(())
}

async fn serve(args: AppArgs) -> anyhow::Result<()> {
    let listener = Listener::bind(&args.listen)?;
    let address = listener.address()?;
    let name = args.name.unwrap_or_else(|| address.to_string());
    let ledger = Arc::new(Ledger::default());
    let outlet = args.events.map(Outlet::to);
    #[cfg(feature = "kafka")]
    let outlet = match &args.kafka {
        Some(topic) => Some(Outlet::Kafka(kafka::Producer::new(topic, args.linger)?)),
        None => outlet,
    };
    #[cfg(feature = "kafka")]
    if let Some(topic) = &args.consume {
        kafka::consume(topic, Work(args.work.get()), Arc::clone(&ledger))?;
    }
    let service = Arc::new(Service {
        name: HeaderValue::from_str(&name)
            .with_context(|| format!("{name:?} cannot stand in a header"))?,
        delay: args.delay,
        spread: args.spread,
        started: Instant::now(),
        pauses: args.pause,
        slots: args.slots.map(|count| {
            let slots = Slots::new(usize::from(count.get()), Instant::now());
            Mutex::new(slots)
        }),
        work: Work(args.work.get()),
        fail_ratio: args.fail_ratio,
        faults: args.faults.then(Faults::default),
        outlet,
        maker: Mutex::new(Maker::new(fastrand::Rng::new())),
        ledger,
    });
    // Signals are caught before the line is printed: a script may send one as soon as it has read the line.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{name} listens on {address}")
        .and_then(|()| stdout.flush())
        .context("cannot write to stdout")?;

    // Accepting is a task, so that it runs on one of `--threads` and not on the thread that waits here.
    let accepting = tokio::spawn(accept(listener, service));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = accepting => ended.context("accepting connections broke off")?,
    }
    address.remove_socket_file();
    Ok(())
}

/// Gives each connection a task of its own. Only the limit on file descriptors bounds their number.
async fn accept(listener: Listener, service: Arc<Service>) {
    loop {
        let service = Arc::clone(&service);
        match listener.accept().await {
            Ok(Socket::Tcp(socket)) => {
                tokio::spawn(converse(TokioIo::new(socket), service));
            }
            Ok(Socket::Unix(socket)) => {
                tokio::spawn(converse(TokioIo::new(socket), service));
            }
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Owns one connection until either side ends it.
async fn converse(socket: impl Read + Write + Unpin, service: Arc<Service>) {
    let exchange = |request: Request<Incoming>| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.respond(request).await) }
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .title_case_headers(true)
        .serve_connection(socket, service_fn(exchange));
    // A broken connection is the doing of the client, or of the test that runs this service. hyper has answered what it
    // can, and nobody is left to tell.
    let _ = connection.await;
}

/// What all connections share. Only the bookings of slots, the fault mode and the counts of events change.
struct Service {
    name: HeaderValue,
    delay: Duration,
    spread: Spread,
    started: Instant,
    pauses: Option<Pauses>,
    slots: Option<Mutex<Slots>>,
    work: Work,
    fail_ratio: f64,
    faults: Option<Faults>,
    outlet: Option<Outlet>,
    maker: Mutex<Maker>,
    ledger: Arc<Ledger>,
}

impl Service {
    /// The whole way of a request: route, receive the body, wait, perhaps fail, answer, sign.
    async fn respond<B>(&self, request: Request<B>) -> Response<Payload>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        let (head, body) = request.into_parts();
        let route = functions::route(&head.method, head.uri.path());
        let mut response = match &self.faults {
            None => self.answer(route, body).await,
            // Whoever measures asks these while it is bad, too.
            Some(_) if matches!(route, Route::To(Function::Stats | Function::StatsTimes)) => {
                self.answer(route, body).await
            }
            Some(faults) if head.uri.path() == fault::PATH => {
                faults.answer(&head.method, head.uri.query())
            }
            Some(faults) => match faults.befall(route).await {
                Some(response) => response,
                None => self.answer(route, body).await,
            },
        };
        response.headers_mut().insert(SERVED_BY, self.name.clone());
        response
    }

    async fn answer<B>(&self, route: Route, body: B) -> Response<Payload>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        match route {
            Route::To(Function::Health) => return functions::healthy(),
            Route::To(Function::Stats) => return functions::json(self.ledger.counts()),
            Route::To(Function::StatsTimes) => return functions::json(self.ledger.times()),
            _ => {}
        }
        let mut rng = fastrand::Rng::new();
        let received = receive::body(body, route).await;
        self.wait(&mut rng).await;
        if rng.f64() < self.fail_ratio {
            return functions::failed_on_purpose();
        }
        let event = received.clone().unwrap_or_default();
        let is_whole = received.is_ok();
        #[cfg(feature = "kafka")]
        if route == Route::To(Function::Produce) && is_whole {
            return match &self.outlet {
                Some(Outlet::Kafka(producer)) => functions::produced(producer.send(&event).await),
                _ => functions::bad_request("this service was started without --kafka\n"),
            };
        }
        let response = functions::answer(route, received, unix_now(), self.work);
        match (route, &self.outlet) {
            (Route::To(Function::Handle), Some(outlet)) => {
                let maker = self.maker.lock();
                let event = maker.unwrap_or_else(PoisonError::into_inner).make();
                let sending = self.ledger.sending();
                let sent = outlet.send(event).await;
                sending.ended(sent.is_ok());
                sent.map_or_else(|why| functions::not_taken(&why), |()| response)
            }
            (Route::To(Function::SendEvent), _) if is_whole => {
                self.ledger.handled(&event);
                response
            }
            _ => response,
        }
    }

    /// Waits as `--delay`, `--spread`, `--slots` and `--pause` say.
    async fn wait(&self, rng: &mut fastrand::Rng) {
        let now = tokio::time::Instant::now().into_std();
        let delay = self.spread.of(self.delay, rng);
        let over_at = match &self.slots {
            Some(slots) => {
                let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
                slots.book(now, delay)
            }
            None => now + delay,
        };
        let paused = self.pauses.map_or(Duration::ZERO, |pauses| {
            pauses.left_at(over_at.saturating_duration_since(self.started))
        });
        if over_at + paused > now {
            tokio::time::sleep_until((over_at + paused).into()).await;
        }
    }
}

/// Seconds since 1970; 0 for a clock set before that.
fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    /// The status of GET `path` from a service with these faults, and how long it took; the clock is paused.
    fn ask(path: &str, delay: Duration, fail_ratio: f64) -> (u16, Duration) {
        let service = Service {
            name: HeaderValue::from_static("r1"),
            delay,
            spread: Spread::Constant,
            started: Instant::now(),
            pauses: None,
            slots: None,
            work: Work(1),
            fail_ratio,
            faults: None,
            outlet: None,
            maker: Mutex::new(Maker::new(fastrand::Rng::new())),
            ledger: Arc::default(),
        };
        let request = Request::get(path).body(Empty::new()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let asked = tokio::time::Instant::now();
            let response = service.respond(request).await;
            assert_eq!(response.headers()["x-served-by"], "r1");
            (response.status().as_u16(), asked.elapsed())
        })
    }

    #[test]
    fn without_faults_answers_come_at_once() {
        assert_eq!(ask("/", Duration::ZERO, 0.0), (200, Duration::ZERO));
        assert_eq!(ask("/nowhere", Duration::ZERO, 0.0), (404, Duration::ZERO));
    }

    #[test]
    fn each_answer_waits_and_may_fail() {
        let delay = Duration::from_millis(20);
        assert_eq!(ask("/", delay, 0.0), (200, delay));
        assert_eq!(ask("/handle", delay, 1.0), (500, delay));
        assert_eq!(ask("/nowhere", delay, 1.0), (500, delay));
    }

    #[test]
    fn about_the_asked_share_fails() {
        let failed = (0..1000)
            .filter(|_| ask("/", Duration::ZERO, 0.5).0 == 500)
            .count();
        // Twelve standard deviations to either side: chance alone does not leave this range.
        assert!((310..=690).contains(&failed), "{failed} of 1000");
    }

    #[test]
    fn the_health_check_neither_waits_nor_fails() {
        assert_eq!(
            ask("/healthz", Duration::from_secs(1), 1.0),
            (200, Duration::ZERO)
        );
    }
}
