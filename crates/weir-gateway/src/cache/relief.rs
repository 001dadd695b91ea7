//! Asking in the place of a leader that is late, which may still be the first to answer: whoever asks goes by whichever comes
//! first. When asking fails it waits on with the others, as if it had not asked.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use weir_cache::cache_status::Forwarded;
use weir_cache::collapse::Nothing;

use super::Cached;
use super::fill::{Outcome, Reader};
use super::fills::Late;
use super::join::{Joined, join_late};
use crate::connection::Client;
use crate::connection::h1::After;
use crate::exchange::{self, Exchange};
use crate::failure::Failure;
use crate::upstream::choose::Chosen;
use crate::upstream::relay::Upstream;

/// A leader that is late, while another request asks in its place.
pub(crate) struct LateLeader {
    reader: Reader,
    /// Of the key by which requests find it, the part that tells variants apart.
    variant: Box<[u8]>,
    /// It has nothing for whoever asks in its place.
    is_over: bool,
}

/// What came first.
pub(crate) enum First {
    /// What was asked for, or why nothing came of it.
    Own(Box<Result<(Chosen, Upstream), Failure>>),
    /// The leader's answer, with which the client was answered.
    Answered(After),
    /// Nothing, but somebody else may have something by now.
    LookAgain,
}

impl LateLeader {
    pub(super) fn new(late: &Late, key: &[u8]) -> Self {
        let behind = late.key.get(key.len()..).unwrap_or_default();
        Self {
            reader: Reader::new(&late.fill),
            variant: behind.strip_prefix(b"\0").unwrap_or_default().into(),
            is_over: false,
        }
    }

    /// Asks, and answers with what the leader has if that comes first, or if asking fails.
    pub(crate) async fn ask(
        mut self,
        client: &mut Client,
        x: &mut Exchange,
        on: Cached<'_>,
    ) -> Result<First, Failure> {
        let asked = {
            let mut own = pin!(exchange::forward(client, x, on.worker, on.view, on.rule));
            poll_fn(|cx| match own.as_mut().poll(cx) {
                Poll::Ready(asked) => Poll::Ready(Some(asked)),
                Poll::Pending => self.poll_answer(cx).map(|()| None),
            })
            .await
        };
        let failed = match asked {
            Some(Err(failure)) if failure != Failure::ClientGone && !self.is_over => Some(failure),
            Some(asked) => return Ok(First::Own(Box::new(asked))),
            None => None,
        };
        x.asks_no_more(&on.worker.buffers)?;
        let said = x.recall.status.as_ref();
        let forwarded = said.and_then(|said| said.forwarded);
        let forwarded = forwarded.unwrap_or(Forwarded::Miss);
        match (
            join_late(client, x, on, self.reader, forwarded).await?,
            failed,
        ) {
            (Joined::Answered(after), _) => Ok(First::Answered(after)),
            (Joined::Nothing(Nothing::OriginFailed | Nothing::WaitedTooLong, _), Some(failure)) => {
                Ok(First::Own(Box::new(Err(failure))))
            }
            _ => Ok(First::LookAgain),
        }
    }

    /// Ready when it has an answer that whoever waits for it may have. Of another variant it is none: which one the request
    /// selects was known when it came to wait, or is left to its own answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Pending;
        }
        let Poll::Ready(outcome) = self.reader.poll_head(cx) else {
            return Poll::Pending;
        };
        let is_it = match &outcome {
            Outcome::Arriving(head, _) => head.secondary() == &*self.variant,
            Outcome::Whole(object) => object
                .stored_head()
                .is_some_and(|head| head.secondary() == &*self.variant),
            Outcome::Stale(..) | Outcome::Unshared | Outcome::Erred | Outcome::Failed(_) => false,
        };
        if is_it {
            return Poll::Ready(());
        }
        self.is_over = true;
        Poll::Pending
    }
}
