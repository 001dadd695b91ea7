//! A control connection whose client must read: an answer that is not taken in time ends it.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream with a deadline for each answer: it begins with the first write, and all is written when it is flushed.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    answer_timeout: Duration,
    answer_due: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// `answer_timeout` is for reading one answer as a whole.
    pub(super) fn new(stream: S, answer_timeout: Duration) -> Self {
        Self {
            stream,
            answer_timeout,
            answer_due: None,
        }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let timeout = self.answer_timeout;
        let due = self
            .answer_due
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        due.as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Also while it takes a little now and then.
        if let Poll::Ready(late) = self.poll_due(cx) {
            return Poll::Ready(late);
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.answer_due = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("there is a runtime");
        runtime.block_on(test);
    }

    #[test]
    fn an_answer_that_is_not_read_ends_its_connection() {
        run(async {
            let (ours, _theirs) = tokio::io::duplex(16);
            let written = Patient::new(ours, SHORT).write_all(&[0; 64]).await;
            let error = written.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn one_that_is_read_a_byte_at_a_time_ends_it_too() {
        run(async {
            let (ours, mut theirs) = tokio::io::duplex(1);
            tokio::spawn(async move {
                while theirs.read_u8().await.is_ok() {
                    tokio::time::sleep(SHORT / 4).await;
                }
            });
            let written = Patient::new(ours, SHORT).write_all(&[0; 4096]).await;
            assert!(written.is_err());
        });
    }

    #[test]
    fn each_answer_has_its_own_time() {
        run(async {
            let (ours, mut theirs) = tokio::io::duplex(16);
            let mut ours = Patient::new(ours, Duration::from_secs(3600));
            ours.write_all(&[1; 16]).await.expect("there is room");
            assert!(ours.answer_due.is_some());
            ours.flush().await.expect("it is written");
            assert!(ours.answer_due.is_none());
            theirs.read_exact(&mut [0; 16]).await.expect("it is here");
        });
    }
}
