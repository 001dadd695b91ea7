use std::io::Cursor;

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::*;
use crate::arrivals::Arrivals;
use crate::mix::{Mix, Request};
use crate::outcome::{Outcome, histogram};
use crate::plan::{Address, End, Protocol, Target};

/// A valid second of an open loop at 100/s, with these outcomes.
pub(crate) fn report(ended: &[(Outcome, u64)]) -> Report {
    let mut outcomes = Outcomes::default();
    for (outcome, latency_ns) in ended {
        outcomes.record(*outcome, *latency_ns);
    }
    let plan = Plan {
        target: Target {
            address: Address::Unix("unused".into()),
            authority: "test".to_owned(),
            tls: None,
        },
        protocol: Protocol::Http1 { pipeline: 1 },
        mix: Mix::only(Request::get("/")).expect("a mix"),
        arrivals: Arrivals::Constant(100.0),
        end: End::After(std::time::Duration::from_secs(1)),
        warm_up: std::time::Duration::ZERO,
        connections: 1,
        threads: 1,
        keep_alive: true,
        timeout: std::time::Duration::from_secs(1),
        seed: 1,
    };
    Report {
        plan: Arc::new(plan),
        started_unix: 1_700_000_000.25,
        seconds: 1.0,
        lapses: Vec::new(),
        held: Held::default(),
        trend: Trend::default(),
        intervals: vec![Interval {
            from_s: 0.0,
            to_s: 1.0,
            outcomes: outcomes.clone(),
        }],
        outcomes,
        sent: 100,
        not_sent: 0,
        sent_late: 0,
        overruns: Vec::new(),
        overtime: 0,
        overtime_good: 0,
        abandoned: 0,
        is_cut_short: false,
        lag_ns: histogram(),
        bytes_received: 0,
        local_failures: 0,
        usage: Vec::new(),
        generator_cpu_s: 0.1,
        why_invalid: Vec::new(),
        server_limit: None,
        remarks: Vec::new(),
    }
}

/// Rejections are in no figure about answers.
#[test]
fn kinds_are_never_mixed() {
    let ended = [
        (Outcome::Success, 5_000_000),
        (Outcome::Redirection, 7_000_000),
        (Outcome::ServerError, 1_000),
        (Outcome::Timeout, 900_000_000),
    ];
    let report = report(&ended);
    let json = report.to_json();
    assert_eq!(
        (json["requests"].as_u64(), json["goodput"].as_f64()),
        (Some(4), Some(2.0))
    );
    let near = |value: &serde_json::Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!(
            (value / expected - 1.0).abs() < 1e-3,
            "{value}, not {expected}"
        );
    };
    near(&json["latency_us"]["min"], 5_000.0);
    near(&json["latency_us"]["max"], 7_000.0);
    near(&json["latency_by_outcome_us"]["timeout"]["p50"], 900_000.0);
    near(&json["latency_by_outcome_us"]["5xx"]["max"], 1.0);
    assert_eq!(json["valid"], true);
}

/// The library's own reader reads everything back.
#[test]
fn the_hdr_log_is_exact() {
    let report = report(&[
        (Outcome::Success, 5_000_000),
        (Outcome::Timeout, 900_000_000),
    ]);
    let mut log = Vec::new();
    report.write_hdr_log(&mut log).expect("memory takes it");
    let mut found = Outcomes::default();
    let mut tags = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(interval) = entry.expect("a line of a log") else {
            continue;
        };
        let tag = interval.tag().expect("a tag").as_str().to_owned();
        let bytes = decode(interval.encoded_histogram());
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .expect("a histogram");
        for value in histogram.iter_recorded() {
            let outcome = Outcome::ALL
                .into_iter()
                .find(|outcome| outcome.name() == tag);
            found.record(outcome.expect("an outcome"), value.value_iterated_to());
        }
        tags.push(tag);
    }
    assert_eq!(tags, ["2xx", "timeout"]);
    assert_eq!((found.total(), found.good()), (2, 1));
    assert!(log.starts_with(b"#"), "{}", String::from_utf8_lossy(&log));
}

/// Decodes base64 (RFC 4648 §4), which the log uses.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        alphabet
            .iter()
            .position(|known| *known == byte)
            .expect("a digit") as u32
    };
    let digits: Vec<u32> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(digit)
        .collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        (0..group.len() - 1).map(move |byte| (bits >> (16 - 8 * byte)) as u8)
    });
    groups.collect()
}
