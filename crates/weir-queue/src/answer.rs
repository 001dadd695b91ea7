//! What clients are answered.

use std::fmt::Write as _;

use weir_gateway::service::Answer;

use crate::token::Secret;

/// Where messages are asked for, in front of the name of their queue.
pub const LOCATION: &str = "/.weir/queue/";

/// A request that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The offset of its first message.
    pub(crate) first: u64,
    /// How many messages it has.
    pub(crate) count: u32,
    /// It was not kept before.
    pub(crate) is_new: bool,
}

/// Why a request is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room.
    Full,
    /// What waits is too old.
    Old,
    /// The disk has refused.
    Disk,
    /// More has come than can be written.
    Busy,
    /// Another request had the same `Idempotency-Key`.
    OtherContent,
    /// The `Idempotency-Key` is empty or too long.
    BadId,
    /// The messages of the batch are too much together, with the head that each has.
    TooMuch,
    /// A message of the batch is too large, or there is none.
    BadBatch,
    /// The content of a batch is compressed.
    Encoded,
    /// What is written before the request is too long: names, key, id.
    TooLong,
}

/// Makes answers for a queue.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    secret: Secret,
}

impl Answers {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { secret }
    }

    /// 202 with the offset, and where to ask what became of it.
    pub(crate) fn accepted(&self, queue: &str, accepted: Accepted) -> Answer {
        let mut location = String::with_capacity(LOCATION.len() + queue.len() + 38);
        location.extend([LOCATION, queue, "/"]);
        self.secret.write(accepted.first, &mut location);
        let mut body = String::with_capacity(48);
        let _ = write!(body, "{{\"offset\":{}", accepted.first);
        if accepted.count > 1 {
            let _ = write!(body, ",\"messages\":{}", accepted.count);
        }
        if !accepted.is_new {
            body.push_str(",\"duplicate\":true");
        }
        body.push_str("}\n");
        let answer = Answer::new(202);
        let answer = answer.with("content-type", *b"application/json");
        answer.with("location", location).content(body)
    }

    /// The offset of a message whose name was told.
    pub(crate) fn offset(&self, name: &str) -> Option<u64> {
        self.secret.read(name)
    }
}

/// An answer that says what was found, and when to come again.
pub(crate) fn refused(refusal: Refusal) -> Answer {
    let (status, retry_after, error) = match refusal {
        Refusal::Full => (503, Some("10"), "the queue is full"),
        Refusal::Old => (503, Some("10"), "what waits in the queue is too old"),
        Refusal::Disk => (503, Some("5"), "the queue cannot be written"),
        Refusal::Busy => (503, Some("1"), "more has come than can be written"),
        Refusal::OtherContent => (
            422,
            None,
            "another request was accepted under this Idempotency-Key",
        ),
        Refusal::BadId => (400, None, "expected an Idempotency-Key of 1 to 255 bytes"),
        Refusal::BadBatch => (
            400,
            None,
            "expected lines of JSON, at least one and at most 10000",
        ),
        Refusal::TooMuch => (
            413,
            None,
            "each line is kept with the head of the request, and that is too much",
        ),
        Refusal::Encoded => (
            415,
            None,
            "expected lines of JSON without a Content-Encoding",
        ),
        Refusal::TooLong => (431, None, "the head of the request is too long to be kept"),
    };
    let answer = Answer::new(status).with("content-type", *b"application/json");
    let answer = match retry_after {
        Some(seconds) => answer.with("retry-after", seconds),
        None => answer,
    };
    answer.content(format!("{{\"error\":\"{error}\"}}\n"))
}
