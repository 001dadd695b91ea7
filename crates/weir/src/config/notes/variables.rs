//! Texts that have variables of another program, or variables where nobody fills them in.

use weir_gateway::settings::template::{Part, TABLE, Template, Variable};
use weir_gateway::settings::{Action, ErrorPages, HeaderEdits, LogFormat, Route, Settings};

/// Variables as nginx writes them. Here they are texts.
pub(super) fn foreign(settings: &Settings, notes: &mut Vec<String>) {
    let of_all = &settings.all_routes.response_headers;
    let of_all = of_edits(&of_all.usual).chain(pairs(&of_all.always));
    note_foreign("response_headers", of_all, notes);
    for route in &settings.routes {
        note_foreign(&named(route), texts(route), notes);
    }
}

/// Of `texts`, each with the field that says it.
fn note_foreign<'s>(
    place: &str,
    texts: impl Iterator<Item = (&'s str, &'s Template)>,
    notes: &mut Vec<String>,
) {
    for (field, template) in texts {
        for (theirs, ours) in template.parts.iter().flat_map(of_nginx) {
            let note = format!(
                "{place}: the field {field:?} says \"${theirs}\" to the letter; the variable is \"{{{ours}}}\""
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
}

/// What `route` says with variables, each with the field that says it.
fn texts(route: &Route) -> impl Iterator<Item = (&str, &Template)> {
    let answers = &route.response_headers;
    let own = match &route.action {
        Action::Redirect(redirect) => vec![("location", &redirect.location)],
        Action::Respond(respond) => pairs(&respond.headers).collect(),
        Action::Forward(_) | Action::Serve(_) => Vec::new(),
    };
    let rule = route.action.rule().into_iter();
    let sent = rule.flat_map(|rule| of_edits(&rule.request_headers));
    let told = of_edits(&answers.usual).chain(pairs(&answers.always));
    told.chain(own).chain(sent)
}

fn named(route: &Route) -> String {
    format!("route {:?}", route.name)
}

fn of_edits(edits: &HeaderEdits) -> impl Iterator<Item = (&str, &Template)> {
    pairs(&edits.set).chain(pairs(&edits.add))
}

fn pairs(fields: &[(String, Template)]) -> impl Iterator<Item = (&str, &Template)> {
    fields.iter().map(|(name, value)| (name.as_str(), value))
}

/// The variables of nginx in a text, with those that say the same here.
fn of_nginx(part: &Part) -> Vec<(String, String)> {
    let Part::Text(text) = part else {
        return Vec::new();
    };
    let is_of_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let named = text.split('$').skip(1).map(|behind| {
        let end = behind.find(|byte| !is_of_name(byte));
        &behind[..end.unwrap_or(behind.len())]
    });
    let known = named.filter_map(|name| {
        let ours = match name {
            "remote_addr" | "proxy_add_x_forwarded_for" => Variable::Client.name(),
            "host" | "http_host" => Variable::Host.name(),
            "request_uri" => Variable::Target.name(),
            "uri" | "document_uri" => Variable::Path.name(),
            "args" | "query_string" => Variable::Query.name(),
            "scheme" => Variable::Scheme.name(),
            "request_method" => Variable::Method.name(),
            "request_id" => Variable::RequestId.name(),
            "status" => Variable::Status.name(),
            _ => {
                let field = name.strip_prefix("http_")?.replace('_', "-");
                Variable::RequestHeader(field).name()
            }
        };
        Some((name.to_owned(), ours))
    });
    known.collect()
}

/// Variables in bodies, which go out as they stand.
pub(super) fn in_bodies(settings: &Settings, notes: &mut Vec<String>) {
    let mut note = |place: &str, body: &[u8]| {
        for variable in written(body) {
            notes.push(format!(
                "{place} says \"{{{variable}}}\" to the letter; fields of an answer have variables, bodies have none"
            ));
        }
    };
    let mut of_pages = |place: &str, pages: &ErrorPages| {
        for page in &pages.pages {
            let (first, last) = (page.statuses.start(), page.statuses.end());
            let statuses = if first == last {
                first.to_string()
            } else {
                format!("{}xx", first / 100)
            };
            note(&format!("{place}error_pages.{statuses}"), &page.body);
        }
    };
    of_pages("", &settings.error_pages);
    for route in &settings.routes {
        of_pages(&format!("{}: ", named(route)), &route.error_pages);
    }
    for route in &settings.routes {
        if let Action::Respond(respond) = &route.action {
            note(&format!("{}: the body", named(route)), &respond.body);
        }
    }
}

/// The variables that `body` has in braces. In a script such braces have a meaning of their own.
fn written(body: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(body);
    if text.contains("<script") {
        return Vec::new();
    }
    let names = TABLE.iter().map(|entry| entry.name);
    let is_there = |name: &&str| text.contains(&format!("{{{name}}}"));
    names.filter(is_there).collect()
}

/// Ids that are sent somewhere, and cannot be looked for here.
pub(super) fn ids_without_a_log(settings: &Settings, notes: &mut Vec<String>) {
    let Some(log) = &settings.access_log else {
        return;
    };
    let is_logged = match &log.format {
        LogFormat::Combined => false,
        LogFormat::Json(members) => members.contains(&Variable::RequestId),
        LogFormat::Text(text) => text.variables().any(|it| *it == Variable::RequestId),
    };
    let says_id =
        |(_, value): (&str, &Template)| value.variables().any(|it| *it == Variable::RequestId);
    let answers = settings.routes.iter().map(|route| &route.response_headers);
    let answers = answers.chain([&settings.all_routes.response_headers]);
    let is_told = answers
        .flat_map(|it| of_edits(&it.usual).chain(pairs(&it.always)))
        .any(says_id);
    let rules = settings
        .routes
        .iter()
        .filter_map(|route| route.action.rule());
    let is_sent = rules
        .flat_map(|rule| of_edits(&rule.request_headers))
        .any(says_id);
    if !is_logged && (is_told || is_sent) {
        notes.push(
            "\"{request_id}\" is sent, and no line of the access log has it: choose format = \"json\" with [request_id], or name it in fields".to_owned(),
        );
    }
}
