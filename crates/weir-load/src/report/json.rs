//! A report as JSON, for programs.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::{PERCENTILES, Report};
use crate::outcome::{Outcome, Outcomes};

impl Report {
    /// The report as one object. `requests`, `seconds`, `rate`, `outcomes`, `latency_us` (of 2xx and 3xx),
    /// `generator_cpu_s`, `valid` and `why_invalid` keep their names and meanings; more may come.
    pub fn to_json(&self) -> Value {
        let usage = |usage: &crate::audit::Usage| {
            json!({
                "seconds": seconds(usage.wall_ns),
                "cpu_s": seconds(usage.cpu_ns),
                "waited_for_cpu_s": seconds(usage.waited_ns),
            })
        };
        json!({
            "requests": self.requests(),
            "seconds": self.seconds,
            "rate": self.rate(),
            "goodput": self.goodput(),
            "outcomes": counts(&self.outcomes),
            "latency_us": latency(&self.outcomes.good_latency_ns()),
            "latency_by_outcome_us": by_outcome(&self.outcomes),
            "generator_cpu_s": self.generator_cpu_s,
            "valid": self.is_valid(),
            "why_invalid": self.why_invalid,
            "limit": self.limit(),
            "server_limit": self.server_limit,
            "remarks": self.remarks,
            "cut_short": self.is_cut_short,
            "planned": self.planned(),
            "sent": self.sent,
            "not_sent": self.not_sent,
            "sent_late": self.sent_late,
            "sent_after_end": self.sent_after_end(),
            "ended_after_end": self.overtime,
            "abandoned": self.abandoned,
            "bytes_received": self.bytes_received,
            "held_us": {
                "few_connections_p50": median_us(&self.held.few_ns),
                "all_connections_p50": median_us(&self.held.all_ns),
            },
            "trend_us": {
                "first_third_p50": median_us(&self.trend.first_ns),
                "last_third_p50": median_us(&self.trend.last_ns),
            },
            "lag_us": if self.lag_ns.is_empty() { Value::Null } else { latency(&self.lag_ns) },
            "threads": self.usage.iter().map(usage).collect::<Vec<_>>(),
            "started_unix_s": self.started_unix,
            "intervals": self.intervals.iter().map(|interval| json!({
                "from_s": interval.from_s,
                "to_s": interval.to_s,
                "outcomes": counts(&interval.outcomes),
                "latency_us": latency(&interval.outcomes.good_latency_ns()),
            })).collect::<Vec<_>>(),
            "plan": self.plan.to_json(),
        })
    }
}

/// Null for an empty histogram.
fn median_us(histogram: &Histogram<u64>) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(0.5) as f64 / 1e3)
}

fn counts(outcomes: &Outcomes) -> Value {
    let counts = Outcome::ALL.map(|outcome| {
        let count = outcomes.count(outcome);
        (outcome.name().to_owned(), Value::from(count))
    });
    Value::Object(Map::from_iter(counts))
}

/// Leaves out kinds that did not occur.
fn by_outcome(outcomes: &Outcomes) -> Value {
    let occurred = Outcome::ALL
        .into_iter()
        .filter(|outcome| outcomes.count(*outcome) > 0);
    let latencies = occurred.map(|outcome| {
        let latency = latency(outcomes.latency_ns(outcome));
        (outcome.name().to_owned(), latency)
    });
    Value::Object(latencies.collect())
}

/// Percentiles in microseconds; null for an empty histogram.
fn latency(histogram: &Histogram<u64>) -> Value {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let figure = |value: f64| {
        if histogram.is_empty() {
            Value::Null
        } else {
            json!(value)
        }
    };
    let mut all: Map<String, Value> = PERCENTILES
        .iter()
        .map(|(name, quantile)| {
            let value = micros(histogram.value_at_quantile(*quantile));
            ((*name).to_owned(), figure(value))
        })
        .collect();
    for (name, value) in [
        ("min", micros(histogram.min())),
        ("mean", histogram.mean() / 1e3),
        ("stddev", histogram.stdev() / 1e3),
        ("max", micros(histogram.max())),
    ] {
        all.insert(name.to_owned(), figure(value));
    }
    Value::Object(all)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
