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
                let data = if is_bad { "a\u{0}" } else { "a" };
                let body = json!({ "user_id": number, "data": data }).to_string();
                let response = collector.ask("POST", "", "", &body);
                if is_bad {
                    assert_eq!(response.status, 422, "{}", response.text());
                    assert!(
                        response.text().contains("SQLSTATE 22P05"),
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
