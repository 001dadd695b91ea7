//! What is kept: the seam between the service and the place where its rows are.

use std::fmt::Debug;

use weir_gateway::service::{Answer, Replier};

use super::query::Query;
use crate::engine::Then;

/// An event of a user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) user: String,
    /// When it was, in milliseconds since 1970.
    pub(super) time_ms: u64,
    pub(super) id: String,
    /// JSON.
    pub(super) data: String,
    /// Who sent it has named it, so it may be there already.
    pub(super) is_named: bool,
}

impl Row {
    pub(super) fn bytes(&self) -> usize {
        self.user.len() + self.id.len() + self.data.len()
    }
}

/// Keeps rows, and answers from whatever thread has the result.
pub(super) trait Rows: Debug + Send + Sync {
    /// Writes rows, unless they are there. They are durable when that is known.
    fn write(&self, rows: Vec<Row>, then: Then<()>);

    /// Finds rows, the newest first; of one time, the greater id.
    fn read(&self, query: Query, then: Then<Vec<Row>>);

    /// Whether nothing is under way any more.
    fn is_idle(&self) -> bool;
}

/// What waits to be written together.
pub(super) struct Write {
    pub(super) rows: Vec<Row>,
    pub(super) then: Then<()>,
}

/// Bytes of a row or a question besides what it says, about.
const ROW_BYTES: usize = 128;

impl Write {
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| ROW_BYTES + row.bytes());
        rows.sum::<usize>() + ROW_BYTES
    }
}

/// What waits to be read.
pub(super) struct Read {
    pub(super) query: Query,
    pub(super) then: Then<Vec<Row>>,
}

/// Gives the answers that there are.
pub(super) fn answer(answers: impl IntoIterator<Item = Option<(Replier, Answer)>>) {
    Replier::answer_all(answers.into_iter().flatten());
}
