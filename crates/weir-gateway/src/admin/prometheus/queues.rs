//! Deferring: a metric is there when the configuration has a queue.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, Sample, Source, Value};
use crate::service::{ConsumerStatus, QueueStatus};

const QUEUE: Label = Label::open("queue");
const SINK: Label = Label::open("sink");
const REASON: Label = Label {
    name: "reason",
    values: || vec!["full", "age", "disk", "busy"],
};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_queue_accepted_total",
        kind: Kind::Counter,
        help: "Messages that were acknowledged.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.accepted)),
    },
    Metric {
        name: "weir_queue_duplicates_total",
        kind: Kind::Counter,
        help: "Requests whose `Idempotency-Key` was known, see [sent twice](deferring.md#sent-twice).",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.duplicates)),
    },
    Metric {
        name: "weir_queue_refused_total",
        kind: Kind::Counter,
        help: "Requests that were not kept: `full` is `size`, `age` is `max_age`, `disk` a disk that failed or is full, and `busy` more than it can write.",
        labels: &[&[QUEUE, REASON]],
        source: Source::Optional(|counted| {
            let queues = some(counted)?;
            let samples = queues.iter().flat_map(|queue| {
                let reasons = [
                    ("full", queue.refused_full),
                    ("age", queue.refused_age),
                    ("disk", queue.refused_disk),
                    ("busy", queue.refused_busy),
                ];
                reasons.map(|(reason, count)| Sample::new(&[&queue.name, reason], count))
            });
            Some(samples.collect())
        }),
    },
    Metric {
        name: "weir_queue_lost_total",
        kind: Kind::Counter,
        help: "Messages that were acknowledged in memory and could not be written. Only with `durability = \"memory\"`.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.lost)),
    },
    Metric {
        name: "weir_queue_commits_total",
        kind: Kind::Counter,
        help: "Times that messages were written, any number at once.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.commits)),
    },
    Metric {
        name: "weir_queue_syncs_total",
        kind: Kind::Counter,
        help: "Times that the disk was waited for.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.syncs)),
    },
    Metric {
        name: "weir_queue_offset",
        kind: Kind::Gauge,
        help: "The offset of the next message.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.next_offset)),
    },
    Metric {
        name: "weir_queue_durable_offset",
        kind: Kind::Gauge,
        help: "The offset before which all messages are on the disk.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.durable_offset)),
    },
    Metric {
        name: "weir_queue_waiting",
        kind: Kind::Gauge,
        help: "Messages that are neither delivered nor given up. Those of sinks are metrics of their own.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.waiting)),
    },
    Metric {
        name: "weir_queue_under_way",
        kind: Kind::Gauge,
        help: "Those of them that are being delivered.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.under_way)),
    },
    Metric {
        name: "weir_queue_oldest_seconds",
        kind: Kind::Gauge,
        help: "How long the oldest of them waits, seen once a second.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| {
            values(counted, |queue| {
                Value::Micros(queue.upstream.oldest_ms.unwrap_or(0) * 1000)
            })
        }),
    },
    Metric {
        name: "weir_queue_bytes",
        kind: Kind::Gauge,
        help: "Bytes on the disk, dead letters included.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.bytes)),
    },
    Metric {
        name: "weir_queue_bytes_max",
        kind: Kind::Gauge,
        help: "Bytes that there may be: `size`.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.bytes_max)),
    },
    Metric {
        name: "weir_queue_delivered_total",
        kind: Kind::Counter,
        help: "Messages that an upstream has taken, replayed ones again.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.delivered)),
    },
    Metric {
        name: "weir_queue_retried_total",
        kind: Kind::Counter,
        help: "Attempts that failed.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.retried)),
    },
    Metric {
        name: "weir_queue_dead_total",
        kind: Kind::Counter,
        help: "Messages that became [dead letters](deferring.md#dead-letters).",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.died)),
    },
    Metric {
        name: "weir_queue_dead_letters",
        kind: Kind::Gauge,
        help: "Dead letters that there are.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| numbers(counted, |queue| queue.upstream.dead)),
    },
    Metric {
        name: "weir_queue_paused",
        kind: Kind::Gauge,
        help: "1 while it is paused.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| {
            numbers(counted, |queue| queue.upstream.is_paused.into())
        }),
    },
    Metric {
        name: "weir_queue_failed",
        kind: Kind::Gauge,
        help: "1 when it takes or delivers nothing until somebody sees to it.",
        labels: &[&[QUEUE]],
        source: Source::Optional(|counted| {
            numbers(counted, |queue| {
                u64::from(queue.failed.is_some() || queue.upstream.stopped.is_some())
            })
        }),
    },
    Metric {
        name: "weir_queue_sink_waiting",
        kind: Kind::Gauge,
        help: "Messages that a [sink](deferring.md#sinks) has not: its lag.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| of_sinks(counted, |sink| sink.waiting)),
    },
    Metric {
        name: "weir_queue_sink_oldest_seconds",
        kind: Kind::Gauge,
        help: "How long the oldest of them waits, seen once a second.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| {
            sink_values(counted, |sink| {
                Value::Micros(sink.oldest_ms.unwrap_or(0) * 1000)
            })
        }),
    },
    Metric {
        name: "weir_queue_sink_delivered_total",
        kind: Kind::Counter,
        help: "Messages that a sink has written, replayed ones again.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| of_sinks(counted, |sink| sink.delivered)),
    },
    Metric {
        name: "weir_queue_sink_retried_total",
        kind: Kind::Counter,
        help: "Batches that a sink could not write.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| of_sinks(counted, |sink| sink.retried)),
    },
    Metric {
        name: "weir_queue_sink_dead_letters",
        kind: Kind::Gauge,
        help: "Dead letters of a sink: messages that its target does not take.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| of_sinks(counted, |sink| sink.dead)),
    },
    Metric {
        name: "weir_queue_sink_failed",
        kind: Kind::Gauge,
        help: "1 when a sink writes nothing until somebody sees to it.",
        labels: &[&[QUEUE, SINK]],
        source: Source::Optional(|counted| {
            of_sinks(counted, |sink| u64::from(sink.stopped.is_some()))
        }),
    },
];

fn some<'c>(counted: &'c Counted<'_>) -> Option<&'c [QueueStatus]> {
    (!counted.queues.is_empty()).then_some(&counted.queues)
}

fn values(counted: &Counted<'_>, of: fn(&QueueStatus) -> Value) -> Option<Vec<Sample>> {
    let queues = some(counted)?.iter();
    Some(
        queues
            .map(|queue| Sample::of(&[&queue.name], of(queue)))
            .collect(),
    )
}

fn numbers(counted: &Counted<'_>, of: fn(&QueueStatus) -> u64) -> Option<Vec<Sample>> {
    let queues = some(counted)?.iter();
    Some(
        queues
            .map(|queue| Sample::new(&[&queue.name], of(queue)))
            .collect(),
    )
}

fn sink_values(counted: &Counted<'_>, of: fn(&ConsumerStatus) -> Value) -> Option<Vec<Sample>> {
    let samples = counted.queues.iter().flat_map(|queue| {
        let sinks = queue.sinks.iter();
        sinks.map(|sink| Sample::of(&[&queue.name, &sink.name], of(&sink.consumer)))
    });
    let samples: Vec<_> = samples.collect();
    (!samples.is_empty()).then_some(samples)
}

fn of_sinks(counted: &Counted<'_>, of: fn(&ConsumerStatus) -> u64) -> Option<Vec<Sample>> {
    let samples = counted.queues.iter().flat_map(|queue| {
        let sinks = queue.sinks.iter();
        sinks.map(|sink| Sample::new(&[&queue.name, &sink.name], of(&sink.consumer)))
    });
    let samples: Vec<_> = samples.collect();
    (!samples.is_empty()).then_some(samples)
}
