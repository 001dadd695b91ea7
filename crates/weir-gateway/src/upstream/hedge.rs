//! Asking an endpoint for the head of its response, and a second one besides when the first is late.
//!
//! A second copy is sent for requests that change nothing and have no body, once for each, when the first has taken
//! longer than most on this route do; to another endpoint that is well, if the budget of the upstream allows it and the
//! upstream has a place for it at once. Whichever good head comes first is used. A copy that fails, or whose answer would
//! be asked for again, leaves it to the other one.
//!
//! The copy that is overtaken is given up with its connection and reports nothing: that one answer came late says little
//! about an endpoint. One that hangs is found by the requests that the budget lets wait, and by those that are its own.
//!
//! The second copy runs in an exchange of its own, whose client is nobody, as part of the same task. All of that is
//! allocated when it is sent; routes that do not hedge pay for none of it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use weir_http::body::Framing;

use crate::buffers::Input;
use crate::care::gate::Place;
use crate::care::hedging::SharedHedge;
use crate::connection::Client;
use crate::deadline::{Due, Timer};
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::io::Stream;
use crate::settings::Forward;
use crate::upstream::choose::Chosen;
use crate::upstream::relay::{self, Head, Upstream};
use crate::upstream::retry::{Attempts, is_wanting};
use crate::worker::Worker;

/// An attempt that is over. Its endpoint was told.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) chosen: Chosen,
    pub(super) upstream: Upstream,
    pub(super) how: How,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The head of the response is in the exchange.
    Answered,
    Failed(Failure),
    /// It took too long, and is to be followed by another attempt.
    GivenUp,
}

/// Sends the request to an endpoint, and gets the head of its response.
pub(crate) async fn ask(
    client: &mut Client,
    x: &mut Exchange,
    attempts: &mut Attempts<'_>,
    chosen: Chosen,
    upstream: Upstream,
) -> Asked {
    let first = First { chosen, upstream };
    let Some(hedge) = hedge(client, x, attempts) else {
        return first.alone(client, x, attempts).await;
    };
    let since = first.chosen.since();
    let asked = match hedge.delay(since) {
        Some(delay) => first.hedged(client, x, attempts, since + delay).await,
        None => first.alone(client, x, attempts).await,
    };
    if asked.how == How::Answered && !is_wanting(x, attempts.rule) {
        let now = Instant::now();
        hedge.on_answer(now, now.saturating_duration_since(since));
    }
    asked
}

/// What is known of the route's latencies, if a second copy of the request may be sent.
fn hedge<'a>(client: &Client, x: &Exchange, attempts: &Attempts<'a>) -> Option<&'a SharedHedge> {
    let hedge = attempts.view.snapshot.routes[x.facts.route?]
        .hedge
        .as_deref()?;
    let may_be_copied = x.request.method.is_safe()
        && x.request.framing == Framing::Empty
        && !relay::passes_upgrade(x, attempts.rule)
        // What the gateway asks for on its own account can wait.
        && !client.stream.is_nobody();
    (may_be_copied && !attempts.has_hedged).then_some(hedge)
}

/// The first copy, for the endpoint that the balancer chose.
struct First {
    chosen: Chosen,
    upstream: Upstream,
}

impl First {
    async fn alone(
        mut self,
        client: &mut Client,
        x: &mut Exchange,
        attempts: &mut Attempts<'_>,
    ) -> Asked {
        if let Err(failure) = relay::send(client, x, attempts.rule, &mut self.upstream).await {
            return self.failed(failure);
        }
        let due = attempts.due();
        self.patiently(client, x, attempts, due).await
    }

    /// A second copy is due at the moment `at`.
    async fn hedged(
        mut self,
        client: &mut Client,
        x: &mut Exchange,
        attempts: &mut Attempts<'_>,
        at: Instant,
    ) -> Asked {
        let (worker, rule) = (attempts.worker, attempts.rule);
        if let Err(failure) = relay::send(client, x, rule, &mut self.upstream).await {
            return self.failed(failure);
        }
        let (mut at, due) = (Due::at(at), attempts.due());
        match relay::head(client, x, worker, rule, &mut self.upstream, &mut at).await {
            Err(failure) => self.failed(failure),
            Ok(Head::Late) => match Second::begin(client, x, attempts, &self.chosen) {
                Some(second) => Box::pin(race(client, x, attempts, self, second, due)).await,
                None => self.patiently(client, x, attempts, due).await,
            },
            Ok(_) => self.answered(x),
        }
    }

    /// Waits for the head with nothing else on the way, until it is `due` to be given up.
    async fn patiently(
        mut self,
        client: &mut Client,
        x: &mut Exchange,
        attempts: &mut Attempts<'_>,
        mut due: Due,
    ) -> Asked {
        let (worker, rule) = (attempts.worker, attempts.rule);
        loop {
            match relay::head(client, x, worker, rule, &mut self.upstream, &mut due).await {
                Err(failure) => return self.failed(failure),
                Ok(Head::Late) if attempts.may_send_again(x, &self.chosen) => {
                    return self.given_up();
                }
                // Nothing follows it, so it may take as long as the route allows.
                Ok(Head::Late) => due = Due::never(),
                Ok(_) => return self.answered(x),
            }
        }
    }

    fn answered(self, x: &mut Exchange) -> Asked {
        self.chosen.answered(x);
        self.ended(How::Answered)
    }

    fn failed(self, failure: Failure) -> Asked {
        self.chosen.asked_in_vain(failure, &self.upstream);
        self.ended(How::Failed(failure))
    }

    fn given_up(self) -> Asked {
        let late = Failure::ResponseTimeout;
        self.chosen.asked_in_vain(late, &self.upstream);
        self.ended(How::GivenUp)
    }

    fn ended(self, how: How) -> Asked {
        let Self { chosen, upstream } = self;
        Asked {
            chosen,
            upstream,
            how,
        }
    }
}

/// What happens next while two copies are on their way.
enum Event {
    First(Result<Head, Failure>),
    Second(Option<Box<Won>>),
}

/// Waits for whichever copy is answered first. Dropping the other one ends it.
async fn race(
    client: &mut Client,
    x: &mut Exchange,
    attempts: &mut Attempts<'_>,
    mut first: First,
    second: Second,
    mut due: Due,
) -> Asked {
    let (worker, rule) = (attempts.worker, attempts.rule);
    let mut second = pin!(second.run(worker, rule));
    loop {
        let event = {
            let upstream = &mut first.upstream;
            let mut head = pin!(relay::read_head(
                client, x, worker, rule, upstream, &mut due
            ));
            poll_fn(|cx| match head.as_mut().poll(cx) {
                Poll::Ready(head) => Poll::Ready(Event::First(head)),
                Poll::Pending => second.as_mut().poll(cx).map(Event::Second),
            })
            .await
        };
        match event {
            Event::Second(Some(won)) => return won.instead(x, worker),
            // It is at work on it, which the client is to hear: what has come is still in the exchange.
            Event::Second(None) | Event::First(Ok(Head::Interim(_))) => {
                return first.patiently(client, x, attempts, due).await;
            }
            Event::First(Ok(Head::Late)) if attempts.may_send_again(x, &first.chosen) => {
                return first.given_up();
            }
            Event::First(Ok(Head::Late)) => due = Due::never(),
            Event::First(Ok(Head::Complete)) => {
                let asked = first.answered(x);
                if is_wanting(x, rule) {
                    return second_or(asked, client, x, worker, second).await;
                }
                return asked;
            }
            Event::First(Err(failure)) => {
                let asked = first.failed(failure);
                if failure.fault() == Fault::Upstream {
                    return second_or(asked, client, x, worker, second).await;
                }
                return asked;
            }
        }
    }
}

/// The first copy has ended badly, which counts if the second does so too.
async fn second_or(
    first: Asked,
    client: &Client,
    x: &mut Exchange,
    worker: &Worker,
    mut second: Pin<&mut impl Future<Output = Option<Box<Won>>>>,
) -> Asked {
    let won = poll_fn(|cx| {
        if client.has_left(cx) {
            return Poll::Ready(Err(Failure::ClientGone));
        }
        second.as_mut().poll(cx).map(Ok)
    });
    match won.await {
        Ok(Some(won)) => won.instead(x, worker),
        Ok(None) => first,
        Err(gone) => Asked {
            how: How::Failed(gone),
            ..first
        },
    }
}

/// The second copy, which is on its own.
struct Second {
    chosen: Chosen,
    client: Client,
    x: Box<Exchange>,
    /// In the upstream, beside that of the request.
    place: Option<Place>,
}

/// The second copy with a good answer.
struct Won {
    chosen: Chosen,
    upstream: Upstream,
    x: Box<Exchange>,
}

impl Second {
    /// Makes a copy of the request, unless something speaks against it.
    fn begin(
        client: &Client,
        x: &Exchange,
        attempts: &mut Attempts<'_>,
        first: &Chosen,
    ) -> Option<Self> {
        if x.facts.head_bytes_sent > 0 {
            return None;
        }
        let (worker, view, rule) = (attempts.worker, attempts.view, attempts.rule);
        let now = Instant::now();
        attempts.choice.has_asked(first);
        let chosen = attempts.choice.besides(worker, view, rule, now)?;
        let gate = view.snapshot.upstreams[rule.upstream].gate.as_ref();
        let place = match gate {
            Some(gate) => Some(gate.enter_at_once(now)?),
            None => None,
        };
        if !attempts.may_spend(first) {
            return None;
        }
        attempts.has_hedged = true;
        attempts.choice.has_asked(&chosen);
        chosen.metrics().hedges.add(1);
        let mut own = Box::<Exchange>::default();
        own.request.method = x.request.method;
        own.request.version = x.request.version;
        own.timeouts = x.timeouts;
        own.outgoing.clone_from(&x.outgoing);
        Some(Self {
            chosen,
            client: Client {
                stream: Stream::Nobody,
                address: client.address,
                listening: None,
                input: Input::default(),
                timer: Timer::new(&worker.deadlines),
            },
            x: own,
            place,
        })
    }

    /// `None` when no good answer comes of it.
    async fn run(self, worker: &Worker, rule: &Forward) -> Option<Box<Won>> {
        let Self {
            chosen,
            mut client,
            mut x,
            place: _place,
        } = self;
        let mut upstream = match relay::connect(&client, &x, rule, &chosen, false).await {
            Ok(upstream) => upstream,
            Err(failure) => {
                if failure != Failure::NoSocket {
                    chosen.refused(failure, worker);
                }
                return None;
            }
        };
        let head = async {
            relay::send(&client, &mut x, rule, &mut upstream).await?;
            let mut never = Due::never();
            relay::head(&mut client, &mut x, worker, rule, &mut upstream, &mut never).await
        };
        if let Err(failure) = head.await {
            chosen.asked_in_vain(failure, &upstream);
            return None;
        }
        if is_wanting(&x, rule) {
            chosen.answered(&mut x);
            return None;
        }
        Some(Box::new(Won {
            chosen,
            upstream,
            x,
        }))
    }
}

impl Won {
    /// The exchange goes on with this answer.
    fn instead(self: Box<Self>, x: &mut Exchange, worker: &Worker) -> Asked {
        let Self {
            chosen,
            upstream,
            x: mut own,
        } = *self;
        std::mem::swap(&mut x.incoming, &mut own.incoming);
        std::mem::swap(&mut x.response, &mut own.response);
        own.reset(&worker.buffers);
        chosen.metrics().hedges_won.add(1);
        chosen.answered(x);
        Asked {
            chosen,
            upstream,
            how: How::Answered,
        }
    }
}
