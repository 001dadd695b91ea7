//! A little traffic from the demo itself: a few connections, each with a thread that sends at a steady pace.
//!
//! A late request is sent at once, and requests missed during a long answer are dropped: this shows that
//! requests flow. It measures nothing.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::commands::client::Client;

/// The requested path: a little work.
pub(super) const PATH: &str = "/handle";
/// Enough that each worker of the gateway has some.
const CONNECTIONS: u32 = 4;

/// Traffic that flows until this is dropped.
pub(super) struct Traffic {
    /// Nothing is sent on these: when they close, the threads end.
    _flows: Vec<SyncSender<Infallible>>,
    unanswered: Arc<AtomicU64>,
}

impl Traffic {
    /// Starts `rate` requests a second; 0 starts no connection.
    pub(super) fn start(gateway: SocketAddr, rate: u32) -> io::Result<Self> {
        let unanswered = Arc::<AtomicU64>::default();
        let started = Instant::now();
        let connections = if rate == 0 { 0 } else { CONNECTIONS };
        let flows = (0..connections).map(|index| {
            let (flow, ended) = sync_channel(0);
            let sender = Sender {
                client: Client::new(gateway),
                due: started + Duration::from_secs(index.into()) / rate,
                period: Duration::from_secs(CONNECTIONS.into()) / rate,
                unanswered: Arc::clone(&unanswered),
            };
            let name = format!("traffic-{index}");
            thread::Builder::new()
                .name(name)
                .spawn(move || sender.run(&ended))?;
            Ok(flow)
        });
        Ok(Self {
            _flows: flows.collect::<io::Result<_>>()?,
            unanswered,
        })
    }

    /// Requests without any answer so far.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }
}

/// One connection's share.
struct Sender {
    client: Client,
    due: Instant,
    period: Duration,
    unanswered: Arc<AtomicU64>,
}

impl Sender {
    fn run(mut self, ended: &Receiver<Infallible>) {
        let is_over = |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        while !is_over(self.due.saturating_duration_since(Instant::now())) {
            if self.client.get(PATH).is_err() {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            self.due = (self.due + self.period).max(Instant::now());
        }
    }
}
