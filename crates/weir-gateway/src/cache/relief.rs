//! Asking while others ask for the same: whoever asks goes by whichever answer comes first, its own, that of the late leader in
//! whose place it asks, or that of somebody who asked in its own place. When asking in another one's place fails, it waits on
//! with those who did not ask.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_cache::cache_status::Forwarded;
use weir_cache::collapse::Nothing;

use crate::cache::join::{Joined, join};
use crate::cache::lead::Ask;
use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fill::{Fill, Outcome, Reader};
use crate::state::fills::{Late, Lent};
use crate::upstream::hedge::Asked;

/// Who else asks for what a request asks for.
pub(crate) struct Others {
    own: Arc<Fill>,
    /// The leader in whose place it asks, as long as that may have something for it.
    late: Option<Reader>,
    /// Of the key by which requests find the fill, the part that tells variants apart.
    variant: Box<[u8]>,
}

/// What came first.
pub(crate) enum First {
    /// What was asked for, or why nothing came of it.
    Own(Box<Result<Asked, Failure>>),
    /// The leader's answer, with which the client was answered.
    Answered(After),
    /// Somebody else has something by now, which is to be looked for.
    LookAgain,
}

impl Others {
    pub(super) fn new(lent: &Lent, key: &[u8]) -> Self {
        let late = lent.late();
        let found_by = match late {
            Some(Late { key, .. }) => Some(key),
            None => lent.key.as_ref(),
        };
        let variant = found_by.and_then(|found_by| found_by.get(key.len()..)?.strip_prefix(b"\0"));
        Self {
            own: Arc::clone(&lent.fill),
            late: late.map(|late| Reader::new(&late.fill)),
            variant: variant.unwrap_or_default().into(),
        }
    }

    /// Asks by `forward`, and answers with what the leader has if that comes first, or if asking fails and `ask` has nothing stale.
    pub(crate) async fn ask(
        mut self,
        x: &mut Exchange,
        on: Cached<'_>,
        ask: &Ask,
        forward: impl AsyncFnOnce(&mut Exchange) -> Result<Asked, Failure>,
    ) -> Result<First, Failure> {
        let first = {
            let mut own = pin!(forward(x));
            poll_fn(|cx| match own.as_mut().poll(cx) {
                Poll::Ready(asked) => Poll::Ready(Ok(asked)),
                Poll::Pending => self.poll(cx).map(Err),
            })
            .await
        };
        let (reader, failed) = match (first, self.late) {
            (Ok(Err(failure)), Some(late)) if is_waited_on(failure, x, on, ask) => {
                (late, Some((failure, x.retry_after)))
            }
            (Err(reader), _) => (reader, None),
            (Ok(asked), _) => return Ok(First::Own(Box::new(asked))),
        };
        x.asks_no_more(&on.worker.buffers)?;
        let said = x.recall.status.as_ref();
        let forwarded = said.and_then(|said| said.forwarded);
        let forwarded = forwarded.unwrap_or(Forwarded::Miss);
        // It has asked once.
        let joined = Box::pin(join(x, on, reader, (forwarded, None))).await?;
        match (joined, failed) {
            (Joined::Answered(after), _) => Ok(First::Answered(after)),
            (
                Joined::Nothing(Nothing::OriginFailed | Nothing::WaitedTooLong, _),
                Some((failure, retry_after)),
            ) => {
                x.retry_after = retry_after;
                Ok(First::Own(Box::new(Err(failure))))
            }
            _ => Ok(First::LookAgain),
        }
    }

    /// Ready when another one has an answer that this request may have.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reader> {
        let elsewhere = self.own.poll_relieved(cx);
        let late = self.late.as_mut().map(|late| late.poll_head(cx));
        if let Some(Poll::Ready(answer)) = late {
            // Where it is of no use, it is read here no more, which others may wait for.
            let late = self.late.take();
            if let Some(late) = late
                && self.variant_is_of(&answer)
            {
                return Poll::Ready(late);
            }
        }
        match elsewhere {
            Some(relieved) if self.variant_is_of(&relieved.answer) => {
                Poll::Ready(Reader::new(&relieved.by))
            }
            _ => Poll::Pending,
        }
    }

    /// Whether it is an answer, and of the variant that this request waited for. Which one it selects otherwise is left to its
    /// own answer. However stale, it came while this request waited for it.
    fn variant_is_of(&self, answer: &Outcome) -> bool {
        let head = match answer {
            Outcome::Arriving(head, _) => Some(head),
            Outcome::Whole(object) => object.stored_head(),
            Outcome::Stale(..) | Outcome::Unshared | Outcome::Erred | Outcome::Failed(_) => None,
        };
        head.is_some_and(|head| head.secondary() == &*self.variant)
    }
}

/// Whether a request that could not ask goes on waiting: not where its client has left, nor where there is something for it at
/// once, be that a refusal.
fn is_waited_on(failure: Failure, x: &Exchange, on: Cached<'_>, ask: &Ask) -> bool {
    let is_final = matches!(failure, Failure::ClientGone | Failure::BreakerOpen);
    !is_final && !ask.has_stale(x, on, failure)
}
