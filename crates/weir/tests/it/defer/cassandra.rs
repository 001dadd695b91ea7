//! A sink that is a table of a real Cassandra.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::Queued;
use super::sink::Sink;
use crate::harness::cassandra::Cassandra;
use crate::harness::wait_until;

const ROUTE: &str =
    "[[route]]\npath = \"/{user}\"\ndefer = { queue = \"events\", key = \"path:user\" }\n";

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

async fn session(cassandra: &Cassandra) -> Session {
    let builder = SessionBuilder::new().known_node(cassandra.address().to_string());
    builder.build().await.expect("a node that answers")
}

async fn count(cassandra: &Cassandra, table: &str) -> i64 {
    let session = session(cassandra).await;
    let statement = format!("SELECT count(*) FROM {table}");
    let result = session
        .query_unpaged(statement, &[])
        .await
        .expect("an answer");
    let rows = result.into_rows_result().expect("rows");
    rows.first_row::<(i64,)>().expect("a row").0
}

/// Rows in a table that weir makes and in one of one's own; what cannot be a row; a node that is killed.
#[test]
fn a_table_has_each_message_once() {
    let mut cassandra = Cassandra::start();
    let runtime = runtime();
    runtime.block_on(async {
        let session = session(&cassandra).await;
        for statement in [
            "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE app.activities (user_id int, id uuid, at timestamp, data text, score double, ok boolean, PRIMARY KEY (user_id, at, id))",
        ] {
            session.query_unpaged(statement, &[]).await.expect("it is carried out");
        }
    });
    let address = cassandra.address();
    let queue = format!(
        "[queue.events.sink.made]\ncassandra = {{ nodes = [\"{address}\"], table = \"app.events\" }}\n\
         [queue.events.sink.own]\n\
         cassandra = {{ nodes = [\"{address}\"], table = \"app.activities\", columns = {{ user_id = \"json:/user\", id = \"id\", at = \"time\", \
         data = \"body\", score = \"json:/score\", ok = \"json:/ok\" }} }}"
    );
    let queued = Queued::start(&Sink::start(), &queue, ROUTE);
    queued.accepted("/ann", "{\"user\": 7, \"score\": 1.5, \"ok\": true}");
    queued.accepted("/ann", "{\"user\": \"nobody\"}");
    for number in 0..300 {
        queued.accepted("/bob", &format!("{{\"user\": {number}}}"));
    }
    queued.wait_for_sink("own");
    queued.wait_for_sink("made");
    assert_eq!(runtime.block_on(count(&cassandra, "app.events")), 302);
    assert_eq!(runtime.block_on(count(&cassandra, "app.activities")), 301);
    let row = runtime.block_on(async {
        let statement = "SELECT data, score, ok FROM app.activities WHERE user_id = 7 AND at < '2100-01-01' ORDER BY at LIMIT 1";
        let session = session(&cassandra).await;
        let result = session.query_unpaged(statement, &[]).await.expect("an answer");
        let rows = result.into_rows_result().expect("rows");
        rows.first_row::<(String, Option<f64>, Option<bool>)>().expect("a row")
    });
    assert_eq!(row.1.zip(row.2), Some((1.5, true)), "{row:?}");
    let told = queued.told(&["dead", "list", "events/own"]);
    assert!(
        told.contains("\"user_id\"") && told.contains("nobody"),
        "{told}"
    );
    // What is written again is there once.
    queued.told(&["replay", "events/made", "--from", "0"]);
    queued.wait_for_sink("made");
    assert_eq!(runtime.block_on(count(&cassandra, "app.events")), 302);
    cassandra.kill();
    queued.accepted("/ann", "{\"user\": 8}");
    wait_until("it is told", || queued.sink("own")["is_ill"] == true);
    cassandra.restart();
    queued.wait_for_sink("own");
    queued.wait_for_sink("made");
    assert_eq!(runtime.block_on(count(&cassandra, "app.events")), 303);
}
