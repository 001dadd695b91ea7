//! Rows in a table of Cassandra, those of a user in one partition, the newest first.
//!
//! Of what waits together, the rows of one user go in one batch that is not logged: it is of one partition, so its nodes take it
//! as one write. Many of them are under way at once.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use scylla::client::session::Session;
use scylla::statement::batch::{Batch as Statements, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::BatchSettings;
use super::query::Query;
use super::rows::{Answered, POST, Read, Row, Rows, Waiting, Write, answer, too_late};
use crate::database::cassandra::{named, prepared, session};
use crate::database::inbox::{Batch, Inbox, Most};
use crate::database::thread::{Thread, Work};
use crate::database::{CassandraSettings, OpenError};
use crate::engine::EngineError;
use crate::seldom::Seldom;

/// Bytes of rows that are written at once.
const WRITE_BYTES_MAX: usize = 8 << 20;
const READS_AT_ONCE: Most = Most {
    items: 64,
    weight: 64,
};
/// Statements of a batch of writes at once, such batches, and questions.
const STATEMENTS: usize = 64;
const BATCHES: u32 = 8;
const READS: u32 = 256;
/// Rows of one statement, and their bytes. A node takes it as one write, which holds up others when it is large.
const STATEMENT_ROWS_MAX: usize = 100;
const STATEMENT_BYTES_MAX: usize = 32 << 10;

/// Opens the table in a cluster.
///
/// # Errors
/// No node can be reached, or the cluster refuses.
pub(super) fn open(settings: &CassandraSettings, batch: BatchSettings) -> Result<Rows, OpenError> {
    let waiting = Waiting::new();
    let begin = {
        let (settings, Waiting { writes, reads }) = (settings.clone(), waiting.clone());
        async move || {
            let open = Rc::new(Open::new(&settings).await?);
            let work: Work = Box::pin(async move {
                let writing = write_all(Rc::clone(&open), batch, writes);
                tokio::join!(writing, read_all(open, reads));
            });
            Ok(((), work))
        }
    };
    let started = Thread::start("table cassandra", begin);
    let (thread, ()) = started.map_err(|error| error.of("Cassandra"))?;
    Ok(waiting.taken_by(vec![thread]))
}

async fn write_all(open: Rc<Open>, settings: BatchSettings, inbox: Arc<Inbox<Write>>) {
    let most = Most {
        items: settings.events_max,
        weight: WRITE_BYTES_MAX,
    };
    let places = Arc::new(Semaphore::new(BATCHES as usize));
    loop {
        // It is closed by nobody. What comes while all are taken is the next batch.
        let place = Arc::clone(&places).acquire_owned().await;
        if !settings.wait.is_zero() {
            inbox.gather(settings.events_max, settings.wait).await;
        }
        let Some(Batch {
            items,
            late,
            weight,
        }) = inbox.take(most).await
        else {
            break;
        };
        answer(
            late.into_iter()
                .map(|write| (write.then)(Err(EngineError::Busy))),
        );
        let (open, inbox) = (Rc::clone(&open), Arc::clone(&inbox));
        tokio::task::spawn_local(async move {
            let results = open.write(settings.events_max, &items).await;
            let answers = items.into_iter().zip(results);
            answer(answers.map(|(write, result)| (write.then)(result)));
            inbox.done(weight);
            drop(place);
        });
    }
    let _ = places.acquire_many(BATCHES).await;
}

async fn read_all(open: Rc<Open>, inbox: Arc<Inbox<Read>>) {
    let places = Arc::new(Semaphore::new(READS as usize));
    while let Some(Batch { items, late, .. }) = inbox.take(READS_AT_ONCE).await {
        inbox.done(late.len());
        answer(
            late.into_iter()
                .map(|read| (read.then)(Err(EngineError::Busy))),
        );
        for read in items {
            let place = Arc::clone(&places).acquire_owned().await;
            let (open, inbox) = (Rc::clone(&open), Arc::clone(&inbox));
            tokio::task::spawn_local(async move {
                let found = open.read(&read.query).await;
                answer([(read.then)(found)]);
                inbox.done(1);
                drop(place);
            });
        }
    }
    let _ = places.acquire_many(READS).await;
}

/// A session, and its statements.
struct Open {
    session: Session,
    insert: PreparedStatement,
    select: PreparedStatement,
    told: Seldom,
}

impl Open {
    async fn new(settings: &CassandraSettings) -> Result<Self, OpenError> {
        let table = named(settings, "");
        let creation = format!(
            "CREATE TABLE IF NOT EXISTS {table} (user_id text, timestamp timestamp, id text, data text, \
             PRIMARY KEY (user_id, timestamp, id)) WITH CLUSTERING ORDER BY (timestamp DESC, id DESC)"
        );
        let session = session(settings, &[creation]).await?;
        let insert =
            format!("INSERT INTO {table} (user_id, timestamp, id, data) VALUES (?, ?, ?, ?)");
        let select = format!(
            "SELECT timestamp, id, data FROM {table} WHERE user_id = ? AND timestamp >= ? AND timestamp < ? LIMIT ?"
        );
        Ok(Self {
            insert: prepared(&session, insert).await?,
            select: prepared(&session, select).await?,
            session,
            told: Seldom::default(),
        })
    }

    /// Writes all rows, and says what became of each of the writes.
    async fn write(&self, events_max: usize, writes: &[Write]) -> Vec<Result<(), EngineError>> {
        let until = Instant::now() + POST;
        let mut results = vec![Ok(()); writes.len()];
        let rows = writes.iter().enumerate();
        let rows = rows.flat_map(|(of, write)| write.rows.iter().map(move |row| (row, of)));
        let mut rows: Vec<(&Row, usize)> = rows.collect();
        // Those of one name stay in the order in which they came.
        rows.sort_by(|(one, _), (other, _)| one.name().cmp(&other.name()));
        let statements = statements(&rows, events_max.min(STATEMENT_ROWS_MAX));
        let written = statements.into_iter().map(async |rows| {
            if Instant::now() >= until {
                return (rows, Err(too_late(POST)));
            }
            let written = timeout_at(until, self.insert(rows)).await;
            let written = written.map(|written| written.map_err(|why| self.failed(&why)));
            (rows, written.unwrap_or_else(|_| Err(too_late(POST))))
        });
        let mut written = stream::iter(written).buffer_unordered(STATEMENTS);
        while let Some((rows, written)) = written.next().await {
            if let Err(error) = written {
                for (_, of) in rows {
                    results[*of] = Err(error.clone());
                }
            }
        }
        results
    }

    async fn insert(&self, rows: &[(&Row, usize)]) -> Result<(), String> {
        let values = last_of_each(rows).map(|row| {
            let time = CqlTimestamp(row.time_ms.cast_signed());
            (&*row.user, time, &*row.id, &*row.data)
        });
        let mut values: Vec<_> = values.collect();
        let written = if values.len() == 1 {
            let values = values.remove(0);
            let written = self.session.execute_unpaged(&self.insert, values).await;
            written.map(|_| ())
        } else {
            let mut batch = Statements::new(BatchType::Unlogged);
            for _ in &values {
                batch.append_statement(self.insert.clone());
            }
            batch.set_is_idempotent(true);
            self.session.batch(&batch, values).await.map(|_| ())
        };
        written.map_err(|error| error.to_string())
    }

    async fn read(&self, query: &Query) -> Result<Vec<Row>, EngineError> {
        let mut found = Answered::default();
        for row in self.find(query).await.map_err(|why| self.failed(&why))? {
            found.push(row)?;
        }
        Ok(found.rows())
    }

    async fn find(&self, query: &Query) -> Result<Vec<Row>, String> {
        let from = CqlTimestamp(query.from_ms.cast_signed());
        let to = CqlTimestamp(query.to_ms.cast_signed());
        let values = (&*query.user, from, to, query.limit.cast_signed());
        let found = self.session.execute_unpaged(&self.select, values).await;
        let found = found.map_err(|error| error.to_string())?;
        let rows = found
            .into_rows_result()
            .map_err(|error| error.to_string())?;
        let rows = rows.rows::<(CqlTimestamp, String, Option<String>)>();
        let rows = rows.map_err(|error| error.to_string())?;
        let rows = rows.map(|row| {
            let (time, id, data) = row.map_err(|error| format!("a row is damaged: {error}"))?;
            Ok(Row {
                user: query.user.clone(),
                time_ms: u64::try_from(time.0).unwrap_or(0),
                id,
                data: data.unwrap_or_else(|| "null".to_owned()),
                is_named: false,
            })
        });
        rows.collect()
    }

    fn failed(&self, why: &str) -> EngineError {
        self.told.tell(format_args!("activities: Cassandra: {why}"));
        EngineError::Failed(format!("Cassandra: {why}"))
    }
}

/// The last row of each name. Of two in one statement, which have the same time of writing, Cassandra would keep the greater data.
fn last_of_each<'r>(rows: &'r [(&'r Row, usize)]) -> impl Iterator<Item = &'r Row> {
    let is_last = |at: usize| {
        let next = rows.get(at + 1);
        next.is_none_or(|(next, _)| next.name() != rows[at].0.name())
    };
    (0..rows.len())
        .filter(move |at| is_last(*at))
        .map(|at| rows[at].0)
}

/// The rows of each statement: of one user, so many, and no more bytes than a batch may have. Those of one name stay together.
fn statements<'r>(rows: &'r [(&'r Row, usize)], rows_max: usize) -> Vec<&'r [(&'r Row, usize)]> {
    let mut statements = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, (row, _)) in rows.iter().enumerate() {
        let is_other = rows[begin].0.user != row.user;
        let is_full = at - begin >= rows_max || bytes + row.bytes() > STATEMENT_BYTES_MAX;
        let is_again = at > 0 && rows[at - 1].0.name() == row.name();
        if at > begin && (is_other || is_full) && !is_again {
            statements.push(&rows[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += row.bytes();
    }
    statements.push(&rows[begin..]);
    statements
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_statement_is_of_one_user_and_has_a_bound() {
        let ids = Cell::new(0);
        let row = |user: &str, bytes: usize| Row {
            user: user.to_owned(),
            time_ms: 0,
            id: ids.replace(ids.get() + 1).to_string(),
            data: "x".repeat(bytes),
            is_named: false,
        };
        let rows = [
            row("a", 1),
            row("a", 1),
            row("a", 1),
            row("b", 1),
            row("c", 20_000),
            row("c", 20_000),
            row("d", 60_000),
        ];
        let rows: Vec<_> = rows.iter().map(|row| (row, 0)).collect();
        let lengths = |rows_max| {
            let statements = statements(&rows, rows_max).into_iter();
            statements.map(<[_]>::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(2), [2, 1, 1, 1, 1, 1]);
        assert_eq!(lengths(100), [3, 1, 1, 1, 1]);
        assert_eq!(lengths(1), [1; 7]);
    }

    #[test]
    fn of_one_name_the_last_is_written_in_one_statement() {
        let row = |id: &str, data: &str| Row {
            user: "a".to_owned(),
            time_ms: 0,
            id: id.to_owned(),
            data: data.to_owned(),
            is_named: true,
        };
        let rows = [row("1", "x"), row("2", "9"), row("2", "1"), row("3", "x")];
        let rows: Vec<_> = rows.iter().map(|row| (row, 0)).collect();
        let statements = statements(&rows, 1);
        let lengths: Vec<_> = statements.iter().map(|rows| rows.len()).collect();
        assert_eq!(lengths, [1, 2, 1]);
        let data: Vec<_> = last_of_each(&rows).map(|row| &*row.data).collect();
        assert_eq!(data, ["x", "1", "x"]);
    }
}
