//! A plan as the text of a config.

use std::fmt::Write as _;

use super::plan::{Body, Plan, Redirected, Served};

/// A redirect for GET, and for HEAD with it, and one for all others, who must not lose their body.
const REDIRECTS: [(&str, u16); 2] = [
    (r#"["GET"]"#, 301),
    (r#"["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]"#, 307),
];

/// A whole config, with the ports that guard has unless it is told others.
pub(super) fn whole(plans: &[Plan], file_name: &str) -> String {
    let file_name = file_name.replace(char::is_control, " ");
    let mut text = format!(
        r#"# What {file_name} says to guard. docs/guard.md says what differs.

[[listener]]
address = "0.0.0.0:23456" # guard's -proxyAddr

[admin]
listen = "127.0.0.1:12345" # guard's -configAddr, for this machine alone: any other address takes a `token`
# guard_api = true # to go on taking POST /app
"#
    );
    for plan in plans {
        write(plan, &mut text);
    }
    text
}

/// What one app adds to a config.
pub(super) fn posted(plan: &Plan) -> String {
    let mut text = "listener = [{ address = \"127.0.0.1:1\" }]\n".to_owned();
    write(plan, &mut text);
    text
}

fn write(plan: &Plan, out: &mut String) {
    let _ = write!(out, "\n# {}\n", plan.name.replace(char::is_control, " "));
    for note in &plan.notes {
        let _ = writeln!(out, "# {}", note.replace(char::is_control, " "));
    }
    if plan.servers.is_empty() {
        let _ = writeln!(
            out,
            "# It has no backends: guard answers 403, this answers 503."
        );
    } else {
        let _ = writeln!(out, "[upstream.{}]", string(&upstream(plan)));
        let servers = plan.servers.iter().map(|(label, weight)| match weight {
            1 => string(label),
            _ => format!("{{ address = {}, weight = {weight} }}", string(label)),
        });
        let servers = servers.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "servers = [{servers}]\nbalance = \"{}\"", plan.balance);
    }
    for served in &plan.routes {
        route(plan, served, out);
    }
    for redirected in &plan.redirects {
        redirect(plan, redirected, out);
    }
}

/// The name of the upstream: the host, but for the brackets and colons of an IPv6 address.
fn upstream(plan: &Plan) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    plan.host.replace(|c| !is_plain(c), "_")
}

fn route(plan: &Plan, served: &Served, out: &mut String) {
    let methods = served.methods.iter().map(|method| format!("\"{method}\""));
    let methods = methods.collect::<Vec<_>>().join(", ");
    begin_route(plan, &served.path.text, &format!("[{methods}]"), out);
    if plan.servers.is_empty() {
        let _ = writeln!(out, "respond = {{ status = 503 }}");
        return;
    }
    let body = match &plan.fallback {
        Body::Content(content_type, content) => {
            format!(
                "content_type = \"{content_type}\", body = {}",
                string(content)
            )
        }
        Body::File(path) => format!("content_type = \"text/html\", file = {}", string(path)),
    };
    let _ = write!(
        out,
        "upstream = {}\n\
         breaker = {{ ratio = {:?}, window = \"10s\", min_requests = 20, statuses = [429, \"5xx\"] }}\n\
         fallback = {{ on = \"refused\", status = 429, {body} }}\n",
        string(&upstream(plan)),
        plan.ratio,
    );
}

fn redirect(plan: &Plan, redirected: &Redirected, out: &mut String) {
    let Redirected { from, to } = redirected;
    for (methods, status) in REDIRECTS {
        begin_route(plan, from, methods, out);
        let to = string(to);
        let _ = writeln!(out, "redirect = {{ to = {to}, status = {status} }}");
    }
}

fn begin_route(plan: &Plan, path: &str, methods: &str, out: &mut String) {
    let _ = write!(
        out,
        "\n[[route]]\nhost = {}\npath = {}\nmethods = {methods}\n",
        string(&plan.host),
        string(path)
    );
}

/// A string of TOML, whose escapes are those of JSON and one more.
fn string(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007F")
}
