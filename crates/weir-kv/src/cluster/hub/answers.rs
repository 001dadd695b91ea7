//! What clients of `/v0` are told of what came of an operation.

use weir_gateway::service::Answer;

use crate::api;
use crate::cluster::ToAnswer;
use crate::coordinator;
use crate::tally::{Begun, Ended};

/// When replicas did not answer.
pub(crate) fn too_few() -> Answer {
    api::text(504, "too few replicas answered in time")
}

/// When the operation has not begun.
pub(crate) fn too_many() -> Answer {
    api::busy("too many requests are under way")
}

/// What the client of a write is told.
pub(crate) fn written(status: u16, begun: Begun) -> ToAnswer {
    Box::new(move |outcome| {
        begun.end(Ended::of(&outcome));
        match outcome {
            Ok(coordinator::Answer::TooFew) => too_few(),
            Ok(_) => Answer::new(status),
            Err(_) => too_many(),
        }
    })
}
