//! Sinks: files and tables that messages are written to beside their upstream, or instead of it.

use serde_json::Value;

use super::Queued;
use super::sink::Sink;
use crate::harness::postgres::Postgres;
use crate::harness::tool;
use crate::harness::wait_until;

const ROUTE: &str =
    "[[route]]\npath = \"/{user}\"\ndefer = { queue = \"events\", key = \"path:user\" }\n";

/// A queue with a sink, and no upstream. `sink` is what its table says.
fn with_sink(sink: &str) -> Queued {
    let nowhere = Sink::start();
    let queue = format!("[queue.events.sink.out]\n{sink}");
    Queued::start(&nowhere, &queue, ROUTE)
}

/// The same with a file. `lines` is what they are.
fn to_file(lines: &str) -> (Queued, std::path::PathBuf) {
    let mut queued = with_sink("file = \"nowhere\"");
    let path = queued.directory.file("out.ndjson");
    let sink = format!(
        "[queue.events.sink.out]\nbatch = 7\nfile = {{ path = \"{}\", lines = \"{lines}\" }}",
        path.display()
    );
    queued.configure(&Sink::start(), &sink, ROUTE);
    queued.restart();
    (queued, path)
}

fn lines(path: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_file_has_a_line_for_each_message() {
    let (queued, path) = to_file("message");
    let first = queued.accepted("/ann?x=1", "{\"a\": 1}");
    queued.accepted("/bob", "two\nlines");
    queued.wait_for_sink("out");
    let lines: Vec<Value> = lines(&path)
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["offset"], first);
    assert_eq!(lines[0]["key"], "ann");
    assert_eq!(lines[0]["method"], "POST");
    assert_eq!(lines[0]["path"], "/ann?x=1");
    assert_eq!(lines[0]["body"], "{\"a\": 1}");
    assert_eq!(lines[1]["body"], "two\nlines");
    assert_ne!(lines[0]["id"], lines[1]["id"]);
    let time = lines[0]["time"].as_str().expect("a text");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
}

#[test]
fn a_line_may_be_the_body_alone() {
    let (queued, path) = to_file("body");
    queued.accepted("/a", "{\"a\":\n 1}\n");
    queued.accepted("/a", "two\nlines");
    queued.accepted("/a", "text");
    queued.wait_for_sink("out");
    assert_eq!(lines(&path), ["{\"a\":  1}", "text"]);
    // What cannot be a line is a dead letter.
    let told = queued.told(&["dead", "list", "events/out"]);
    assert!(
        told.contains("its content has several lines, and is no JSON"),
        "{told}"
    );
    assert!(told.contains("POST /a"), "{told}");
    queued.told(&["dead", "drop", "events/out", "--all"]);
    assert_eq!(queued.sink("out")["dead"], 0);
}

/// What a log rotation does: the file is moved away, and the next batch is in a new one.
#[test]
fn a_file_may_be_moved_away() {
    let (queued, path) = to_file("body");
    queued.accepted("/a", "first");
    queued.wait_for_sink("out");
    let moved = queued.directory.file("out.1");
    std::fs::rename(&path, &moved).expect("it is there");
    queued.accepted("/a", "second");
    queued.wait_for_sink("out");
    assert_eq!(lines(&moved), ["first"]);
    assert_eq!(lines(&path), ["second"]);
}

/// Killed again and again, with a request under way: each message that was acknowledged is there, none twice, in their order.
#[test]
fn a_file_has_each_message_once_whatever_happens() {
    let (mut queued, path) = to_file("body");
    let mut acknowledged = Vec::new();
    for round in 0..6 {
        if round == 3 {
            queued.wait_for_sink("out");
            queued.told(&["pause", "events/out"]);
        }
        let before = acknowledged.len();
        for number in 0..150 {
            let body = format!("{round} {number:04}");
            queued.accepted("/a", &body);
            acknowledged.push(body);
        }
        queued.kill();
        if round == 3 {
            // What a crash leaves of batches: they were written, and nobody has noted it; the last one not whole.
            let mut text = std::fs::read_to_string(&path).expect("it is there");
            text.extend(
                acknowledged[before..before + 20]
                    .iter()
                    .map(|body| format!("{body}\n")),
            );
            text.push_str("3 00");
            std::fs::write(&path, text).expect("it is a file");
        }
        queued.restart();
        if round == 3 {
            queued.told(&["resume", "events/out"]);
        }
    }
    queued.wait_for_sink("out");
    assert_eq!(lines(&path), acknowledged);
}

/// A file that somebody else has put there is added to, and nothing of it cut off.
#[test]
fn what_others_have_written_stays() {
    let (mut queued, path) = to_file("body");
    queued.accepted("/a", "first");
    queued.wait_for_sink("out");
    queued.kill();
    std::fs::remove_file(&path).expect("it is there");
    std::fs::write(&path, "something else that is longer\n").expect("it can be written");
    queued.restart();
    queued.accepted("/a", "second");
    queued.wait_for_sink("out");
    assert_eq!(lines(&path), ["something else that is longer", "second"]);
}

#[test]
fn a_sink_is_paused_and_replayed_apart_from_its_queue() {
    let sink = Sink::start();
    let path_of = |queued: &Queued| queued.directory.file("out");
    let mut queued = Queued::start(&sink, "", "");
    let text = format!(
        "[queue.events.sink.out]\nfile = {{ path = \"{}\", lines = \"body\" }}",
        path_of(&queued).display()
    );
    queued.configure(&sink, &text, "");
    queued.restart();
    queued.accepted("/a", "1");
    queued.wait_for_sink("out");
    queued.told(&["pause", "events/out"]);
    queued.accepted("/a", "2");
    queued.wait_for("delivered", 2);
    let list = queued.told(&["list"]);
    assert!(
        list.contains("events/out") && list.contains("paused"),
        "{list}"
    );
    assert_eq!(queued.sink("out")["waiting"], 1);
    // It outlasts a restart.
    queued.restart();
    assert_eq!(queued.sink("out")["is_paused"], true);
    assert_eq!(lines(&path_of(&queued)), ["1"]);
    queued.told(&["resume", "events/out"]);
    queued.wait_for_sink("out");
    let told = queued.told(&["replay", "events/out", "--from", "0"]);
    assert!(told.contains("2 messages"), "{told}");
    wait_until("it is written again", || {
        lines(&path_of(&queued)).len() == 4
    });
    assert_eq!(lines(&path_of(&queued)), ["1", "2", "1", "2"]);
    assert_eq!(sink.bodies().len(), 2, "the upstream heard nothing of it");
    let show = queued.told(&["show", "events/out"]);
    assert!(show.contains("settled offset"), "{show}");
    let run = queued.weir_queue(&["pause", "events/in"]);
    assert!(
        !run.status.success() && run.stderr.contains("events/out"),
        "{}",
        run.stderr
    );
}

/// A sink comes, changes and goes with the config; the queue stays open.
#[test]
fn a_reload_changes_sinks() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    let [one, two] = ["one", "two"].map(|name| queued.directory.file(name));
    let reload = |name: &str, path: &std::path::Path| {
        let text = format!(
            "[queue.events.sink.{name}]\nfile = {{ path = \"{}\", lines = \"body\" }}",
            path.display()
        );
        queued.configure(&sink, if name.is_empty() { "" } else { &text }, "");
        let admin = queued.admin().to_string();
        let arguments = ["reload", "--admin", &admin];
        tool::run(env!("CARGO_BIN_EXE_weir"), &arguments);
    };
    queued.accepted("/a", "1");
    queued.wait_for("delivered", 1);
    // One that comes begins with what is still there.
    reload("out", &one);
    queued.wait_for_sink("out");
    assert_eq!(lines(&one), ["1"]);
    reload("out", &two);
    queued.accepted("/a", "2");
    queued.wait_for_sink("out");
    assert_eq!(
        (lines(&one), lines(&two)),
        (vec!["1".to_owned()], vec!["2".to_owned()])
    );
    reload("", &one);
    queued.accepted("/a", "3");
    queued.wait_for("delivered", 3);
    assert_eq!(queued.status()["sinks"], Value::Array(Vec::new()));
    // It goes on where it was.
    reload("out", &two);
    queued.wait_for_sink("out");
    assert_eq!(lines(&two), ["2", "3"]);
    // A change that is refused changes nothing.
    let blocked = queued.directory.write("blocked", "");
    let text = format!(
        "path = \"{}\"\n[queue.events.sink.new]\nfile = \"{}\"",
        queued.path().display(),
        two.display()
    );
    std::fs::create_dir_all(queued.path().join("sinks")).expect("it is there");
    std::fs::copy(&blocked, queued.path().join("sinks/new")).expect("it can be copied");
    queued.configure(&sink, text.split_once('\n').expect("two lines").1, "");
    let admin = queued.admin().to_string();
    let run = tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    assert!(!run.status.success());
    assert!(run.stderr.contains("sinks/new"), "{}", run.stderr);
    assert_eq!(queued.sink("out")["stopped"], Value::Null);
    queued.accepted("/a", "4");
    queued.wait_for_sink("out");
    assert_eq!(lines(&two), ["2", "3", "4"]);
}

/// A file that cannot be written: the messages wait, operators see why, and it goes on by itself.
#[test]
fn a_file_that_cannot_be_written_is_waited_for() {
    let (queued, path) = to_file("message");
    std::fs::create_dir(&path).expect("nothing is there yet");
    queued.accepted("/a", "1");
    wait_until("it is told", || {
        queued.sink("out")["last_error"].is_string()
    });
    let error = queued.sink("out")["last_error"].clone();
    assert!(
        error.as_str().expect("a text").contains("out.ndjson"),
        "{error}"
    );
    assert_eq!(queued.sink("out")["waiting"], 1);
    std::fs::remove_dir(&path).expect("it is empty");
    queued.wait_for_sink("out");
    assert_eq!(lines(&path).len(), 1);
}

fn to_postgres(postgres: &Postgres, more: &str) -> Queued {
    let url = postgres.url();
    with_sink(&format!(
        "batch = 16\npostgres = {{ url = \"{url}\"{more} }}"
    ))
}

#[test]
fn a_table_is_made_and_has_a_row_for_each_message() {
    let postgres = Postgres::start();
    let queued = to_postgres(&postgres, "");
    queued.accepted("/ann?x=1", "a\tb\\N\n\"c\"");
    queued.accepted("/bob", "");
    queued.wait_for_sink("out");
    let rows = postgres.ask(
        "select key, method, path, convert_from(body, 'UTF8') = E'a\\tb\\\\N\\n\"c\"', now() - received < '1 min' from events order by received, id",
    );
    assert_eq!(rows, "ann|POST|/ann?x=1|t|t\nbob|POST|/bob|f|t");
}

#[test]
fn a_table_of_ones_own_has_what_is_asked_for() {
    let postgres = Postgres::start();
    postgres.ask(
        "create schema app; create table app.activities (id uuid primary key, at timestamptz, ms bigint, \"user id\" int not null, \
         data jsonb, agent text, note text, score numeric, offset_ bigint, tags jsonb)",
    );
    let columns = ", table = \"app.activities\", columns = { id = \"id\", at = \"time\", ms = \"time\", \"user id\" = \"json:/user\", data = \"body\", \
                   agent = \"header:X-Agent\", note = \"json:/note\", score = \"json:/score\", offset_ = \"offset\", tags = \"json:/tags\" }";
    let queued = to_postgres(&postgres, columns);
    let body = "{\"user\": 7, \"note\": \"a\\\\b\\n\", \"score\": 1.50, \"tags\": [\"x\"]}";
    let offset = queued.post_with("/a", "X-Agent: t\\est\r\n", body);
    assert_eq!(offset.status, 202);
    // Neither can be a row; what comes behind them can.
    queued.accepted("/a", "{\"user\": \"nobody\"}");
    queued.accepted("/a", "no JSON");
    queued.accepted("/a", "{\"user\": 8, \"note\": null}");
    queued.wait_for_sink("out");
    let rows = postgres.ask(
        "select \"user id\", ms = extract(epoch from at) * 1000, data->>'user', agent, note = E'a\\\\b\\n', score, tags->>0, note is null from app.activities order by offset_",
    );
    assert_eq!(rows, "7|t|7|t\\est|t|1.50|x|f\n8|t|8|||||t");
    let told = queued.told(&["dead", "list", "events/out"]);
    assert!(
        told.contains("SQLSTATE 22P02") && told.contains("nobody"),
        "{told}"
    );
    assert!(told.contains("its content is no JSON"), "{told}");
    // Once the table takes it, it is taken.
    postgres.ask("alter table app.activities alter \"user id\" type text");
    let told = queued.told(&["dead", "redrive", "events/out", "--all"]);
    assert!(told.contains("2 messages"), "{told}");
    wait_until("one of them is there", || queued.sink("out")["dead"] == 1);
    let row = "select data->>'user' from app.activities where \"user id\" = 'nobody'";
    assert_eq!(postgres.ask(row), "nobody");
}

/// Both are killed, and nobody knows what was written: each message is in the table once.
#[test]
fn a_table_has_each_message_once_whatever_happens() {
    let mut postgres = Postgres::start();
    let mut queued = to_postgres(&postgres, "");
    let mut acknowledged = 0;
    for round in 0..6 {
        for number in 0..100 {
            queued.accepted("/a", &format!("{round} {number}"));
            acknowledged += 1;
        }
        match round {
            1 | 4 => postgres.kill(),
            2 => postgres.restart(),
            3 => queued.restart(),
            _ => {}
        }
    }
    postgres.restart();
    queued.wait_for_sink("out");
    let rows =
        postgres.ask("select count(*), count(distinct convert_from(body, 'UTF8')) from events");
    assert_eq!(rows, format!("{acknowledged}|{acknowledged}"));
    // What is written again, because it is replayed, is there once too.
    queued.told(&["replay", "events/out", "--from", "0"]);
    queued.wait_for_sink("out");
    assert_eq!(
        postgres.ask("select count(*) from events"),
        acknowledged.to_string()
    );
    assert_eq!(queued.sink("out")["dead"], 0);
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let mut postgres = Postgres::start();
    let queued = to_postgres(&postgres, "");
    postgres.kill();
    queued.accepted("/a", "1");
    wait_until("it is told", || queued.sink("out")["is_ill"] == true);
    let page = crate::harness::client::ask_admin(queued.admin(), "/status").text();
    assert!(page.contains("sink events/out: writing fails"), "{page}");
    let metrics = crate::harness::client::ask_admin(queued.admin(), "/metrics").text();
    let waiting = "weir_queue_sink_waiting{queue=\"events\",sink=\"out\"} 1";
    assert!(metrics.contains(waiting), "{metrics}");
    postgres.restart();
    queued.wait_for_sink("out");
    assert_eq!(postgres.ask("select count(*) from events"), "1");
}

#[test]
fn a_queue_without_upstream_and_sink_is_refused() {
    let queued = Queued::start(&Sink::start(), "", "");
    queued.configure(&Sink::start(), "", ROUTE);
    let admin = queued.admin().to_string();
    let run = tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    assert!(
        run.stderr.contains("its queue has no sink"),
        "{}",
        run.stderr
    );
}

/// What no line of an error tells, and what breaks another constraint than that of the id, is found and left out all the same.
#[test]
fn a_row_that_cannot_be_is_found_whatever_the_error() {
    let postgres = Postgres::start();
    postgres.ask(
        "create table orders (id uuid, number int unique, data text); \
         create function refuse() returns trigger language plpgsql as $$ begin if new.data like '%bad%' then raise exception 'not this one'; end if; return new; end $$; \
         create trigger refuse before insert on orders for each row execute function refuse()",
    );
    let columns =
        ", table = \"orders\", columns = { id = \"id\", number = \"json:/n\", data = \"body\" }";
    let queued = to_postgres(&postgres, columns);
    for number in 0..60 {
        let word = if number == 37 { "bad" } else { "good" };
        let twice = if number == 50 { 49 } else { number };
        queued.accepted("/a", &format!("{{\"n\": {twice}, \"a\": \"{word}\"}}"));
    }
    queued.wait_for_sink("out");
    assert_eq!(postgres.ask("select count(*) from orders"), "58");
    let told = queued.told(&["dead", "list", "events/out"]);
    assert!(
        told.contains("not this one") && told.contains("SQLSTATE 23505"),
        "{told}"
    );
    // Nothing comes twice, although only another column is unique.
    queued.told(&["replay", "events/out", "--from", "0"]);
    queued.wait_for_sink("out");
    assert_eq!(postgres.ask("select count(*) from orders"), "58");
}
