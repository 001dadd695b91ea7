//! A server that pauses: what is reported must be what clients with a schedule of their own would have seen.
//!
//! The server notes when it answered each request, the schedule says when each was due, so the percentiles can be
//! computed without the generator and compared with what it reports. A generator that starts its clock when it sends, or
//! rounds waits, disagrees by far more than the two percent allowed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Measured;

const RATE: f64 = 20_000.0;
/// An answer takes this long at least, so that the way back to the client is small beside the median.
const HELD: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_EVERY: Duration = Duration::from_secs(1);

/// Number of the request and seconds since 1970 at which its answer was written.
type Answers = Arc<Mutex<Vec<(u64, f64)>>>;

#[test]
fn percentiles_are_those_of_the_schedule() {
    let answers = Answers::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let noted = Arc::clone(&answers);
    // It ends with the process of the tests.
    std::thread::spawn(move || serve(listener, noted));
    let url = format!("http://{address}/{{seq}}");
    let flags = [
        &*url,
        "--rate",
        "20000",
        "-d",
        "4s",
        "-c",
        "1000",
        "-t",
        "1",
        "--timeout",
        "20s",
    ];
    let measured = Measured::by(&flags);
    measured.assert_all("2xx");

    let started = measured.0["started_unix_s"].as_f64().expect("a time");
    let answers = answers.lock().expect("no panic");
    assert_eq!(answers.len() as u64, measured.requests());
    let due = |number: u64| started + number as f64 / RATE;
    let mut latencies: Vec<f64> = answers
        .iter()
        .map(|(number, at)| at - due(*number))
        .collect();
    latencies.sort_by(f64::total_cmp);
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let rank = (quantile * latencies.len() as f64).ceil() as usize - 1;
        let expected = latencies[rank] * 1e6;
        let reported = measured.0["latency_us"][name].as_f64().expect("a latency");
        let off = (reported / expected - 1.0).abs();
        assert!(
            off < 0.02,
            "{name}: computed {expected:.0} µs, reported {reported:.0} µs"
        );
    }
    // The pauses are seen at all.
    assert!(measured.0["latency_us"]["p99"].as_f64() > Some(0.8e6 * PAUSE.as_secs_f64()));
}

fn serve(listener: std::net::TcpListener, answers: Answers) {
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
                tokio::time::sleep(PAUSE_EVERY - PAUSE).await;
                // The whole server stands still, as with a garbage collection.
                std::thread::sleep(PAUSE);
            }
        });
        loop {
            let (stream, _) = listener.accept().await.expect("a connection comes");
            tokio::spawn(answer(stream, Arc::clone(&answers), clock));
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
