//! A request whose client has left, while its upstream is still at work on it.
//!
//! Few services notice that nobody waits for their answer any more. If its place went to the next request at once, such a service
//! would hold more than its limit, all the more the more impatient its clients are: an hour of work for nobody, and the limit
//! would see none of it. So the request keeps its place until the service has answered, or the time for that is over. The
//! answer is for nobody, and its connection is closed with the first byte of it.
//!
//! A client that has left counts as a connection of its address meanwhile: it takes no more places by leaving than by staying.
//! It holds nothing but the place: no probe of a breaker, and nobody is told how it ended.
//!
//! Where there are no places, the connection is closed at once, which says to services that can hear it that they may stop.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::care::gate::Place;
use crate::connection::Client;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::upstream::hedge::Asked;
use crate::worker::{Shared, Worker};

/// Keeps the place of the request in `x`, whose client has left, while `asked` is at work on all of it, for `patience` after it
/// was asked.
pub(crate) fn begin(
    client: &Client,
    x: &mut Exchange,
    worker: &Worker,
    asked: Asked,
    patience: Duration,
) {
    if !asked.upstream.is_sent || !x.upload.is_complete() {
        return;
    }
    let address = x.client_address(client).address();
    if x.pass.has_place()
        && let Some(stay) = Stay::of(address, &worker.shared)
        && let Some(place) = x.pass.give_up()
    {
        tokio::task::spawn_local(wait(asked, place, stay, patience));
    }
}

async fn wait(asked: Asked, place: Place, stay: Stay, patience: Duration) {
    asked.chosen.tells_nobody();
    let mut due = Due::at(asked.chosen.since() + patience);
    poll_fn(|cx| match asked.upstream.stream.poll_readable(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => due.poll(cx),
    })
    .await;
    drop((asked, place, stay));
}

/// A connection of a client in the counts, though it is closed.
struct Stay {
    address: IpAddr,
    shared: Arc<Shared>,
}

impl Stay {
    fn of(address: IpAddr, shared: &Arc<Shared>) -> Option<Self> {
        let shared = Arc::clone(shared);
        let may_stay = shared.admission.enter(address);
        may_stay.then_some(Self { address, shared })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.shared.admission.leave(self.address);
    }
}
