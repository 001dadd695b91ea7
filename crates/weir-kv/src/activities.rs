//! Events of users in a table: the service of routes with `collect`.
//!
//! ```text
//! POST  {"user_id": …, "data": …}, a list of them, or lines ──► rows ──► an engine ──► 201 when they are durable
//! GET   ?user_id=U&last=N, ?user_id=U&from=T&to=T&limit=N   ──► rows of a user, the newest first
//! ```
//!
//! - `event`: what is posted; `query`: what is asked for; both pure
//! - `rows`: the seam to an engine; `embedded`, `postgres`, `cassandra`: one each
//!
//! A row is known by its user, its time and its id, in every engine. One that is posted again is there once.

#[cfg(feature = "cassandra")]
mod cassandra;
mod embedded;
mod event;
mod ids;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod rows;

use std::fmt;
use std::time::Duration;

use weir_gateway::service::{Answer, Ask, Reply, Service};
use weir_http::Method;

use self::ids::Ids;
use self::rows::{Row, Rows};
use crate::api;
use crate::database::OpenError;
use crate::engine::{EngineError, EngineSettings};
use crate::wall::unix_ms;

/// Bytes of what is posted at once.
pub const BODY_BYTES_MAX: u64 = 8 << 20;

/// A table of activities.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSettings {
    /// Where it is.
    pub engine: EngineSettings,
    /// How rows are written.
    pub batch: BatchSettings,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// So many at once, at most.
    pub events_max: usize,
    /// How long the first of a batch waits for so many. Without it, what comes while a batch is written is the next one.
    pub wait: Duration,
}

/// The service of a table.
pub struct Activities {
    rows: Rows,
    ids: Ids,
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activities").finish_non_exhaustive()
    }
}

impl Activities {
    /// Opens a table, and makes it when it is not there.
    ///
    /// # Errors
    /// The disk refuses, the database cannot be reached, or this build does not know it.
    pub fn open(settings: &TableSettings) -> Result<Self, OpenError> {
        let batch = settings.batch;
        let rows = match &settings.engine {
            EngineSettings::Embedded(settings) => embedded::open(settings, batch)?,
            #[cfg(feature = "postgres")]
            EngineSettings::Postgres(settings) => postgres::open(settings, batch)?,
            #[cfg(not(feature = "postgres"))]
            EngineSettings::Postgres(_) => {
                return Err(crate::database::not_built("Postgres", "postgres").into());
            }
            #[cfg(feature = "cassandra")]
            EngineSettings::Cassandra(settings) => cassandra::open(settings, batch)?,
            #[cfg(not(feature = "cassandra"))]
            EngineSettings::Cassandra(_) => {
                return Err(crate::database::not_built("Cassandra", "cassandra").into());
            }
        };
        let ids = Ids::default();
        Ok(Self { rows, ids })
    }

    fn post(&self, ask: &Ask) -> Reply {
        let is_lines = ask.fields().named(b"content-type").any(is_of_lines);
        let now_ms = unix_ms();
        let rows = event::rows(&ask.body, is_lines, now_ms, || self.ids.next(now_ms));
        let rows = match rows {
            Ok(rows) => rows,
            Err(why) => return Reply::ready(api::text(400, &why)),
        };
        let content = event::told(&rows);
        let (replier, reply) = Reply::later();
        let then = move |written: Result<(), EngineError>| {
            let answer = written.map(|()| json(201, content));
            Some((replier, answer.unwrap_or_else(|error| failed(&error))))
        };
        self.rows.write(rows, Box::new(then));
        reply
    }

    fn get(&self, query: &[u8]) -> Reply {
        let query = match query::parse(query) {
            Ok(query) => query,
            Err(why) => return Reply::ready(api::text(400, &why)),
        };
        let (replier, reply) = Reply::later();
        let then = move |found: Result<Vec<Row>, EngineError>| {
            let answer = found.map(|rows| json(200, query::told(&rows)));
            Some((replier, answer.unwrap_or_else(|error| failed(&error))))
        };
        self.rows.read(query, Box::new(then));
        reply
    }
}

impl Service for Activities {
    fn body_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn call(&self, ask: Ask) -> Reply {
        match ask.request.method {
            Method::Post => self.post(&ask),
            Method::Get | Method::Head => self.get(ask.query().unwrap_or_default()),
            _ => {
                let why = "this path has only GET, HEAD, POST";
                Reply::ready(api::text(405, why).with("Allow", *b"GET, HEAD, POST"))
            }
        }
    }

    fn drain(&self) {}

    fn is_drained(&self) -> bool {
        self.rows.is_idle()
    }
}

fn is_of_lines(content_type: &[u8]) -> bool {
    let name = content_type.split(|&byte| byte == b';').next();
    let name = name.unwrap_or_default().trim_ascii();
    [&b"application/x-ndjson"[..], b"application/jsonl"]
        .iter()
        .any(|lines| name.eq_ignore_ascii_case(lines))
}

fn json(status: u16, content: String) -> Answer {
    let answer = Answer::new(status).with("Content-Type", *b"application/json");
    answer.content(content)
}

fn failed(error: &EngineError) -> Answer {
    let why = error.to_string();
    match error {
        EngineError::Refused(_) => api::text(422, &why),
        EngineError::Busy
        | EngineError::Failed(_)
        | EngineError::NoRanges
        | EngineError::NoConditions => api::busy(&why),
    }
}
