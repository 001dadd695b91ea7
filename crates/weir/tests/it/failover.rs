//! Endpoints that refuse, die, hang, fail or come back, and which requests may be sent again.

mod balancing;
mod budget;
mod connects;
mod endpoints;
mod hedge;
mod retries;
mod rule;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

/// A gateway with one worker, so that every request looks into the same pool.
fn one_worker(servers: &[SocketAddr], upstream_keys: &str, route_keys: &str) -> Gateway {
    let forward = forward_everything(servers, upstream_keys);
    Gateway::start(&format!("[server]\nworkers = 1\n{forward}{route_keys}"))
}

/// An origin that answers everything with `status` and its name, each in one piece.
fn saying(status: u16, name: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(answer(status, name));
        }
    })
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} \r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Waits until no request and no copy of one holds anything of the upstream.
fn nothing_is_left(gateway: &Gateway) {
    for gauge in ["weir_upstream_in_flight", "weir_concurrency_in_flight"] {
        wait_until(&format!("{gauge} is 0"), || gateway.metric(gauge) == 0);
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Requests by `count` keep-alive connections until told to stop; how many there were, and those that failed.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(crate) fn start(gateway: SocketAddr, count: usize) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = (0..count).map(|_| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut failed = Vec::new();
                let mut connection = Connection::open(gateway);
                while !stop.load(Ordering::Relaxed) {
                    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
                    match connection.response_to("GET") {
                        Some(response) if response.status == 200 && response.body.len() == 612 => {}
                        Some(response) => failed.push(response.head),
                        None => {
                            failed.push("closed".to_owned());
                            connection = Connection::open(gateway);
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failed
            })
        });
        let threads = threads.collect();
        Self {
            stop,
            done,
            threads,
        }
    }

    /// Waits until so many more requests were answered.
    pub(crate) fn wait_for(&self, more: usize) {
        let goal = self.done.load(Ordering::Relaxed) + more;
        wait_until("more requests are answered", || {
            self.done.load(Ordering::Relaxed) >= goal
        });
    }

    pub(crate) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.threads.into_iter().map(JoinHandle::join);
        failed
            .flat_map(|failed| failed.expect("it read every answer"))
            .collect()
    }
}
