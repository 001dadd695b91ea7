//! A server that pauses: what is reported must be what clients with a schedule of their own would have seen.
//!
//! The server notes when it answered each request, the schedule says when each was due, so the percentiles can be
//! computed without the generator and compared with what it reports. A generator that starts its clock when it sends, or
//! rounds waits, disagrees by far more than the two percent allowed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use weir_load::Plan;
use weir_load::arrivals::Arrivals;
use weir_load::outcome::Outcome;
use weir_load::plan::End;

const RATE: f64 = 4_000.0;
/// An answer takes this long at least, so that the way back to the client is small beside the median.
const HELD: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_EVERY: Duration = Duration::from_secs(1);

/// Number of the request and seconds since 1970 at which its answer was written.
type Answers = Arc<Mutex<Vec<(u64, f64)>>>;

#[test]
fn percentiles_are_those_of_the_schedule() {
    // Whatever else this machine does comes between the server's note and the client's, and only ever adds to the
    // difference; a generator that measures something else is off in every run.
    let is_right = (0..3).any(|_| {
        let machine = Lateness::watch();
        let difference = difference();
        let late = machine.end();
        println!("off by {difference:?}, the machine by {late:?}");
        difference <= late
    });
    assert!(
        is_right,
        "three runs were off by two percent and more than the machine"
    );
}

/// How late the machine wakes a thread that sleeps, while it is watched.
struct Lateness {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Duration>>,
}

impl Lateness {
    const NAP: Duration = Duration::from_millis(5);

    fn watch() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut late = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let since = Instant::now();
                std::thread::sleep(Self::NAP);
                late.push(since.elapsed().saturating_sub(Self::NAP));
            }
            late
        });
        Self { is_over, thread }
    }

    /// What one in a hundred naps was late by at least.
    fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().expect("it only sleeps");
        late.sort();
        late[late.len() * 99 / 100]
    }
}

/// By how much the reported percentiles differ from the computed ones, the worst of them, beyond two percent.
fn difference() -> Duration {
    let answers = Answers::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let noted = Arc::clone(&answers);
    // It ends with the process of the tests.
    std::thread::spawn(move || serve(listener, &noted));
    let report = weir_load::run(plan(address), &AtomicBool::new(false), |_| {});
    let report = report.expect("the server answers");

    let answers = answers.lock().expect("no panic");
    assert_eq!(answers.len() as u64, report.requests());
    assert_eq!(report.outcomes.count(Outcome::Success), report.requests());
    let due = |number: u64| report.started_unix + number as f64 / RATE;
    let mut latencies: Vec<f64> = answers
        .iter()
        .map(|(number, at)| at - due(*number))
        .collect();
    latencies.sort_by(f64::total_cmp);
    let reported = report.outcomes.good_latency_ns();
    // The pauses are seen at all.
    let p99 = Duration::from_nanos(reported.value_at_quantile(0.99));
    assert!(p99 > PAUSE.mul_f64(0.8), "{p99:?}");
    let off = [0.5, 0.9, 0.99].into_iter().map(|quantile| {
        let rank = (quantile * latencies.len() as f64).ceil() as usize - 1;
        let reported = reported.value_at_quantile(quantile) as f64 / 1e9;
        let computed = latencies[rank];
        println!("{quantile}: computed {computed:.6} s, reported {reported:.6} s");
        // Nothing makes it seem shorter but a clock that starts too late.
        assert!(reported > 0.98 * computed, "{quantile}");
        Duration::from_secs_f64((reported - 1.02 * computed).max(0.0))
    });
    off.max().expect("there are three")
}

fn plan(address: SocketAddr) -> Plan {
    Plan {
        arrivals: Arrivals::Constant(RATE),
        end: End::After(Duration::from_secs(4)),
        connections: 1000,
        timeout: Duration::from_secs(20),
        ..crate::plan(address)
    }
}

fn serve(listener: std::net::TcpListener, answers: &Answers) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        listener
            .set_nonblocking(true)
            .expect("a socket can be made so");
        let listener = TcpListener::from_std(listener).expect("the socket is new");
        let clock = (Instant::now(), SystemTime::now());
        tokio::spawn(async {
            loop {
                tokio::time::sleep(PAUSE_EVERY.saturating_sub(PAUSE)).await;
                // The whole server stands still, as with a garbage collection.
                std::thread::sleep(PAUSE);
            }
        });
        loop {
            let (stream, _) = listener.accept().await.expect("a connection comes");
            tokio::spawn(answer(stream, Arc::clone(answers), clock));
        }
    });
}

async fn answer(mut stream: TcpStream, answers: Answers, clock: (Instant, SystemTime)) {
    let _ = stream.set_nodelay(true);
    let unix = clock
        .1
        .duration_since(UNIX_EPOCH)
        .expect("it is after 1970")
        .as_secs_f64();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let request = String::from_utf8_lossy(&buffer[..count]);
        let number = request
            .split(['/', ' '])
            .nth(2)
            .and_then(|number| number.parse().ok());
        tokio::time::sleep(HELD).await;
        let answered = unix + clock.0.elapsed().as_secs_f64();
        answers
            .lock()
            .expect("no panic")
            .push((number.expect("a number"), answered));
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
    }
}
