//! `[queue.NAME.sink.NAME]`: where batches of messages go beside upstreams.

use std::time::Duration;

use super::{Form, Key, Kind, List, Named, Needs, Preset, Section};
use crate::config::sink::SOURCE_EXPECTED;

pub(crate) static SINKS: Key = Key {
    name: "sink",
    kind: Kind::Named(&Named {
        example: "[queue.events.sink.archive]",
        names: "^[0-9A-Za-z_-][0-9A-Za-z._-]*$",
        values: Kind::Table(&SINK),
    }),
    preset: Preset::Said("none"),
    doc: "Where else its messages go, see [sinks](deferring.md#sinks).",
};
pub(crate) static SINK: Section = Section {
    example: "[queue.events.sink.archive]",
    groups: &[TARGETS, WRITTEN],
    needs: Needs::OneOf(TARGETS),
};
/// What it writes to.
pub(crate) const TARGETS: &[&Key] = &[&FILE, &POSTGRES, &CASSANDRA, &KAFKA];
/// How it writes.
pub(crate) const WRITTEN: &[&Key] = &[&BATCH, &RATE, &TIMEOUT];

pub(crate) static FILE: Key = Key {
    name: "file",
    kind: Kind::AnyOf(
        "the path of a file, or a table such as `{ path = \"events.ndjson\", lines = \"body\" }`",
        &[Kind::Text(&PATH), Kind::Table(&FILE_TABLE)],
    ),
    preset: Preset::Said("none"),
    doc: "A file that lines are appended to, see [files](deferring.md#files).",
};
static PATH: Form = Form {
    noun: "path of a file",
    expected: FILE_EXPECTED,
    pattern: Some("[\\s\\S]"),
};
pub(crate) const FILE_EXPECTED: &str = "the path of a file such as \"events.ndjson\"";
pub(crate) static FILE_TABLE: Section = Section {
    example: "{ path = \"events.ndjson\" }",
    groups: &[&[&FILE_PATH, &LINES]],
    needs: Needs::Nothing,
};
pub(crate) static FILE_PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&PATH),
    preset: Preset::Required(FILE_EXPECTED),
    doc: "Where it is. It may be moved away, as logrotate does.",
};
pub(crate) const FORMS: &[(&str, weir_queue::Lines)] = &[
    ("message", weir_queue::Lines::Messages),
    ("body", weir_queue::Lines::Contents),
];
pub(crate) static LINES: Key = Key {
    name: "lines",
    kind: Kind::Words(&["message", "body"]),
    preset: Preset::Text("message"),
    doc: "What a line is: JSON with the `body` as a string in it, or the body alone.",
};

pub(crate) static POSTGRES: Key = Key {
    name: "postgres",
    kind: Kind::AnyOf(
        "a URL, or a table such as `{ url = \"postgres://weir@127.0.0.1/app\", table = \"events\" }`",
        &[Kind::Text(&URL), Kind::Table(&POSTGRES_TABLE)],
    ),
    preset: Preset::Said("none"),
    doc: "A table of Postgres, see [tables](deferring.md#tables).",
};
pub(crate) static URL: Form = Form {
    noun: "URL such as `\"postgres://user:password@127.0.0.1/app\"`",
    expected: URL_EXPECTED,
    pattern: Some("^postgres(ql)?://"),
};
pub(crate) const URL_EXPECTED: &str = "a URL such as \"postgres://user:password@127.0.0.1/app\"";
pub(crate) static POSTGRES_TABLE: Section = Section {
    example: "{ url = \"postgres://weir@127.0.0.1/app\" }",
    groups: &[&[&POSTGRES_URL, &TABLE, &COLUMNS]],
    needs: Needs::Nothing,
};
pub(crate) static POSTGRES_URL: Key = Key {
    name: "url",
    kind: Kind::Text(&URL),
    preset: Preset::Required(URL_EXPECTED),
    doc: "The server and the database, with user and password. `sslmode=require` insists on TLS, and on a certificate of an authority that this machine trusts.",
};
pub(crate) static TABLE: Key = Key {
    name: "table",
    kind: Kind::Text(&TABLE_NAME),
    preset: Preset::Said("the name of the queue"),
    doc: "The table, with that of its schema perhaps, as in `\"app.events\"`.",
};
pub(crate) static TABLE_NAME: Form = Form {
    noun: "name of a table",
    expected: TABLE_EXPECTED,
    pattern: Some("^[^.]+(\\.[^.]+)?$"),
};
pub(crate) const TABLE_EXPECTED: &str = "the name of a table such as \"events\" or \"app.events\"";
pub(crate) static COLUMNS: Key = Key {
    name: "columns",
    kind: Kind::Named(&Named {
        example: "{ id = \"id\", at = \"time\", user_id = \"json:/user\", data = \"body\" }",
        names: "[\\s\\S]",
        values: Kind::Text(&SOURCE),
    }),
    preset: Preset::Said("see [tables](deferring.md#tables)"),
    doc: "What goes into which column of a table of your own. Without it the table is made when it is not there.",
};
static SOURCE: Form = Form {
    noun: "part of a message",
    expected: SOURCE_EXPECTED,
    pattern: Some("^[a-z]"),
};

pub(crate) static CASSANDRA: Key = Key {
    name: "cassandra",
    kind: Kind::Table(&CASSANDRA_TABLE),
    preset: Preset::Said("none"),
    doc: "A table of Cassandra or ScyllaDB.",
};
pub(crate) static CASSANDRA_TABLE: Section = Section {
    example: "{ nodes = [\"127.0.0.1:9042\"], table = \"app.events\" }",
    groups: &[&[
        &NODES,
        &KEYSPACE_TABLE,
        &COLUMNS,
        &USER,
        &PASSWORD,
        &CONCURRENCY,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static NODES: Key = Key {
    name: "nodes",
    kind: Kind::List(&SERVERS),
    preset: Preset::Required(SERVERS_EXPECTED),
    doc: "Some nodes of the cluster, which know the others.",
};
pub(crate) const SERVERS_EXPECTED: &str = "servers such as [\"127.0.0.1:9042\"]";
pub(crate) static SERVERS: List = List {
    of: Kind::Text(&SERVER),
    noun: "hosts with ports",
    expected: SERVERS_EXPECTED,
    is_never_empty: true,
};
static SERVER: Form = Form {
    noun: "host with a port",
    expected: SERVER_EXPECTED,
    pattern: Some("^.+:[0-9]+$"),
};
pub(crate) const SERVER_EXPECTED: &str = "a host with a port such as \"127.0.0.1:9042\"";
pub(crate) static KEYSPACE_TABLE: Key = Key {
    name: "table",
    kind: Kind::Text(&IN_KEYSPACE),
    preset: Preset::Required(KEYSPACE_EXPECTED),
    doc: "The keyspace and the table.",
};
static IN_KEYSPACE: Form = Form {
    noun: "keyspace and table, as in `\"app.events\"`",
    expected: KEYSPACE_EXPECTED,
    pattern: Some("^[^.]+\\.[^.]+$"),
};
pub(crate) const KEYSPACE_EXPECTED: &str = "a keyspace and a table such as \"app.events\"";
pub(crate) static USER: Key = Key {
    name: "user",
    kind: Kind::Text(&CREDENTIAL),
    preset: Preset::Said("none"),
    doc: "Who weir is there.",
};
pub(crate) static PASSWORD: Key = Key {
    name: "password",
    kind: Kind::Text(&CREDENTIAL),
    preset: Preset::Said("none"),
    doc: "Its password.",
};
static CREDENTIAL: Form = Form {
    noun: "string",
    expected: "a string",
    pattern: Some("[\\s\\S]"),
};
pub(crate) static CONCURRENCY: Key = Key {
    name: "concurrency",
    kind: Kind::Integer(1..=1024),
    preset: Preset::Integer(64),
    doc: "Rows that are inserted at once.",
};

pub(crate) static KAFKA: Key = Key {
    name: "kafka",
    kind: Kind::Table(&KAFKA_TOPIC),
    preset: Preset::Said("none"),
    doc: "A topic of Kafka, see [Kafka](deferring.md#topics-of-kafka).",
};
pub(crate) static KAFKA_TOPIC: Section = Section {
    example: "{ brokers = [\"127.0.0.1:9092\"], topic = \"events\" }",
    groups: &[TOPIC_KEYS],
    needs: Needs::Nothing,
};
pub(crate) const TOPIC_KEYS: &[&Key] =
    &[&BROKERS, &TOPIC, &ACKS, &COMPRESSION, &TLS, &SASL, &OPTIONS];
pub(crate) static LIVES: Key = Key {
    name: "kafka",
    kind: Kind::Table(&LIVES_TABLE),
    preset: Preset::Said("none"),
    doc: "A topic in which the queue lives, see [a queue in Kafka](deferring.md#a-queue-in-kafka).",
};
pub(crate) static LIVES_TABLE: Section = Section {
    example: "{ brokers = [\"127.0.0.1:9092\"], topic = \"events\" }",
    groups: &[TOPIC_KEYS, &[&GROUP]],
    needs: Needs::Nothing,
};
pub(crate) static GROUP: Key = Key {
    name: "group",
    kind: Kind::Text(&GROUP_NAME),
    preset: Preset::Said("`weir-` and the name of the queue"),
    doc: "The consumer group that delivers. Several weirs share the work when they name the same.",
};
static GROUP_NAME: Form = Form {
    noun: "name of a group",
    expected: "the name of a group",
    pattern: Some("[\\s\\S]"),
};
pub(crate) static BROKERS: Key = Key {
    name: "brokers",
    kind: Kind::List(&SERVERS),
    preset: Preset::Required("servers such as [\"127.0.0.1:9092\"]"),
    doc: "Some brokers of the cluster, which know the others.",
};
pub(crate) static TOPIC: Key = Key {
    name: "topic",
    kind: Kind::Text(&TOPIC_NAME),
    preset: Preset::Said("the name of the queue"),
    doc: "The topic. A cluster may make it when it is not there.",
};
static TOPIC_NAME: Form = Form {
    noun: "name of a topic",
    expected: TOPIC_EXPECTED,
    pattern: Some("^[0-9A-Za-z._-]{1,249}$"),
};
pub(crate) const TOPIC_EXPECTED: &str =
    "the name of a topic: up to 249 letters, digits, \".\", \"_\" and \"-\"";
pub(crate) static ACKS: Key = Key {
    name: "acks",
    kind: Kind::Words(&["all", "leader"]),
    preset: Preset::Text("all"),
    doc: "Who has a message before it counts as written: every replica in sync, and then the producer is idempotent; or the leader alone.",
};
pub(crate) const ACKS_NAMES: &[(&str, bool)] = &[("all", true), ("leader", false)];
pub(crate) const COMPRESSIONS: &[(&str, &str)] =
    &[("lz4", "lz4"), ("snappy", "snappy"), ("none", "none")];
pub(crate) static COMPRESSION: Key = Key {
    name: "compression",
    kind: Kind::Words(&["lz4", "snappy", "none"]),
    preset: Preset::Text("lz4"),
    doc: "How batches are compressed.",
};
pub(crate) static TLS: Key = Key {
    name: "tls",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether brokers speak TLS. Only in a weir that is built with `kafka-tls`, see [Kafka](deferring.md#topics-of-kafka).",
};
pub(crate) static SASL: Key = Key {
    name: "sasl",
    kind: Kind::Table(&SASL_TABLE),
    preset: Preset::Said("none"),
    doc: "Who weir is there.",
};
pub(crate) static SASL_TABLE: Section = Section {
    example: "{ user = \"weir\", password = \"${KAFKA_PASSWORD}\" }",
    groups: &[&[&MECHANISM, &SASL_USER, &SASL_PASSWORD]],
    needs: Needs::Nothing,
};
pub(crate) static MECHANISM: Key = Key {
    name: "mechanism",
    kind: Kind::Words(&["plain", "scram-sha-256", "scram-sha-512"]),
    preset: Preset::Text("plain"),
    doc: "How that is proved. The two of SCRAM are in a weir that is built with `kafka-tls`.",
};
pub(crate) const MECHANISMS: &[(&str, &str)] = &[
    ("plain", "PLAIN"),
    ("scram-sha-256", "SCRAM-SHA-256"),
    ("scram-sha-512", "SCRAM-SHA-512"),
];
pub(crate) static SASL_USER: Key = Key {
    name: "user",
    kind: Kind::Text(&CREDENTIAL),
    preset: Preset::Required("a user"),
    doc: "The user.",
};
pub(crate) static SASL_PASSWORD: Key = Key {
    name: "password",
    kind: Kind::Text(&CREDENTIAL),
    preset: Preset::Required("a password"),
    doc: "The password.",
};
pub(crate) static OPTIONS: Key = Key {
    name: "options",
    kind: Kind::Named(&Named {
        example: "{ \"message.max.bytes\" = \"8000000\" }",
        names: "^[a-z]",
        values: Kind::Text(&CREDENTIAL),
    }),
    preset: Preset::Said("none"),
    doc: "Anything else that librdkafka can be told, in its words.",
};

pub(crate) static BATCH: Key = Key {
    name: "batch",
    kind: Kind::Integer(1..=10_000),
    preset: Preset::Integer(1000),
    doc: "Messages that are written at once, at most.",
};
pub(crate) static RATE: Key = Key {
    name: "rate",
    kind: Kind::Number(0.001..=1_000_000.0),
    preset: Preset::Said("none"),
    doc: "Messages a second, at most. A batch has no more.",
};
pub(crate) static TIMEOUT: Key = Key {
    name: "timeout",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "How long writing a batch may take. The next is half as large when it takes longer.",
};
