//! A store whose data is in a table of a real Postgres.

mod trouble;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Node, free_address, start};
use crate::harness::client::ask_admin;
use crate::harness::postgres::Postgres;
use crate::harness::process::Process;
use crate::harness::{Directory, free_port, wait_until};

fn node(postgres: &Postgres) -> Node {
    Node::in_database(&format!("postgres = \"{}\"", postgres.url()))
}

#[test]
fn the_cases_of_an_embedded_store_hold() {
    let postgres = Postgres::start();
    let mut node = node(&postgres);
    assert_eq!(
        (node.get("absent").status, node.delete("absent")),
        (404, 202)
    );
    assert_eq!((node.put("one", b"1"), node.put("empty", b"")), (201, 201));
    let binary: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    assert_eq!(node.put("long", &binary), 201);
    assert_eq!(node.value("one"), Ok("1".to_owned()));
    assert_eq!(node.value("empty"), Ok(String::new()));
    assert_eq!(node.get("long").body, binary);
    assert_eq!(node.put("one", b"2"), 201);
    assert_eq!(node.value("one"), Ok("2".to_owned()));
    assert_eq!((node.delete("long"), node.value("long")), (202, Err(404)));
    // Who looks into the table finds what is there.
    let told = postgres.ask("SELECT convert_from(key, 'UTF8'), convert_from(value, 'UTF8') FROM kv WHERE value IS NOT NULL ORDER BY key");
    assert_eq!(told, "empty|\none|2");
    node.restart();
    assert_eq!(node.value("one"), Ok("2".to_owned()));
    assert_eq!(node.value("long"), Err(404));
    assert_eq!(node.put("one", b"3"), 201);
    assert_eq!(node.value("one"), Ok("3".to_owned()));
}

#[test]
fn a_range_is_in_the_order_of_bytes_and_longer_than_a_page() {
    let postgres = Postgres::start();
    let node = node(&postgres);
    // Neither a locale nor the case of letters changes the order.
    for (key, value) in [("b", "1"), ("B", "2"), ("%C3%A9", "3"), ("a", "")] {
        assert_eq!(node.put(key, value.as_bytes()), 201);
    }
    let range = |query: &str| {
        node.ask("GET", &format!("/v0/entities?{query}"), b"")
            .text()
    };
    assert_eq!(range("start=A"), "B\n2a\nb\n1\u{e9}\n3");
    assert_eq!(range("start=a&end=b"), "a\n");
    assert_eq!(range("start=b&end=a"), "");
    node.delete("a");
    assert_eq!(range("start=A&end=c"), "B\n2b\n1");
    let rows = "INSERT INTO kv SELECT convert_to('key' || to_char(number, 'FM00000'), 'UTF8'), 'v', NULL, 1, 1, 1 FROM generate_series(1, 2500) AS number";
    postgres.ask(rows);
    let response = node.ask("GET", "/v0/entities?start=key", b"");
    let keys = (1..=2500).map(|number| format!("key{number:05}\nv"));
    let expected = keys.collect::<Vec<_>>().concat();
    assert_eq!(response.status, 200);
    assert_eq!(response.text(), expected + "\u{e9}\n3");
}

/// A row of another process whose clock is ahead: a write comes after it all the same, and one that is too far ahead is told.
#[test]
fn a_write_wins_over_those_before_it_whatever_the_clocks() {
    let postgres = Postgres::start();
    let node = node(&postgres);
    assert_eq!(node.put("key", b"first"), 201);
    let ahead = "UPDATE kv SET value = 'ahead', version_time = version_time + (20000::bigint << 16), version_node = 7";
    postgres.ask(ahead);
    assert_eq!(node.value("key"), Ok("ahead".to_owned()));
    assert_eq!(node.put("key", b"second"), 201);
    assert_eq!(node.value("key"), Ok("second".to_owned()));
    let told = postgres.ask("SELECT version_node FROM kv");
    assert_ne!(told, "7", "it is a version of this node");
    postgres.ask("UPDATE kv SET version_time = version_time + (600000::bigint << 16)");
    let refused = node.ask("PUT", "/v0/entity?id=key", b"third");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(node.value("key"), Ok("second".to_owned()));
}

#[test]
fn two_processes_see_what_each_other_writes() {
    let postgres = Postgres::start();
    let nodes = [node(&postgres), node(&postgres)];
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
    let runs = "SELECT kv_runs.last_value - start_value FROM kv_runs, pg_sequences WHERE sequencename = 'kv_runs'";
    assert_eq!(postgres.ask(runs), "1", "each is a run of its own");
}

/// Many writes of the same few keys at once are batches in which keys are there several times, and lock one another out.
#[test]
fn crowds_at_the_same_keys_are_all_answered_and_agree() {
    let postgres = Postgres::start();
    let nodes = [node(&postgres), node(&postgres)];
    std::thread::scope(|scope| {
        for client in 0..16 {
            let node = &nodes[client % 2];
            scope.spawn(move || {
                for turn in 0..40 {
                    let value = format!("{client}-{turn}");
                    for key in ["a", "b", "c"] {
                        assert_eq!(node.put(key, value.as_bytes()), 201);
                    }
                }
            });
        }
    });
    for key in ["a", "b", "c"] {
        assert_eq!(nodes[0].value(key), nodes[1].value(key));
    }
    assert_eq!(postgres.ask("SELECT count(*) FROM kv"), "3");
}

/// While the database is away everything is refused, and told; when it is back, all that was acknowledged is there.
#[test]
fn a_database_that_dies_loses_nothing_that_was_acknowledged() {
    let mut postgres = Postgres::start();
    let node = node(&postgres);
    let acknowledged = Mutex::new(Vec::new());
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (node, acknowledged) = (&node, &acknowledged);
                scope.spawn(move || {
                    for turn in 0.. {
                        let value = turn.to_string();
                        let known = acknowledged.lock().expect("nobody panics").len();
                        let key = format!("c{client}k{known}t{turn}");
                        match node.put(&key, value.as_bytes()) {
                            201 => acknowledged
                                .lock()
                                .expect("nobody panics")
                                .push((key, value)),
                            503 => break,
                            status => panic!("{status}"),
                        }
                    }
                });
            }
            let enough = || acknowledged.lock().expect("nobody panics").len() > 50;
            wait_until("some are acknowledged", enough);
            postgres.kill();
        });
        let refused = node.get("key");
        assert_eq!(refused.status, 503);
        assert!(refused.text().contains("Postgres"), "{}", refused.text());
        assert_eq!(node.ask("GET", "/v0/entities?start=a", b"").status, 503);
        postgres.restart();
        wait_until("it answers again", || node.get("key").status == 404);
        for (key, value) in &*acknowledged.lock().expect("nobody panics") {
            assert_eq!(node.value(key).as_ref(), Ok(value), "{key}");
        }
        assert_eq!(node.put("after", b"all"), 201);
    }
}

/// weir serves what needs no database meanwhile, and says what it waits for.
#[test]
fn a_store_whose_database_is_away_at_the_start_is_there_when_that_is() {
    let mut postgres = Postgres::start();
    postgres.kill();
    let admin = free_address();
    let node = Node::in_directory(
        free_address(),
        Directory::new(),
        &format!("postgres = \"{}\"", postgres.url()),
        &format!("[admin]\nlisten = \"{admin}\"\n"),
    );
    node.process.wait_for_port(admin);
    let refused = node.get("key");
    assert_eq!(
        (refused.status, refused.field("retry-after")),
        (503, Some("1"))
    );
    let why = "the database is away: Postgres: error connecting to server";
    assert!(refused.text().contains(why), "{}", refused.text());
    let status = ask_admin(admin, "/status").text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    assert_eq!(status["databases"][0]["of"], "store", "{status}");
    assert_eq!(status["databases"][0]["is_reached"], false, "{status}");
    let trouble = status["troubles"][0]["text"].as_str().expect("a text");
    assert!(trouble.contains("store answers nothing until"), "{trouble}");
    let has_metric = |line: &str| {
        let page = ask_admin(admin, "/metrics").text();
        page.lines().any(|own| own == line)
    };
    assert!(has_metric("weir_database_reached{of=\"store\"} 0"));
    assert_eq!(ask_admin(admin, "/healthz").status, 200);
    postgres.restart();
    wait_until("it is there", || node.put("key", b"value") == 201);
    assert_eq!(node.value("key"), Ok("value".to_owned()));
    assert!(has_metric("weir_database_reached{of=\"store\"} 1"));
    let told = node.process.output();
    assert!(told.contains("store: its database answers"), "{told}");
}

/// Waiting would not help: somebody has to see to it.
#[test]
fn a_database_that_refuses_keeps_weir_from_starting() {
    let postgres = Postgres::start();
    let url = postgres.url().replace("/postgres", "/nobody");
    let directory = Directory::new();
    let config = format!(
        "[[listener]]\naddress = \"127.0.0.1:{}\"\n[kv]\nengine = {{ postgres = \"{url}\" }}\n\
         [[route]]\npath = \"/v0/{{*rest}}\"\nkv = true\n",
        free_port(),
    );
    let config = directory.write("weir.toml", config);
    let config = config.to_str().expect("UTF-8");
    let mut process = Process::weir(&["serve", "--config", config], &directory);
    assert_eq!(process.wait().code(), Some(1));
    let told = process.output();
    let why = "Postgres: database \"nobody\" does not exist (SQLSTATE 3D000)";
    assert!(told.contains(why), "{told}");
}

/// A table of somebody else's, in a schema, and one that has other columns.
#[test]
fn a_table_has_the_name_that_it_is_given() {
    let postgres = Postgres::start();
    postgres.ask("CREATE SCHEMA app");
    postgres.ask("CREATE TABLE other (key text)");
    let named = |table: &str| {
        format!(
            "postgres = {{ url = \"{}\", table = \"{table}\" }}",
            postgres.url()
        )
    };
    let node = Node::in_database(&named("app.o'clock"));
    assert_eq!(node.put("key", b"value"), 201);
    assert_eq!(postgres.ask("SELECT count(*) FROM app.\"o'clock\""), "1");
    let mut node = node;
    node.kill();
    let config = node.directory.file("weir.toml");
    let text = std::fs::read_to_string(&config).expect("it is there");
    std::fs::write(&config, text.replace("app.o'clock", "other")).expect("it can be written");
    let path = config.to_str().expect("UTF-8");
    let mut process = Process::weir(&["serve", "--config", path], &node.directory);
    assert!(!process.wait().success());
    assert!(
        process.output().contains("Postgres: "),
        "{}",
        process.output()
    );
    std::fs::write(&config, text).expect("it can be written");
    node.process = start(&node.directory, node.address);
    assert_eq!(node.value("key"), Ok("value".to_owned()));
}

/// The table decides which of two writes over one version is made, whichever process they come by.
#[test]
fn conditions_hold_between_processes() {
    let postgres = Postgres::start();
    let nodes = [node(&postgres), node(&postgres)];
    super::v1::count(&nodes);
    let range = nodes[1].ask("GET", "/v1/range?prefix=count", b"");
    assert!(
        range.text().contains("\"value\":\"150\""),
        "{}",
        range.text()
    );
}

/// What a write over a version finds must not decide on one that comes behind it, or that would be acknowledged and never made.
#[test]
fn a_write_is_made_in_a_crowd_of_others_over_versions() {
    const CLIENTS: usize = 16;
    let postgres = Postgres::start();
    let node = node(&postgres);
    assert_eq!(node.put("key", b"first"), 201);
    // What the row has ever been.
    postgres.ask(
        "CREATE TABLE past (value bytea); \
         CREATE FUNCTION note() RETURNS trigger AS 'BEGIN INSERT INTO past VALUES (NEW.value); RETURN NEW; END' LANGUAGE plpgsql; \
         CREATE TRIGGER past AFTER INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let is_over = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (node, is_over) = (&node, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let read = node.ask("GET", "/v1/kv/key", b"");
                    let tag = read.field("etag").expect("a tag");
                    let over = format!("If-Match: {tag}\r\n");
                    let value = format!("over-{client}");
                    let written = node.ask_with("PUT", "/v1/kv/key", &over, value.as_bytes());
                    assert!(
                        matches!(written.status, 201 | 412 | 503),
                        "{}",
                        written.text()
                    );
                }
            });
        }
        let values = (0..200).map(|turn| format!("plain-{turn}"));
        let acknowledged = values.filter(|value| {
            let status = node.put("key", value.as_bytes());
            assert!(matches!(status, 201 | 503), "{status}");
            status == 201
        });
        let acknowledged = acknowledged.collect();
        is_over.store(true, Ordering::Relaxed);
        acknowledged
    });
    assert!(acknowledged.len() > 100, "{} of 200", acknowledged.len());
    let past = postgres.ask("SELECT convert_from(value, 'UTF8') FROM past");
    let past: HashSet<&str> = past.lines().collect();
    for value in &acknowledged {
        assert!(past.contains(&**value), "{value} was never there");
    }
}

/// Large values are read one by one, whoever asks for them together.
#[test]
fn a_crowd_reads_large_values_and_small_ones() {
    let postgres = Postgres::start();
    let node = node(&postgres);
    let value = |key: usize| match key % 4 {
        0 => vec![b'a' + key as u8; 1 << 20],
        1 => vec![b'a' + key as u8; (64 << 10) + 1],
        _ => vec![b'a' + key as u8; 64 << 10],
    };
    for key in 0..8 {
        assert_eq!(node.put(&format!("k{key}"), &value(key)), 201);
    }
    std::thread::scope(|scope| {
        for client in 0..16 {
            let node = &node;
            scope.spawn(move || {
                for turn in 0..8 {
                    let key = (client + turn) % 8;
                    let read = node.get(&format!("k{key}"));
                    assert!(read.status == 200 && read.body == value(key), "{key}");
                    assert_eq!(node.get("absent").status, 404);
                }
            });
        }
    });
}

/// What is nothing any more is a row for a day.
#[test]
fn what_has_been_nothing_for_a_day_is_taken_away() {
    let postgres = Postgres::start();
    let mut node = node(&postgres);
    assert_eq!(node.put("live", b"1"), 201);
    let target = "/v1/kv/lives?ttl=1h";
    assert_eq!(node.ask("PUT", target, b"1").status, 201);
    assert_eq!((node.delete("deleted"), node.delete("old")), (202, 202));
    let expired = "SELECT convert_to('x' || number, 'UTF8'), 'v', now() - interval '25 hours', 1, 1, 1 FROM generate_series(1, 2500) AS number";
    postgres.ask(&format!("INSERT INTO kv {expired}"));
    postgres.ask("INSERT INTO kv VALUES ('new', 'v', now() - interval '23 hours', 1, 1, 1)");
    postgres.ask("UPDATE kv SET expires = expires - interval '25 hours' WHERE key = 'old'");
    node.restart();
    let keys = || postgres.ask("SELECT convert_from(key, 'UTF8') FROM kv ORDER BY key");
    wait_until("it is taken away", || keys() == "deleted\nlive\nlives\nnew");
    assert_eq!(node.value("old"), Err(404));
    assert_eq!(node.put("old", b"again"), 201);
    assert_eq!(node.value("old"), Ok("again".to_owned()));
}
