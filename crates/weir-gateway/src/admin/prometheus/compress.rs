//! Compression, where a route has it. What is made of stored responses is there with a cache too.

use std::sync::atomic::Ordering;

use weir_cache::negotiate::Coding;

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, Sample, Source};
use crate::metrics::{CompressMetrics, added};
use crate::state::compressor::Counts;

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_compress_responses_total",
        kind: Kind::Counter,
        help: "Responses compressed while they passed.",
        labels: &[&[CODING]],
        source: Source::Optional(responses),
    },
    Metric {
        name: "weir_compress_forms_total",
        kind: Kind::Counter,
        help: "Compressed forms made of stored responses, each once. Only with a cache.",
        labels: &[&[CODING]],
        source: Source::Optional(forms),
    },
    Metric {
        name: "weir_compress_useless_total",
        kind: Kind::Counter,
        help: "Forms that would have been no smaller. Only with a cache.",
        labels: &[&[]],
        source: Source::Optional(useless),
    },
    Metric {
        name: "weir_compress_refused_total",
        kind: Kind::Counter,
        help: "What was sent as it is because too much was being compressed.",
        labels: &[&[OF]],
        source: Source::Optional(refused),
    },
    Metric {
        name: "weir_compress_bytes_total",
        kind: Kind::Counter,
        help: "Bytes before and after compression.",
        labels: &[&[OF, DIRECTION]],
        source: Source::Optional(bytes),
    },
];

const CODING: Label = Label {
    name: "coding",
    values: || Coding::ALL.map(Coding::token).to_vec(),
};
const OF: Label = Label {
    name: "of",
    values: || vec!["passing", "stored"],
};
const DIRECTION: Label = Label {
    name: "direction",
    values: || vec!["in", "out"],
};

/// `None` without a route that compresses.
fn there(counted: &Counted<'_>) -> Option<()> {
    let compresses = counted.has_rule(|rule| rule.compress.is_some());
    compresses.then_some(())
}

/// What is made of stored responses.
fn stored<'s>(counted: &Counted<'s>) -> Option<&'s Counts> {
    Some(&counted.shared.cache()?.compressor.counts)
}

fn responses(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    there(counted)?;
    let workers = counted.shared.metrics.iter();
    let tables = workers.map(|worker| &worker.compress);
    Some(by_coding(added(tables.map(CompressMetrics::responses))))
}

fn forms(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    there(counted)?;
    let forms = stored(counted)?.forms.each_ref();
    let forms = forms.map(|count| count.load(Ordering::Relaxed));
    Some(by_coding(forms))
}

fn by_coding(counts: [u64; Coding::ALL.len()]) -> Vec<Sample> {
    let counts = Coding::ALL.into_iter().zip(counts);
    counts
        .map(|(coding, count)| Sample::new(&[coding.token()], count))
        .collect()
}

fn useless(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    there(counted)?;
    let useless = stored(counted)?.useless.load(Ordering::Relaxed);
    Some(vec![Sample::new(&[], useless)])
}

fn refused(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    there(counted)?;
    let passing = counted.sum(|worker| &worker.compress.refused);
    let mut samples = vec![Sample::new(&["passing"], passing)];
    if let Some(counts) = stored(counted) {
        let refused = counts.refused.load(Ordering::Relaxed);
        samples.push(Sample::new(&["stored"], refused));
    }
    Some(samples)
}

fn bytes(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    there(counted)?;
    let bytes_in = counted.sum(|worker| &worker.compress.bytes_in);
    let bytes_out = counted.sum(|worker| &worker.compress.bytes_out);
    let mut samples = vec![
        Sample::new(&["passing", "in"], bytes_in),
        Sample::new(&["passing", "out"], bytes_out),
    ];
    if let Some(counts) = stored(counted) {
        let bytes_in = counts.bytes_in.load(Ordering::Relaxed);
        let bytes_out = counts.bytes_out.load(Ordering::Relaxed);
        samples.push(Sample::new(&["stored", "in"], bytes_in));
        samples.push(Sample::new(&["stored", "out"], bytes_out));
    }
    Some(samples)
}
