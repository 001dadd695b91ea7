//! The counts in Prometheus text format (version 0.0.4), summed over the workers.
//!
//! Each metric is declared once, in the table of its area; the page and the tables of `docs/reference/observing.md` follow from that.
//!
//! - [`metric`]: what a declaration has, [`counted`]: what its samples are made of
//! - the other modules: an area each

mod cache;
mod care;
mod compress;
mod connections;
mod counted;
mod endpoints;
mod failures;
mod metric;
mod queues;
#[cfg(test)]
mod reference;
mod requests;
mod spread;
mod store;
mod transient;

use std::fmt::{Display, Write as _};

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Metric, Sample, Value};
use crate::metrics::LATENCY_BOUNDS_US;
use crate::service::Inside;
use crate::state::shared::Shared;

/// All metrics, by area, in the order of the page. The reference has a table for each area.
const AREAS: [(&str, &[Metric]); 11] = [
    ("connections", connections::METRICS),
    ("requests", requests::METRICS),
    ("spreading", spread::METRICS),
    ("endpoints", endpoints::METRICS),
    ("failures", failures::METRICS),
    ("refusing", care::METRICS),
    ("cache", cache::METRICS),
    ("deferring", queues::METRICS),
    ("sharding", store::METRICS),
    ("compression", compress::METRICS),
    ("transient", transient::METRICS),
];

/// The whole page.
pub(super) fn write(shared: &Shared, inside: Inside) -> String {
    let snapshot = shared.snapshot();
    let counted = Counted::read(shared, &snapshot, inside);
    let mut page = String::with_capacity(16 << 10);
    for metric in AREAS.iter().flat_map(|(_, metrics)| *metrics) {
        if let Some(samples) = metric.source.samples(&counted) {
            write_metric(metric, &samples, &mut page);
        }
    }
    page
}

fn write_metric(metric: &Metric, samples: &[Sample], page: &mut String) {
    let (name, help, kind) = (metric.name, plain(metric.help), metric.kind.name());
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for sample in samples {
        let labels = labels(metric, sample);
        match &sample.value {
            Value::Number(number) => write_line(page, name, &labels, number),
            Value::Micros(micros) => write_line(page, name, &labels, seconds(*micros)),
            Value::Latencies { counts, sum_us } => {
                let bounds = LATENCY_BOUNDS_US.map(seconds);
                let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
                let mut below = 0;
                for (bound, count) in bounds.zip(counts) {
                    below += count;
                    let labels = format!("{labels},le=\"{bound}\"");
                    write_line(page, &format!("{name}_bucket"), &labels, below);
                }
                write_line(page, &format!("{name}_sum"), &labels, seconds(*sum_us));
                write_line(page, &format!("{name}_count"), &labels, below);
            }
        }
    }
}

fn write_line(page: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = if labels.is_empty() {
        writeln!(page, "{name} {value}")
    } else {
        writeln!(page, "{name}{{{labels}}} {value}")
    };
}

/// What stands in the braces of a sample.
fn labels(metric: &Metric, sample: &Sample) -> String {
    let mut lists = metric.labels.iter();
    let names = lists.find(|names| names.len() == sample.labels.len());
    let names = names.expect("a sample has the labels that are declared for its metric");
    let labels = names.iter().zip(&sample.labels).map(|(label, value)| {
        let (name, declared) = (label.name, (label.values)());
        debug_assert!(
            declared.is_empty() || declared.contains(&value.as_str()),
            "{} has {name}={value}, which the reference does not know",
            metric.name
        );
        format!("{name}=\"{}\"", escape(value))
    });
    labels.collect::<Vec<_>>().join(",")
}

/// Microseconds as seconds, without the error of a binary fraction.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label value: backslash, quote and line feed are escaped.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Markdown without what its links lead to.
fn plain(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[')
        && let Some((said, target)) = link.split_once("](")
        && let Some((_, behind)) = target.split_once(')')
    {
        text.extend([before, said]);
        rest = behind;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::prometheus::metric::{ENDPOINT, Kind, ROUTE, Source, UPSTREAM};

    #[test]
    fn seconds_are_exact() {
        for (micros, text) in [
            (0, "0"),
            (100, "0.0001"),
            (2_500_000, "2.5"),
            (60_000_000, "60"),
        ] {
            assert_eq!(seconds(micros), text);
        }
    }

    #[test]
    fn a_metric_is_written_with_the_labels_that_its_samples_have() {
        let metric = Metric {
            name: "weir_example",
            kind: Kind::Gauge,
            help: "What [one](#a) and [another](#b) do.",
            labels: &[&[], &[ROUTE], &[UPSTREAM, ENDPOINT]],
            source: Source::Optional(|_| None),
        };
        let samples = [
            Sample::new(&[], 7),
            Sample::new(&["a\"b\\c\nd"], 8),
            Sample::of(&["app", "::1"], Value::Micros(1_500_000)),
        ];
        let mut page = String::new();
        write_metric(&metric, &samples, &mut page);
        let expected = concat!(
            "# HELP weir_example What one and another do.\n",
            "# TYPE weir_example gauge\n",
            "weir_example 7\n",
            "weir_example{route=\"a\\\"b\\\\c\\nd\"} 8\n",
            "weir_example{upstream=\"app\",endpoint=\"::1\"} 1.5\n",
        );
        assert_eq!(page, expected);
    }
}
