//! What is refused so that an upstream is not broken by its load: limits, breakers, rates.

mod breaker;
mod limits;
mod rate;
mod slow;

use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::harness::origin::{Origin, Peer};

/// An origin that counts what it works on, and does it as the path says.
struct Counting {
    origin: Origin,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    /// Requests that it works on, the most of them at any time, and all of them.
    now: AtomicUsize,
    most: AtomicUsize,
    total: AtomicU64,
    /// What everything but `/die` is answered with; 0 is 200.
    status: AtomicU16,
    /// How many of those that wait may go on.
    released: Mutex<u64>,
    more: Condvar,
}

impl Counting {
    /// `/hold` waits for [`Work::release`]; `/stream` sends half of its answer before it does; `/upgrade` agrees to a
    /// protocol and waits; `/die` closes the connection instead of an answer. Everything else takes 2 ms.
    fn start() -> Self {
        let work = Arc::new(Work::default());
        let origin = {
            let work = Arc::clone(&work);
            Origin::start(move |mut peer, _| {
                while let Some(head) = peer.head() {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    work.begin();
                    let goes_on = work.answer(&mut peer, &path);
                    if !goes_on {
                        return;
                    }
                }
            })
        };
        Self { origin, work }
    }
}

impl Work {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::SeqCst);
    }

    /// Answers; `false` when the connection ends with it.
    fn answer(&self, peer: &mut Peer, path: &str) -> bool {
        match path {
            "/hold" => self.wait(),
            "/stream" => {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
                self.wait();
            }
            "/upgrade" => {
                peer.send(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
                );
                self.wait();
            }
            "/die" => {}
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
        // Before it answers: whoever has the answer may ask again at once.
        self.now.fetch_sub(1, Ordering::SeqCst);
        match path {
            "/upgrade" | "/die" => return false,
            "/stream" => peer.send("lf"),
            _ => {
                let status = match self.status.load(Ordering::SeqCst) {
                    0 => 200,
                    status => status,
                };
                let answer = format!("HTTP/1.1 {status} \r\nContent-Length: 2\r\n\r\nok");
                peer.send(answer);
            }
        }
        true
    }

    /// Lets so many of those go on that wait, or that will.
    fn release(&self, count: u64) {
        *self.released.lock().expect("no handler panics") += count;
        self.more.notify_all();
    }

    fn wait(&self) {
        let released = self.released.lock().expect("no handler panics");
        let waits = |released: &mut u64| *released == 0;
        let mut released = self
            .more
            .wait_while(released, waits)
            .expect("no handler panics");
        *released -= 1;
    }

    fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn total(&self) -> u64 {
        self.total.load(Ordering::SeqCst)
    }
}
