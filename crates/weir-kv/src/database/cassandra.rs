//! A session with a cluster of Cassandra, or of `ScyllaDB`. It finds the nodes again by itself when they were away.

use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::statement::prepared::PreparedStatement;
use tokio::time::timeout;

use super::{CassandraSettings, OpenError};

/// How long a statement may take.
const STATEMENT: Duration = Duration::from_secs(4);
/// How long connecting may take, with all that is made and prepared.
const CONNECT: Duration = Duration::from_secs(20);
/// What making a table may take.
const CREATION: Duration = Duration::from_secs(10);

/// The table, with something behind its name, as it is written in a statement.
pub(crate) fn named(settings: &CassandraSettings, behind: &str) -> String {
    let table = format!("{}{behind}", settings.table);
    format!("{}.{}", quoted(&settings.keyspace), quoted(&table))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A session in which these tables are made unless they are there.
///
/// # Errors
/// No node can be reached, there is no such keyspace, or the cluster refuses.
pub(crate) async fn session(
    settings: &CassandraSettings,
    creations: &[String],
) -> Result<Session, OpenError> {
    let opened = timeout(CONNECT, open(settings, creations)).await;
    opened.map_err(|_| OpenError::away(format!("it has not answered within {CONNECT:?}")))?
}

async fn open(settings: &CassandraSettings, creations: &[String]) -> Result<Session, OpenError> {
    let profile = ExecutionProfile::builder().request_timeout(Some(STATEMENT));
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .default_execution_profile_handle(profile.build().into_handle());
    if let Some((name, password)) = &settings.user {
        builder = builder.user(name, password);
    }
    let session = builder.build().await;
    let session = session.map_err(|error| OpenError::away(error.to_string()))?;
    let keyspace = &settings.keyspace;
    let look = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let found = session.query_unpaged(look, (keyspace,)).await;
    let rows = found?
        .into_rows_result()
        .map_err(|error| error.to_string())?;
    if rows.rows_num() == 0 {
        return Err(format!(
            "there is no keyspace {keyspace:?}; make one with as many replicas as you want: CREATE KEYSPACE {} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}}",
            quoted(keyspace)
        )
        .into());
    }
    for creation in creations {
        let mut creation = scylla::statement::Statement::new(creation);
        creation.set_request_timeout(Some(CREATION));
        session.query_unpaged(creation, &[]).await?;
    }
    Ok(session)
}

/// A statement that does the same when it is carried out twice.
pub(crate) async fn prepared(
    session: &Session,
    text: String,
) -> Result<PreparedStatement, OpenError> {
    let mut prepared = session.prepare(text).await?;
    prepared.set_is_idempotent(true);
    Ok(prepared)
}

impl From<ExecutionError> for OpenError {
    fn from(error: ExecutionError) -> Self {
        let is_final = match &error {
            ExecutionError::BadQuery(_) => true,
            ExecutionError::PrepareError(error) => is_never_prepared(error),
            ExecutionError::LastAttemptError(error) => is_refused(error),
            _ => false,
        };
        Self {
            why: error.to_string(),
            is_away: !is_final,
        }
    }
}

impl From<PrepareError> for OpenError {
    fn from(error: PrepareError) -> Self {
        Self {
            why: error.to_string(),
            is_away: !is_never_prepared(&error),
        }
    }
}

fn is_never_prepared(error: &PrepareError) -> bool {
    matches!(error, PrepareError::AllAttemptsFailed { first_attempt } if is_refused(first_attempt))
}

/// Whether somebody has to see to it: a statement does not fit the table, or a right is missing. Whatever else keeps nodes from
/// answering may pass: too few of them are up, or in time, or have room.
fn is_refused(error: &RequestAttemptError) -> bool {
    let RequestAttemptError::DbError(error, _) = error else {
        return false;
    };
    matches!(
        error,
        DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized | DbError::ConfigError
    )
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    use super::*;

    #[test]
    fn what_may_pass_is_waited_for_and_what_somebody_has_to_see_to_is_not() {
        let too_few = DbError::Unavailable {
            consistency: Consistency::Serial,
            required: 2,
            alive: 1,
        };
        let too_late = DbError::WriteTimeout {
            consistency: Consistency::Serial,
            received: 1,
            required: 2,
            write_type: WriteType::Cas,
        };
        for (error, is_away) in [
            (too_few, true),
            (too_late, true),
            (DbError::Overloaded, true),
            (DbError::IsBootstrapping, true),
            (DbError::Invalid, false),
            (DbError::Unauthorized, false),
        ] {
            let error = RequestAttemptError::DbError(error, "why".to_owned());
            let prepared = PrepareError::AllAttemptsFailed {
                first_attempt: error.clone(),
            };
            assert_eq!(OpenError::from(prepared).is_away, is_away, "{error}");
            let asked = OpenError::from(ExecutionError::LastAttemptError(error.clone()));
            assert_eq!(asked.is_away, is_away, "{error}");
            assert!(asked.why.contains("why"), "{}", asked.why);
        }
        let late = ExecutionError::RequestTimeout(STATEMENT);
        assert!(OpenError::from(late).is_away);
    }
}
