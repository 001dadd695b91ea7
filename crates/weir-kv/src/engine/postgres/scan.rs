//! The cells of a range, in one snapshot for each scan.
//!
//! It has a connection of its own, since whoever takes the cells may be slow. Rows come as they are taken, so no more of them is in memory
//! than a few. Who answers a client with a range ends the scan after some hundred kilobytes, and begins another one: the range is in no
//! snapshot.

use std::future::Future;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use tokio::time::timeout;
use tokio_postgres::{Error, RowStream};

use super::rows::{COLUMNS, cell_of};
use crate::database::postgres::{CONNECT, Open, STATEMENT, Table, in_words};
use crate::database::thread::runtime;
use crate::engine::{Each, EngineError};

/// Rows of a page.
const PAGE: i64 = 1000;

/// Goes through the cells from a key on, up to another one without it. It blocks this thread.
pub(super) fn scan(
    table: &Table,
    (mut from, to): (Bytes, Option<Bytes>),
    mut each: Each,
) -> Result<(), EngineError> {
    let runtime = runtime().map_err(EngineError::Failed)?;
    let bounded = if to.is_some() {
        "AND key < $3"
    } else {
        "AND $3::bytea IS NULL"
    };
    let page = |comparison| {
        format!(
            "SELECT {COLUMNS} FROM {} WHERE key {comparison} $1 {bounded} ORDER BY key LIMIT $2",
            table.name
        )
    };
    let open = runtime.block_on(table.opened(&[page(">="), page(">")], CONNECT));
    let open = open.map_err(|why| EngineError::Failed(format!("Postgres: {why}")))?;
    // A slow client must not end a page.
    let begin = "SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    runtime.block_on(within(open.client.batch_execute(begin)))?;
    let mut statement = 0;
    loop {
        let rows = runtime.block_on(within(rows(&open, statement, &from, to.as_ref())))?;
        let mut rows = Box::pin(rows);
        let mut count = 0;
        while let Some(row) = runtime.block_on(within(rows.try_next()))? {
            let (key, cell) = cell_of(&row)?;
            count += 1;
            if !each(&key, cell) {
                return Ok(());
            }
            from = key.into();
        }
        if count < PAGE {
            return Ok(());
        }
        statement = 1;
    }
}

async fn rows(
    open: &Open,
    statement: usize,
    from: &[u8],
    to: Option<&Bytes>,
) -> Result<RowStream, Error> {
    let to = to.map(|to| &to[..]);
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&from, &PAGE, &to];
    open.client
        .query_raw(&open.statements[statement], parameters)
        .await
}

async fn within<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, EngineError> {
    let answered = timeout(STATEMENT, asked).await;
    let answered = answered.map_err(|_| format!("it has not answered within {STATEMENT:?}"));
    let answered = answered.and_then(|answered| answered.map_err(|error| in_words(&error)));
    answered.map_err(|why| EngineError::Failed(format!("Postgres: {why}")))
}
