//! Asking an endpoint for the head of its response, and a second one besides when the first is late.
//!
//! A second copy is sent for requests that change nothing and have no body, once for each, when the first has taken
//! longer than most on this route do; to another endpoint that is well, if the budget of the upstream allows it and the
//! upstream has a place for it at once. Whichever good head comes first is used. A copy that fails, or whose answer would
//! be asked for again, leaves it to the other one.
//!
//! The copy that is overtaken is given up with its connection and reports nothing: that one answer came late says little
//! about an endpoint. One that hangs for good is not hidden by that: with each copy that overtakes it the delay grows, and
//! the budget runs out, until enough requests wait for it at once.
//!
//! Routes that do not hedge pay for none of it.

mod second;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use weir_http::body::Framing;

use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::state::hedging::SharedHedge;
use crate::state::worker::Worker;
use crate::time;
use crate::upstream::chosen::Chosen;
use crate::upstream::hedge::second::{Second, Won};
use crate::upstream::relay::{self, Head, Upstream};
use crate::upstream::retry::{Attempts, is_wanting};

/// An endpoint, and the connection on which it is asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) chosen: Chosen,
    pub(crate) upstream: Upstream,
}

/// How an attempt ended. Its endpoint was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The head of the response is in the exchange.
    Answered,
    Failed(Failure),
    /// It took too long, and is to be followed by another attempt.
    GivenUp,
}

/// Sends the request to an endpoint, and gets the head of its response. It may be another endpoint's: `first` is then who
/// has answered.
pub(crate) async fn ask(x: &mut Exchange, attempts: &mut Attempts<'_>, first: &mut Asked) -> How {
    let since = first.chosen.since();
    let hedge = hedge(x, attempts);
    let delay = hedge.and_then(|hedge| hedge.delay(since));
    if let Err(failure) = relay::send(x, attempts.by, &mut first.upstream).await {
        return first.failed(failure);
    }
    let due = attempts.due();
    let hedge_at = delay.map(|delay| Due::at(since + delay));
    let how = first.wait(x, attempts, hedge_at, due).await;
    if let Some(hedge) = hedge
        && how == How::Answered
        && !is_wanting(x, attempts.by.rule)
    {
        let now = time::now();
        hedge.on_answer(now, now.saturating_duration_since(since));
    }
    how
}

/// What is known of the route's latencies, if a second copy of the request may be sent.
fn hedge<'a>(x: &Exchange, attempts: &Attempts<'a>) -> Option<&'a SharedHedge> {
    let by = attempts.by;
    // How fast another upstream answers says nothing about the route's own.
    let hedge = by.care?.hedge.as_deref()?;
    let may_be_copied = x.request.method.is_safe()
        && x.request.framing == Framing::Empty
        && !relay::passes_upgrade(x, by.rule)
        // What the gateway asks for on its own account can wait.
        && !x.client.is_nobody();
    (may_be_copied && !attempts.has_hedged).then_some(hedge)
}

impl Asked {
    /// Waits for the head until it is `due` to be given up. The time for a second copy comes once, if at all.
    async fn wait(
        &mut self,
        x: &mut Exchange,
        attempts: &mut Attempts<'_>,
        mut hedge_at: Option<Due>,
        mut due: Due,
    ) -> How {
        let by = attempts.by;
        loop {
            let until = hedge_at.as_mut().unwrap_or(&mut due);
            let upstream = &mut self.upstream;
            match relay::read_head(x, by, upstream, until).await {
                Err(failure) => return self.failed(failure),
                Ok(Head::Interim(bytes)) => {
                    let passed = relay::interim(x, by, upstream, bytes);
                    if let Err(failure) = Box::pin(passed).await {
                        return self.failed(failure);
                    }
                }
                Ok(Head::Late) if hedge_at.take().is_some() => {
                    let Some(second) = Second::begin(x, attempts, &self.chosen) else {
                        continue;
                    };
                    let second = Box::pin(second.run(by));
                    return Box::pin(race(x, attempts, self, second, due)).await;
                }
                Ok(Head::Late) if attempts.claim_repeat(x, &self.chosen) => {
                    return self.given_up();
                }
                // Nothing follows it, so it may take as long as the route allows.
                Ok(Head::Late) => due = Due::never(),
                Ok(Head::Complete) => return self.answered(x),
            }
        }
    }

    fn answered(&self, x: &mut Exchange) -> How {
        self.chosen.answered(x);
        How::Answered
    }

    fn failed(&self, failure: Failure) -> How {
        self.chosen.asked_in_vain(failure, &self.upstream);
        How::Failed(failure)
    }

    fn given_up(&self) -> How {
        let late = Failure::ResponseTimeout;
        self.chosen.asked_in_vain(late, &self.upstream);
        How::GivenUp
    }
}

/// What happens next while two copies are on their way.
enum Event {
    First(Result<Head, Failure>),
    /// `None` when nothing good came of it.
    Second(Option<Box<Won>>),
}

/// Waits for whichever copy is answered first. The other one is dropped, which ends it.
async fn race(
    x: &mut Exchange,
    attempts: &mut Attempts<'_>,
    first: &mut Asked,
    mut second: Pin<Box<impl Future<Output = Option<Box<Won>>>>>,
    mut due: Due,
) -> How {
    let by = attempts.by;
    loop {
        let event = {
            let upstream = &mut first.upstream;
            let mut head = pin!(relay::read_head(x, by, upstream, &mut due));
            poll_fn(|cx| match head.as_mut().poll(cx) {
                Poll::Ready(head) => Poll::Ready(Event::First(head)),
                Poll::Pending => second.as_mut().poll(cx).map(Event::Second),
            })
            .await
        };
        match event {
            Event::Second(Some(won)) => return won.instead(first, x, by.worker),
            // It is at work on it, which the client is to hear: what has come is still in the exchange.
            Event::Second(None) | Event::First(Ok(Head::Interim(_))) => {
                drop(second);
                return Box::pin(first.wait(x, attempts, None, due)).await;
            }
            Event::First(Ok(Head::Late)) if attempts.claim_repeat(x, &first.chosen) => {
                return first.given_up();
            }
            Event::First(Ok(Head::Late)) => due = Due::never(),
            Event::First(Ok(Head::Complete)) => {
                let how = first.answered(x);
                if is_wanting(x, by.rule) {
                    return second_or(how, x, by.worker, first, second).await;
                }
                return how;
            }
            Event::First(Err(failure)) => {
                let how = first.failed(failure);
                if failure.fault() == Fault::Upstream {
                    return second_or(how, x, by.worker, first, second).await;
                }
                return how;
            }
        }
    }
}

/// The first copy has ended badly, which counts if the second does so too.
async fn second_or(
    how: How,
    x: &mut Exchange,
    worker: &Worker,
    first: &mut Asked,
    mut second: Pin<Box<impl Future<Output = Option<Box<Won>>>>>,
) -> How {
    let won = poll_fn(|cx| {
        if x.client.has_left(cx) {
            return Poll::Ready(Err(Failure::ClientGone));
        }
        second.as_mut().poll(cx).map(Ok)
    });
    match won.await {
        Ok(Some(won)) => won.instead(first, x, worker),
        Ok(None) => how,
        Err(gone) => {
            // The first copy has ended: nobody is at work where its place is.
            x.pass.give_place_back();
            How::Failed(gone)
        }
    }
}
