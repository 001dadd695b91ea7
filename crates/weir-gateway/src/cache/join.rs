//! Waiting for what another request asks for, and answering with it: while its head is on its way, one of those who wait may
//! find that it takes too long; once it is here, each finds whether it may have it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use weir_cache::cache_status::{CacheStatus, Forwarded};
use weir_cache::collapse::{Nothing, Told, Unanswered, may_have};
use weir_cache::reuse::{self, Reuse};
use weir_cache::{RequestControl, StoredHead};

use crate::cache::stream::{self, Streamed};
use crate::cache::{lookup, stored};
use crate::connection::{After, Client};
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::recall::Disk;
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fill::{Fill, Outcome, Reader};
use crate::state::fills::Late;
use crate::time;

/// How long a request waits for another one's answer, where nobody knows yet how long the route's answers take.
pub(crate) const PATIENCE_AT_FIRST: Duration = Duration::from_secs(1);
/// It waits at least so long, however fast they are.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// What came of waiting for a fill.
pub(crate) enum Joined {
    Answered(After),
    /// There may be something now, or this request is to ask by itself, or its client is to be told of the failure.
    Nothing(Nothing, Failure),
    /// This is late, and this request is the one that asks in its place.
    Late(Late),
}

impl Joined {
    fn nothing(why: Nothing) -> Self {
        Self::Nothing(why, Failure::ClientGone)
    }
}

/// Waits for what `reader` reads, and answers with it; from `patience` on, if there is one, it may be the request that asks in
/// the leader's place.
pub(crate) async fn join(
    x: &mut Exchange,
    on: Cached<'_>,
    mut reader: Reader,
    (forwarded, patience): (Forwarded, Option<Duration>),
) -> Result<Joined, Failure> {
    let since = time::now();
    let outcome = match wait(&mut x.client, on, &mut reader, patience).await? {
        Waited::Told(outcome) => outcome,
        Waited::Relieves => {
            return Ok(Joined::Late(Late {
                fill: Arc::clone(reader.fill()),
                key: x.recall.fill_key.as_slice().into(),
            }));
        }
        Waited::TooLong => {
            let why = Nothing::WaitedTooLong;
            return Ok(Joined::Nothing(why, Failure::ResponseTimeout));
        }
    };
    let waited = time::since(since);
    let head = match usable(x, on, &outcome, waited) {
        Ok(head) => head,
        Err(nothing) => return Ok(nothing),
    };
    x.recall.outcome = Some("joined");
    x.recall.status = Some(CacheStatus {
        forwarded: Some(forwarded),
        collapsed: true,
        ..CacheStatus::default()
    });
    let after = match outcome {
        Outcome::Whole(object) | Outcome::Stale(object, ..) => {
            match stored::object(x, on, &object, on.time()).await {
                Err(Failure::StoreFailed) => {
                    x.recall.disk = Disk::HasFailed;
                    return Ok(Joined::nothing(Nothing::StoreFailed));
                }
                sent => sent?,
            }
        }
        Outcome::Arriving(_, length) => {
            match stream::respond(x, on, reader, (&head, length), false).await? {
                Streamed::Answered(after) => after,
                Streamed::Elsewhere => return Ok(Joined::nothing(Nothing::FarAway)),
            }
        }
        Outcome::Unshared | Outcome::Erred | Outcome::Failed(_) => {
            return Ok(Joined::nothing(Nothing::Unshared));
        }
    };
    on.metrics().joins.add(1);
    Ok(Joined::Answered(after))
}

/// The head of what the leader has, if the request may have that: as its own variant, and as fresh or stale as it takes it.
fn usable(
    x: &mut Exchange,
    on: Cached<'_>,
    outcome: &Outcome,
    waited: Duration,
) -> Result<Arc<StoredHead>, Joined> {
    let head = match outcome {
        Outcome::Arriving(head, _) => Some(head),
        Outcome::Whole(object) | Outcome::Stale(object, ..) => object.stored_head(),
        Outcome::Unshared | Outcome::Erred | Outcome::Failed(_) => None,
    };
    let selects = head.is_some_and(|head| lookup::selects(x, on, head));
    let suits = || match outcome {
        Outcome::Stale(object, how, _) => on.may_be_stale(x, object, *how),
        _ => head.is_some_and(|head| on.may_join(x, head)),
    };
    let verdict = may_have(told(on, outcome, waited), selects, suits);
    let usable = verdict.and_then(|()| head.ok_or(Nothing::Unshared));
    usable.map(Arc::clone).map_err(|why| {
        if let Some(other) = head.filter(|_| !selects) {
            lookup::ask_for_variant(x, on, other);
        }
        match outcome {
            Outcome::Failed(failure) | Outcome::Stale(.., Some(failure)) => {
                Joined::Nothing(why, *failure)
            }
            _ => Joined::nothing(why),
        }
    })
}

/// What the leader has, for a request that has waited so long for it.
fn told(on: Cached<'_>, outcome: &Outcome, waited: Duration) -> Told {
    let unanswered = |failure: Failure| match failure {
        Failure::ClientGone => Unanswered::ClientLeft,
        Failure::ResponseTimeout if on.is_silent(waited) => Unanswered::Silence,
        _ => Unanswered::Failure,
    };
    match outcome {
        Outcome::Arriving(..) | Outcome::Whole(_) => Told::Answer,
        Outcome::Stale(_, _, failure) => Told::Stale(failure.map(unanswered)),
        Outcome::Unshared => Told::Unshared,
        Outcome::Erred => Told::Error,
        Outcome::Failed(failure) => Told::Nothing(unanswered(*failure)),
    }
}

/// What came of waiting for the head of another one's answer.
enum Waited {
    Told(Outcome),
    /// The leader is late, and whoever waited here is the first to ask in its place.
    Relieves,
    TooLong,
}

/// Waits for a leader to have something, and from `patience` on, if there is one, for being the one that asks in its place.
async fn wait(
    client: &mut Client,
    on: Cached<'_>,
    reader: &mut Reader,
    patience: Option<Duration>,
) -> Result<Waited, Failure> {
    let deadlines = on.rule.timeouts.connect + on.rule.timeouts.response;
    client.timer.set(deadlines);
    let since = time::now();
    let mut late = patience.map_or_else(Due::never, |patience| Due::at(since + patience));
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = reader.poll_head(cx) {
            return Poll::Ready(Ok(Waited::Told(outcome)));
        }
        if client.has_left(cx) {
            return Poll::Ready(Err(Failure::ClientGone));
        }
        if late.poll(cx).is_ready() {
            match on.relieves(reader.fill(), since, patience.unwrap_or_default()) {
                Ok(()) => return Poll::Ready(Ok(Waited::Relieves)),
                Err(next) => late = next,
            }
            if late.poll(cx).is_ready() {
                // It has passed since; there is no other wake-up than this.
                cx.waker().wake_by_ref();
            }
        }
        client.timer.poll(cx).map(|()| Ok(Waited::TooLong))
    })
    .await
}

impl Cached<'_> {
    /// How long a request waits for another one's answer before one of those who wait asks itself.
    pub(super) fn patience(&self) -> Duration {
        if let Some(patience) = self.policy.collapse_wait {
            return patience;
        }
        let usual = self.route.answers.as_deref();
        let usual = usual.and_then(|usual| usual.delay(time::now()));
        usual.map_or(PATIENCE_AT_FIRST, |usual| (2 * usual).max(PATIENCE_MIN))
    }

    /// Whether a request that has waited for `fill` since then is the one that asks in its leader's place now.
    ///
    /// # Errors
    /// It is not. When to see about it again.
    fn relieves(&self, fill: &Fill, since: Instant, patience: Duration) -> Result<(), Due> {
        let now = time::now();
        if self.is_silent(now.saturating_duration_since(since)) {
            return Err(Due::never());
        }
        // It is optional, so it takes no place that others wait for.
        if !self.has_place(now) {
            return Err(Due::at(now + PATIENCE_MIN));
        }
        fill.relieve(now, patience).map_err(Due::at)
    }

    /// Whether an origin that has said nothing for so long is silent. Who has waited for that does not ask it as well, which
    /// could take as long again.
    fn is_silent(&self, waited: Duration) -> bool {
        waited >= self.rule.timeouts.response / 2
    }

    /// Whether the upstream has a place for one more request at once.
    fn has_place(&self, now: Instant) -> bool {
        let gate = self.upstream().gate.as_ref();
        gate.is_none_or(|gate| {
            let status = gate.status(now);
            status.in_flight < status.limit && status.waiting == 0
        })
    }

    /// Whether the request may have an answer that another one asked for: it came when this one waited for it, or would do
    /// if it were stored.
    fn may_join(&self, x: &Exchange, head: &StoredHead) -> bool {
        let now = self.now(x);
        if head.meta.response_time >= now {
            return true;
        }
        let control = RequestControl::of(x.request.view(&x.head));
        let reuse = reuse::decide(&head.meta, &control, self.policy, now);
        !matches!(reuse, Reuse::Revalidate(_) | Reuse::GatewayTimeout)
    }
}
