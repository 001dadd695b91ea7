//! Rows in a table of Postgres: many in one `INSERT`, of all that waits.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::BatchSettings;
use super::query::Query;
use super::rows::{Answered, POST, Read, Row, Rows, Waiting, Write, answer, too_late};
use crate::database::halves::Halves;
use crate::database::inbox::{Batch, Inbox, Most};
use crate::database::postgres::{Line, Open, START, STATEMENT, Table, named};
use crate::database::thread::{Thread, Work};
use crate::database::{OpenError, PostgresSettings};
use crate::engine::EngineError;

/// Bytes of rows that are written at once.
const WRITE_BYTES_MAX: usize = 8 << 20;
/// Connections that write, and those that read.
const WRITERS: usize = 4;
const READERS: usize = 2;
/// Questions on one connection, one behind the other without a wait.
const READS_AT_ONCE: Most = Most {
    items: 8,
    weight: 8,
};

/// Opens the table in a database.
///
/// # Errors
/// Postgres cannot be reached, or refuses.
pub(super) fn open(settings: &PostgresSettings, batch: BatchSettings) -> Result<Rows, OpenError> {
    let table = Arc::new(Table::new(settings, creation)?);
    let waiting = Waiting::new();
    let begin = {
        let Waiting { writes, reads } = waiting.clone();
        async move || {
            // A table that is another one is found now. What is missing is made.
            table
                .opened(&[insert(&table), select(&table)], START)
                .await?;
            let work: Work = Box::pin(work(table, batch, writes, reads));
            Ok(((), work))
        }
    };
    let started = Thread::start("table postgres", begin);
    let (thread, ()) = started.map_err(|error| error.of("Postgres"))?;
    Ok(waiting.taken_by(vec![thread]))
}

/// Names are ordered by their bytes, as everywhere, and not as in a language. The key serves every question, too.
fn creation(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (user_id text COLLATE \"C\", timestamp timestamptz, id text COLLATE \"C\", data jsonb, \
         PRIMARY KEY (user_id, timestamp, id))",
        named(table, "")
    )
}

fn insert(table: &Table) -> String {
    format!(
        "INSERT INTO {} (user_id, timestamp, id, data) SELECT user_id, timestamp, id, data::jsonb \
         FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[]) AS given (user_id, timestamp, id, data) \
         ON CONFLICT DO NOTHING",
        table.name
    )
}

fn select(table: &Table) -> String {
    format!(
        "SELECT timestamp, id, data::text FROM {} WHERE user_id = $1 AND timestamp >= $2 AND timestamp < $3 \
         ORDER BY timestamp DESC, id DESC LIMIT $4",
        table.name
    )
}

async fn work(
    table: Arc<Table>,
    batch: BatchSettings,
    writes: Arc<Inbox<Write>>,
    reads: Arc<Inbox<Read>>,
) {
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        let line = Line::new(Arc::clone(&table), vec![insert(&table)]);
        let writes = Arc::clone(&writes);
        tasks.push(tokio::task::spawn_local(write_all(line, batch, writes)));
    }
    for _ in 0..READERS {
        let line = Line::new(Arc::clone(&table), vec![select(&table)]);
        let reads = Arc::clone(&reads);
        tasks.push(tokio::task::spawn_local(read_all(line, reads)));
    }
    for task in tasks {
        let _ = task.await;
    }
}
async fn write_all(mut line: Line, settings: BatchSettings, inbox: Arc<Inbox<Write>>) {
    let most = Most {
        items: settings.events_max,
        weight: WRITE_BYTES_MAX,
    };
    loop {
        if !settings.wait.is_zero() {
            inbox.gather(settings.events_max, settings.wait).await;
        }
        let Some(Batch {
            items,
            late,
            weight,
        }) = inbox.take(most).await
        else {
            return;
        };
        answer(
            late.into_iter()
                .map(|write| (write.then)(Err(EngineError::Busy))),
        );
        let results = write(&mut line, settings.events_max, &items).await;
        let answers = items.into_iter().zip(results);
        answer(answers.map(|(write, result)| (write.then)(result)));
        inbox.done(weight);
    }
}

/// Writes all rows, so many at once, and says what became of each of the writes.
async fn write(
    line: &mut Line,
    events_max: usize,
    writes: &[Write],
) -> Vec<Result<(), EngineError>> {
    let until = Instant::now() + POST;
    let mut results = vec![Ok(()); writes.len()];
    let rows = writes.iter().enumerate();
    let rows = rows.flat_map(|(of, write)| write.rows.iter().map(move |row| (row, of)));
    let mut rows: Vec<(&Row, usize)> = rows.collect();
    // Every batch locks rows in this order, so none waits for another in a circle. Of one name, the first stays.
    rows.sort_by(|(one, _), (other, _)| one.name().cmp(&other.name()));
    let mut fail = |rows: &[(&Row, usize)], error: &EngineError| {
        for (_, of) in rows {
            if results[*of].is_ok() {
                results[*of] = Err(error.clone());
            }
        }
    };
    let mut parts = Halves::of(rows.len(), events_max);
    while let Some(part) = parts.take() {
        let inserted = if Instant::now() < until {
            insert_all(line, &rows[part.clone()], until).await
        } else {
            Err(too_late(POST))
        };
        match inserted {
            Ok(()) => {}
            // One row that Postgres does not take must not take the others with it.
            Err(EngineError::Refused(_)) if parts.split(&part) => {}
            Err(error @ EngineError::Refused(_)) => fail(&rows[part], &error),
            Err(error) => {
                // Something else is wrong, so the others are not tried.
                fail(&rows[part.start..], &error);
                break;
            }
        }
    }
    results
}

async fn insert_all(
    line: &mut Line,
    rows: &[(&Row, usize)],
    until: Instant,
) -> Result<(), EngineError> {
    let open = line.open().await?;
    let users: Vec<&str> = rows.iter().map(|(row, _)| &*row.user).collect();
    let times: Vec<SystemTime> = rows.iter().map(|(row, _)| time(row.time_ms)).collect();
    let ids: Vec<&str> = rows.iter().map(|(row, _)| &*row.id).collect();
    let data: Vec<&str> = rows.iter().map(|(row, _)| &*row.data).collect();
    let parameters: [&(dyn ToSql + Sync); 4] = [&users, &times, &ids, &data];
    let inserted = timeout_at(
        until.min(Instant::now() + STATEMENT),
        open.client.execute(&open.statements[0], &parameters),
    )
    .await;
    line.settled(inserted).map(|_| ())
}

fn time(time_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time_ms)
}

async fn read_all(mut line: Line, inbox: Arc<Inbox<Read>>) {
    while let Some(Batch {
        items,
        late,
        weight,
    }) = inbox.take(READS_AT_ONCE).await
    {
        answer(
            late.into_iter()
                .map(|read| (read.then)(Err(EngineError::Busy))),
        );
        let found = match line.open().await {
            Ok(open) => {
                let asked = join_all(items.iter().map(|read| find(open, &read.query)));
                timeout(STATEMENT, asked).await
            }
            Err(error) => {
                let answers = items.into_iter();
                answer(answers.map(|read| (read.then)(Err(error.clone()))));
                inbox.done(weight);
                continue;
            }
        };
        let answers: Vec<_> = match found {
            Ok(found) => {
                let found = found.into_iter();
                found
                    .map(|found| line.settled(Ok(found)).flatten())
                    .collect()
            }
            Err(late) => {
                let late = line.settled::<Vec<Row>>(Err(late));
                items.iter().map(|_| late.clone()).collect()
            }
        };
        let answers = items.into_iter().zip(answers);
        answer(answers.map(|(read, found)| (read.then)(found)));
        inbox.done(weight);
    }
}

/// The rows that are wanted, unless they are too many for an answer.
async fn find(open: &Open, query: &Query) -> Result<Result<Vec<Row>, EngineError>, Error> {
    let (from, to) = (time(query.from_ms), time(query.to_ms));
    let limit = i64::from(query.limit);
    let parameters: [&(dyn ToSql + Sync); 4] = [&query.user, &from, &to, &limit];
    let rows = open.client.query_raw(&open.statements[0], parameters);
    let mut rows = Box::pin(rows.await?);
    let mut found = Answered::default();
    while let Some(row) = rows.try_next().await? {
        let time: SystemTime = row.try_get(0)?;
        let data: Option<String> = row.try_get(2)?;
        let row = Row {
            user: query.user.clone(),
            time_ms: time
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_millis() as u64,
            id: row.try_get(1)?,
            data: data.unwrap_or_else(|| "null".to_owned()),
            is_named: false,
        };
        if let Err(error) = found.push(row) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(found.rows()))
}
