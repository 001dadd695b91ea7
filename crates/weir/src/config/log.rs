//! `[access_log]` and `[request_id]`.

use std::path::PathBuf;

use weir_gateway::settings::template::{Known, Variable};
use weir_gateway::settings::{AccessLog, LogFormat, LogTarget, Redact, RequestId, TrustId};
use weir_http::FieldName;

use super::declared::forms::FILE_OR_STDOUT;
use super::declared::log as declared;
use super::entries::Entries;
use super::entry::Entry;
use super::headers::{self, Message};
use super::in_process::InProcess;
use super::suggest::{did_you_mean, nearest};
use super::template::{Scope, template, variable};

/// Everything is known when a line is written. There is no route whose parameters it could name.
const OF_LINES: Scope<'_> = Scope {
    known: Known::AtEnd,
    only: None,
    parameters: &[],
};

/// What a line says of its own accord. Some of it is only of use with other sections.
const MEMBERS: [Variable; 22] = [
    Variable::Time,
    Variable::RequestId,
    Variable::TraceId,
    Variable::Client,
    Variable::Peer,
    Variable::Method,
    Variable::Target,
    Variable::Host,
    Variable::Protocol,
    Variable::Status,
    Variable::BytesReceived,
    Variable::BytesSent,
    Variable::DurationUs,
    Variable::Route,
    Variable::Cache,
    Variable::Upstream,
    Variable::Endpoint,
    Variable::UpstreamUs,
    Variable::ConnectError,
    Variable::Failure,
    Variable::Fallback,
    Variable::Referer,
];

/// What other sections say that concerns the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) has_ids: bool,
    pub(super) has_proxies: bool,
}

impl Beside {
    fn members(self) -> Vec<Variable> {
        let is_of_use = |variable: &Variable| match variable {
            Variable::RequestId => self.has_ids,
            Variable::Peer => self.has_proxies,
            _ => true,
        };
        let members = MEMBERS.into_iter().filter(is_of_use);
        members.chain([Variable::UserAgent]).collect()
    }
}

pub(super) fn access_log(
    mut table: Entries,
    beside: Beside,
    services: &mut InProcess,
) -> Option<AccessLog> {
    let target = target(&mut table, services);
    let format = table.optional(&declared::FORMAT);
    let has_format = format.is_some();
    let format = format.and_then(|value| value.parsed_template(|text| format_of(text, beside)));
    let members = table.optional(&declared::FIELDS);
    let chosen = members.as_ref().map(fields);
    let redact = table.optional(&declared::REDACT);
    let redact = redact.map_or(Redact::Nothing, |value| redacted(&value));
    let buffer = table.size_bytes(&declared::BUFFER);
    let flush = table.duration(&declared::FLUSH);
    table.finish();
    let usual = match &target {
        _ if has_format => None,
        Some(LogTarget::Service(_)) => Some(LogFormat::Json(beside.members())),
        _ => Some(LogFormat::Combined),
    };
    let format = match (format.or(usual), chosen) {
        (Some(LogFormat::Json(_)), Some(chosen)) => LogFormat::Json(chosen),
        (Some(other), None) => other,
        (Some(_), Some(_)) => {
            let complaint = "has a meaning only with format = \"json\", expected none here";
            members.as_ref()?.wrong(complaint);
            return None;
        }
        (None, _) => return None,
    };
    let target = target?;
    let usual = match target {
        LogTarget::Stdout => declared::FLUSH_STDOUT,
        LogTarget::File(_) | LogTarget::Service(_) => declared::FLUSH_FILE,
    };
    Some(AccessLog {
        target,
        format,
        redact,
        buffer_bytes: buffer.unwrap_or(declared::BUFFER.preset.bytes()) as usize,
        flush: flush.unwrap_or(usual),
    })
}

/// Where lines go.
fn target(table: &mut Entries, services: &mut InProcess) -> Option<LogTarget> {
    let path = table.optional(&declared::PATH);
    let queue = table.optional(&declared::QUEUE);
    match (path, queue) {
        (Some(_), Some(queue)) => {
            queue.wrong("found beside \"path\", expected one of the two");
            None
        }
        (Some(path), None) => path.parsed(|text| match text {
            "-" => Ok(LogTarget::Stdout),
            "" => Err(format!("expected {}", FILE_OR_STDOUT.expected)),
            _ if text.contains('\0') => Err("expected a path without NUL".to_owned()),
            _ => Ok(LogTarget::File(PathBuf::from(text))),
        }),
        (None, Some(queue)) => services.log(&queue).map(LogTarget::Service),
        (None, None) => {
            let expected = FILE_OR_STDOUT.expected;
            table.wrong(&declared::PATH, format!("missing, expected {expected}"));
            None
        }
    }
}

fn format_of(text: &str, beside: Beside) -> Result<LogFormat, String> {
    match text {
        declared::COMBINED => return Ok(LogFormat::Combined),
        declared::JSON => return Ok(LogFormat::Json(beside.members())),
        _ => {}
    }
    if !text.contains('{') {
        let meant = nearest(text, [declared::COMBINED, declared::JSON]);
        let expected = declared::FORMAT_EXPECTED;
        return Err(format!("expected {expected}{}", did_you_mean(meant)));
    }
    if text.contains(char::is_control) {
        return Err("expected one line, without control characters".to_owned());
    }
    template(text, OF_LINES).map(LogFormat::Text)
}

fn fields(value: &Entry) -> Vec<Variable> {
    let Some(items) = value.list() else {
        return Vec::new();
    };
    if items.is_empty() {
        value.wrong(format!(
            "found an empty list, expected {}",
            declared::FIELDS_EXPECTED
        ));
    }
    let mut members: Vec<Variable> = Vec::new();
    for item in items {
        match item.parsed(|text| variable(text, OF_LINES)) {
            Some(member) if members.contains(&member) => item.expected("each name only once"),
            Some(member) => members.push(member),
            None => {}
        }
    }
    members
}

fn redacted(value: &Entry) -> Redact {
    match value.as_bool() {
        Some(true) => return Redact::Queries,
        Some(false) => return Redact::Nothing,
        None => {}
    }
    let Some(items) = value.as_list() else {
        value.unexpected();
        return Redact::Nothing;
    };
    if items.is_empty() {
        value.wrong("found an empty list, expected names of parameters such as [\"token\"]");
    }
    let names = items.into_iter().filter_map(|item| {
        item.parsed(|text| match text {
            "" => Err("expected the name of a parameter such as \"token\"".to_owned()),
            text => Ok(text.to_owned()),
        })
    });
    Redact::Parameters(names.collect())
}

pub(super) fn request_id(mut table: Entries) -> RequestId {
    let field = table.optional(&declared::HEADER);
    let field = field.and_then(|value| {
        value.parsed(|text| {
            let name = headers::name(text, Message::Response)?;
            match FieldName::of(name.as_bytes()) {
                FieldName::Other => Ok(name),
                _ => Err("which says something else, expected another field".to_owned()),
            }
        })
    });
    let trust = table.optional(&declared::TRUST);
    let trust = trust.and_then(|value| value.choice(declared::TRUSTS));
    let respond = table.boolean(&declared::RESPOND);
    table.finish();
    RequestId {
        field: field.unwrap_or_else(|| declared::HEADER.preset.text().to_owned()),
        trust: trust.unwrap_or(TrustId::Proxies),
        respond: respond.unwrap_or(false),
    }
}
