use super::{LISTENER, ROUTE, assert_problems, whole};
use weir_queue::{Destination, Source};

const QUEUE: &str = "queue.q.path = \"q\"\n";

#[test]
fn mistakes_in_sinks_are_told() {
    assert_problems(
        &[LISTENER, ROUTE, QUEUE],
        &[
            r#"
queue.q.sink.a = {}
#! queue.q.sink.a: found no target, expected one of "file", "postgres", "cassandra", "kafka"
"#,
            r#"
queue.q.sink.a = { file = "a", postgres = "postgres://a/b" }
#! queue.q.sink.a.postgres: found beside "file", expected exactly one of "file", "postgres", "cassandra", "kafka"
"#,
            r#"
queue.q.sink.".a" = { file = "a" }
#! queue.q.sink.".a": expected a name of letters, digits, "-", "_" and ".", which is not its first
"#,
            r#"
queue.q.sink = { a = { file = "x" }, b = { file = "x" } }
#! queue.q.sink.b.file: another sink writes to this file, expected one of its own
"#,
            r#"
queue.q.sink.a.file = { path = "x/", lines = "csv" }
#! queue.q.sink.a.file.path: found "x/", expected the path of a file such as "events.ndjson"
#! queue.q.sink.a.file.lines: found "csv", expected one of "message", "body"
"#,
            r#"
queue.q.sink.a.postgres = "mysql://a"
#! queue.q.sink.a.postgres: found "mysql://a", expected a URL such as "postgres://user:password@127.0.0.1/app"
"#,
            r#"
queue.q.sink.a.postgres = { url = "postgres://a/b", table = "a.b.c", columns = { x = "cookie:a" } }
#! queue.q.sink.a.postgres.table: found "a.b.c", expected the name of a table such as "events" or "app.events"
#! queue.q.sink.a.postgres.columns.x: found "cookie:a", expected one of "id", "offset", "time", "queue", "route", "key", "method", "path", "client", "body", "header:NAME", "json:/POINTER" (RFC 6901)
"#,
            r#"
queue.q.sink.a.cassandra = { nodes = ["a"], table = "b", user = "c" }
#! queue.q.sink.a.cassandra.nodes[1]: found "a", expected a host with a port such as "127.0.0.1:9042"
#! queue.q.sink.a.cassandra.table: found "b", expected a keyspace and a table such as "app.events"
#! queue.q.sink.a.cassandra.user: expected a "password" beside it
"#,
            r#"
queue.q.sink.a.kafka = { brokers = [], topic = "a b" }
#! queue.q.sink.a.kafka.brokers: found none, expected servers such as ["127.0.0.1:9092"]
#! queue.q.sink.a.kafka.topic: found "a b", expected the name of a topic: up to 249 letters, digits, ".", "_" and "-"
"#,
            r#"
queue.q.sink.a.kafka = { brokers = ["a:1"], options = { nonsense = "1" } }
#! queue.q.sink.a.kafka: No such configuration property: "nonsense"
"#,
            #[cfg(not(feature = "kafka-tls"))]
            r#"
queue.q.sink.a.kafka = { brokers = ["a:1"], tls = true }
#! queue.q.sink.a.kafka: this weir was built without TLS and SCRAM for Kafka; build it with `--features kafka-tls`
"#,
        ],
    );
}

#[test]
fn a_sink_is_what_it_says() {
    let text = format!(
        "{LISTENER}{ROUTE}{QUEUE}[queue.q.sink.a]\npostgres = {{ url = \"postgres://x@h/d\", columns = {{ b = \"json:/a/b\", a = \"header:X-A\" }} }}\n\
         batch = 5\nrate = 2.5\n[queue.q.sink.b]\nkafka = {{ brokers = [\"a:1\", \"b:2\"], acks = \"leader\" }}\n"
    );
    let sinks = whole(&text).services.queues["q"].sinks.clone();
    let [a, b] = sinks.as_slice() else {
        panic!("{sinks:?}");
    };
    let Destination::Postgres(table) = &a.destination else {
        panic!("{a:?}");
    };
    assert_eq!((a.batch, a.rate, &*table.table), (5, Some(2.5), "q"));
    let mut columns: Vec<_> = table
        .columns
        .iter()
        .map(|own| (&*own.name, own.source.clone()))
        .collect();
    columns.sort_by_key(|(name, _)| *name);
    let expected = [
        ("a", Source::Field("x-a".into())),
        ("b", Source::Pointer("/a/b".into())),
    ];
    assert_eq!(columns, expected);
    let Destination::Kafka(topic) = &b.destination else {
        panic!("{b:?}");
    };
    assert_eq!(
        (topic.brokers.len(), &*topic.topic, topic.acks_of_all),
        (2, "q", false)
    );
}
