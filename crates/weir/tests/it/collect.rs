//! Activities from outside: real processes and real databases, which are killed and started again.

mod cassandra;
mod embedded;
mod postgres;

use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::client::{Connection, Response};
use crate::harness::process::Process;
use crate::harness::{Directory, Gateway, wait_until};

/// A gateway with a table.
struct Collector(Gateway);

impl Collector {
    /// The engine, and what else is said of the table.
    fn start(engine: impl FnOnce(&Directory) -> String, more: &str) -> Self {
        Self(Gateway::start_in(|directory| {
            format!(
                "[table.activities]\nengine = {{ {} }}\n{more}\n[[route]]\npath = \"/activities\"\ncollect = {{ table = \"activities\" }}\n",
                engine(directory)
            )
        }))
    }

    fn ask(&self, method: &str, query: &str, fields: &str, body: &str) -> Response {
        let mut connection = Connection::open(self.0.address);
        let length = body.len();
        connection.send(format!(
            "{method} /activities{query} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        connection.response_to(method).expect("it answers")
    }

    /// Posts what must be accepted; the ids.
    fn post(&self, body: &Value) -> Vec<String> {
        let response = self.ask("POST", "", "", &body.to_string());
        ids(&response)
    }

    /// The rows that a query finds.
    fn find(&self, query: &str) -> Vec<Value> {
        let response = self.ask("GET", &format!("?{query}"), "", "");
        assert_eq!(response.status, 200, "{}", response.text());
        serde_json::from_str(&response.text()).expect("a list")
    }

    /// A part of each row that a query finds.
    fn parts(&self, query: &str, part: &str) -> Vec<Value> {
        let rows = self.find(query).into_iter();
        rows.map(|row| row[part].clone()).collect()
    }

    /// As after a crash.
    fn restart(&mut self) {
        self.0.process.kill();
        let config = self.0.directory.file("weir.toml");
        let arguments = ["serve", "--config", config.to_str().expect("UTF-8")];
        self.0.process = Process::weir(&arguments, &self.0.directory);
        self.0.process.wait_for_port(self.0.address);
        // What waits for a database listens already.
        wait_until("it answers", || TcpStream::connect(self.0.admin).is_ok());
    }
}

fn ids(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 201, "{}", response.text());
    let told: Value = serde_json::from_str(&response.text()).expect("JSON");
    let ids = told["ids"].as_array().expect("ids").iter();
    ids.map(|id| id.as_str().expect("a string").to_owned())
        .collect()
}

/// What holds in every engine.
fn holds(collector: &mut Collector) {
    assert_eq!(collector.find("user_id=ann"), [Value::Null; 0]);
    let first = collector.post(&json!({ "user_id": "ann", "data": { "n": 1 } }));
    let rows = collector.find("user_id=ann");
    assert_eq!(
        (rows.len(), &rows[0]["id"], &rows[0]["data"]),
        (1, &json!(first[0]), &json!({ "n": 1 }))
    );
    assert_eq!(rows[0]["user_id"], "ann");
    // Of two without a time, the later one is newer, and ids are in the order in which they came.
    let second = collector.post(&json!([{ "user_id": "ann" }, { "user_id": "ann", "data": [2] }]));
    let newest: Vec<Value> = [&second[1], &second[0], &first[0]]
        .map(|id| json!(id))
        .into();
    assert_eq!(collector.parts("user_id=ann&last=1000", "id"), newest);
    assert_eq!(
        collector.parts("user_id=ann&last=2", "data"),
        [json!([2]), json!(null)]
    );
    times_bound_what_is_found(collector);
    what_is_sent_again_is_there_once(collector);
    // A user whose name begins with that of another one, and one that is a number.
    let others = "{\"user_id\": \"an\"}\n{\"user_id\": 7, \"data\": \"é\\u0001\"}\n\n{\"user_id\": \"ann \"}\n";
    let response = collector.ask("POST", "", "Content-Type: application/x-ndjson\r\n", others);
    let others = ids(&response);
    assert_eq!(others.len(), 3);
    assert_eq!(collector.parts("user_id=an", "id"), [json!(others[0])]);
    assert_eq!(collector.parts("user_id=7", "data"), [json!("é\u{1}")]);
    assert_eq!(collector.parts("user_id=ann%20", "id"), [json!(others[2])]);
    assert_eq!(collector.find("user_id=ann&last=1000").len(), 3);
    what_is_wrong_is_told(collector);
    collector.restart();
    assert_eq!(collector.parts("user_id=ann&last=1000", "id"), newest);
    assert_eq!(collector.find("user_id=tim&last=1000").len(), 250);
}

fn times_bound_what_is_found(collector: &Collector) {
    let events: Vec<Value> = (0..250)
        .map(|second| json!({ "user_id": "tim", "id": format!("e{second:03}"), "timestamp": second * 1000, "data": second }))
        .collect();
    assert_eq!(collector.post(&Value::Array(events))[249], "e249");
    let seconds = |query: &str| collector.parts(&format!("user_id=tim&{query}"), "data");
    assert_eq!(
        seconds("from=100000&to=103000"),
        [json!(102), json!(101), json!(100)]
    );
    assert_eq!(
        seconds("from=1970-01-01T00:04:08Z"),
        [json!(249), json!(248)]
    );
    assert_eq!(seconds("to=1970-01-01T00:00:02Z"), [json!(1), json!(0)]);
    assert_eq!(
        seconds("from=1&to=249001&limit=2"),
        [json!(249), json!(248)]
    );
    assert_eq!(
        (
            seconds("from=5000&to=5000").len(),
            seconds("last=1000").len()
        ),
        (0, 250)
    );
    assert_eq!(seconds("limit=1000&from=0").len(), 250);
    let times = collector.parts("user_id=tim&last=1", "timestamp");
    assert_eq!(times, ["1970-01-01T00:04:09.000Z"]);
}

fn what_is_sent_again_is_there_once(collector: &Collector) {
    let event = json!({ "user_id": "eve", "id": "e\u{e9}", "timestamp": "2026-07-01T12:00:00.250+02:00", "data": 1 });
    for _ in 0..2 {
        assert_eq!(collector.post(&event), ["e\u{e9}"]);
        assert_eq!(collector.post(&json!([event, event])).len(), 2);
    }
    let rows = collector.find("user_id=eve");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["timestamp"], "2026-07-01T10:00:00.250Z");
}

fn what_is_wrong_is_told(collector: &Collector) {
    for (body, complaint) in [
        ("", "EOF"),
        (
            "[{\"user_id\": \"x\"}, {\"user_id\": 1.5}]",
            "event 2: user_id: expected a string",
        ),
        ("{\"user_id\": \"x\", \"id\": 1}", "timestamp: missing"),
        (
            "{\"user_id\": \"x\", \"data\": \"\\u0000\"}",
            "data: found \\u0000",
        ),
    ] {
        let response = collector.ask("POST", "", "", body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.text().contains(complaint), "{}", response.text());
    }
    assert_eq!(
        collector.find("user_id=x").len(),
        0,
        "nothing of a wrong list is kept"
    );
    for (query, complaint) in [
        ("", "user_id: missing"),
        (
            "?user_id=x&last=none",
            "last: expected a number from 1 to 1000",
        ),
    ] {
        let response = collector.ask("GET", query, "", "");
        assert_eq!(response.status, 400, "{query}");
        assert!(response.text().contains(complaint), "{}", response.text());
    }
    let response = collector.ask("DELETE", "", "", "");
    assert_eq!(
        (response.status, response.field("allow")),
        (405, Some("GET, HEAD, POST"))
    );
}

/// Where the first of two with other data stays.
fn the_first_stays(collector: &Collector) {
    let event = |data| json!({ "user_id": "two", "id": "same", "timestamp": 5, "data": data });
    collector.post(&event(3));
    collector.post(&event(2));
    collector.post(&json!([event(1), event(4)]));
    assert_eq!(collector.parts("user_id=two", "data"), [json!(3)]);
    // Whichever of the two is greater.
    for (id, first, second) in [(1, 1, 2), (2, 2, 1)] {
        let user = format!("at-once-{id}");
        let at_once = |data| json!({ "user_id": user, "id": id, "timestamp": 5, "data": data });
        collector.post(&json!([at_once(first), at_once(second)]));
        let kept = collector.parts(&format!("user_id={user}"), "data");
        assert_eq!(kept, [json!(first)]);
    }
}

/// Clients post until the gateway is killed; what was acknowledged must be there when it has been started again.
fn kill_while_clients_post(collector: &mut Collector, round: u64) {
    const CLIENTS: u64 = 4;
    let acknowledged = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (collector, acknowledged, is_over) = (&*collector, &acknowledged, &is_over);
            scope.spawn(move || {
                for turn in 0.. {
                    let id = format!("r{round}t{turn}");
                    let event = json!([{ "user_id": client, "id": id, "timestamp": turn }, { "user_id": client, "id": id, "timestamp": turn + 1 }]);
                    if is_over.load(Ordering::Relaxed) || !is_taken(collector, &event.to_string()) {
                        return;
                    }
                    acknowledged.lock().expect("nobody panics").push((client, id));
                }
            });
        }
        wait_until("some are acknowledged", || {
            acknowledged.lock().expect("nobody panics").len() > 40
        });
        collector.0.process.signal("KILL");
        is_over.store(true, Ordering::Relaxed);
    });
    collector.restart();
    let acknowledged = acknowledged.into_inner().expect("nobody panics");
    for client in 0..CLIENTS {
        let of_client = acknowledged.iter().filter(|(of, _)| *of == client);
        let found = collector.parts(&format!("user_id={client}&last=1000"), "id");
        for (_, id) in of_client {
            let count = found.iter().filter(|found| *found == id).count();
            assert_eq!(count, 2, "{client}: {id} of {} rows", found.len());
        }
    }
}

/// Whether a gateway that may be killed at any moment has acknowledged it.
fn is_taken(collector: &Collector, body: &str) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = TcpStream::connect(collector.0.address) else {
        return false;
    };
    let length = body.len();
    let request = format!(
        "POST /activities HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let mut answer = String::new();
    let told = stream.write_all(request.as_bytes());
    let told = told.and_then(|()| stream.read_to_string(&mut answer));
    told.is_ok() && answer.starts_with("HTTP/1.1 201")
}
