//! Connections to Postgres, one for each task.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_socket::tls::{self, Trust};

use super::{OpenError, PostgresSettings};
use crate::engine::EngineError;
use crate::seldom::Seldom;

/// How long a statement may take.
pub(crate) const STATEMENT: Duration = Duration::from_secs(4);
/// How long connecting may take, with all that is prepared.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);
/// The same when weir starts: a table may have to be made, and nobody waits yet.
pub(crate) const START: Duration = Duration::from_secs(10);
/// The lock of whoever makes a table: "weir" in ASCII.
const TURN: u32 = 0x7765_6972;
/// How long nobody tries again after a connection has failed; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A table: where it is, and how it is made.
#[derive(Debug)]
pub(crate) struct Table {
    config: Config,
    /// Its name as it is written in a statement.
    pub(crate) name: String,
    /// The statements that make it when it is not there.
    creation: String,
    /// What the last connection has failed by. One that stands again is good news for all tasks.
    failed: Mutex<Option<Failed>>,
}

/// A connection could not be opened.
#[derive(Debug)]
struct Failed {
    /// Nobody tries again until then.
    until: Instant,
    pause: Duration,
    why: String,
}

impl Table {
    /// # Errors
    /// The URL is none.
    pub(crate) fn new(settings: &PostgresSettings, creation: String) -> Result<Self, String> {
        let config = settings.url.parse();
        Ok(Self {
            config: config.map_err(|error| in_words(&error))?,
            name: named(&settings.table, ""),
            creation,
            failed: Mutex::default(),
        })
    }

    /// A connection without anything prepared.
    async fn connect(&self) -> Result<Open, Error> {
        // Without insisting on TLS, a certificate protects from nothing: then any will do, such as that of Debian's server.
        let trust = match self.config.get_ssl_mode() {
            SslMode::Require => Trust::System,
            _ => Trust::Anybody,
        };
        let tls = tls::Client::new("localhost", &trust, &[]);
        let (client, connection) = if let Ok(tls) = tls {
            let tls = MakeRustlsConnect::new((*tls.config).clone());
            let (client, connection) = self.config.connect(tls).await?;
            (client, tokio::spawn(connection))
        } else {
            // Nobody is trusted here: whoever insists on TLS is told by the client of Postgres.
            let (client, connection) = self.config.connect(NoTls).await?;
            (client, tokio::spawn(connection))
        };
        Ok(Open {
            client,
            statements: Vec::new(),
            connection,
        })
    }

    /// A connection with these statements prepared. The table is made when it is not there.
    async fn open(&self, statements: &[String]) -> Result<Open, Error> {
        let mut open = self.connect().await?;
        // A server that waits for a lock does not notice that nobody waits for it.
        let within = format!("SET statement_timeout = {}", STATEMENT.as_millis());
        open.client.batch_execute(&within).await?;
        let prepared = match prepare(&open.client, statements).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                // Two that make it at once would fail, IF NOT EXISTS or not: they take turns.
                let creation = format!("SELECT pg_advisory_xact_lock({TURN}); {}", self.creation);
                open.client.batch_execute(&creation).await?;
                prepare(&open.client, statements).await
            }
            prepared => prepared,
        };
        open.statements = prepared?;
        Ok(open)
    }

    /// The same, within a time, and what is wrong in words.
    pub(crate) async fn opened(
        &self,
        statements: &[String],
        within: Duration,
    ) -> Result<Open, OpenError> {
        let open = timeout(within, self.open(statements)).await;
        let late = |_| OpenError::away(format!("it has not answered within {within:?}"));
        open.map_err(late)?.map_err(|error| OpenError {
            why: in_words(&error),
            is_away: is_away(&error),
        })
    }
}

impl Table {
    /// # Errors
    /// A connection has failed a moment ago, and by what.
    fn check_pause(&self) -> Result<(), String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            Some(failed) if Instant::now() < failed.until => Err(failed.why.clone()),
            _ => Ok(()),
        }
    }

    /// Notes how a connection was opened.
    fn note(&self, why: Option<&String>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &self.name;
        *failed = match (why, failed.take()) {
            (None, None) => None,
            (None, Some(_)) => {
                tell(Level::Info, format_args!("Postgres: {name} answers again"));
                None
            }
            (Some(why), before) => {
                let why = format!("Postgres: {why}");
                if before.is_none() {
                    tell(
                        Level::Warning,
                        format_args!("{why}: {name} is out of reach"),
                    );
                }
                let doubled = before.map(|failed| (failed.pause * 2).min(PAUSE_MAX));
                let pause = doubled.unwrap_or(PAUSE_MIN);
                let until = Instant::now() + pause;
                Some(Failed { until, pause, why })
            }
        };
    }
}

async fn prepare(client: &Client, statements: &[String]) -> Result<Vec<Statement>, Error> {
    let mut prepared = Vec::with_capacity(statements.len());
    for statement in statements {
        prepared.push(client.prepare(statement).await?);
    }
    Ok(prepared)
}

/// A connection.
pub(crate) struct Open {
    pub(crate) client: Client,
    /// In the order in which they were asked for.
    pub(crate) statements: Vec<Statement>,
    connection: JoinHandle<Result<(), Error>>,
}

impl Drop for Open {
    /// What is still asked for would keep it open, and a place of the server with it.
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The connection of a task, opened when it is needed.
pub(crate) struct Line {
    table: Arc<Table>,
    statements: Vec<String>,
    open: Option<Open>,
    told: Seldom,
}

impl Line {
    pub(crate) fn new(table: Arc<Table>, statements: Vec<String>) -> Self {
        Self {
            table,
            statements,
            open: None,
            told: Seldom::default(),
        }
    }

    /// The connection, opened unless it is open, or has failed a moment ago.
    pub(crate) async fn open(&mut self) -> Result<&Open, EngineError> {
        let open = match self.open.take() {
            Some(open) if !open.client.is_closed() => open,
            _ => self.reopened().await.map_err(EngineError::Failed)?,
        };
        Ok(self.open.insert(open))
    }

    async fn reopened(&self) -> Result<Open, String> {
        self.table.check_pause()?;
        let opened = self.table.opened(&self.statements, CONNECT).await;
        self.table
            .note(opened.as_ref().err().map(|error| &error.why));
        opened.map_err(|error| error.of("Postgres").why)
    }

    /// What became of a question that was asked within [`STATEMENT`]. A connection that nobody knows the state of is closed.
    pub(crate) fn settled<T>(
        &mut self,
        result: Result<Result<T, Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Trouble> {
        let (why, is_of_data) = match result {
            Ok(Ok(settled)) => return Ok(settled),
            Ok(Err(error)) => {
                let said = error.as_db_error();
                if said.is_none() {
                    self.open = None;
                }
                // What is wrong with data, breaks a constraint, or is more than a limit allows (PostgreSQL, appendix A).
                let class = said.and_then(|said| said.code().code().get(..2));
                let is_of_data = matches!(class, Some("21" | "22" | "23" | "44" | "54" | "P0"));
                (in_words(&error), is_of_data)
            }
            Err(_) => {
                self.open = None;
                (format!("it has not answered within {STATEMENT:?}"), false)
            }
        };
        let why = format!("Postgres: {why}");
        if !is_of_data {
            self.told.tell(format_args!("{why}"));
        }
        Err(Trouble { why, is_of_data })
    }
}

/// Why a statement has failed.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// The fault is in a row.
    #[allow(dead_code, reason = "activities tell rows apart by it")]
    pub(crate) is_of_data: bool,
}

impl From<Trouble> for EngineError {
    fn from(trouble: Trouble) -> Self {
        Self::Failed(trouble.why)
    }
}

/// Whether nobody answers there, or a server that is not ready yet.
fn is_away(error: &Error) -> bool {
    if let Some(code) = error.code() {
        // It starts, ends, has crashed, or has no connection left.
        return [
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::TOO_MANY_CONNECTIONS,
        ]
        .contains(code);
    }
    let source = std::error::Error::source(error);
    error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// What an error says.
pub(crate) fn in_words(error: &Error) -> String {
    let Some(said) = error.as_db_error() else {
        return match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
    };
    let mut words = format!("{} (SQLSTATE {})", said.message(), said.code().code());
    if let Some(detail) = said.detail() {
        let _ = write!(words, "; {detail}");
    }
    words
}

/// The name of a table, with its schema perhaps, and something behind it, as it is written in a statement.
pub(crate) fn named(table: &str, behind: &str) -> String {
    let table = format!("{table}{behind}");
    let parts = table.split('.').map(identifier);
    parts.collect::<Vec<_>>().join(".")
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
