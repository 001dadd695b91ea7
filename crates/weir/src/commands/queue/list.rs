//! `weir queue list` and `weir queue show`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{OneArgs, say};
use crate::commands::admin::{Admin, Connection};

/// What the gateway says of a queue, as far as it is listed.
#[derive(Debug, Deserialize)]
struct Queue {
    name: String,
    accepted: u64,
    bytes: u64,
    failed: Option<String>,
    #[serde(flatten)]
    upstream: Consumer,
    #[serde(default)]
    sinks: Vec<Sink>,
}

/// A sink of it.
#[derive(Debug, Deserialize)]
struct Sink {
    name: String,
    #[serde(flatten)]
    consumer: Consumer,
}

/// How far one is who consumes it.
#[derive(Debug, Deserialize)]
struct Consumer {
    waiting: u64,
    oldest_ms: Option<u64>,
    delivered: u64,
    dead: u64,
    is_paused: bool,
    is_ill: bool,
    last_error: Option<String>,
    stopped: Option<String>,
}

pub(super) fn list(connection: &Connection) -> anyhow::Result<()> {
    let mut admin = Admin::of(connection)?;
    let answer = admin.get("/queues", &[])?;
    if connection.json {
        let queues = answer.as_array().map_or(&[][..], Vec::as_slice);
        return queues.iter().try_for_each(say);
    }
    let queues: Vec<Queue> = serde_json::from_value(answer).map_err(|_| admin.is_no_weir())?;
    if queues.is_empty() {
        return say(
            "there is no queue: add `[queue.NAME]` to the config, and `defer = \"NAME\"` to a route",
        );
    }
    let names = queues.iter().flat_map(|queue| {
        let sinks = queue.sinks.iter();
        let sinks = sinks.map(|sink| queue.name.len() + 1 + sink.name.len());
        sinks.chain([queue.name.len()])
    });
    let width = names.max().unwrap_or(0).max("QUEUE".len());
    say(format_args!(
        "{:width$}  {:>9}  {:>8}  {:>9}  {:>9}  {:>6}  {:>9}  STATE",
        "QUEUE", "WAITING", "OLDEST", "ACCEPTED", "DELIVERED", "DEAD", "SIZE"
    ))?;
    let mut troubles = Vec::new();
    let mut line = |name: &str, of_queue: Option<&Queue>, consumer: &Consumer| {
        let failed = of_queue.and_then(|queue| queue.failed.as_ref());
        let oldest = consumer.oldest_ms.map(Duration::from_millis);
        let numbers = of_queue.map(|queue| (queue.accepted.to_string(), size(queue.bytes)));
        let (accepted, bytes) = numbers.unwrap_or_default();
        troubles.extend(consumer.trouble(name, failed));
        say(format_args!(
            "{name:width$}  {:>9}  {:>8}  {accepted:>9}  {:>9}  {:>6}  {bytes:>9}  {}",
            consumer.waiting,
            oldest.map_or_else(|| "-".to_owned(), rounded),
            consumer.delivered,
            consumer.dead,
            consumer.state(failed.is_some()),
        ))
    };
    for queue in &queues {
        line(&queue.name, Some(queue), &queue.upstream)?;
        for sink in &queue.sinks {
            line(
                &format!("{}/{}", queue.name, sink.name),
                None,
                &sink.consumer,
            )?;
        }
    }
    troubles.iter().try_for_each(say)
}

impl Consumer {
    fn state(&self, takes_nothing: bool) -> &'static str {
        match () {
            () if takes_nothing => "takes nothing",
            () if self.stopped.is_some() => "delivers nothing",
            () if self.is_paused => "paused",
            () if self.is_ill => "deliveries fail",
            () => "ok",
        }
    }

    /// Why something waits, if that is known.
    fn trouble(&self, name: &str, failed: Option<&String>) -> Option<String> {
        if let Some(why) = failed.or(self.stopped.as_ref()) {
            return Some(format!("{name}: {why}"));
        }
        let error = self.last_error.as_ref().filter(|_| self.waiting > 0)?;
        Some(format!("{name}: the last attempt that failed: {error}"))
    }
}

/// A time as people say it.
pub(in crate::commands) fn rounded(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    let mut units = ["B", "KiB", "MiB", "GiB"].into_iter();
    let (mut number, mut unit) = (bytes as f64, units.next().unwrap_or_default());
    while number >= 1024.0
        && let Some(larger) = units.next()
    {
        (number, unit) = (number / 1024.0, larger);
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{number:.1} {unit}")
    }
}

pub(super) fn show(args: &OneArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let answer = admin.get("/queues", &[])?;
    let queues = answer.as_array().map_or(&[][..], Vec::as_slice);
    let sinks = queues.iter().flat_map(|queue| {
        let sinks = queue["sinks"].as_array().map_or(&[][..], Vec::as_slice);
        let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
        let of_queue = name(queue);
        let named = move |sink| (format!("{of_queue}/{}", name(sink)), sink);
        sinks.iter().map(named).chain([(name(queue), queue)])
    });
    let all: Vec<(String, &Value)> = sinks.collect();
    let Some((_, queue)) = all.iter().find(|(name, _)| *name == args.queue) else {
        let mut names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let names = names.join(", ");
        anyhow::bail!("there is no queue {:?}; there are: {names}", args.queue);
    };
    if args.connection.json {
        return say(queue);
    }
    let Some(values) = queue.as_object() else {
        return Err(admin.is_no_weir());
    };
    let shown = values.iter().filter(|(_, value)| !value.is_array());
    for (name, value) in shown {
        let value = match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        say(format_args!("{:18} {value}", name.replace('_', " ")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_say_them() {
        for (bytes, said) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 40, "5120.0 GiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
        for (ms, said) in [
            (5, "5 ms"),
            (90_000, "90 s"),
            (600_000, "10 min"),
            (86_400_000, "24 h"),
        ] {
            assert_eq!(rounded(Duration::from_millis(ms)), said);
        }
    }
}
