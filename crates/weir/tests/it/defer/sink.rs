//! An upstream that notes what is delivered to it, and answers as it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::origin::Origin;
use crate::harness::wait_until;

/// What was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) head: String,
    pub(super) body: String,
    pub(super) offset: u64,
    pub(super) attempt: u32,
}

impl Delivered {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

/// What it answers: a status with more lines of a head, after a while.
#[derive(Debug, Clone)]
pub(super) struct Answer(pub(super) u16, pub(super) &'static str, pub(super) Duration);

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self(status, "", Duration::ZERO)
    }
}

type Rule = Arc<dyn Fn(&Delivered) -> Answer + Send + Sync>;

pub(super) struct Sink {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Delivered>>>,
    rule: Arc<Mutex<Rule>>,
    _origin: Origin,
}

impl Sink {
    /// One that takes everything.
    pub(super) fn start() -> Self {
        Self::answering(|_| Answer::status(200))
    }

    pub(super) fn answering(rule: impl Fn(&Delivered) -> Answer + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Delivered>>> = Arc::default();
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Arc::new(rule)));
        let (noted, ruled) = (Arc::clone(&seen), Arc::clone(&rule));
        let origin = Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                let number = |name| field(&head, name).and_then(|value| value.parse().ok());
                let length: u64 = number("content-length").unwrap_or(0);
                let body = peer.body(length as usize);
                let delivered = Delivered {
                    body: String::from_utf8(body).expect("the tests send text"),
                    offset: number("weir-offset").expect("each delivery has its offset"),
                    attempt: number("weir-attempt").expect("and its attempt") as u32,
                    head,
                };
                let rule = Arc::clone(&ruled.lock().expect("no handler panics"));
                let Answer(status, lines, wait) = rule(&delivered);
                noted.lock().expect("no handler panics").push(delivered);
                std::thread::sleep(wait);
                peer.send(format!(
                    "HTTP/1.1 {status} Said\r\n{lines}Content-Length: 5\r\n\r\nsaid\n"
                ));
            }
        });
        Self {
            address: origin.address,
            seen,
            rule,
            _origin: origin,
        }
    }

    /// Answers otherwise from now on.
    pub(super) fn answer(&self, rule: impl Fn(&Delivered) -> Answer + Send + Sync + 'static) {
        *self.rule.lock().expect("no handler panics") = Arc::new(rule);
    }

    /// All that was delivered, in order.
    pub(super) fn seen(&self) -> Vec<Delivered> {
        self.seen.lock().expect("no handler panics").clone()
    }

    /// The bodies of what was delivered.
    pub(super) fn bodies(&self) -> Vec<String> {
        self.seen().into_iter().map(|it| it.body).collect()
    }

    /// Waits until so much was delivered.
    pub(super) fn wait_for(&self, count: usize) -> Vec<Delivered> {
        wait_until(&format!("{count} are delivered"), || {
            self.seen().len() >= count
        });
        self.seen()
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut values = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value)
}
