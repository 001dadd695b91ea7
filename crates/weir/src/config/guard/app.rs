//! One app as guard's JSON has it, and what guard itself refuses, in guard's own words and order.

use std::fmt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::config::care::fallback::FILE_BYTES_MAX;
use crate::config::regular;

/// One app: a host with its paths, and where its requests go.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct App {
    /// The value of `Host`.
    pub(super) name: String,
    pub(super) backends: Vec<String>,
    /// As many as backends.
    pub(super) weights: Vec<i64>,
    pub(super) ratio: f64,
    /// No redirects to a path with a slash more or less.
    pub(super) disable_tsr: bool,
    /// `wrr`, `rr` or `random`.
    pub(super) load_balance_method: String,
    pub(super) paths: Vec<String>,
    /// As many as paths.
    pub(super) methods: Vec<String>,
    /// `text`, `json`, `html` or `html_file`.
    pub(super) fallback_type: String,
    /// What is answered while the breaker is open, or the path of the file that has it.
    pub(super) fallback_content: String,
}

/// What is wrong with an app.
#[derive(Debug, PartialEq)]
pub(crate) struct Mistake {
    field: String,
    what: String,
    /// Whether these are the words of guard, who does not name fields.
    is_of_guard: bool,
}

impl App {
    pub(super) const FIELDS: [&str; 10] = [
        "name",
        "backends",
        "weights",
        "ratio",
        "disable_tsr",
        "load_balance_method",
        "paths",
        "methods",
        "fallback_type",
        "fallback_content",
    ];

    /// Takes the fields of an app and leaves the others.
    pub(super) fn take(fields: &mut Map<String, Value>) -> Result<Self, Mistake> {
        Ok(Self {
            name: take(fields, "name")?,
            backends: take(fields, "backends")?,
            weights: take(fields, "weights")?,
            ratio: take(fields, "ratio")?,
            disable_tsr: take(fields, "disable_tsr")?,
            load_balance_method: take(fields, "load_balance_method")?,
            paths: take(fields, "paths")?,
            methods: take(fields, "methods")?,
            fallback_type: take(fields, "fallback_type")?,
            fallback_content: take(fields, "fallback_content")?,
        })
    }

    /// What guard checks.
    pub(super) fn check(&self) -> Result<(), Mistake> {
        let guards = |field: &str, what: &str| {
            Err(Mistake {
                is_of_guard: true,
                ..Mistake::new(field, what)
            })
        };
        if self.name.is_empty() {
            return guards("name", "name is required");
        }
        if self.backends.len() != self.weights.len() {
            return guards("weights", "backend and weight does not match");
        }
        if self.paths.len() != self.methods.len() {
            return guards("methods", "path and method does not match");
        }
        match &*self.fallback_type {
            "" | "text" | "json" | "html" => {}
            "html_file" => {
                if let Err(what) = html(&self.fallback_content) {
                    return guards("fallback_content", &what);
                }
            }
            _ => return guards("fallback_type", "bad fallback type"),
        }
        match &*self.load_balance_method {
            "" | "wrr" | "rr" | "random" => Ok(()),
            _ => guards(
                "load_balance_method",
                "bad load balance algorithm, only wrr, rr, random are support now",
            ),
        }
    }

    /// The app as guard keeps it: checked, with its defaults, and with the content of its file.
    pub(super) fn checked(mut self) -> Result<Self, Mistake> {
        self.check()?;
        if self.load_balance_method.is_empty() {
            "rr".clone_into(&mut self.load_balance_method);
        }
        if self.fallback_type.is_empty() {
            "text".clone_into(&mut self.fallback_type);
        }
        if self.fallback_type == "text" && self.fallback_content.is_empty() {
            "too many requests".clone_into(&mut self.fallback_content);
        }
        if self.fallback_type == "html_file" {
            let content = html(&self.fallback_content).map_err(|what| Mistake {
                is_of_guard: true,
                ..Mistake::new("fallback_content", what)
            })?;
            "html".clone_into(&mut self.fallback_type);
            self.fallback_content = content;
        }
        Ok(self)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "backends": self.backends,
            "weights": self.weights,
            "ratio": self.ratio,
            "disable_tsr": self.disable_tsr,
            "load_balance_method": self.load_balance_method,
            "paths": self.paths,
            "methods": self.methods,
            "fallback_type": self.fallback_type,
            "fallback_content": self.fallback_content,
        })
    }
}

/// A field that is not there, or is `null`, has Go's zero value.
fn take<T: DeserializeOwned + Default>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<T, Mistake> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => {
            serde_json::from_value(value).map_err(|error| Mistake::new(name, error.to_string()))
        }
    }
}

/// What is in a file, with the bounds of a fallback's.
fn html(path: &str) -> Result<String, String> {
    let bytes = regular::beginning(Path::new(path), FILE_BYTES_MAX + 1)
        .map_err(|error| cannot_open(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "open {path}: expected at most {FILE_BYTES_MAX} bytes"
        ));
    }
    String::from_utf8(bytes).map_err(|_| format!("open {path}: expected UTF-8"))
}

/// As Go says it.
fn cannot_open(path: &str, error: &std::io::Error) -> String {
    let error = error.to_string();
    let error = error.split(" (os error").next().unwrap_or_default();
    format!("open {path}: {}", error.to_ascii_lowercase())
}

impl Mistake {
    pub(super) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            what: what.into(),
            is_of_guard: false,
        }
    }

    /// The field, and what is wrong with it.
    pub(super) fn with_field(&self) -> String {
        let colon = if self.field.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", self.field, self.what)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_guard {
            f.write_str(&self.what)
        } else {
            f.write_str(&self.with_field())
        }
    }
}
