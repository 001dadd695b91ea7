//! Between a scenario and the load generator: a [`Load`] becomes a plan, a report becomes a [`Block`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use weir_load::arrivals::Arrivals;
use weir_load::mix::{Mix, Request};
use weir_load::outcome::{Outcome, Outcomes};
use weir_load::plan::{Address, End, Plan, Protocol, Target};
use weir_load::report::Report;
use weir_load::template::Template;

use crate::error::LabError;
use crate::raw::Block;
use crate::scenario::{self, Amount, Load};

const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// What stands for a key in path and body.
pub(crate) const KEY: &str = "{key}";

impl Load {
    /// Whether the load can be sent; the error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        let nowhere = Address::Unix("".into());
        // There is no file of keys yet.
        let any_key = self.keys.map(|_| "0");
        let plan = self.plan((nowhere, String::new()), any_key, self.amount, 0)?;
        plan.check()
    }

    /// The plan that sends this load to `target` for `amount`. `key` is what stands for `{key}`.
    fn plan(
        &self,
        target: (Address, String),
        key: Option<&str>,
        amount: Amount,
        seed: u64,
    ) -> Result<Plan, String> {
        let template = |text: &str| {
            let text = key.map_or_else(|| text.to_owned(), |key| with_key(text, key));
            Template::parse(text.as_bytes()).map_err(|error| error.to_string())
        };
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), template(value)?)));
        let request = Request {
            weight: 1.0,
            method: self.method.clone(),
            path: template(&self.path)?,
            headers: headers.collect::<Result<_, String>>()?,
            body: template(&self.body)?,
        };
        let (address, authority) = target;
        Ok(Plan {
            target: Target {
                address,
                authority,
                tls: None,
            },
            protocol: Protocol::Http1 { pipeline: 1 },
            mix: Mix::only(request).map_err(|error| error.to_string())?,
            arrivals: match (self.rate, self.arrivals) {
                (None, _) => Arrivals::Closed,
                (Some(rate), scenario::Arrivals::Even) => Arrivals::Constant(rate),
                (Some(rate), scenario::Arrivals::Poisson) => Arrivals::Poisson(rate),
                (Some(rate), scenario::Arrivals::Bursts(count)) => Arrivals::Bursts { rate, count },
            },
            end: match amount {
                Amount::Time(time) => End::After(time),
                Amount::Requests(count) => End::Requests(count),
            },
            warm_up: Duration::ZERO,
            connections: self.connections,
            threads: self.threads,
            keep_alive: self.keep_alive,
            timeout: self.timeout,
            seed,
        })
    }

    /// Sends the load for `amount`. The lines of the file `keys` stand for `{key}`, one after the other.
    pub(crate) fn send(
        &self,
        target: (Address, String),
        keys: Option<&Path>,
        amount: Amount,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Report, LabError> {
        let key = keys.map(|file| format!("{{line:{}}}", file.display()));
        let plan = self.plan(target, key.as_deref(), amount, seed);
        let plan = plan.map_err(LabError::Load)?;
        weir_load::run(plan, stop, |_| {}).map_err(|error| LabError::Load(error.to_string()))
    }
}

/// A text with something in the place of `{key}`.
pub(crate) fn with_key(text: &str, key: &str) -> String {
    text.replace(KEY, key)
}

/// The raw data of a load, from the reports of its parts. The caller fills in where and when it was measured.
pub(crate) fn measured(parts: &[Report]) -> Block {
    let mut outcomes = Outcomes::default();
    for part in parts {
        outcomes.merge(&part.outcomes);
    }
    let latency_ns = outcomes.good_latency_ns();
    let sum = |of: fn(&Report) -> f64| parts.iter().map(of).sum();
    let count = |of: fn(&Report) -> u64| parts.iter().map(of).sum();
    let why: BTreeSet<&String> = parts.iter().flat_map(|part| &part.why_invalid).collect();
    let why: Vec<&str> = why.into_iter().map(String::as_str).collect();
    Block {
        configuration: String::new(),
        load: String::new(),
        round: 0,
        order: 0,
        at_seconds: 0.0,
        seconds: parts.iter().map(|part| part.seconds).fold(0.0, f64::max),
        requests: outcomes.total(),
        rate: sum(Report::goodput),
        outcomes: Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome.name().to_owned(), outcomes.count(outcome)))
            .collect(),
        latency_us: percentiles_us(&latency_ns),
        refusal_us: percentiles_us(&refusals_ns(&outcomes)),
        histogram: base64(&latency_ns),
        bytes_received: count(|part| part.bytes_received),
        generator_cpu_seconds: sum(|part| part.generator_cpu_s),
        is_valid: parts.iter().all(Report::is_valid),
        why_invalid: why.join(" "),
        services: Vec::new(),
        incident: None,
        events: None,
        never_sent: count(|part| part.not_sent),
        answers_beside: 0,
    }
}

/// The latencies of 4xx and 5xx together.
fn refusals_ns(outcomes: &Outcomes) -> Histogram<u64> {
    let mut merged = outcomes.latency_ns(Outcome::ClientError).clone();
    merged
        .add(outcomes.latency_ns(Outcome::ServerError))
        .expect("a histogram that grows takes every value");
    merged
}

pub(crate) fn percentiles_us(latency_ns: &Histogram<u64>) -> BTreeMap<String, f64> {
    if latency_ns.is_empty() {
        return BTreeMap::new();
    }
    let us = |ns: f64| (ns / 10.0).round() / 100.0;
    let percentiles = PERCENTILES.iter();
    let percentiles = percentiles
        .map(|(name, quantile)| (*name, latency_ns.value_at_quantile(*quantile) as f64))
        .chain([
            ("max", latency_ns.max() as f64),
            ("mean", latency_ns.mean()),
        ]);
    percentiles
        .map(|(name, ns)| (name.to_owned(), us(ns)))
        .collect()
}

pub(crate) fn base64(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a histogram of latencies fits into memory");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
