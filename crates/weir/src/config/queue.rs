//! `[queue.NAME]`, and the `defer` of routes.
//!
//! The gateway knows services by names, and nothing of queues. So each way to defer is a service here, named so that another
//! way has another name, and [`InProcess`] says what is behind each.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use weir_gateway::settings::{
    Action, Conditions, ErrorPages, HostPattern, Limits, ResponseHeaders, Route, RouteLimits, Serve,
};
use weir_queue::{Deferral, Delivery, KafkaQueue, KeySource, LOCATION, Retry, Settings};

use super::declared::Key;
use super::declared::file::QUEUE;
use super::declared::queue as declared;
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::in_process::{InProcess, Service};
use super::pattern::{self, PathPattern};
use super::sink;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::units::{show_duration, show_size};

/// How long a client waits for a queue at most.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads every `[queue.NAME]`.
pub(super) fn all(root: &mut Entries) -> InProcess {
    let mut services = InProcess::default();
    let mut paths: Vec<(PathBuf, &str)> = Vec::new();
    let mut files = Vec::new();
    for (name, value) in root.named(&QUEUE) {
        check_name(name, &value);
        let Some(mut table) = value.table() else {
            continue;
        };
        let path = table.required(&declared::PATH);
        let settings = settings(name, &mut table, &mut files);
        table.finish();
        let directory = path.as_ref().and_then(|path| path.parsed(directory));
        if let (Some(value), Some(path)) = (&path, &directory) {
            let plain = plain(path);
            let is_same = |(other, _): &&(PathBuf, &str)| {
                plain.starts_with(other) || other.starts_with(&plain)
            };
            if let Some((_, other)) = paths.iter().find(is_same) {
                value.expected(&format!(
                    "a directory that has nothing to do with that of the queue {}",
                    quoted(other)
                ));
            }
            paths.push((plain, name));
        }
        // A queue with a mistake is one all the same: a route that names it is not wrong too.
        let settings = Settings {
            path: directory.unwrap_or_default(),
            ..settings
        };
        services.queues.insert(name.to_owned(), settings);
    }
    services
}

/// Names of queues and sinks are those of directories too, and parts of paths.
pub(super) fn check_name(name: &str, value: &Entry) {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name_char) {
        value.wrong(
            "expected a name of letters, digits, \"-\", \"_\" and \".\", which is not its first",
        );
    }
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("expected the path of a directory".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// A path without the parts that mean nothing.
pub(super) fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

fn settings(name: &str, table: &mut Entries, files: &mut Vec<PathBuf>) -> Settings {
    let durability = table.optional(&declared::DURABILITY);
    let durability = durability.and_then(|value| value.choice(declared::DURABILITIES));
    let size = |table: &mut Entries, key: &'static Key| {
        table.size_bytes(key).unwrap_or(key.preset.bytes())
    };
    let time = |table: &mut Entries, key: &'static Key| {
        table.duration(key).unwrap_or(key.preset.duration())
    };
    let number =
        |table: &mut Entries, key: &'static Key| table.integer(key).unwrap_or(key.preset.integer());
    let bytes_max = size(table, &declared::SIZE);
    let message_size = table.optional(&declared::MESSAGE_SIZE);
    let said = message_size.as_ref().and_then(Entry::size_bytes);
    let mut message_bytes_max = said.unwrap_or(declared::MESSAGE_SIZE.preset.bytes());
    if let Some(value) = &message_size
        && message_bytes_max > bytes_max / 4
    {
        let most = show_size(bytes_max / 4);
        value.wrong(format!(
            "expected at most a quarter of \"size\", which is {}",
            quoted(&most)
        ));
    }
    let rate = table.optional(&declared::RATE);
    let backoff_min = time(table, &declared::BACKOFF);
    let backoff_max = table.optional(&declared::BACKOFF_MAX);
    let longest = backoff_max.as_ref().and_then(Entry::duration);
    let longest = longest.unwrap_or(declared::BACKOFF_MAX.preset.duration());
    if let Some(value) = &backoff_max
        && longest < backoff_min
    {
        let least = show_duration(backoff_min);
        value.wrong(format!(
            "expected at least \"backoff\", which is {}",
            quoted(&least)
        ));
    }
    let mut sinks = sink::all(name, table, files);
    let topic = sink::lives(name, table).map(|(topic, sink)| {
        sinks.push(sink);
        topic
    });
    if let Some(topic) = &topic {
        message_bytes_max = fitting(message_bytes_max, message_size.as_ref(), topic);
    }
    Settings {
        name: name.to_owned(),
        path: PathBuf::new(),
        durability: durability.unwrap_or(weir_queue::Durability::Group),
        bytes_max,
        age_max: table.duration(&declared::MAX_AGE),
        keep: time(table, &declared::KEEP),
        message_bytes_max,
        id_window: time(table, &declared::IDEMPOTENCY_WINDOW),
        delivery: Delivery {
            concurrency: number(table, &declared::CONCURRENCY) as u32,
            rate: rate.and_then(|value| value.number()),
            timeout: time(table, &declared::TIMEOUT),
            retry: Retry {
                attempts_max: number(table, &declared::ATTEMPTS) as u32,
                age_max: time(table, &declared::GIVE_UP),
                backoff_min,
                backoff_max: longest.max(backoff_min),
            },
            answer_bytes_max: size(table, &declared::ANSWERS) as usize,
        },
        sinks,
        topic,
    }
}

/// The content that a request may have which must fit into a record, with its head.
fn fitting(bytes_max: u64, said: Option<&Entry>, topic: &KafkaQueue) -> u64 {
    let most = topic.topic.content_bytes_max();
    if let Some(value) = said
        && bytes_max > most
    {
        value.wrong(format!(
            "a record of Kafka takes no more than {most} bytes beside a head; expected that at most, or more in kafka.options \"message.max.bytes\""
        ));
    }
    bytes_max.min(most)
}

impl InProcess {
    /// Reads what stands at `defer`, and says which service does it.
    pub(super) fn defer(&mut self, value: &Entry, path: Option<&PathPattern>) -> Option<Serve> {
        let (named, deferral) = if value.is_table() {
            let mut table = value.table()?;
            let named = table.required(&declared::OF_QUEUE);
            let deferral = deferral(&mut table, path);
            table.finish();
            (named.and_then(|named| self.known(&named)), deferral)
        } else {
            (self.known(value), Some(Deferral::default()))
        };
        let (queue, deferral) = (named?, deferral?);
        let name = service_name(&queue, &deferral);
        let service = Service::Defer(queue, deferral);
        self.services.insert(name.clone(), service);
        Some(Serve {
            service: name,
            timeout: TIMEOUT,
            delivery: None,
        })
    }

    /// Reads the queue of the access log, and says which service keeps its lines.
    pub(super) fn log(&mut self, value: &Entry) -> Option<String> {
        let queue = self.known(value)?;
        let name = format!("{queue} (access log)");
        let has_sink = |queue: &Settings| !queue.sinks.is_empty();
        if !self.queues.get(&queue).is_some_and(has_sink) {
            value.wrong("the queue has no sink, so its lines would go nowhere; expected one with a [queue.NAME.sink.NAME]");
        }
        self.services.insert(name.clone(), Service::Log(queue));
        Some(name)
    }

    /// Whether a service has somewhere to put messages that are for no upstream.
    pub(super) fn has_sink(&self, serve: &Serve) -> bool {
        let Some(Service::Defer(queue, _)) = self.services.get(&serve.service) else {
            return false;
        };
        let queue = self.queues.get(queue);
        queue.is_some_and(|queue| !queue.sinks.is_empty())
    }

    /// The name of a queue that there is.
    fn known(&self, value: &Entry) -> Option<String> {
        let names = || self.queues.keys().map(String::as_str);
        value.parsed(|name| {
            if names().any(|known| known == name) {
                return Ok(name.to_owned());
            }
            let help = match nearest(name, names()) {
                Some(meant) => did_you_mean(Some(meant)),
                None if self.queues.is_empty() => {
                    format!("; add `[queue.{name}]` with its \"path\"")
                }
                None => format!("; expected {}", one_of(names())),
            };
            Err(format!("there is no queue of this name{help}"))
        })
    }

    /// The routes by which clients ask what became of their requests: on every host on which requests are deferred.
    pub(super) fn routes_to_tell(&mut self, routes: &[Route], limits: &Limits) -> Vec<Route> {
        let mut telling: Vec<Route> = Vec::new();
        for route in routes {
            let Action::Serve(serve) = &route.action else {
                continue;
            };
            let Some(Service::Defer(queue, _)) = self.services.get(&serve.service) else {
                continue;
            };
            let queue = queue.clone();
            let name = format!("{queue} (outcomes)");
            if telling
                .iter()
                .any(|other| other.name == name && other.host == route.host)
            {
                continue;
            }
            self.services
                .insert(name.clone(), Service::Tell(queue.clone()));
            telling.push(route_to_tell(&queue, name, route.host.clone(), limits));
        }
        telling
    }
}

fn route_to_tell(queue: &str, name: String, host: HostPattern, limits: &Limits) -> Route {
    let path = pattern::path(&format!("{LOCATION}{queue}/{{message}}"));
    let path = path.expect("the name of a queue is a segment of a path");
    Route {
        name: name.clone(),
        host,
        path: path.matched,
        methods: Some(vec!["GET".to_owned()]),
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        limits: RouteLimits {
            rates: Vec::new(),
            body_bytes: limits.body_bytes,
        },
        response_headers: ResponseHeaders::default(),
        action: Action::Serve(Serve {
            service: name,
            timeout: TIMEOUT,
            delivery: None,
        }),
        app: None,
    }
}

fn deferral(table: &mut Entries, path: Option<&PathPattern>) -> Option<Deferral> {
    let key = table.optional(&declared::ORDER_KEY);
    let has_key = key.is_some();
    let key = key.and_then(|value| value.parsed(|text| key_source(text, path)));
    let ttl = table.duration(&declared::TTL);
    let batch = table.optional(&declared::BATCH);
    let is_batch = batch.and_then(|value| value.choice(&[("ndjson", ())]));
    (key.is_some() == has_key).then_some(Deferral {
        key,
        ttl,
        is_batch: is_batch.is_some(),
    })
}

fn key_source(text: &str, path: Option<&PathPattern>) -> Result<KeySource, String> {
    match text.split_once(':') {
        Some(("header", name)) if is_token(name) => Ok(KeySource::Field(name.to_ascii_lowercase())),
        Some(("path", name)) => match path {
            Some(path) if !path.parameters.iter().any(|known| known == name) => {
                Err("expected a parameter of the route's path".to_owned())
            }
            _ => Ok(KeySource::Parameter(name.to_owned())),
        },
        Some(("json", pointer)) if pointer.starts_with('/') => {
            Ok(KeySource::Pointer(pointer.to_owned()))
        }
        _ => Err(format!("expected {}", declared::KEY_EXPECTED)),
    }
}

/// What tells a way to defer from others.
fn service_name(queue: &str, deferral: &Deferral) -> String {
    let key = deferral.key.as_ref().map(|key| match key {
        KeySource::Field(name) => format!("key header:{name}"),
        KeySource::Parameter(name) => format!("key path:{name}"),
        KeySource::Pointer(pointer) => format!("key json:{pointer}"),
    });
    let ttl = deferral
        .ttl
        .map(|ttl| format!("ttl {}", show_duration(ttl)));
    let batch = deferral.is_batch.then(|| "batch".to_owned());
    let ways: Vec<String> = [key, ttl, batch].into_iter().flatten().collect();
    if ways.is_empty() {
        queue.to_owned()
    } else {
        format!("{queue} ({})", ways.join(", "))
    }
}
