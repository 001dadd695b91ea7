//! Cells in a table of Postgres, a row for each key.
//!
//! ```text
//! write ──► inbox ──► a few tasks: a batch of all that waits ──► one INSERT, or a few ──► answers
//! read  ──► inbox ──► a few tasks: a batch of all that waits ──► one SELECT, and one for each large value ──► answers
//! scan  ──► a thread and a connection of its own; who reads a range scans it page by page
//! once a minute ──► a DELETE of rows that have been nothing for a day
//! ```
//!
//! Several processes may have one table: each is a run of its own, which a sequence numbers, so no version is given twice.
//! Which write is newest, the table decides row by row. What was answered is as durable as Postgres makes a commit. A row that Postgres does
//! not take is told, and takes none with it that goes with it.

mod batch;
mod rows;
mod scan;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};
use weir_gateway::service::Replier;

use self::batch::{Found, Known, Outcome, Round, Write};
use self::rows::{
    FORGOTTEN_AT_ONCE, cell_of, creation, forget, forget_some, insert, insert_all, next_run,
    select, select_one, select_versions, small_cell_of,
};
use crate::cell::Cell;
use crate::database::halves::Halves;
use crate::database::inbox::{Batch, Inbox, Most};
use crate::database::postgres::{Line, START, STATEMENT, Table};
use crate::database::thread::{Thread, Work};
use crate::database::{OpenError, PostgresSettings};
use crate::engine::{Each, Engine, EngineError, Then};
use crate::version::Version;
use crate::wall::unix_ms;

/// Writes that wait, by their bytes.
const WRITES_BYTES_MAX: usize = 64 << 20;
/// Reads that wait.
const READS_MAX: usize = 16_384;
/// Connections for each of both.
const LINES: usize = 2;
const WRITES_AT_ONCE: Most = Most {
    items: 1024,
    weight: 8 << 20,
};
const READS_AT_ONCE: Most = Most {
    items: 128,
    weight: 128,
};
/// Of a batch that takes more than one statement, no other one begins after so long.
const STATEMENTS: Duration = Duration::from_secs(1);
/// Scans at once; each has a thread and a connection.
const SCANS_MAX: usize = 4;
/// How often rows are taken away that are nothing any more, and the same while there are more of them.
const FORGET: Duration = Duration::from_secs(60);
const FORGET_MORE: Duration = Duration::from_millis(100);

struct Read {
    key: Bytes,
    then: Then<Option<Cell>>,
}

/// A table that is open.
pub(crate) struct Postgres {
    table: Arc<Table>,
    reads: Arc<Inbox<Read>>,
    writes: Arc<Inbox<Write>>,
    scans: Arc<AtomicUsize>,
    run: u16,
    /// It ends when both inboxes are closed.
    thread: Option<Thread>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens the table, and makes it if there is none.
    ///
    /// # Errors
    /// Postgres cannot be reached, or refuses.
    pub(crate) fn open(settings: &PostgresSettings) -> Result<Arc<Self>, OpenError> {
        let table = Arc::new(Table::new(settings, creation)?);
        let reads = Arc::new(Inbox::new(READS_MAX));
        let writes = Arc::new(Inbox::new(WRITES_BYTES_MAX));
        let next_run = next_run(&settings.table);
        let begin = {
            let (table, reads, writes) =
                (Arc::clone(&table), Arc::clone(&reads), Arc::clone(&writes));
            async move || {
                let run = begin_run(&table, next_run).await?;
                let work: Work = Box::pin(work(table, reads, writes));
                Ok((run, work))
            }
        };
        let started = Thread::start("kv postgres", begin);
        let (thread, run) = started.map_err(|error| error.of("Postgres"))?;
        Ok(Arc::new(Self {
            table,
            reads,
            writes,
            scans: Arc::default(),
            run,
            thread: Some(thread),
        }))
    }
}

/// The number of this run, which no other process has.
async fn begin_run(table: &Table, next_run: String) -> Result<u16, OpenError> {
    // A table that is another one is found now. What is missing is made.
    let statements = [next_run, select(table), insert(table), forget(table)];
    let open = table.opened(&statements, START).await?;
    let given = timeout(STATEMENT, open.client.query_one(&open.statements[0], &[])).await;
    let row =
        given.map_err(|_| OpenError::away(format!("it has not answered within {STATEMENT:?}")))?;
    let run: i64 = row?.get(0);
    let run = u16::try_from(run);
    Ok(run.map_err(|_| format!("the sequence of {} has given another number", table.name))?)
}

async fn work(table: Arc<Table>, reads: Arc<Inbox<Read>>, writes: Arc<Inbox<Write>>) {
    let mut tasks = Vec::new();
    for _ in 0..LINES {
        let statements = vec![select(&table), select_one(&table)];
        let (line, reads) = (
            Line::new(Arc::clone(&table), statements),
            Arc::clone(&reads),
        );
        tasks.push(tokio::task::spawn_local(read_all(line, reads)));
        let statements = vec![insert(&table), select_versions(&table)];
        let (line, writes) = (
            Line::new(Arc::clone(&table), statements),
            Arc::clone(&writes),
        );
        tasks.push(tokio::task::spawn_local(write_all(line, writes)));
    }
    let forgetting = tokio::task::spawn_local(forget_all(table));
    for task in tasks {
        let _ = task.await;
    }
    forgetting.abort();
}

/// Takes away what is nothing any more, now and then.
async fn forget_all(table: Arc<Table>) {
    loop {
        let mut line = Line::new(Arc::clone(&table), vec![forget(&table)]);
        let mut is_all = false;
        while !is_all {
            let taken = forget_now(&mut line).await;
            is_all = taken.map_or(true, |taken| taken < FORGOTTEN_AT_ONCE);
            sleep(FORGET_MORE).await;
        }
        // A connection that is used once a minute is nothing to keep.
        drop(line);
        sleep(FORGET).await;
    }
}

async fn forget_now(line: &mut Line) -> Result<u64, EngineError> {
    let open = line.open().await?;
    let taken = timeout(STATEMENT, forget_some(open, unix_ms())).await;
    line.settled(taken)
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
        read_batch(&mut line, items).await;
        inbox.done(weight);
    }
}

/// Reads small values together, and then large ones one by one, as long as there is time.
async fn read_batch(line: &mut Line, reads: Vec<Read>) {
    let found = read_small(line, &reads).await;
    let mut large: BTreeMap<Bytes, Vec<Then<Option<Cell>>>> = BTreeMap::new();
    let answers = reads.into_iter().filter_map(|Read { key, then }| {
        let found = found.as_ref().map(|cells| cells.get(&key[..]));
        match found {
            Ok(Some(None)) => {
                large.entry(key).or_default().push(then);
                None
            }
            Ok(cell) => Some(then(Ok(cell.cloned().flatten()))),
            Err(error) => Some(then(Err(error.clone()))),
        }
    });
    answer(answers);
    let began = Instant::now();
    for (index, (key, readers)) in large.into_iter().enumerate() {
        let found = if index == 0 || began.elapsed() < STATEMENTS {
            read_one(line, &key).await
        } else {
            Err(EngineError::Busy)
        };
        answer(readers.into_iter().map(|then| then(found.clone())));
    }
}

/// What there is of some keys; of a large value, only that it is there.
async fn read_small(
    line: &mut Line,
    reads: &[Read],
) -> Result<HashMap<Vec<u8>, Option<Cell>>, EngineError> {
    if reads.is_empty() {
        return Ok(HashMap::new());
    }
    let open = line.open().await?;
    let keys: Vec<&[u8]> = reads.iter().map(|read| &read.key[..]).collect();
    let found = timeout(STATEMENT, open.client.query(&open.statements[0], &[&keys])).await;
    let rows = line.settled(found)?;
    rows.iter().map(small_cell_of).collect()
}

async fn read_one(line: &mut Line, key: &[u8]) -> Result<Option<Cell>, EngineError> {
    let open = line.open().await?;
    let found = timeout(
        STATEMENT,
        open.client.query_opt(&open.statements[1], &[&key]),
    )
    .await;
    let row = line.settled(found)?;
    let found = row.as_ref().map(cell_of).transpose()?;
    Ok(found.map(|(_, cell)| cell))
}

async fn write_all(mut line: Line, inbox: Arc<Inbox<Write>>) {
    while let Some(Batch {
        items,
        late,
        weight,
    }) = inbox.take(WRITES_AT_ONCE).await
    {
        answer(
            late.into_iter()
                .map(|write| (write.then)(Err(EngineError::Busy))),
        );
        write_batch(&mut line, items).await;
        inbox.done(weight);
    }
}

/// Writes round by round, as long as there is time, and answers as soon as it is known what a write finds.
async fn write_batch(line: &mut Line, mut writes: Vec<Write>) {
    let until = Instant::now() + STATEMENTS;
    let mut known = Known::new();
    while !writes.is_empty() {
        let found = if Instant::now() < until {
            let round = Round::of(&writes, &known);
            let outcomes = write_all_of(line, &round.rows(&writes), until).await;
            round.found(&writes, &outcomes, &mut known)
        } else {
            vec![Some(Err(EngineError::Busy)); writes.len()]
        };
        writes = told(writes, found);
    }
}

/// Writes rows, each of another key. One that is refused is looked for by halves, so that others are written.
async fn write_all_of(line: &mut Line, rows: &[&Write], until: Instant) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Open; rows.len()];
    let mut halves = Halves::of(rows.len(), rows.len());
    while let Some(part) = halves.take() {
        if Instant::now() >= until {
            break;
        }
        match insert_some(line, &rows[part.clone()]).await {
            Ok(own) => outcomes[part].clone_from_slice(&own),
            Err(EngineError::Refused(_)) if halves.split(&part) => {}
            Err(error @ EngineError::Refused(_)) => outcomes[part].fill(Outcome::Failed(error)),
            Err(error) => {
                // Something else is wrong, so the others are not tried.
                outcomes[part.start..].fill(Outcome::Failed(error));
                break;
            }
        }
    }
    outcomes
}

async fn insert_some(line: &mut Line, rows: &[&Write]) -> Result<Vec<Outcome>, EngineError> {
    let open = line.open().await?;
    let inserted = timeout(STATEMENT, insert_all(open, rows)).await;
    line.settled(inserted)
}

/// Answers those of whom it is known what they find; the others.
fn told(writes: Vec<Write>, found: Vec<Option<Found>>) -> Vec<Write> {
    let mut left = Vec::new();
    let answers = writes.into_iter().zip(found).filter_map(|(write, found)| {
        let Some(found) = found else {
            left.push(write);
            return None;
        };
        Some((write.then)(found))
    });
    answer(answers);
    left
}

impl Engine for Postgres {
    fn at_hand(&self, _: &[u8]) -> Option<Cell> {
        // Another process may have written since.
        None
    }

    fn read(&self, key: Bytes, then: Then<Option<Cell>>) {
        if let Err(read) = self.reads.put(Read { key, then }, 1) {
            answer([(read.then)(Err(EngineError::Busy))]);
        }
    }

    fn write(&self, key: Bytes, cell: Cell, over: Option<Version>, then: Then<Option<Version>>) {
        let write = Write {
            key,
            cell,
            over,
            then,
        };
        let bytes = write.bytes();
        if let Err(write) = self.writes.put(write, bytes) {
            answer([(write.then)(Err(EngineError::Busy))]);
        }
    }

    fn scan(&self, from: Bytes, to: Option<Bytes>, each: Each, then: Then<()>) {
        if self.scans.fetch_add(1, Ordering::AcqRel) >= SCANS_MAX {
            self.scans.fetch_sub(1, Ordering::AcqRel);
            answer([then(Err(EngineError::Busy))]);
            return;
        }
        let (table, scans) = (Arc::clone(&self.table), Arc::clone(&self.scans));
        let run = move || {
            let result = scan::scan(&table, (from, to), each);
            answer([then(result)]);
            scans.fetch_sub(1, Ordering::AcqRel);
        };
        // A thread that cannot be started drops `then`: the client gets a 500.
        let thread = std::thread::Builder::new().name("kv scan".to_owned());
        if thread.spawn(run).is_err() {
            self.scans.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A write that meets a newer one is told, so nothing has to be known of the table before.
    fn opened(&self) -> (Version, u16) {
        (Version::default(), self.run)
    }

    /// The table is nobody's alone.
    fn claim(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty() && self.scans.load(Ordering::Acquire) == 0
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.writes.close();
        self.reads.close();
        drop(self.thread.take());
    }
}

/// Gives the answers that there are.
fn answer<T>(answers: T)
where
    T: IntoIterator<Item = Option<(Replier, weir_gateway::service::Answer)>>,
{
    Replier::answer_all(answers.into_iter().flatten());
}
