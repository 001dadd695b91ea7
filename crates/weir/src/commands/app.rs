//! `weir app`: a small service with work to do, made to stand behind a gateway and under load.
//!
//! Its functions are those of the services that weir was measured with: two that answer with large JSON, two that burn
//! CPU, a page of 612 bytes and a health check. Flags make it slow or faulty on purpose. [`Service::respond`] is the
//! way of a request; `functions.rs` makes the answers.
//!
//! It is an origin, not a gateway, and shares nothing with weir-gateway. Between requests it keeps only what waits for
//! a slot. On Ctrl-C or SIGTERM it ends at once, with requests in flight: that is how a replica fails.

mod args;
mod fault;
mod functions;
mod listener;
mod payload;
#[cfg(feature = "kafka")]
mod produce;
mod receive;
mod slots;

use std::convert::Infallible;
use std::io::Write as _;
use std::num::{NonZeroU8, NonZeroU16};
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

use args::{Listen, Pauses, Spread};
use fault::Faults;
use functions::{Function, Route};
use listener::{Listener, Socket};
use payload::Payload;
#[cfg(feature = "kafka")]
use produce::Producer;
use slots::Slots;

/// How long a client may take to send a request head, counted from the end of the request before. An idle connection
/// stays open just as long.
const HEAD_DEADLINE: Duration = Duration::from_secs(75);

/// How long to wait after a failed accept, which mostly means that file descriptors are short. Trying again at once
/// would use the CPU time that could free them.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");

/// Run a sample service with work to do, to put behind a gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct AppArgs {
    /// Where to listen: IP:PORT, or unix:PATH for a Unix socket.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9001")]
    listen: Listen,

    /// How many threads answer requests.
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroU8,

    /// How long each answer waits before it is made, as in 20ms or 1s; /healthz never waits.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = args::delay)]
    delay: Duration,

    /// At most how many answers are made at once, each for --delay; the others wait for their turn, without end, and are
    /// made even when their client has left [default: any number].
    #[arg(long, value_name = "N", requires = "delay")]
    slots: Option<NonZeroU16>,

    /// How the time of an answer differs from --delay: constant, exponential, or SHARE:FACTOR, as in 0.1:100 where one
    /// answer in ten takes a hundred times as long.
    #[arg(
        long,
        value_name = "SPREAD",
        default_value = "constant",
        requires = "delay"
    )]
    spread: Spread,

    /// Stand still for so long every so long, as in 200ms/2s: what would be ready then is ready afterwards.
    #[arg(long, value_name = "DURATION/DURATION")]
    pause: Option<Pauses>,

    /// The share of answers, from 0 to 1, that are a 500 instead; /healthz never fails.
    #[arg(long, value_name = "F", default_value = "0", value_parser = args::share)]
    fail_ratio: f64,

    /// Take POST /fault?mode=MODE from everybody: fail, slow (by 2s), hang or none, for every path but this one.
    #[arg(long)]
    faults: bool,

    /// Where POST /produce puts its body, before it answers: brokers and a topic, as in 127.0.0.1:9092/events.
    #[cfg(feature = "kafka")]
    #[arg(long, value_name = "BROKERS/TOPIC")]
    kafka: Option<produce::Topic>,

    /// What X-Served-By says in every response [default: the listen address].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The process id of the parent, to end when it does, however it ends: for the replicas of `weir demo`.
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

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
fn end_with(parent: u32) -> anyhow::Result<()> {
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
        fail_ratio: args.fail_ratio,
        faults: args.faults.then(Faults::default),
        #[cfg(feature = "kafka")]
        producer: args.kafka.as_ref().map(Producer::new).transpose()?,
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

/// What all connections share. Only the bookings of slots and the fault mode change.
struct Service {
    name: HeaderValue,
    delay: Duration,
    spread: Spread,
    started: Instant,
    pauses: Option<Pauses>,
    slots: Option<Mutex<Slots>>,
    fail_ratio: f64,
    faults: Option<Faults>,
    #[cfg(feature = "kafka")]
    producer: Option<Producer>,
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
        if route == Route::To(Function::Health) {
            return functions::healthy();
        }
        let mut rng = fastrand::Rng::new();
        let received = receive::body(body, route).await;
        self.wait(&mut rng).await;
        if rng.f64() < self.fail_ratio {
            return functions::failed_on_purpose();
        }
        #[cfg(feature = "kafka")]
        if route == Route::To(Function::Produce)
            && let Ok(event) = &received
        {
            return match &self.producer {
                Some(producer) => functions::produced(producer.send(event).await),
                None => functions::bad_request("this service was started without --kafka\n"),
            };
        }
        functions::answer(route, received, unix_now(), &mut rng)
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
            fail_ratio,
            faults: None,
            #[cfg(feature = "kafka")]
            producer: None,
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
