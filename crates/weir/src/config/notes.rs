//! What in a sound file is most likely not what was meant: told, and taken as it stands.

use weir_gateway::settings::template::{Part, Template, Variable};
use weir_gateway::settings::{Action, Forward, HeaderEdits, HostPattern, Route, Settings};

/// What to tell of the settings, each in a sentence.
pub(crate) fn of(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    lone_paths(&settings.routes, &mut notes);
    idle_upstreams(settings, &mut notes);
    foreign_variables(settings, &mut notes);
    ids_without_a_log(settings, &mut notes);
    notes
}

/// Paths that end with a slash, which is a prefix to nginx, where nothing serves what is below them by name.
fn lone_paths(routes: &[Route], notes: &mut Vec<String>) {
    let is_lone = |route: &&Route| {
        let is_below = |other: &Route| {
            let has_host = other.host == route.host || other.host == HostPattern::Any;
            has_host && other.path.len() > route.path.len() && other.path.starts_with(&route.path)
        };
        route.path.ends_with('/') && !routes.iter().any(is_below)
    };
    for Route { name, path, .. } in routes.iter().filter(is_lone) {
        notes.push(format!(
            "the route {name:?} serves the path {path:?} alone, and nothing below it; for both write path = \"{path}{{*rest}}\""
        ));
    }
}

/// Upstreams that no request can reach.
fn idle_upstreams(settings: &Settings, notes: &mut Vec<String>) {
    if settings
        .admin
        .as_ref()
        .is_some_and(|admin| admin.guard_file.is_some())
    {
        // A posted app may name any.
        return;
    }
    let rules = settings
        .routes
        .iter()
        .filter_map(|route| route.action.rule());
    let used: Vec<usize> = rules.flat_map(Forward::upstreams).collect();
    let idle = settings.upstreams.iter().enumerate();
    for (_, upstream) in idle.filter(|(index, _)| !used.contains(index)) {
        let name = &upstream.name;
        notes.push(format!(
            "no route sends anything to the upstream {name:?}; one does with upstream = {name:?}"
        ));
    }
}

/// Variables as nginx writes them. Here they are texts.
fn foreign_variables(settings: &Settings, notes: &mut Vec<String>) {
    let of_all = &settings.all_routes.response_headers;
    let mut values: Vec<(&str, &Template)> = of_edits(&of_all.usual).collect();
    values.extend(pairs(&of_all.always));
    for route in &settings.routes {
        let answers = &route.response_headers;
        values.extend(of_edits(&answers.usual).chain(pairs(&answers.always)));
        match &route.action {
            Action::Redirect(redirect) => values.push(("location", &redirect.location)),
            Action::Respond(respond) => values.extend(pairs(&respond.headers)),
            Action::Forward(_) | Action::Serve(_) => {}
        }
        if let Some(rule) = route.action.rule() {
            values.extend(of_edits(&rule.request_headers));
        }
    }
    for (field, template) in values {
        for (theirs, ours) in template.parts.iter().flat_map(foreign) {
            let note = format!(
                "the field {field:?} says \"${theirs}\" to the letter; the variable is \"{{{ours}}}\""
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
}

fn of_edits(edits: &HeaderEdits) -> impl Iterator<Item = (&str, &Template)> {
    pairs(&edits.set).chain(pairs(&edits.add))
}

fn pairs(fields: &[(String, Template)]) -> impl Iterator<Item = (&str, &Template)> {
    fields.iter().map(|(name, value)| (name.as_str(), value))
}

/// The variables of nginx in a text, with those that say the same here.
fn foreign(part: &Part) -> Vec<(String, String)> {
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

/// Ids that are sent somewhere, and cannot be looked for here.
fn ids_without_a_log(settings: &Settings, notes: &mut Vec<String>) {
    use weir_gateway::settings::LogFormat;
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
