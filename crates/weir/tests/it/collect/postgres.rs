//! A table of a real Postgres.

use serde_json::json;

use super::{Collector, holds, ids, kill_while_clients_post, the_first_stays};
use crate::harness::postgres::Postgres;
use crate::harness::wait_until;

fn start(postgres: &Postgres, more: &str) -> Collector {
    let engine = format!("postgres = \"{}\"", postgres.url());
    Collector::start(|_| engine, more)
}

#[test]
fn events_are_kept_and_read_back() {
    let postgres = Postgres::start();
    let mut collector = start(&postgres, "");
    holds(&mut collector);
    let told = postgres.ask("SELECT count(*), count(DISTINCT user_id) FROM activities");
    assert_eq!(told, "257|6");
    // Who looks into the table finds values of their types, and no other index than that of the key.
    let told = postgres.ask("SELECT data->'n', date_part('year', timestamp) > 2000 FROM activities WHERE user_id = 'ann' ORDER BY timestamp, id LIMIT 1");
    assert_eq!(told, "1|t");
    // Another weir sees them.
    let other = start(&postgres, "batch = 1");
    assert_eq!(other.find("user_id=tim&last=1000").len(), 250);
    kill_while_clients_post(&mut collector, 0);
    the_first_stays(&collector);
}

#[test]
fn events_may_be_kept_one_by_one_or_wait_for_others() {
    let postgres = Postgres::start();
    holds(&mut start(&postgres, "batch = 1"));
    postgres.ask("TRUNCATE activities");
    holds(&mut start(
        &postgres,
        "batch = { events = 100, wait = \"20ms\" }",
    ));
}

/// JSON that Postgres does not take must not keep others from being kept that are written with it.
#[test]
fn a_row_that_is_refused_takes_no_other_with_it() {
    let postgres = Postgres::start();
    let collector = start(&postgres, "batch = { events = 100, wait = \"500ms\" }");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let collector = &collector;
            scope.spawn(move || {
                let is_bad = number == 3;
                let data = if is_bad { "\\ud800" } else { "a" };
                let body = format!("{{\"user_id\": {number}, \"data\": \"{data}\"}}");
                let response = collector.ask("POST", "", "", &body);
                if is_bad {
                    assert_eq!(response.status, 422, "{}", response.text());
                    assert!(
                        response.text().contains("SQLSTATE 22P02"),
                        "{}",
                        response.text()
                    );
                } else {
                    ids(&response);
                }
            });
        }
    });
    let told = postgres.ask("SELECT count(*) FROM activities");
    assert_eq!(told, "7");
}

/// It is found by halves, and not by writing all others one by one.
#[test]
fn a_row_that_is_refused_costs_few_transactions() {
    let postgres = Postgres::start();
    let collector = start(&postgres, "");
    let events: Vec<String> = (0..1000)
        .map(|number| match number {
            700 => "{\"user_id\": \"ann\", \"data\": \"\\udc00\"}".to_owned(),
            _ => format!("{{\"user_id\": \"ann\", \"data\": {number}}}"),
        })
        .collect();
    let body = format!("[{}]", events.join(","));
    let response = collector.ask("POST", "", "", &body);
    assert_eq!(response.status, 422, "{}", response.text());
    let told = postgres.ask("SELECT count(*) FROM activities");
    assert_eq!(told, "999");
    let told = postgres.ask("SELECT count(DISTINCT xmin::text) FROM activities");
    let transactions: usize = told.parse().expect("a number");
    assert!(transactions <= 10, "{transactions}");
}

/// What is wrong with the database and not with a row is told, and nothing more is tried of what was posted.
#[test]
fn what_fails_ends_a_post() {
    let postgres = Postgres::start();
    let collector = start(&postgres, "batch = 1");
    collector.post(&json!({ "user_id": "before" }));
    postgres.ask(
        "CREATE FUNCTION fail() RETURNS trigger AS 'BEGIN IF NEW.id = ''3'' THEN RAISE ''full'' USING ERRCODE = ''53100''; END IF; \
         RETURN NEW; END' LANGUAGE plpgsql; \
         CREATE TRIGGER fail BEFORE INSERT ON activities FOR EACH ROW EXECUTE FUNCTION fail()",
    );
    let events: Vec<_> = (1..=6)
        .map(|id| json!({ "user_id": "ann", "id": id, "timestamp": 5 }))
        .collect();
    let response = collector.ask("POST", "", "", &json!(events).to_string());
    assert_eq!(
        (response.status, response.field("retry-after")),
        (503, Some("1"))
    );
    assert!(
        response.text().contains("SQLSTATE 53100"),
        "{}",
        response.text()
    );
    assert_eq!(
        collector.parts("user_id=ann", "id"),
        [json!("2"), json!("1")]
    );
}

/// An answer has a bound, and who asks for more is told.
#[test]
fn rows_that_are_too_many_for_an_answer_are_told() {
    let postgres = Postgres::start();
    let collector = start(&postgres, "");
    let data = "x".repeat(60_000);
    let events: Vec<_> = (0..100)
        .map(|_| json!({ "user_id": "ann", "data": data }))
        .collect();
    collector.post(&json!(events));
    collector.post(&json!(events));
    assert_eq!(collector.find("user_id=ann&last=100").len(), 100);
    let response = collector.ask("GET", "?user_id=ann&last=200", "", "");
    assert_eq!(response.status, 422, "{}", response.text());
    assert!(
        response.text().contains("ask for fewer"),
        "{}",
        response.text()
    );
}

/// While the database is away everything is refused, and told; when it is back, all that was acknowledged is there.
#[test]
fn a_database_that_dies_loses_nothing_that_was_acknowledged() {
    let mut postgres = Postgres::start();
    let collector = start(&postgres, "");
    let mut acknowledged = Vec::new();
    for _ in 0..3 {
        for number in 0..50 {
            acknowledged.extend(collector.post(&json!({ "user_id": "ann", "data": number })));
        }
        postgres.kill();
        let refused = collector.ask("POST", "", "", "{\"user_id\": \"ann\"}");
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert_eq!(collector.ask("GET", "?user_id=ann", "", "").status, 503);
        postgres.restart();
        let is_back = || collector.ask("GET", "?user_id=ann", "", "").status == 200;
        wait_until("it answers again", is_back);
        let found = collector.parts("user_id=ann&last=1000", "id");
        for id in &acknowledged {
            assert!(found.contains(&json!(id)), "{id}");
        }
    }
}
