//! What is kept: the seam between the service and the place where its rows are.

use std::sync::Arc;
use std::time::Duration;

use weir_gateway::service::{Answer, Replier};

use super::query::Query;
use crate::database::inbox::Inbox;
use crate::database::thread::Thread;
use crate::engine::{EngineError, Then};

/// An event of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// What it is known by.
    #[cfg(any(feature = "cassandra", feature = "postgres"))]
    pub(super) fn name(&self) -> (&str, u64, &str) {
        (&self.user, self.time_ms, &self.id)
    }
}

/// How long rows that were posted may take to be written in a database. Their client waits for ten seconds.
#[cfg(any(feature = "cassandra", feature = "postgres"))]
pub(super) const POST: Duration = Duration::from_secs(6);

/// What becomes of those that are left after so long.
pub(super) fn too_late(within: Duration) -> EngineError {
    let why = format!("not all rows were written within {within:?}: some may be there");
    EngineError::Failed(why)
}

/// Bytes of the rows of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The rows of an answer, as many as it may have.
#[derive(Debug, Default)]
pub(super) struct Answered {
    rows: Vec<Row>,
    bytes: usize,
}

impl Answered {
    /// # Errors
    /// There are too many: to find fewer, one has to ask for fewer.
    pub(super) fn push(&mut self, row: Row) -> Result<(), EngineError> {
        self.bytes += row.bytes();
        if self.bytes > ANSWER_BYTES_MAX {
            let why = format!(
                "these rows have more than {ANSWER_BYTES_MAX} bytes: ask for fewer, by last or limit"
            );
            return Err(EngineError::Refused(why));
        }
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn rows(self) -> Vec<Row> {
        self.rows
    }
}

/// Bytes of rows that wait, and questions.
const WRITES_BYTES_MAX: usize = 64 << 20;
const READS_MAX: usize = 4096;

/// A table that is open: what is asked of it waits for the threads of its engine, which answer.
pub(super) struct Rows {
    waiting: Waiting,
    /// They end when both inboxes are closed.
    threads: Vec<Thread>,
}

/// What waits, for whoever takes it.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) writes: Arc<Inbox<Write>>,
    pub(super) reads: Arc<Inbox<Read>>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            writes: Arc::new(Inbox::new(WRITES_BYTES_MAX)),
            reads: Arc::new(Inbox::new(READS_MAX)),
        }
    }

    /// The table whose rows these threads take from here.
    pub(super) fn taken_by(self, threads: Vec<Thread>) -> Rows {
        Rows {
            waiting: self,
            threads,
        }
    }
}

impl Rows {
    /// Writes rows, unless they are there. They are durable when that is known.
    pub(super) fn write(&self, rows: Vec<Row>, then: Then<()>) {
        let count = rows.len();
        let write = Write { rows, then };
        let bytes = write.bytes();
        if let Err(write) = self.waiting.writes.put_several(write, bytes, count) {
            answer([(write.then)(Err(EngineError::Busy))]);
        }
    }

    /// Finds rows, the newest first; of one time, the greater id.
    pub(super) fn read(&self, query: Query, then: Then<Vec<Row>>) {
        if let Err(read) = self.waiting.reads.put(Read { query, then }, 1) {
            answer([(read.then)(Err(EngineError::Busy))]);
        }
    }

    /// Whether nothing is under way any more.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.writes.is_empty() && self.waiting.reads.is_empty()
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.waiting.writes.close();
        self.waiting.reads.close();
        self.threads.clear();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_bound() {
        let row = Row {
            user: "a".to_owned(),
            time_ms: 0,
            id: "1".to_owned(),
            data: "x".repeat((1 << 20) - 2),
            is_named: true,
        };
        let mut found = Answered::default();
        for _ in 0..ANSWER_BYTES_MAX >> 20 {
            assert_eq!(found.push(row.clone()), Ok(()));
        }
        let small = Row {
            data: String::new(),
            ..row
        };
        assert!(matches!(found.push(small), Err(EngineError::Refused(_))));
    }
}
