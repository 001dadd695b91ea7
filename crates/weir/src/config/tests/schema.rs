//! The schema takes what the reader takes, and refuses what is misspelt or of the wrong type.

mod validator;

use std::sync::OnceLock;

use serde_json::{Value as Json, json};

use super::declared::tree::{file, places};
use crate::config::declared::{Kind, Preset};
use crate::config::error::Report;
use crate::config::read::Table;
use crate::config::{schema, syntax};

/// What the schema has against a text that is TOML, each complaint with the way to its place.
pub(super) fn complaints(text: &str) -> Vec<String> {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    let report = Report::on(text);
    let document = syntax::parse(text, &report);
    assert!(report.is_empty(), "{text}");
    let root = Table::new(&report, 0, String::new(), document.get_ref());
    let entries = root.entries().into_iter();
    // What JSON cannot say stands for itself.
    let entries = entries.map(|(name, value)| {
        let value = value.json().unwrap_or(Json::Null);
        (name.to_owned(), value)
    });
    let schema = SCHEMA.get_or_init(schema::of_file);
    validator::complaints(schema, &Json::Object(entries.collect()))
}

#[test]
fn a_value_of_the_wrong_type_is_refused() {
    // A list of lists is nothing to any key, but to one that is written as JSON.
    let places = places().into_iter();
    for place in places.filter(|place| !matches!(place.key.kind, Kind::Json(_))) {
        let text = file(&place, Some("[[]]"));
        assert!(!complaints(&text).is_empty(), "{text}");
    }
}

#[test]
fn a_misspelt_key_is_refused() {
    for mut place in places() {
        place.way.pop();
        place.way.push("misspelt");
        let text = file(&place, Some("1"));
        assert!(!complaints(&text).is_empty(), "{text}");
    }
}

/// So what is refused above is refused for the one key that was changed.
#[test]
fn a_file_without_the_key_is_sound() {
    const ONE_OF_SEVERAL: [&str; 20] = [
        "access_log.path",
        "access_log.queue",
        "queue.app.sink.app.file",
        "queue.app.sink.app.postgres",
        "queue.app.sink.app.cassandra",
        "queue.app.sink.app.kafka",
        "kv.engine.path",
        "kv.engine.postgres",
        "kv.engine.cassandra",
        "table.app.engine.path",
        "table.app.engine.postgres",
        "table.app.engine.cassandra",
        "route.collect",
        "route.upstream",
        "route.split",
        "route.redirect",
        "route.respond",
        "route.kv",
        "route.sticky.cookie",
        "route.sticky.hash_on",
    ];
    for place in places() {
        let is_required = matches!(place.key.preset, Preset::Required(_));
        if !is_required && !ONE_OF_SEVERAL.contains(&&*place.way.join(".")) {
            let text = file(&place, None);
            assert_eq!(complaints(&text), Vec::<String>::new(), "{text}");
        }
    }
}

#[test]
fn what_a_table_needs_is_asked_for() {
    const LISTENER: &str = "listener = [{ address = \"127.0.0.1:1\" }]\n";
    for (text, is_sound) in [
        ("", false),
        ("route = [{ path = \"/\" }]", false),
        ("route = [{ respond = {} }]", false),
        ("route = [{ path = \"/\", respond = {} }]", true),
        (
            "route = [{ path = \"/\", respond = {}, upstream = \"a\" }]",
            false,
        ),
        (
            "admin = { listen = \"127.0.0.1:2\", guard_api = true }",
            true,
        ),
    ] {
        let told = complaints(&[LISTENER, text].concat());
        assert_eq!(told.is_empty(), is_sound, "{text}: {told:?}");
    }
    assert!(!complaints("route = [{ path = \"/\", respond = {} }]").is_empty());
}

#[test]
fn an_editor_is_told_what_a_key_means() {
    let schema = schema::of_file();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(schema["additionalProperties"], false);
    let buffer = &schema["properties"]["access_log"]["properties"]["buffer"];
    assert_eq!(
        buffer["description"],
        "A worker writes when it has collected so much.\n\nType: size (`\"1KiB\"` to `\"64MiB\"`).\n\nDefault: \
         `\"256KiB\"`."
    );
    assert_eq!(buffer["default"], "256KiB");
    let size = &buffer["anyOf"][0];
    assert_eq!(size["type"], json!(["string", "integer"]));
    assert_eq!(
        (&size["minimum"], &size["maximum"]),
        (&json!(1024), &json!(64 << 20))
    );
    let held = &schema["properties"]["limits"]["properties"]["held_bodies"]["description"];
    let held = held.as_str().expect("a description");
    assert!(held.contains("held for slow clients. Beyond"), "{held}");
}
