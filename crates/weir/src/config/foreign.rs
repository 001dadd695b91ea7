//! Keys that people bring along from nginx, `HAProxy`, Caddy and others, with what says the same here.

/// Of each name, in lower case with `_`, what to write. An example of it is in `docs/coming-from.md`.
const COUNTERPARTS: [(&str, &str); 42] = [
    ("acl", ROUTE),
    ("add_header", "response_headers = { set = { … } }"),
    ("backend", "[upstream.NAME]"),
    ("bind", LISTENER),
    (
        "client_max_body_size",
        "body in [limits], or body_limit in a route",
    ),
    (
        "default_backend",
        "upstream in a [[route]] with path = \"/{*rest}\"",
    ),
    ("encode", "compress = true"),
    ("error_page", "[error_pages]"),
    ("errorfile", "[error_pages]"),
    ("expires", "response_headers, or cache = { ttl = … }"),
    ("fail_timeout", EJECTION),
    ("frontend", LISTENER),
    ("gzip_types", "compress = { types = [ … ] }"),
    ("handle", ROUTE),
    ("handle_path", "strip_prefix in a [[route]]"),
    ("health_check", "health = { path = … } in an [upstream]"),
    ("health_uri", "health = { path = … } in an [upstream]"),
    (
        "ip_hash",
        "balance = \"hash\" and hash_on = \"client-address\"",
    ),
    ("keepalive", "idle_connections in an [upstream]"),
    (
        "keepalive_timeout",
        "idle in [timeouts], idle_timeout in an [upstream]",
    ),
    ("least_conn", "balance = \"least-conn\""),
    ("lb_policy", "balance in an [upstream]"),
    (
        "limit_conn",
        "connections_per_address in [limits], or concurrency",
    ),
    (
        "limit_req",
        "rate = { requests = …, per = … } in a [[route]]",
    ),
    ("location", ROUTE),
    ("log_format", "format in [access_log]"),
    ("max_fails", EJECTION),
    (
        "maxconn",
        "connections in [limits], or concurrency in an [upstream]",
    ),
    ("proxy_cache", "cache = true in a [[route]]"),
    ("proxy_cache_valid", "cache = { ttl = … } in a [[route]]"),
    (
        "proxy_connect_timeout",
        "timeout = { connect = … } in a [[route]]",
    ),
    ("proxy_next_upstream", "retry in a [[route]]"),
    (
        "proxy_pass",
        "upstream in a [[route]], with its servers in [upstream.NAME]",
    ),
    (
        "proxy_read_timeout",
        "timeout = { response = …, idle = … } in a [[route]]",
    ),
    (
        "proxy_send_timeout",
        "timeout = { idle = … } in a [[route]]",
    ),
    ("proxy_set_header", "request_headers = { set = { … } }"),
    ("return", "respond or redirect in a [[route]]"),
    (
        "reverse_proxy",
        "upstream in a [[route]], with its servers in [upstream.NAME]",
    ),
    ("server_name", "host in a [[route]]"),
    ("set_real_ip_from", "networks in [trusted_proxies]"),
    ("stick_table", "rate, or sticky in an [upstream]"),
    ("worker_processes", "workers in [server]"),
];
const LISTENER: &str = "[[listener]] with its address";
const ROUTE: &str = "[[route]] with path, host, headers or query";
const EJECTION: &str = "protect = true or ejection in an [upstream]";

/// Names of what weir cannot do, with what to do about it.
const LACKING: [(&str, &str); 7] = [
    ("allow", NO_ADDRESSES),
    ("certificate", NO_TLS),
    ("deny", NO_ADDRESSES),
    ("root", "weir serves no files: let a service do that"),
    ("ssl", NO_TLS),
    ("ssl_certificate", NO_TLS),
    ("tls", NO_TLS),
];
const NO_TLS: &str = "weir speaks no TLS yet: keep what does beside it";
const NO_ADDRESSES: &str =
    "weir does not decide by the client's address who may ask: let what is in front of it do that";

/// What to say of the unknown key `name`, if it is known elsewhere.
pub(super) fn hint(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let of = |table: &[(&str, &'static str)]| {
        let mut table = table.iter();
        table.find(|(theirs, _)| *theirs == name).map(|it| it.1)
    };
    let ours = of(&COUNTERPARTS).map(|ours| format!("what says that here is {ours}"));
    ours.or_else(|| of(&LACKING).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// A hint at a key that there is not would lead from one mistake to the next.
    #[test]
    fn hints_name_keys_that_there_are() {
        let schema = schema::of_file().to_string();
        for (theirs, ours) in COUNTERPARTS {
            let words = ours.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let first = words.into_iter().find(|word| !word.is_empty());
            let key = format!("\"{}\":", first.unwrap_or_default());
            assert!(schema.contains(&key), "{theirs}: {ours}");
            assert!(!schema.contains(&format!("\"{theirs}\":")), "{theirs}");
            let typed = theirs.replace('_', "-").to_uppercase();
            assert!(hint(&typed).is_some_and(|hint| hint.ends_with(ours)));
        }
    }
}
