//! `[upstream.NAME]`: the groups of servers that routes forward to.

use std::collections::HashMap;

use weir_gateway::settings::{HashOn, Server, ServerAddress, Sticky, Upstream, UpstreamCare};
use weir_policy::balance::Method;

use super::care::upstream::{self as care, Protection};
use super::declared::cookie::COOKIE;
use super::declared::file::UPSTREAM;
use super::declared::forms::SECRET_CHARS_MIN;
use super::declared::upstream::{
    ADDRESS, BALANCE, HASH_ON, HASH_ON_EXPECTED, IDLE_CONNECTIONS, IDLE_TIMEOUT, SECRET, SERVERS,
    STICKY, WEIGHT,
};
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::{address, cookie};

/// The upstreams of a file, those with mistakes among them, so that a route that names one is not called wrong too.
pub(super) struct Upstreams {
    /// In the order of the file.
    pub(super) settings: Vec<Upstream>,
    /// One for each.
    protection: Vec<Protection>,
}

impl Upstreams {
    /// The index of the upstream called `name`.
    pub(super) fn index(&self, name: &str) -> Result<usize, String> {
        let names = || self.settings.iter().map(|upstream| upstream.name.as_str());
        names().position(|known| known == name).ok_or_else(|| {
            let help = match nearest(name, names()) {
                Some(meant) => did_you_mean(Some(meant)),
                None if self.settings.is_empty() => {
                    format!("; add `[upstream.{name}]` with its \"servers\"")
                }
                None => format!("; expected {}", one_of(names())),
            };
            format!("there is no upstream {}{help}", quoted(name))
        })
    }

    /// The upstream whose sessions stick by this cookie.
    pub(super) fn with_cookie(&self, name: &str) -> Option<&str> {
        let is_it = |upstream: &&Upstream| {
            let sticky = upstream.sticky.as_deref();
            sticky.is_some_and(|sticky| sticky.cookie.name == name)
        };
        let found = self.settings.iter().find(is_it);
        found.map(|upstream| upstream.name.as_str())
    }

    /// Protects an upstream because a route says so.
    pub(super) fn protect(&mut self, index: usize) -> Result<(), &'static str> {
        self.protection[index].ask(&mut self.settings[index].care)
    }
}

/// Reads every `[upstream.NAME]`.
pub(super) fn all(root: &mut Entries) -> Upstreams {
    let upstreams = root.named(&UPSTREAM).into_iter();
    let mut cookies = HashMap::new();
    let upstreams = upstreams.filter_map(|(name, value)| {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(is_name_char) {
            value.wrong("expected a name of letters, digits, \"-\", \"_\" and \".\"");
        }
        Some(upstream(name, value.table()?, &mut cookies))
    });
    let (settings, protection) = upstreams.unzip();
    Upstreams {
        settings,
        protection,
    }
}

/// The upstream of `weir serve --to SERVER`; complaints are whole sentences.
pub(super) fn from_flags(to: &[String]) -> Result<Upstream, Vec<String>> {
    let mut problems = Vec::new();
    let mut servers: Vec<Server> = Vec::new();
    for text in to {
        match address::server(text) {
            Err(complaint) => problems.push(format!("--to: found {}, {complaint}", quoted(text))),
            Ok((_, address)) if servers.iter().any(|other| other.address == address) => {
                problems.push(format!(
                    "--to: found {} again, expected it only once",
                    quoted(text)
                ));
            }
            Ok((label, address)) => servers.push(Server {
                label,
                address,
                weight: 1,
                is_draining: false,
            }),
        }
    }
    if to.is_empty() {
        problems
            .push("--to: missing, expected a server such as \"http://127.0.0.1:3000\"".to_owned());
    }
    if problems.is_empty() {
        Ok(with_defaults("app", servers))
    } else {
        Err(problems)
    }
}

fn with_defaults(name: &str, servers: Vec<Server>) -> Upstream {
    Upstream {
        name: name.to_owned(),
        servers,
        balance: Method::default(),
        hash_on: HashOn::ClientAddress,
        sticky: None,
        idle_connections: Upstream::IDLE_CONNECTIONS,
        idle_timeout: Upstream::IDLE_TIMEOUT,
        care: UpstreamCare::default(),
    }
}

/// The names of cookies, and the upstream that sets each.
type Cookies<'a> = HashMap<String, &'a str>;

fn upstream<'a>(
    name: &'a str,
    mut table: Entries,
    cookies: &mut Cookies<'a>,
) -> (Upstream, Protection) {
    let list = table.required(&SERVERS);
    let servers = list.map_or_else(Vec::new, |list| servers(&list));
    let mut upstream = with_defaults(name, servers);

    let balance = table.optional(&BALANCE);
    let has_balance = balance.is_some();
    let balance = balance.and_then(|value| value.choice(Method::NAMES));
    let hash_on = table.optional(&HASH_ON);
    if let Some(value) = hash_on {
        // When the method itself is a mistake, it may well have been meant to be "hash".
        let is_hash = balance.map_or(has_balance, |method| method == Method::Hash);
        if !is_hash {
            value.wrong("has a meaning only with balance = \"hash\", expected none here");
        } else if let Some(part) = value.parsed(hash_on_part) {
            upstream.hash_on = part;
        }
    }
    upstream.balance = balance.unwrap_or_default();
    if let Some(value) = table.optional(&STICKY) {
        upstream.sticky = sticky(&value, name, cookies).map(Box::new);
    }
    if let Some(count) = table.integer(&IDLE_CONNECTIONS) {
        upstream.idle_connections = count as usize;
    }
    if let Some(timeout) = table.duration(&IDLE_TIMEOUT) {
        upstream.idle_timeout = timeout;
    }
    let (care, protection) = care::read(&mut table);
    upstream.care = care;
    table.finish();
    (upstream, protection)
}

/// `{ cookie = "weir", secret = "..." }`.
fn sticky<'a>(value: &Entry, upstream: &'a str, cookies: &mut Cookies<'a>) -> Option<Sticky> {
    let mut table = value.table()?;
    let named = table.required(&COOKIE);
    let name = named.as_ref().and_then(cookie::name);
    if let (Some(value), Some(name)) = (&named, &name) {
        match cookies.get(name) {
            // A client that uses both would lose one session by the other.
            Some(other) => value.wrong(cookie::taken(name, other)),
            None => drop(cookies.insert(name.clone(), upstream)),
        }
    }
    let secret = table.optional(&SECRET);
    let secret = secret.as_ref().and_then(self::secret);
    let cookie = cookie::rest(&mut table, name, true);
    table.finish();
    Some(Sticky {
        cookie: cookie?,
        secret: secret.unwrap_or_default(),
    })
}

/// A secret is never repeated in a message.
fn secret(value: &Entry) -> Option<String> {
    let text = value.as_str();
    let chars = text.map(|text| text.chars().count());
    if chars.is_none_or(|chars| chars < SECRET_CHARS_MIN) {
        let found = chars.map_or_else(String::new, |chars| format!("found {chars} characters, "));
        value.wrong(format!(
            "{found}expected a string of at least {SECRET_CHARS_MIN} characters"
        ));
        return None;
    }
    text.map(str::to_owned)
}

fn servers(list: &Entry) -> Vec<Server> {
    let items = list.list();
    if items.as_ref().is_some_and(Vec::is_empty) {
        list.wrong("found an empty list, expected at least one server");
    }
    let mut servers: Vec<Server> = Vec::new();
    for item in items.unwrap_or_default() {
        let Some(server) = server(&item) else {
            continue;
        };
        match servers.iter().find(|other| other.address == server.address) {
            Some(other) => item.wrong(format!(
                "found {}, which is the same server as {}, expected it only once",
                quoted(&server.label),
                quoted(&other.label)
            )),
            None => servers.push(server),
        }
    }
    servers
}

/// `"host:port"` or `{ address = "host:port", weight = 5 }`.
fn server(item: &Entry) -> Option<Server> {
    let read_address = |value: &Entry| value.parsed(address::server);
    let (address, weight): (Option<(String, ServerAddress)>, Option<u64>) = if item.is_table() {
        let mut table = item.table()?;
        let address = table.required(&ADDRESS);
        let weight = table.integer(&WEIGHT);
        table.finish();
        (address.as_ref().and_then(read_address), weight)
    } else {
        (read_address(item), None)
    };
    let (label, address) = address?;
    Some(Server {
        label,
        address,
        weight: weight.unwrap_or(WEIGHT.preset.integer()) as u32,
        is_draining: false,
    })
}

/// Reads a server on its own, as the admin listener is given one.
pub(super) fn single_server(text: &str) -> Result<Server, String> {
    let (label, address) = address::server(text)?;
    Ok(Server {
        label,
        address,
        weight: 1,
        is_draining: false,
    })
}

pub(super) fn hash_on_part(text: &str) -> Result<HashOn, String> {
    match text.split_once(':') {
        None => {}
        Some(("header", name)) if is_token(name) => {
            return Ok(HashOn::Header(name.to_ascii_lowercase()));
        }
        Some(("cookie", name)) if is_token(name) => return Ok(HashOn::Cookie(name.to_owned())),
        Some(("query", name)) if is_query_name(name) => return Ok(HashOn::Query(name.to_owned())),
        Some(("header" | "cookie" | "query", _)) => {
            return Err("expected a name after the colon".to_owned());
        }
        Some(_) => return Err(format!("expected {HASH_ON_EXPECTED}")),
    }
    Ok(match text {
        "client-address" => HashOn::ClientAddress,
        "host" => HashOn::Host,
        "path" => HashOn::Path,
        "target" => HashOn::Target,
        _ => {
            let meant = nearest(text, ["client-address", "host", "path", "target"]);
            return Err(format!(
                "expected {HASH_ON_EXPECTED}{}",
                did_you_mean(meant)
            ));
        }
    })
}

fn is_query_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"&=#".contains(&b))
}
