//! What a Postgres does that is in trouble, and what it does not take.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::node;
use crate::harness::postgres::Postgres;
use crate::harness::wait_until;
use crate::kv::Node;

/// A value that breaks a constraint is told, and takes no other with it.
#[test]
fn what_is_refused_is_told_to_who_wrote_it() {
    let postgres = Postgres::start();
    let node = node(&postgres);
    assert_eq!(node.put("key", b"value"), 201);
    postgres.ask("ALTER TABLE kv ADD CONSTRAINT good CHECK (value <> 'bad')");
    std::thread::scope(|scope| {
        for client in 0..16 {
            let node = &node;
            scope.spawn(move || {
                for turn in 0..20 {
                    let key = format!("c{client}t{turn}");
                    if client % 8 == 0 {
                        let target = format!("/v0/entity?id={key}");
                        let refused = node.ask("PUT", &target, b"bad");
                        assert_eq!(refused.status, 422, "{}", refused.text());
                        let why = "violates check constraint \"good\" (SQLSTATE 23514)";
                        assert!(refused.text().contains(why), "{}", refused.text());
                    } else {
                        assert_eq!(node.put(&key, b"good"), 201);
                    }
                }
            });
        }
    });
    let told = postgres.ask("SELECT count(*) FROM kv WHERE value = 'good'");
    assert_eq!(told, (14 * 20).to_string());
}

/// It is made again, and nobody gets the number of a run that is still there.
#[test]
fn a_table_that_is_dropped_is_made_again() {
    let postgres = Postgres::start();
    let node = node(&postgres);
    assert_eq!(node.put("key", b"value"), 201);
    let first = || postgres.ask("SELECT start_value FROM pg_sequences");
    let before = first();
    postgres.ask("DROP TABLE kv; DROP SEQUENCE kv_runs");
    wait_until("it is made again", || node.put("key", b"again") == 201);
    assert_eq!(node.value("key"), Ok("again".to_owned()));
    postgres.ask("DROP TABLE kv; DROP SEQUENCE kv_runs");
    wait_until("it is made again", || node.value("key") == Err(404));
    let other = super::node(&postgres);
    assert_ne!(first(), before, "a run begins where none has been");
    assert_eq!(other.put("key", b"other"), 201);
    assert_eq!(node.value("key"), Ok("other".to_owned()));
}

/// As a standby does before it is promoted.
#[test]
fn a_database_that_only_reads_is_waited_for() {
    let postgres = Postgres::start();
    postgres.ask("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let node = node(&postgres);
    let refused = node.get("key");
    assert_eq!(refused.status, 503);
    let why = "the database is away: Postgres: cannot execute";
    assert!(refused.text().contains(why), "{}", refused.text());
    postgres.ask(
        "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT",
    );
    wait_until("it is there", || node.put("key", b"value") == 201);
    // The same while weir runs: a connection is opened again, and leads to who writes.
    postgres.ask("ALTER DATABASE postgres SET default_transaction_read_only = on");
    postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'weir' AND pid <> pg_backend_pid()");
    wait_until("it only reads", || {
        let refused = node.ask("PUT", "/v0/entity?id=key", b"later");
        refused.text().contains("SQLSTATE 25006")
    });
    postgres.ask(
        "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT",
    );
    wait_until("it writes again", || node.put("key", b"later") == 201);
}

/// A place where nobody answers, as that of a machine that is off: no connection is accepted there, and none refused.
struct Silent {
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
    address: SocketAddr,
}

impl Silent {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let _inside = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(any).expect("a port is free");
        let listener = socket.listen(1).expect("it listens");
        let listener = listener.into_std().expect("a listener");
        let address = listener.local_addr().expect("an address");
        // Whoever comes when so many wait is not answered.
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
        let waiting = std::iter::from_fn(|| connect().ok()).take(100).collect();
        assert!(connect().is_err(), "it still answers");
        Self {
            _listener: listener,
            _waiting: waiting,
            address,
        }
    }
}

#[test]
fn the_next_host_is_asked_when_one_is_off() {
    let postgres = Postgres::start();
    let silent = Silent::new();
    let hosts = format!("@{},", silent.address);
    let url = postgres.url().replace('@', &hosts);
    let node = Node::in_database(&format!("postgres = \"{url}\""));
    wait_until("the other one is asked", || {
        node.put("key", b"value") == 201
    });
    assert_eq!(node.value("key"), Ok("value".to_owned()));
}
