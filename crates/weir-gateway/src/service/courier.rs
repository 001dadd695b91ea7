//! Requests that nobody waits for: a service hands an errand to a courier, and hears later what became of it.
//!
//! A courier takes an errand to a worker, which does it as if a client had asked: by a route that defers to the errand's upstream,
//! through its breaker, limits, retries and balancing, at the lowest priority. A worker takes it up at most once; its route may send
//! it again, where that is safe. Whether it is to be done anew is for the service to say, by what [`Outcome`] tells.
//!
//! What waits for a worker and what it is at are bounded together: [`ERRANDS_MAX`] for each worker, and [`BYTES_MAX`] for all.
//! Beyond that a courier gives the errand back.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use weir_http::{FieldName, Scheme};

use crate::failure::Failure;
use crate::service::reply::is_field;

/// Errands that a worker has at once.
const ERRANDS_MAX: usize = 256;
/// Bytes of heads and contents of all errands at once. One that has more is taken when there is no other.
const BYTES_MAX: usize = 64 << 20;

/// A request that is to be made.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The name of the route that the request came by.
    pub route: Box<str>,
    /// The name of the upstream that it is for.
    pub upstream: Box<str>,
    /// In whose name it is asked.
    pub client: IpAddr,
    /// Who had sent it: the client, or a trusted proxy.
    pub peer: IpAddr,
    /// How that client had connected.
    pub scheme: Scheme,
    /// The head as [`Ask::head`](super::Ask::head) had it.
    pub head: Vec<u8>,
    /// The content. The length that the head says is its length.
    pub body: Vec<u8>,
    /// Fields that are set besides: names in lower case, with values. What the request itself has of these names is left out.
    pub fields: Vec<(String, String)>,
    /// How long it may take in all, at most a day. The route's time for an answer is no longer than that: an endpoint that takes
    /// longer has failed, breakers and ejection hear of it, and its place under a limit is free. Of what ends later only because
    /// it waited before (for a place, a connection, a repetition), or because of interim responses without end, nobody hears.
    pub within: Duration,
    /// Bytes of the answer's content that are kept, at most a mebibyte.
    pub answer_bytes_max: usize,
}

impl Errand {
    /// Whether its own fields are fields of a request, and none that frame it, belong to a connection or say where it goes.
    pub(crate) fn has_sound_fields(&self) -> bool {
        let mut fields = self.fields.iter();
        fields.all(|(name, value)| {
            let is_host = FieldName::of(name.as_bytes()) == FieldName::Host;
            !is_host && is_field(name, value.as_bytes())
        })
    }
}

/// What became of an errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The upstream has answered, whatever it said.
    Answered(Answered),
    /// It has not.
    Unanswered(Unanswered),
}

/// The answer to an errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// As the upstream said it.
    pub status: u16,
    /// The lines of the head behind the first, as they came.
    pub lines: Vec<u8>,
    /// The content, up to [`Errand::answer_bytes_max`].
    pub body: Vec<u8>,
    /// Whether that is all of it: no more was kept than may be, or the response broke off.
    pub is_whole: bool,
}

impl Answered {
    /// The value of the first field of this name, in whatever case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.lines.split(|&byte| byte == b'\n');
        lines.find_map(|line| {
            let at = line.iter().position(|&byte| byte == b':')?;
            let is_it = line[..at].eq_ignore_ascii_case(name.as_bytes());
            is_it.then(|| line[at + 1..].trim_ascii())
        })
    }
}

/// Why there is no answer to an errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The name of the failure in metrics and logs.
    pub why: &'static str,
    /// Whether no endpoint can have acted on it, so that it may be repeated whatever it does.
    pub is_unheard: bool,
    /// When to come again, where the gateway itself refused.
    pub retry_after: Option<Duration>,
}

impl Outcome {
    /// The gateway has ended, and dropped it.
    fn dropped(is_unheard: bool) -> Self {
        Self::Unanswered(Unanswered {
            why: Failure::ShutDown.name(),
            is_unheard,
            retry_after: None,
        })
    }
}

/// Why an errand was not taken, which is given back.
#[derive(Debug)]
pub enum Refused {
    /// The workers have as many as they may have, or as many bytes of them.
    Busy(Box<Errand>),
    /// The gateway ends.
    Ending(Box<Errand>),
}

/// Takes errands to workers. A clone is the same courier.
#[derive(Debug, Clone)]
pub struct Courier(Arc<Lanes>);

/// The ways to the workers.
#[derive(Debug)]
struct Lanes {
    senders: Vec<mpsc::Sender<Parcel>>,
    counts: Arc<Counts>,
}

/// What is under way.
#[derive(Debug)]
struct Counts {
    of_worker: Vec<AtomicUsize>,
    bytes: AtomicUsize,
    is_closed: AtomicBool,
}

/// What becomes of an errand: a future for any runtime.
#[derive(Debug)]
pub struct Delivery(oneshot::Receiver<Outcome>);

/// The errands for one worker.
pub(crate) type Parcels = mpsc::Receiver<Parcel>;

/// An errand on its way, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) errand: Errand,
    waiting: Waiting,
    _counted: Counted,
}

/// The service that waits for an outcome. It gets one, however the errand ends.
#[derive(Debug)]
struct Waiting {
    /// `None` once it was told.
    reply: Option<oneshot::Sender<Outcome>>,
    /// Whether a worker has begun with it.
    is_begun: bool,
}

/// A place in the count of a worker.
#[derive(Debug)]
struct Counted {
    counts: Arc<Counts>,
    worker: usize,
    bytes: usize,
}

/// A courier to so many workers, and what each of them receives.
pub(crate) fn parcels(workers: usize) -> (Courier, Vec<Parcels>) {
    let lanes = (0..workers).map(|_| mpsc::channel(ERRANDS_MAX));
    let (senders, receivers) = lanes.unzip();
    let counts = Counts {
        of_worker: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        bytes: AtomicUsize::new(0),
        is_closed: AtomicBool::new(false),
    };
    let lanes = Lanes {
        senders,
        counts: Arc::new(counts),
    };
    (Courier(Arc::new(lanes)), receivers)
}

impl Courier {
    /// Takes an errand to the worker that has the fewest.
    ///
    /// # Errors
    /// It is given back when it cannot be done now.
    pub fn deliver(&self, errand: Errand) -> Result<Delivery, Refused> {
        let Lanes { senders, counts } = &*self.0;
        if counts.is_closed.load(Ordering::Acquire) {
            return Err(Refused::Ending(Box::new(errand)));
        }
        let bytes = errand.head.len() + errand.body.len();
        let Some(counted) = self.0.enter(bytes) else {
            return Err(Refused::Busy(Box::new(errand)));
        };
        let (reply, delivery) = oneshot::channel();
        let sender = &senders[counted.worker];
        let waiting = Waiting {
            reply: Some(reply),
            is_begun: false,
        };
        let parcel = Parcel {
            errand,
            waiting,
            _counted: counted,
        };
        match sender.try_send(parcel) {
            Ok(()) => Ok(Delivery(delivery)),
            Err(mpsc::error::TrySendError::Full(parcel)) => {
                Err(Refused::Busy(Box::new(parcel.errand)))
            }
            Err(mpsc::error::TrySendError::Closed(parcel)) => {
                Err(Refused::Ending(Box::new(parcel.errand)))
            }
        }
    }

    /// No more errands are taken: the gateway ends.
    pub(crate) fn close(&self) {
        self.0.counts.is_closed.store(true, Ordering::Release);
    }

    /// What this worker has to do.
    pub(crate) fn under_way(&self, worker: usize) -> usize {
        self.0.counts.of_worker[worker].load(Ordering::Acquire)
    }
}

impl Lanes {
    /// A place for so many bytes at the worker that has the fewest errands, if it has one. A worker that has ended has none.
    fn enter(&self, bytes: usize) -> Option<Counted> {
        let counts = &self.counts;
        let worker = (0..self.senders.len())
            .filter(|&worker| !self.senders[worker].is_closed())
            .min_by_key(|&worker| counts.of_worker[worker].load(Ordering::Relaxed))?;
        if !add(&counts.bytes, bytes, BYTES_MAX.max(bytes)) {
            return None;
        }
        if !add(&counts.of_worker[worker], 1, ERRANDS_MAX) {
            counts.bytes.fetch_sub(bytes, Ordering::AcqRel);
            return None;
        }
        Some(Counted {
            counts: Arc::clone(counts),
            worker,
            bytes,
        })
    }
}

/// Counts so many more, unless that would be more than `max`.
fn add(count: &AtomicUsize, more: usize, max: usize) -> bool {
    let added = count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
        count.checked_add(more).filter(|&all| all <= max)
    });
    added.is_ok()
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.of_worker[self.worker].fetch_sub(1, Ordering::AcqRel);
        self.counts.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Parcel {
    /// A worker begins with it; `false` when nobody wants it done any more.
    pub(crate) fn begin(&mut self) -> bool {
        self.waiting.is_begun = true;
        let reply = self.waiting.reply.as_ref();
        reply.is_some_and(|reply| !reply.is_closed())
    }

    /// Tells the service what became of it.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.waiting.tell(outcome);
    }
}

impl Waiting {
    fn tell(&mut self, outcome: Outcome) {
        if let Some(reply) = self.reply.take() {
            // Who does not wait any more need not know.
            let _ = reply.send(outcome);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.tell(Outcome::dropped(!self.is_begun));
    }
}

impl Delivery {
    /// Blocks this thread until the outcome is there. Not for a task.
    pub fn wait(self) -> Outcome {
        self.0
            .blocking_recv()
            .unwrap_or_else(|_| Outcome::dropped(false))
    }
}

impl Future for Delivery {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = Pin::new(&mut self.0).poll(cx);
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Outcome::dropped(false)))
    }
}
