//! The declaration as a JSON Schema, with which editors complete, explain and underline a config file.
//!
//! The draft is 2020-12. Tools for TOML know older ones too, so only keywords are used that all drafts have. A schema
//! says what a key may look like; what keys mean together is left to `weir check`, but for what a table needs.

use serde_json::{Map, Value as Json, json};

use super::declared::file::FILE;
use super::declared::{Form, Key, Kind, List, Named, Needs, Preset, Section};
use super::error::Report;
use super::syntax;
use super::units;
use super::value::Value;

/// A text with a variable, or with a literal `${`.
const VARIABLE: &str = "\\$\\{";

/// The schema of a config file.
pub(crate) fn of_file() -> Json {
    let mut schema = section(&FILE);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("weir");
    schema["description"] = json!("The config file of weir.");
    // Its later name, `$defs`, is not known to older drafts; references work with either.
    schema["definitions"] = json!({
        "variable": { "type": "string", "pattern": VARIABLE },
        "outside": {
            "anyOf": [
                { "type": "string", "pattern": VARIABLE },
                {
                    "type": "object",
                    "properties": { "file": { "type": "string" } },
                    "required": ["file"],
                    "additionalProperties": false,
                },
            ],
        },
    });
    schema
}

fn section(section: &Section) -> Json {
    let keys = section.keys();
    let properties: Map<_, _> = keys
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    let (word, needed) = match section.needs {
        Needs::Nothing => ("", &[][..]),
        Needs::OneOf(keys) => ("oneOf", keys),
        Needs::AnyOf(keys) => ("anyOf", keys),
    };
    if !needed.is_empty() {
        let each = needed.iter().map(|key| json!({ "required": [key.name] }));
        schema[word] = each.collect();
    }
    let is_required = |key: &&Key| {
        let is_one_of_several = needed.iter().any(|other| other.is(key));
        matches!(key.preset, Preset::Required(_)) && !is_one_of_several
    };
    let required: Vec<_> = section
        .keys()
        .filter(is_required)
        .map(|key| key.name)
        .collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(key: &Key) -> Json {
    let mut schema = kind(&key.kind);
    schema["description"] = json!(description(key));
    if let Some(toml) = key.preset.toml() {
        schema["default"] = value(&toml);
    }
    schema
}

/// What a reader sees beside a key: what it means, what may stand there, and what holds when nothing does.
fn description(key: &Key) -> String {
    let default = match &key.preset {
        Preset::Required(_) => Some("Required.".to_owned()),
        Preset::Said("") => None,
        Preset::Said(words) => Some(format!("Default: {words}.")),
        value => value.toml().map(|toml| format!("Default: `{toml}`.")),
    };
    let range = key.kind.range().map(|range| format!(" ({range})"));
    let kind = format!("Type: {}{}.", key.kind.noun(), range.unwrap_or_default());
    let lines = [Some(key.doc.to_owned()), Some(kind), default];
    let lines: Vec<_> = lines.into_iter().flatten().collect();
    without_links(&lines.join("\n\n"))
}

/// Markdown without its links, which lead nowhere from an editor.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let Some(((before, name), (_, after))) = before.rsplit_once('[').zip(after.split_once(')'))
        else {
            break;
        };
        text.extend([before, name]);
        rest = after;
    }
    text + rest
}

/// What may stand at a key: something of its kind, or what stands for that.
fn kind(kind: &Kind) -> Json {
    let kinds = kind.alternatives();
    let is_table = |kind: &Kind| matches!(kind, Kind::Table(_) | Kind::Named(_) | Kind::Json(_));
    let is_plain = |kind: &Kind| {
        !is_table(kind) && !matches!(kind, Kind::List(_) | Kind::Tables(..) | Kind::AnyOf(..))
    };
    let outside = match (kinds.iter().any(is_plain), kinds.iter().any(is_table)) {
        (true, false) => Some("#/definitions/outside"),
        // `{ file = … }` would be one of those tables.
        (true, true) => Some("#/definitions/variable"),
        (false, _) => None,
    };
    let mut schemas: Vec<_> = kinds.iter().map(plain).collect();
    schemas.extend(outside.map(|outside| json!({ "$ref": outside })));
    match schemas.as_mut_slice() {
        [only] => only.take(),
        _ => json!({ "anyOf": schemas }),
    }
}

fn plain(kind: &Kind) -> Json {
    match kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::False => json!({ "enum": [false] }),
        Kind::Integer(range) => integer(*range.start(), *range.end()),
        Kind::Integers(numbers) => json!({ "enum": numbers }),
        Kind::Number(range) => {
            json!({ "type": "number", "minimum": range.start(), "maximum": range.end() })
        }
        Kind::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Size(range) => {
            // The pattern is for texts alone, and the bounds for numbers.
            let mut schema = integer(*range.start(), *range.end());
            schema["type"] = json!(["string", "integer"]);
            schema["pattern"] = json!(units::SIZE_PATTERN);
            schema
        }
        Kind::Duration(_) => json!({ "type": "string", "pattern": units::DURATION_PATTERN }),
        Kind::Words(words) => json!({ "enum": words }),
        Kind::Text(form) => text(form),
        Kind::List(of) => list(of),
        Kind::Table(of) => section(of),
        Kind::Tables(of, _) => {
            json!({ "type": "array", "items": section(of), "minItems": 1 })
        }
        Kind::Named(of) => named(of),
        Kind::Json(_) => json!({ "type": ["object", "array"] }),
        Kind::AnyOf(..) => self::kind(kind),
    }
}

fn integer(least: u64, most: u64) -> Json {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn text(form: &Form) -> Json {
    let mut schema = json!({ "type": "string" });
    if let Some(pattern) = form.pattern {
        schema["pattern"] = json!(pattern);
    }
    schema
}

fn list(list: &List) -> Json {
    let mut schema = json!({ "type": "array", "items": kind(&list.of) });
    if list.is_never_empty {
        schema["minItems"] = json!(1);
    }
    schema
}

fn named(named: &Named) -> Json {
    json!({
        "type": "object",
        "patternProperties": { named.names: kind(&named.values) },
        "additionalProperties": false,
    })
}

/// A value of TOML as JSON.
fn value(toml: &str) -> Json {
    let text = format!("value = {toml}");
    let report = Report::on(&text);
    let document = syntax::parse(&text, &report);
    let value = document.get_ref().get("value");
    let value = value.and_then(|value| Value::new(&report, String::new(), value).json());
    value.expect("the default is declared in TOML")
}
