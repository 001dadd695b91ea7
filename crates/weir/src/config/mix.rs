//! The file of `weir load --mix`: requests with weights.
//!
//! ```toml
//! [[request]]
//! weight = 9
//! path = "/user/{zipf:1..1000000:0.9}"
//!
//! [[request]]
//! weight = 1
//! method = "POST"
//! path = "/user"
//! headers = { content-type = "text/plain" }
//! body = "user {seq}"
//! ```

use std::ops::RangeInclusive;
use std::path::Path;

use weir_load::mix::{Mix, Request};
use weir_load::template::Template;

use super::error::{ConfigError, Report};
use super::read::Table;
use super::syntax;
use super::value::Value;

const WEIGHT: RangeInclusive<f64> = 1e-9..=1e9;

/// Reads the file at `path`.
pub(crate) fn load(path: &Path) -> Result<Mix, ConfigError> {
    let file = path.display().to_string();
    let bytes = super::regular::whole(path).map_err(|cause| ConfigError::Unreadable {
        file: file.clone(),
        cause,
    })?;
    let text = super::text_of(&bytes, &file)?;
    let report = Report::on(text);
    let document = syntax::parse(text, &report);
    if !report.is_empty() {
        return Err(report.into_error(&file));
    }
    let mut root = Table::new(&report, text.len(), String::new(), document.get_ref());
    let requests = root.sections("request", "add `[[request]]` with a path");
    let requests: Vec<_> = requests.into_iter().map(request).collect();
    root.finish();
    if report.is_empty() {
        match Mix::new(requests) {
            Ok(mix) => return Ok(mix),
            Err(error) => report.add(0, "request", error.to_string()),
        }
    }
    Err(report.into_error(&file))
}

fn request(mut table: Table<'_>) -> Request {
    let mut request = Request::get("/");
    if let Some(weight) = table
        .optional("weight")
        .and_then(|value| value.number(&WEIGHT))
    {
        request.weight = weight;
    }
    let method = table.optional("method");
    if let Some(method) = method.and_then(|value| value.text("a method such as \"GET\"")) {
        method.clone_into(&mut request.method);
    }
    let path = table.required("path", "a path such as \"/user/{seq}\"");
    if let Some(path) = path.and_then(|value| path_template(&value)) {
        request.path = path;
    }
    if let Some(headers) = table.section("headers", "headers = { accept = \"*/*\" }") {
        for (name, value) in headers.entries() {
            if let Some(template) = template(&value, "the value of a header") {
                request.headers.push((name.to_owned(), template));
            }
        }
    }
    let body = table.optional("body");
    if let Some(body) = body.and_then(|value| template(&value, "the text of a body")) {
        request.body = body;
    }
    table.finish();
    request
}

fn path_template(value: &Value<'_>) -> Option<Template> {
    value.parsed("a path such as \"/user/{seq}\"", |text| {
        if text.starts_with('/') {
            parse_template(text)
        } else {
            Err("expected a path that begins with /".to_owned())
        }
    })
}

fn template(value: &Value<'_>, expected: &str) -> Option<Template> {
    value.parsed(expected, parse_template)
}

fn parse_template(text: &str) -> Result<Template, String> {
    Template::parse(text.as_bytes()).map_err(|error| error.to_string())
}
