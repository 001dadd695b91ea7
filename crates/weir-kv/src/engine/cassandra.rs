//! Cells in a table of Cassandra, a row for each key.
//!
//! Each read and write is a statement of its own, straight at a node that has the key, many at a time. Cassandra keeps of each
//! row what has the newest timestamp, so a write looks at nothing: its timestamp is the time of its version. A write is not told
//! of a newer one, then. A deletion is one of Cassandra's own, and what expires, it forgets.
//!
//! All of a cell is one column, a frozen tuple: Cassandra decides column by column, and a row must not be of two writes.

mod stamp;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::Row;
use tokio::sync::Semaphore;
use weir_gateway::service::{Answer, Replier};

use self::stamp::{Stamps, ttl_s};
use crate::cell::Cell;
use crate::database::cassandra::{named, prepared, session};
use crate::database::inbox::{Batch, Inbox, Most};
use crate::database::thread::{Thread, Work};
use crate::database::{CassandraSettings, OpenError, first_run};
use crate::engine::{Each, Engine, EngineError, Then};
use crate::seldom::Seldom;
use crate::version::Version;
use crate::wall::unix_ms;

/// What waits, by its bytes.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of a statement besides its key and value, about.
const STATEMENT_BYTES: usize = 256;
/// Statements at once.
const UNDER_WAY_MAX: u32 = 512;
const AT_ONCE: Most = Most {
    items: 64,
    weight: 8 << 20,
};
/// How often the number of a run is asked for, when others take theirs at the same time.
const ATTEMPTS: u32 = 100;

/// The columns of a cell: time, node and run of its version, when it expires, and the value.
type Columns<V> = (i64, i32, i32, Option<i64>, V);

enum Ask {
    Read(Bytes, Then<Option<Cell>>),
    Write(Bytes, Cell, Then<Option<Version>>),
}

impl Ask {
    fn bytes(&self) -> usize {
        let (key, value) = match self {
            Self::Read(key, _) => (key, None),
            Self::Write(key, cell, _) => (key, cell.value.as_ref()),
        };
        STATEMENT_BYTES + key.len() + value.map_or(0, Bytes::len)
    }

    fn refuse(self) -> Option<(Replier, Answer)> {
        match self {
            Self::Read(_, then) => then(Err(EngineError::Busy)),
            Self::Write(_, _, then) => then(Err(EngineError::Busy)),
        }
    }
}

/// A table that is open.
pub(crate) struct Cassandra {
    inbox: Arc<Inbox<Ask>>,
    run: u16,
    /// It ends when the inbox is closed.
    thread: Option<Thread>,
}

impl fmt::Debug for Cassandra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassandra").finish_non_exhaustive()
    }
}

impl Cassandra {
    /// Opens the table, and makes it if there is none.
    ///
    /// # Errors
    /// No node can be reached, or the cluster refuses.
    pub(crate) fn open(settings: &CassandraSettings) -> Result<Arc<Self>, OpenError> {
        let inbox = Arc::new(Inbox::new(BYTES_MAX));
        let begin = {
            let (settings, inbox) = (settings.clone(), Arc::clone(&inbox));
            async move || {
                let open = Open::new(&settings).await?;
                let run = open.begin_run(&settings).await?;
                let work: Work = Box::pin(work(Rc::new(open), inbox));
                Ok((run, work))
            }
        };
        let started = Thread::start("kv cassandra", begin);
        let (thread, run) = started.map_err(|error| error.of("Cassandra"))?;
        Ok(Arc::new(Self {
            inbox,
            run,
            thread: Some(thread),
        }))
    }

    fn put(&self, ask: Ask) {
        let bytes = ask.bytes();
        if let Err(ask) = self.inbox.put(ask, bytes) {
            Replier::answer_all(ask.refuse().into_iter());
        }
    }
}

impl Engine for Cassandra {
    fn at_hand(&self, _: &[u8]) -> Option<Cell> {
        // Another process may have written since.
        None
    }

    fn read(&self, key: Bytes, then: Then<Option<Cell>>) {
        self.put(Ask::Read(key, then));
    }

    /// Under a condition, it would take a light-weight transaction for every write of the key.
    fn write(&self, key: Bytes, cell: Cell, over: Option<Version>, then: Then<Option<Version>>) {
        if over.is_some() {
            Replier::answer_all(then(Err(EngineError::NoConditions)).into_iter());
            return;
        }
        self.put(Ask::Write(key, cell, then));
    }

    /// Rows are in the order of the hashes of their keys.
    fn scan(&self, _: Bytes, _: Option<Bytes>, _: Each, then: Then<()>) {
        Replier::answer_all(then(Err(EngineError::NoRanges)).into_iter());
    }

    fn opened(&self) -> (Version, u16) {
        (Version::default(), self.run)
    }

    /// The table is nobody's alone.
    fn claim(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.inbox.is_empty()
    }
}

impl Drop for Cassandra {
    fn drop(&mut self) {
        self.inbox.close();
        drop(self.thread.take());
    }
}

/// Carries out what comes, until nothing comes any more.
async fn work(open: Rc<Open>, inbox: Arc<Inbox<Ask>>) {
    let places = Arc::new(Semaphore::new(UNDER_WAY_MAX as usize));
    while let Some(Batch { items, late, .. }) = inbox.take(AT_ONCE).await {
        for ask in late {
            let bytes = ask.bytes();
            Replier::answer_all(ask.refuse().into_iter());
            inbox.done(bytes);
        }
        for ask in items {
            // It is closed by nobody.
            let place = Arc::clone(&places).acquire_owned().await;
            let (open, inbox) = (Rc::clone(&open), Arc::clone(&inbox));
            // In this order writes get their timestamps.
            let stamp_us = open.stamp_us(&ask);
            tokio::task::spawn_local(async move {
                let bytes = ask.bytes();
                let answer = open.carry_out(ask, stamp_us).await;
                Replier::answer_all(answer.into_iter());
                inbox.done(bytes);
                drop(place);
            });
        }
    }
    let _ = places.acquire_many(UNDER_WAY_MAX).await;
}

/// A session, and its statements.
struct Open {
    session: Session,
    select: PreparedStatement,
    insert: PreparedStatement,
    delete: PreparedStatement,
    stamps: Stamps,
    told: Seldom,
}

impl Open {
    async fn new(settings: &CassandraSettings) -> Result<Self, OpenError> {
        let (table, runs) = (named(settings, ""), named(settings, "_runs"));
        let creations = [
            format!(
                "CREATE TABLE IF NOT EXISTS {table} \
                 (key blob PRIMARY KEY, cell frozen<tuple<bigint, int, int, bigint, blob>>)"
            ),
            format!("CREATE TABLE IF NOT EXISTS {runs} (name text PRIMARY KEY, number int)"),
        ];
        let session = session(settings, &creations).await?;
        let select = format!("SELECT cell FROM {table} WHERE key = ?");
        let insert =
            format!("INSERT INTO {table} (key, cell) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?");
        let delete = format!("DELETE FROM {table} USING TIMESTAMP ? WHERE key = ?");
        Ok(Self {
            select: prepared(&session, select).await?,
            insert: prepared(&session, insert).await?,
            delete: prepared(&session, delete).await?,
            session,
            stamps: Stamps::default(),
            told: Seldom::default(),
        })
    }

    /// The number of this run, which no other process has. This is where Cassandra has to agree with itself; no write does it.
    async fn begin_run(&self, settings: &CassandraSettings) -> Result<u16, OpenError> {
        let runs = named(settings, "_runs");
        let first = first_run();
        let first =
            format!("INSERT INTO {runs} (name, number) VALUES ('run', {first}) IF NOT EXISTS");
        let now = format!("SELECT number FROM {runs} WHERE name = 'run'");
        let next = format!("UPDATE {runs} SET number = ? WHERE name = 'run' IF number = ?");
        let told = |error: &dyn fmt::Display| error.to_string();
        self.session.query_unpaged(first, &[]).await?;
        for _ in 0..ATTEMPTS {
            let found = self.session.query_unpaged(&*now, &[]).await?;
            let rows = found.into_rows_result().map_err(|error| told(&error))?;
            let (number,) = rows.first_row::<(i32,)>().map_err(|error| told(&error))?;
            let mine = number % i32::from(u16::MAX) + 1;
            let taken = self.session.query_unpaged(&*next, (mine, number)).await?;
            let rows = taken.into_rows_result().map_err(|error| told(&error))?;
            let row: Row = rows.first_row().map_err(|error| told(&error))?;
            let is_mine = row
                .columns
                .first()
                .and_then(|applied| applied.as_ref()?.as_boolean());
            if is_mine == Some(true) {
                return Ok(mine as u16);
            }
        }
        let why = "others take the numbers of runs all the time".to_owned();
        Err(OpenError::away(why))
    }

    fn stamp_us(&self, ask: &Ask) -> i64 {
        match ask {
            Ask::Read(..) => 0,
            Ask::Write(_, cell, _) => self.stamps.of(cell.version),
        }
    }

    async fn carry_out(&self, ask: Ask, stamp_us: i64) -> Option<(Replier, Answer)> {
        match ask {
            Ask::Read(key, then) => {
                let found = self.read(&key).await;
                then(found.map_err(|why| self.failed(&why)))
            }
            Ask::Write(key, cell, then) => {
                let written = self.write(&key, &cell, stamp_us).await;
                then(written.map(|()| None).map_err(|why| self.failed(&why)))
            }
        }
    }

    async fn read(&self, key: &[u8]) -> Result<Option<Cell>, String> {
        let found = self.session.execute_unpaged(&self.select, (key,)).await;
        let found = found.map_err(|error| error.to_string())?;
        let rows = found
            .into_rows_result()
            .map_err(|error| error.to_string())?;
        let row = rows.maybe_first_row::<(Option<Columns<Vec<u8>>>,)>();
        let row = row.map_err(|error| format!("a row is damaged: {error}"))?;
        let cell = row.and_then(|(columns,)| columns);
        Ok(cell.map(|(time, node, run, expires, value)| Cell {
            version: Version {
                time: time.cast_unsigned(),
                node: node as u16,
                run: run as u16,
            },
            expires_ms: expires.map(i64::cast_unsigned),
            value: Some(value.into()),
        }))
    }

    async fn write(&self, key: &[u8], cell: &Cell, stamp_us: i64) -> Result<(), String> {
        let Version { time, node, run } = cell.version;
        let written = match &cell.value {
            None => {
                self.session
                    .execute_unpaged(&self.delete, (stamp_us, key))
                    .await
            }
            Some(value) => {
                let expires = cell.expires_ms.map(u64::cast_signed);
                let version = (time.cast_signed(), i32::from(node), i32::from(run));
                let columns: Columns<&[u8]> = (version.0, version.1, version.2, expires, value);
                let ttl_s = ttl_s(cell.expires_ms, unix_ms());
                let values = (key, columns, stamp_us, ttl_s);
                self.session.execute_unpaged(&self.insert, values).await
            }
        };
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    fn failed(&self, why: &str) -> EngineError {
        self.told.tell(format_args!("kv: Cassandra: {why}"));
        EngineError::Failed(format!("Cassandra: {why}"))
    }
}
