//! Request bodies: kept for the form, the beginning of it for the event, left alone for the rest.
//!
//! What a body means is not known here. The client decides neither its size in memory nor how long it may take.

use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};

use super::events;
use super::functions::{Function, Route};

/// The longest form that is kept.
pub(super) const FORM_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take to send a whole body.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

/// Why there is no body to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// Longer than [`FORM_BYTES_MAX`].
    TooLarge,
    /// Not complete within [`BODY_DEADLINE`].
    TooSlow,
    /// The framing is wrong, or the client went away.
    Broken,
}

/// Receives what `route` needs of the body. For others the result is empty.
pub(super) async fn body<B>(body: B, route: Route) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let received = async {
        match route {
            Route::To(Function::WhatIsMyName | Function::Produce) => keep(body).await,
            Route::To(Function::SendEvent) => beginning(body, events::BYTES_MAX).await,
            _ => Ok(Bytes::new()),
        }
    };
    tokio::time::timeout(BODY_DEADLINE, received)
        .await
        .unwrap_or(Err(BodyFault::TooSlow))
}

async fn keep<B>(body: B) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    // An announced length that is too large is refused before the first byte, and so without `100 Continue`.
    if body.size_hint().lower() > FORM_BYTES_MAX as u64 {
        return Err(BodyFault::TooLarge);
    }
    match Limited::new(body, FORM_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyFault::TooLarge),
        Err(_) => Err(BodyFault::Broken),
    }
}

/// The first bytes of a body of any length; what follows is read and dropped.
async fn beginning<B: Body<Data = Bytes>>(body: B, max: usize) -> Result<Bytes, BodyFault> {
    let mut body = std::pin::pin!(body);
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyFault::Broken)?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        kept.extend_from_slice(&data[..data.len().min(max - kept.len())]);
    }
    Ok(kept.into())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    const FORM: Route = Route::To(Function::WhatIsMyName);
    const EVENT: Route = Route::To(Function::SendEvent);

    /// A body that comes in pieces of these lengths and then ends as `end` says.
    struct Pieces {
        lengths: VecDeque<usize>,
        end: End,
    }

    #[derive(Clone, Copy)]
    enum End {
        Complete,
        Reset,
        Silence,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match (self.lengths.pop_front(), self.end) {
                (Some(length), _) => Poll::Ready(Some(Ok(Frame::data(vec![b'x'; length].into())))),
                (None, End::Complete) => Poll::Ready(None),
                (None, End::Reset) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
                (None, End::Silence) => Poll::Pending,
            }
        }
    }

    /// The length of what was received. The clock is paused, so a deadline passes as soon as nothing else can happen.
    fn received_bytes(route: Route, lengths: &[usize], end: End) -> Result<usize, BodyFault> {
        let pieces = Pieces {
            lengths: lengths.iter().copied().collect(),
            end,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime
            .block_on(body(pieces, route))
            .map(|bytes| bytes.len())
    }

    #[test]
    fn a_form_is_kept_up_to_its_limit() {
        assert_eq!(received_bytes(FORM, &[], End::Complete), Ok(0));
        assert_eq!(received_bytes(FORM, &[3, 4], End::Complete), Ok(7));
        assert_eq!(
            received_bytes(FORM, &[FORM_BYTES_MAX - 1, 1], End::Complete),
            Ok(FORM_BYTES_MAX)
        );
        assert_eq!(
            received_bytes(FORM, &[FORM_BYTES_MAX, 1], End::Silence),
            Err(BodyFault::TooLarge)
        );
    }

    #[test]
    fn an_event_is_taken_whatever_its_length_and_little_of_it_is_kept() {
        for (lengths, kept) in [
            (&[FORM_BYTES_MAX; 3][..], events::BYTES_MAX),
            (&[100, 27], 127),
            (&[100, 0, 1000, 1], events::BYTES_MAX),
            (&[], 0),
        ] {
            assert_eq!(received_bytes(EVENT, lengths, End::Complete), Ok(kept));
        }
    }

    #[test]
    fn a_body_that_breaks_or_stalls_is_told_apart() {
        for route in [FORM, EVENT] {
            assert_eq!(
                received_bytes(route, &[5], End::Reset),
                Err(BodyFault::Broken)
            );
            assert_eq!(
                received_bytes(route, &[5], End::Silence),
                Err(BodyFault::TooSlow)
            );
        }
    }

    #[test]
    fn a_body_that_nobody_asked_for_is_not_waited_for() {
        for route in [
            Route::To(Function::Handle),
            Route::WrongMethod { allow: "GET" },
            Route::Unknown,
        ] {
            assert_eq!(received_bytes(route, &[5], End::Silence), Ok(0));
        }
    }
}
