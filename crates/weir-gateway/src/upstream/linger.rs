//! A request whose client has left, while its upstream is still at work on it.
//!
//! Few services notice that nobody waits for their answer any more. If its place went to the next request at once, such a service
//! would hold more than its limit, all the more the more impatient its clients are: an hour of work for nobody, and the limit
//! would see none of it. So the request keeps its place until the service has answered, or the time for that is over. The
//! answer is for nobody, and its connection is closed with the first byte of it.
//!
//! Where there are no places, the connection is closed at once, which says to services that can hear it that they may stop.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::care::pass::Pass;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::upstream::hedge::Asked;

/// Keeps the place of the request in `x`, whose client has left, while `asked` is at work on all of it.
pub(crate) fn begin(x: &mut Exchange, asked: Asked, patience: Duration) {
    if !x.pass.has_place() || !asked.upstream.is_sent || !x.upload.is_complete() {
        return;
    }
    let pass = std::mem::take(&mut x.pass);
    tokio::task::spawn_local(wait(asked, pass, Instant::now() + patience));
}

async fn wait(asked: Asked, pass: Pass, until: Instant) {
    let mut due = Due::at(until);
    poll_fn(|cx| match asked.upstream.stream.poll_readable(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => due.poll(cx),
    })
    .await;
    drop((asked, pass));
}
