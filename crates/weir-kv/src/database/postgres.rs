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
    /// Its name as it was given.
    given_name: String,
    /// The statements that make it when it is not there, of its name as it was given.
    creation: fn(&str) -> String,
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
    pub(crate) fn new(
        settings: &PostgresSettings,
        creation: fn(&str) -> String,
    ) -> Result<Self, String> {
        let config = settings.url.parse();
        let mut config: Config = config.map_err(|error: Error| in_words(&error))?;
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        // Hosts are asked one after the other: one that is off must leave the next one its time.
        if hosts > 1 && config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT / (hosts as u32 + 1));
        }
        Ok(Self {
            config,
            name: named(&settings.table, ""),
            given_name: settings.table.clone(),
            creation,
            failed: Mutex::default(),
        })
    }

    /// Its name with something behind it.
    #[allow(dead_code, reason = "a store has an index")]
    pub(crate) fn named(&self, behind: &str) -> String {
        named(&self.given_name, behind)
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
                let creation = (self.creation)(&self.given_name);
                let creation = format!("SELECT pg_advisory_xact_lock({TURN}); {creation}");
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
        Ok(open.map_err(late)??)
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

    /// What became of a question that was asked within [`STATEMENT`]. Unless a row is to blame, the connection is closed: another
    /// one may lead to a server that takes writes, and finds what has to be made again.
    pub(crate) fn settled<T>(
        &mut self,
        result: Result<Result<T, Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, EngineError> {
        let (why, is_of_data) = match result {
            Ok(Ok(settled)) => return Ok(settled),
            Ok(Err(error)) => {
                let state = error.code().map(SqlState::code);
                (in_words(&error), state.is_some_and(is_of_data))
            }
            Err(_) => (format!("it has not answered within {STATEMENT:?}"), false),
        };
        let why = format!("Postgres: {why}");
        if is_of_data {
            return Err(EngineError::Refused(why));
        }
        self.open = None;
        self.told.tell(format_args!("{why}"));
        Err(EngineError::Failed(why))
    }
}

/// Whether a row is to blame: it is wrong, breaks a constraint, or is more than a limit allows (`PostgreSQL`, appendix A).
fn is_of_data(state: &str) -> bool {
    matches!(
        state.get(..2),
        Some("21" | "22" | "23" | "44" | "54" | "P0")
    )
}

/// Whether somebody has to see to it: a database, a schema, a user or a right is missing, or a statement does not fit the table.
/// Whatever else keeps a server from answering may pass: it starts, only reads, waits for a lock, has no room or no connection left.
fn is_final(state: &str) -> bool {
    let is_class = matches!(state.get(..2), Some("28" | "42"));
    is_class || matches!(state, "3D000" | "3F000")
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        let is_final = match error.code() {
            Some(state) => is_final(state.code()),
            // The URL lacks what is needed. The library tells it by its words alone.
            None => error.to_string() == "invalid configuration",
        };
        Self {
            why: in_words(&error),
            is_away: !is_final,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_waited_for_and_what_somebody_has_to_see_to_is_not() {
        for (state, of_whom) in [
            ("3D000", "a database that is not there"),
            ("3F000", "a schema that is not there"),
            ("28P01", "a password"),
            ("42501", "a right"),
            ("42703", "a table of other columns"),
        ] {
            assert!(is_final(state), "{of_whom}");
        }
        for (state, of_whom) in [
            ("57P03", "a server that starts"),
            ("57P01", "a server that ends"),
            ("53300", "no connection left"),
            ("53100", "a full disk"),
            ("53200", "no memory left"),
            ("25006", "a standby that only reads"),
            ("57014", "a statement that has waited for too long"),
            ("55P03", "a lock"),
            ("08P01", "a pool that does not reach it"),
            ("40001", "a conflict"),
            ("XX000", "anything"),
        ] {
            assert!(!is_final(state), "{of_whom}");
            assert!(!is_of_data(state), "{of_whom}");
        }
        for state in ["22P05", "23514", "54001", "P0001"] {
            assert!(is_of_data(state), "{state}");
        }
    }

    /// How long a host may take to be reached, of a URL.
    fn connect_timeout(url: &str) -> Option<Duration> {
        let settings = PostgresSettings {
            url: url.to_owned(),
            table: "kv".to_owned(),
        };
        let table = Table::new(&settings, |_| String::new()).expect("it is a URL");
        table.config.get_connect_timeout().copied()
    }

    #[test]
    fn each_of_several_hosts_has_its_turn_in_time() {
        assert_eq!(connect_timeout("postgres://a@one/db"), None);
        let two = connect_timeout("postgres://a@one,two/db").expect("a bound");
        assert!(2 * two < CONNECT);
        let told = connect_timeout("postgres://a@one,two/db?connect_timeout=1");
        assert_eq!(told, Some(Duration::from_secs(1)));
    }
}
