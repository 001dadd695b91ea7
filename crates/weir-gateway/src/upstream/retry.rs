//! Whether a request that was not answered well is sent again, and when.
//!
//! Two kinds of repetition are told apart by what an endpoint can have noticed:
//!
//! - **Nothing.** A connection did not stand, or one that was kept had died of old age. The request goes on at once and the
//!   budget is not asked, because this cannot multiply the load: no endpoint is connected to twice, and only once is a
//!   request sent again because of a connection that was kept.
//! - **The request.** An answer has a status of the route's rule, the connection ended before the answer, or the time of
//!   the attempt is over. That is repeated only where a route says so, once acting twice is like acting once, everything
//!   that was sent is still here, the client has been sent nothing, attempts are left, and the budget of the upstream
//!   has one left, which is asked last because it takes what it allows. Before that is a wait.
//!
//! An answer that is to be bettered is kept until another connection stands: when there is nobody else to ask, it is
//! what the client gets.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::buffers::BUFFER_BYTES;
use crate::care;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::outgoing::Told;
use crate::failure::{Failure, Fault};
use crate::metrics::RetryReason;
use crate::serving::Forwarding;
use crate::settings::{Forward, RetryRule};
use crate::state::budget::SharedBudget;
use crate::time;
use crate::upstream::choose::Choice;
use crate::upstream::chosen::Chosen;
use crate::upstream::hedge::{Asked, How};
use crate::upstream::{linger, passing};

/// Where the endpoint stands that is asked, and stays when it has answered: it is large, and the next step finds it there.
pub(crate) type Slot = Option<Asked>;

/// The attempts to get one request answered.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    pub(super) by: Forwarding<'a>,
    pub(super) choice: Choice,
    /// Of the upstream, on routes that send again or hedge.
    budget: Option<&'a SharedBudget>,
    /// Whether it was sent again after a connection from the pool was found dead, and after a fresh one died where no rule
    /// says what to do. Each may happen once.
    was_stale: bool,
    was_dropped: bool,
    /// How often it was sent to an endpoint that noticed; second copies are not counted.
    sent: u32,
    /// Whether a second copy was sent.
    pub(super) has_hedged: bool,
    /// Before it is sent again.
    wait: Option<Duration>,
    /// An answer that is to be bettered. Its head, and what has come of its body, are in the exchange.
    kept: Option<Box<Asked>>,
}

/// What follows an attempt: another one, or the end.
type Then = ControlFlow<Result<(), Failure>>;

impl<'a> Attempts<'a> {
    pub(crate) fn new(x: &Exchange, by: Forwarding<'a>) -> Self {
        let RetryRule {
            attempts, hedge, ..
        } = &by.rule.care.retry;
        let may_multiply = *attempts > 1 || hedge.is_some();
        let upstream = by.upstream();
        let budget = may_multiply.then_some(&*upstream.retry_budget);
        if let Some(budget) = budget {
            budget.on_request(time::now());
        }
        Self {
            by,
            choice: Choice::new(x, by),
            budget,
            was_stale: false,
            was_dropped: false,
            sent: 1,
            has_hedged: false,
            wait: None,
            kept: None,
        }
    }

    /// The endpoint to ask next.
    pub(crate) fn choose(&self, x: &mut Exchange, now: Instant) -> Result<Chosen, Failure> {
        let chosen = self.choice.next(x, self.by, now)?;
        x.facts.endpoint = Some((chosen.upstream, chosen.endpoint));
        x.facts.connect_error = None;
        Ok(chosen)
    }

    /// Whether the next connection must not be one from the pool.
    pub(crate) fn wants_fresh(&self) -> bool {
        self.was_stale || self.was_dropped
    }

    /// Nobody is left to ask. An answer that was to be bettered is better than none.
    pub(crate) fn end(
        &mut self,
        x: &mut Exchange,
        slot: &mut Slot,
        failure: Failure,
    ) -> Result<(), Failure> {
        let kept = self.kept.take().ok_or(failure)?;
        x.facts.endpoint = Some((kept.chosen.upstream, kept.chosen.endpoint));
        x.facts.connect_error = None;
        *slot = Some(*kept);
        Ok(())
    }

    /// After a connection did not stand, any other endpoint may be asked: nothing was sent.
    pub(crate) fn after_connecting(
        &mut self,
        failure: Failure,
        chosen: &Chosen,
        (x, slot): (&mut Exchange, &mut Slot),
    ) -> Then {
        if failure == Failure::NoSocket {
            // What is kept for later is no use when there is nothing for now.
            self.by.view.close_idle();
            return ControlFlow::Break(self.end(x, slot, failure));
        }
        if failure.fault() == Fault::Client {
            return ControlFlow::Break(Err(failure));
        }
        chosen.refused(failure);
        x.facts.connect_error = chosen.connect_error(failure);
        if self.choice.note_unreachable(chosen) {
            again(chosen, RetryReason::Unreachable)
        } else {
            ControlFlow::Break(self.end(x, slot, failure))
        }
    }

    /// After an endpoint was asked: its answer, which stays in the slot, or another attempt.
    pub(crate) fn after_asking(&mut self, x: &mut Exchange, slot: &mut Slot, how: How) -> Then {
        if how == How::Answered && !is_wanting(x, self.by.rule) {
            return ControlFlow::Break(Ok(()));
        }
        let Some(asked) = slot.take() else {
            return ControlFlow::Break(Err(Failure::UpstreamClosed));
        };
        let chosen = &asked.chosen;
        match how {
            How::Answered if self.claim_repeat(x, chosen) => {
                let then = again(chosen, RetryReason::Status);
                self.kept = Some(Box::new(asked));
                then
            }
            How::Answered => {
                *slot = Some(asked);
                ControlFlow::Break(Ok(()))
            }
            How::GivenUp => {
                let then = again(chosen, RetryReason::Late);
                let patience = self.by.rule.timeouts.response;
                linger::begin(x, self.by.worker, asked, patience);
                then
            }
            How::Failed(failure) => match self.after_failing(failure, x, &asked) {
                Some(why) => again(chosen, why),
                None => ControlFlow::Break(Err(failure)),
            },
        }
    }

    /// Why the request may be sent again after no answer came.
    ///
    /// A connection from the pool has most likely died of old age, so once it is sent again if none of it was sent, or
    /// if acting on it twice is like acting on it once (RFC 9112 §9.3.1). When a fresh connection dies the endpoint may
    /// well have acted on it. A route with a rule says how that goes on; without one it is repeated, once, only for
    /// methods that change nothing (RFC 9110 §9.2.1).
    fn after_failing(
        &mut self,
        failure: Failure,
        x: &Exchange,
        Asked { chosen, upstream }: &Asked,
    ) -> Option<RetryReason> {
        if upstream.has_closed_silently(failure) && x.upload.is_unsent() {
            let method = x.request.method;
            let (is_harmless, was_repeated, why) = if upstream.is_reused {
                let is_harmless = method.is_idempotent();
                (is_harmless, &mut self.was_stale, RetryReason::Stale)
            } else {
                let is_harmless = method.is_safe() && self.by.rule.care.retry.attempts == 1;
                (is_harmless, &mut self.was_dropped, RetryReason::Closed)
            };
            let is_unheard = upstream.wire.bytes_sent() == 0;
            if (is_unheard || is_harmless) && !std::mem::replace(was_repeated, true) {
                return Some(why);
            }
        }
        let has_closed = failure == Failure::UpstreamClosed;
        (has_closed && self.claim_repeat(x, chosen)).then_some(RetryReason::Closed)
    }

    /// Whether the request may be sent again that an endpoint has seen. It must be then: the budget is charged.
    pub(super) fn claim_repeat(&mut self, x: &Exchange, chosen: &Chosen) -> bool {
        let RetryRule {
            attempts, backoff, ..
        } = &self.by.rule.care.retry;
        let is_repeatable = self.sent < *attempts
            && x.request.method.is_idempotent()
            && x.upload.is_unsent()
            && x.outgoing.told() == Told::Nothing;
        if !is_repeatable || !self.spend(chosen) {
            return false;
        }
        let random = &mut *self.by.worker.random.borrow_mut();
        self.wait = Some(backoff.before(self.sent, random));
        self.sent += 1;
        self.choice.note_asked(chosen);
        true
    }

    /// Takes one more copy of the request out of the budget.
    pub(super) fn spend(&self, chosen: &Chosen) -> bool {
        let has_budget = self
            .budget
            .is_some_and(|budget| budget.try_spend(time::now()));
        if !has_budget {
            chosen.metrics().retries_refused.add(1);
        }
        has_budget
    }

    /// When an attempt that begins to wait now has taken too long, if another one may follow it.
    pub(super) fn due(&self) -> Due {
        let RetryRule {
            attempts, per_try, ..
        } = &self.by.rule.care.retry;
        let per_try = per_try.filter(|_| self.sent < *attempts);
        per_try.map_or_else(Due::never, |per_try| Due::at(time::now() + per_try))
    }

    /// Waits until the request may be sent again, and makes it ready. The client may leave meanwhile, and there may be no
    /// place in the upstream any more: the one that it had is not kept for a wait, and was given away if its endpoint was taken out.
    pub(crate) async fn ready(&mut self, x: &mut Exchange) -> Result<(), Failure> {
        if self.kept.is_none() {
            x.incoming.consume(x.incoming.unread().len());
            x.incoming.release(&self.by.worker.buffers);
        }
        if let Some(wait) = self.wait.take() {
            x.facts.was_repeated = true;
            let is_kept = wait.is_zero() && !x.pass.was_given_up();
            let is_given_back = !is_kept && x.pass.give_place_back();
            // Or it stays with the attempt before, on which the upstream is still at work.
            let had_place = is_given_back || x.pass.has_left_place();
            let mut due = Due::at(time::now() + wait);
            // It passes later than `due`, unless the worker is cut off.
            x.client.timer.set(wait);
            poll_fn(|cx| {
                self.take_rest(x, cx);
                if x.client.has_left(cx) {
                    return Poll::Ready(Err(Failure::ClientGone));
                }
                let is_over = due.poll(cx).is_ready() || x.client.timer.poll(cx).is_ready();
                if is_over {
                    Poll::Ready(Ok(()))
                } else {
                    Poll::Pending
                }
            })
            .await?;
            if had_place {
                care::enter_again(x, self.by).await?;
            }
        }
        x.upload.restart();
        Ok(())
    }

    /// Reads on in an answer that is kept, so that its connection can serve again when all of it is here.
    fn take_rest(&mut self, x: &mut Exchange, cx: &mut Context<'_>) {
        let Some(kept) = &mut self.kept else { return };
        let mut goes_on = true;
        while goes_on && x.incoming.unread().len() < BUFFER_BYTES {
            let buffers = &self.by.worker.buffers;
            let filled = kept.upstream.wire.poll_read(&mut x.incoming, buffers, cx);
            goes_on = matches!(filled, Poll::Ready(Ok(1..)));
        }
    }

    /// Another connection stands: what was kept is given up, and its connection serves again if all of it was read.
    pub(crate) fn let_go(&mut self, x: &mut Exchange) {
        let Some(kept) = self.kept.take() else { return };
        let Asked {
            chosen,
            mut upstream,
        } = *kept;
        x.incoming.consume(x.response.head_bytes);
        upstream.wire.begin_body(x.response.framing);
        if let Ok(taken) = upstream.wire.take_body(x.incoming.unread()) {
            x.incoming.consume(taken);
        }
        passing::put_back(x, self.by.worker, &chosen, upstream);
        x.incoming.consume(x.incoming.unread().len());
        x.incoming.release(&self.by.worker.buffers);
        x.facts.upstream_latency = None;
        x.facts.answered_at = None;
    }
}

/// Whether the answer in `x` is one that is asked for again.
pub(super) fn is_wanting(x: &Exchange, rule: &Forward) -> bool {
    rule.care.retry.statuses.has(x.response.status)
}

fn again(chosen: &Chosen, why: RetryReason) -> Then {
    chosen.metrics().retries[why as usize].add(1);
    ControlFlow::Continue(())
}
