//! Requests that a service inside the process answers.
//!
//! The whole body is here before the service is called, within the limits of the route, the service and what the gateway holds of
//! bodies. The answer is waited for as long as the client stays and the route allows; content that comes in pieces is sent
//! as fast as the client takes it, and no faster than the service makes it.

use std::sync::Arc;
use std::task::Poll;

use weir_cache::store::Grant;
use weir_http::head::HeadScan;
use weir_http::opening::End;
use weir_http::{Method, Reject, RequestHead, kept};

use crate::connection::After;
use crate::exchange::outgoing::{Behind, send, send_while};
use crate::exchange::{Exchange, KEPT_HEAD_LIMITS, upload};
use crate::failure::Failure;
use crate::respond;
use crate::service::{Answer, Ask, Content, Piece, Pieces, Service};
use crate::serving::Serving;
use crate::settings::Serve;
use crate::slow::Slow;
use crate::state::slow::{Cut, Holding};
use crate::state::worker::Worker;

/// Has the service of the route answer.
pub(crate) async fn serve(
    x: &mut Exchange,
    at: Serving<'_>,
    serve: &Serve,
) -> Result<After, Failure> {
    // It was opened with the configuration that names it.
    let service = at.route.service.as_ref().ok_or(Failure::ServiceFailed)?;
    x.upload
        .admit_no_more_than(x.request.framing, service.body_bytes_max())?;
    let (body, claim) = upload::take_whole(x, at.worker).await?;
    let answer = ask(x, at, serve, (service, body)).await?;
    // What a service keeps beyond its answer, it counts itself.
    drop(claim);
    if !answer.is_sound() {
        return Err(Failure::ServiceFailed);
    }
    respond(x, at, serve, answer).await
}

/// Waits for the answer.
async fn ask(
    x: &mut Exchange,
    at: Serving<'_>,
    serve: &Serve,
    (service, body): (&Arc<dyn Service>, Vec<u8>),
) -> Result<Answer, Failure> {
    let mut head = Vec::new();
    kept::write(
        &x.request,
        &x.head,
        x.forwarded_path(),
        body.len(),
        &mut head,
    );
    let mut request = RequestHead::default();
    // It may have one field more than the request, and one too many.
    let parsed = request.parse(&head, &mut HeadScan::default(), KEPT_HEAD_LIMITS);
    parsed.map_err(|_| Failure::Request(Reject::TooManyFields))?;
    let upstreams = &at.view.snapshot.upstreams;
    let delivery = serve.delivery.as_ref();
    let mut reply = service.call(Ask {
        route: at.route.settings.name.as_str().into(),
        upstream: delivery.map(|rule| upstreams[rule.upstream].settings.name.as_str().into()),
        client: x.client_address().address(),
        peer: x.client.address.address(),
        scheme: x.scheme(),
        parameters: parameters(x, at),
        head,
        request,
        body,
    });
    x.client.timer.set(serve.timeout);
    let answer = x
        .client
        .wait_for(Failure::ServiceTimeout, |cx| reply.poll(cx));
    answer.await?.ok_or(Failure::ServiceFailed)
}

/// What the path says for the parameters of the route.
fn parameters(x: &Exchange, at: Serving<'_>) -> Vec<(Box<str>, Box<str>)> {
    let route = x.facts.route.unwrap_or_default();
    at.view.snapshot.router.parameters(x.path(), route)
}

/// Sends the answer.
async fn respond(
    x: &mut Exchange,
    at: Serving<'_>,
    serve: &Serve,
    answer: Answer,
) -> Result<After, Failure> {
    let Answer {
        status,
        fields,
        content,
    } = answer;
    let after = respond::begin(x, at.worker, status);
    for (name, value) in &fields {
        respond::write_line(x, name, value);
    }
    let (length, pieces) = match content {
        Content::Whole(body) => {
            let rest = respond::end_head(x, at.answering(), (status, after), &body);
            if rest.is_empty() {
                send(x, Behind::Nothing).await?;
            } else {
                send_large(x, at.worker, rest).await?;
            }
            return Ok(after);
        }
        Content::Pieces(length, pieces) => (length, pieces),
    };
    respond::edit(x, at.view);
    let end = match length {
        Some(length) => {
            respond::write_length(x, length);
            End::InHead
        }
        None => End::of_unknown_length(x.request.version),
    };
    let keep_alive = after == After::KeepAlive && end != End::Close;
    x.finish_head(at.answering(), status, end, keep_alive);
    if x.request.method == Method::Head {
        send(x, Behind::Nothing).await?;
        return Ok(After::keep_alive(keep_alive));
    }
    let sent = send_pieces(x, serve, (pieces, length), end).await;
    x.after(at.worker, sent, keep_alive)
}

/// Sends content that is here whole. As long as its client does not take it, it counts as held.
async fn send_large(x: &mut Exchange, worker: &Worker, content: &[u8]) -> Result<(), Failure> {
    let mut slow = Slow::new(worker);
    let mut seen = x.facts.bytes_sent;
    send_while(x, Behind::Pieces(content, b""), |x, cx| {
        slow.took(x.facts.bytes_sent - seen);
        seen = x.facts.bytes_sent;
        let holding = || {
            let grant = Arc::new(Grant::new(&worker.shared.slow.transient));
            grant.set(content.len() as u64);
            Holding::of(&grant)
        };
        match slow.poll_cut(holding, cx) {
            Poll::Ready(Cut) => Err(Failure::ClientGone),
            Poll::Pending => Ok(()),
        }
    })
    .await
}

/// Sends what the service feeds, until its end.
async fn send_pieces(
    x: &mut Exchange,
    serve: &Serve,
    (mut pieces, length): (Pieces, Option<u64>),
    end: End,
) -> Result<(), Failure> {
    // The head is on its way before the first piece is waited for, which may take long.
    send(x, Behind::Nothing).await?;
    let mut sent = 0;
    loop {
        // A service that feeds as fast as its client reads takes turns with other requests.
        tokio::task::coop::consume_budget().await;
        x.client.timer.set(serve.timeout);
        let piece = x
            .client
            .wait_for(Failure::ServiceTimeout, |cx| pieces.poll(cx));
        match piece.await?.ok_or(Failure::ServiceFailed)? {
            Piece::Content(content) => {
                sent += content.len() as u64;
                if length.is_some_and(|length| sent > length) {
                    return Err(Failure::ServiceFailed);
                }
                if !content.is_empty() {
                    let behind = end.begin_piece(content.len(), &mut x.outgoing.bytes);
                    send(x, Behind::Pieces(&content, behind)).await?;
                }
            }
            Piece::End if length.is_none_or(|length| sent == length) => {
                end.finish(b"", &mut x.outgoing.bytes);
                return send(x, Behind::Nothing).await;
            }
            Piece::End => return Err(Failure::ServiceFailed),
        }
    }
}
