//! A store whose data is in a table of a real Cassandra.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::Node;
use crate::harness::cassandra::Cassandra;
use crate::harness::process::Process;
use crate::harness::wait_until;

/// What `work` makes of a session of its own.
fn in_session<T>(cassandra: &Cassandra, work: impl AsyncFnOnce(Session) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let builder = SessionBuilder::new().known_node(cassandra.address().to_string());
        work(builder.build().await.expect("a node that answers")).await
    })
}

fn carry_out(cassandra: &Cassandra, statement: &str) {
    in_session(cassandra, async |session| {
        session
            .query_unpaged(statement, &[])
            .await
            .expect("it is carried out");
    });
}

/// Makes the keyspace that tables are in when nothing else is said.
pub(crate) fn keyspace(cassandra: &Cassandra) {
    carry_out(
        cassandra,
        "CREATE KEYSPACE weir WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
}

fn node(cassandra: &Cassandra) -> Node {
    Node::in_database(&format!("cassandra = [\"{}\"]", cassandra.address()))
}

/// What is put and deleted, by two processes, one of which is started again; rows that others write; ranges, which there are none of.
#[test]
fn a_table_holds_what_two_processes_put_into_it() {
    let cassandra = Cassandra::start();
    keyspace(&cassandra);
    let first = node(&cassandra);
    // It listens before the store is open.
    assert_eq!(
        (first.get("absent").status, first.delete("absent")),
        (404, 202)
    );
    let before = run(&cassandra);
    let mut nodes = [first, node(&cassandra)];
    let binary: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    assert_eq!(
        (nodes[0].put("long", &binary), nodes[0].put("empty", b"")),
        (201, 201)
    );
    assert_eq!(nodes[1].get("long").body, binary);
    assert_eq!(nodes[1].value("empty"), Ok(String::new()));
    for turn in 0..50 {
        let (one, other) = (&nodes[turn % 2], &nodes[(turn + 1) % 2]);
        let value = turn.to_string();
        assert_eq!(one.put("key", value.as_bytes()), 201);
        assert_eq!(other.value("key"), Ok(value));
    }
    assert_eq!(
        (nodes[0].delete("key"), nodes[1].value("key")),
        (202, Err(404))
    );
    assert_eq!(
        (nodes[1].put("key", b"again"), nodes[0].value("key")),
        (201, Ok("again".to_owned()))
    );
    let range = nodes[0].ask("GET", "/v0/entities?start=a", b"");
    assert_eq!(range.status, 501);
    assert!(range.text().contains("no ranges"), "{}", range.text());
    nodes[0].restart();
    assert_eq!(nodes[0].get("long").body, binary);
    assert_eq!(nodes[0].value("key"), Ok("again".to_owned()));
    // An older write does not win, and what is newer wins over what is there.
    let written = |value: &str, stamp: &str| {
        format!(
            "INSERT INTO weir.kv (key, cell) VALUES (textAsBlob('key'), (1, 1, 1, null, textAsBlob('{value}'))) {stamp}"
        )
    };
    carry_out(&cassandra, &written("older", "USING TIMESTAMP 1000"));
    assert_eq!(nodes[1].value("key"), Ok("again".to_owned()));
    carry_out(&cassandra, &written("newer", ""));
    assert_eq!(nodes[1].value("key"), Ok("newer".to_owned()));
    let more = (run(&cassandra) - before).rem_euclid(i32::from(u16::MAX));
    assert_eq!(more, 2, "each start is a run of its own");
}

/// The number of the last run.
fn run(cassandra: &Cassandra) -> i32 {
    in_session(cassandra, async |session| {
        let found = session
            .query_unpaged("SELECT number FROM weir.kv_runs", &[])
            .await;
        let rows = found.expect("an answer").into_rows_result().expect("rows");
        rows.first_row::<(i32,)>().expect("a row").0
    })
}

#[test]
fn a_node_that_dies_loses_nothing_that_was_acknowledged() {
    let mut cassandra = Cassandra::start();
    let config = format!("cassandra = [\"{}\"]", cassandra.address());
    let directory = crate::harness::Directory::new();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:{}\"\n[kv]\nengine = {{ {config} }}\n[[route]]\npath = \"/v0/{{*rest}}\"\nkv = true\n",
        crate::harness::free_port()
    );
    let path = directory.write("weir.toml", text);
    let arguments = ["serve", "--config", path.to_str().expect("UTF-8")];
    let mut process = Process::weir(&arguments, &directory);
    assert_eq!(process.wait().code(), Some(1));
    let told = process.output();
    assert!(
        told.contains("there is no keyspace \"weir\"; make one"),
        "{told}"
    );
    keyspace(&cassandra);
    let node = node(&cassandra);
    for number in 0..100 {
        assert_eq!(
            node.put(&format!("key{number}"), number.to_string().as_bytes()),
            201
        );
    }
    // What was acknowledged is in the memory of a node, and in its log by its own rule; a kill loses neither.
    cassandra.kill();
    let refused = node.ask("PUT", "/v0/entity?id=key0", b"later");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(node.get("key0").status, 503);
    cassandra.restart();
    wait_until("it answers again", || node.get("absent").status == 404);
    for number in 1..100 {
        assert_eq!(node.value(&format!("key{number}")), Ok(number.to_string()));
    }
    assert_eq!(node.put("key0", b"after"), 201);
    assert_eq!(node.value("key0"), Ok("after".to_owned()));
}
