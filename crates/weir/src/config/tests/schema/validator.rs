//! As much of JSON Schema as the schema of config files uses. A keyword that is not known here is a mistake of the schema.

use regex_lite::Regex;
use serde_json::Value as Json;

/// What `schema` has against `value`: the way to each place, and the keyword that does not hold there.
pub(super) fn complaints(schema: &Json, value: &Json) -> Vec<String> {
    Validator { root: schema }.complaints(schema, value)
}

struct Validator<'s> {
    /// Where references begin.
    root: &'s Json,
}

const OF_MEMBERS: [&str; 3] = ["properties", "patternProperties", "additionalProperties"];

impl Validator<'_> {
    fn complaints(&self, schema: &Json, value: &Json) -> Vec<String> {
        let mut told = Vec::new();
        self.check(schema, value, "", &mut told);
        told
    }

    fn check(&self, schema: &Json, value: &Json, way: &str, told: &mut Vec<String>) {
        let schema = schema.as_object().expect("a schema is an object");
        for (keyword, says) in schema {
            let holds = match keyword.as_str() {
                "type" => each(says).any(|name| is_of_type(value, name)),
                "enum" => each(says).any(|one| one == value),
                "minimum" => value.as_f64().is_none_or(|it| Some(it) >= says.as_f64()),
                "maximum" => value.as_f64().is_none_or(|it| Some(it) <= says.as_f64()),
                "pattern" => value.as_str().is_none_or(|text| matches(says, text)),
                "minItems" => {
                    let items = value.as_array();
                    items.is_none_or(|items| Some(items.len() as u64) >= says.as_u64())
                }
                "required" => {
                    let table = value.as_object();
                    let has = |name: &Json| {
                        let name = name.as_str().expect("a name");
                        table.is_none_or(|table| table.contains_key(name))
                    };
                    each(says).all(has)
                }
                "anyOf" => each(says).any(|one| self.complaints(one, value).is_empty()),
                "oneOf" => {
                    let sound = each(says).filter(|one| self.complaints(one, value).is_empty());
                    sound.count() == 1
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(says, item, &format!("{way}[{index}]"), told);
                    }
                    true
                }
                "$ref" => {
                    let way = says.as_str().and_then(|way| way.strip_prefix('#'));
                    let meant = way.and_then(|way| self.root.pointer(way));
                    self.complaints(meant.expect("a place in the schema"), value)
                        .is_empty()
                }
                "$schema" | "definitions" | "title" | "description" | "default" => true,
                // These are looked at together below.
                key if OF_MEMBERS.contains(&key) => true,
                other => panic!("{other} is not known"),
            };
            if !holds {
                told.push(format!("{way}: {keyword}"));
            }
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            self.check_member(schema, (name, member), way, told);
        }
    }

    fn check_member(
        &self,
        schema: &serde_json::Map<String, Json>,
        (name, member): (&str, &Json),
        way: &str,
        told: &mut Vec<String>,
    ) {
        let way = if way.is_empty() {
            name.to_owned()
        } else {
            format!("{way}.{name}")
        };
        let named = schema.get("properties").and_then(|keys| keys.get(name));
        let patterns = schema.get("patternProperties").and_then(Json::as_object);
        let patterns = patterns.into_iter().flatten();
        let alike = patterns.filter(|(pattern, _)| matches(&Json::from(pattern.as_str()), name));
        let schemas: Vec<_> = named
            .into_iter()
            .chain(alike.map(|(_, schema)| schema))
            .collect();
        if schemas.is_empty() && schema.get("additionalProperties") == Some(&Json::Bool(false)) {
            told.push(format!("{way}: additionalProperties"));
        }
        for schema in schemas {
            self.check(schema, member, &way, told);
        }
    }
}

fn each(list: &Json) -> impl Iterator<Item = &Json> {
    let items = list
        .as_array()
        .map_or(std::slice::from_ref(list), Vec::as_slice);
    items.iter()
}

fn is_of_type(value: &Json, name: &Json) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("{other} is not known"),
    }
}

fn matches(pattern: &Json, text: &str) -> bool {
    let pattern = pattern.as_str().expect("a pattern");
    let pattern = Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    pattern.is_match(text)
}
