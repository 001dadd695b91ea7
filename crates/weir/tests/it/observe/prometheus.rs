//! A reader of the Prometheus text format (version 0.0.4) that forgives nothing.

use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// The samples of a page.
#[derive(Debug)]
pub(super) struct Page(Vec<Sample>);

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

impl Page {
    /// Reads a page, or panics with what is wrong with it.
    pub(super) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has an end");
        let mut samples = Vec::new();
        let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
        let mut family = (String::new(), String::new());
        let mut helped = None;
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').expect("a name and a text");
                assert!(is_name(name) && !text.is_empty(), "{line}");
                helped = Some(name.to_owned());
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a name and a kind");
                assert_eq!(helped.take().as_deref(), Some(name), "{line}");
                assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
                assert!(families.insert(name.to_owned()), "twice: {line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                family = (name.to_owned(), kind.to_owned());
            } else {
                let sample = Sample::parse(line);
                let suffix = sample.name.strip_prefix(&family.0);
                let suffix = suffix.unwrap_or_else(|| panic!("outside of its family: {line}"));
                match family.1.as_str() {
                    "histogram" => {
                        assert!(matches!(suffix, "_bucket" | "_sum" | "_count"), "{line}");
                    }
                    _ => assert_eq!(suffix, "", "{line}"),
                }
                assert!(sample.value >= 0.0 && sample.value.is_finite(), "{line}");
                let key = (sample.name.clone(), sample.labels.clone());
                assert!(series.insert(key), "twice: {line}");
                samples.push(sample);
            }
        }
        let page = Self(samples);
        page.check_histograms();
        page
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|sample| sample.name == name)
    }

    /// The names of the labels that samples of a metric have.
    pub(super) fn labels(&self, name: &str) -> BTreeSet<String> {
        let samples = self.0.iter().filter(|sample| sample.name == name);
        samples
            .flat_map(|sample| sample.labels.keys().cloned())
            .collect()
    }

    /// Whether a sample of a metric has this label.
    pub(super) fn has_value(&self, name: &str, label: &str, value: &str) -> bool {
        let mut samples = self.0.iter().filter(|sample| sample.name == name);
        samples.any(|sample| sample.labels.get(label).is_some_and(|own| own == value))
    }

    /// The sum of the samples that have the name and, among others, the labels of `series`.
    pub(super) fn sum(&self, series: &str) -> u64 {
        let wanted = Sample::parse(&format!("{series} 0"));
        let of_name = || self.0.iter().filter(|sample| sample.name == wanted.name);
        assert!(of_name().next().is_some(), "there is no {}", wanted.name);
        let has = |sample: &&Sample| {
            let mut labels = wanted.labels.iter();
            labels.all(|(name, value)| sample.labels.get(name) == Some(value))
        };
        of_name()
            .filter(has)
            .map(|sample| sample.value as u64)
            .sum()
    }

    /// Buckets grow with their bounds, and the last one holds everything.
    fn check_histograms(&self) {
        let mut buckets = BTreeMap::<(&str, Labels), Vec<(f64, f64)>>::new();
        for sample in &self.0 {
            if let Some(family) = sample.name.strip_suffix("_bucket") {
                let mut labels = sample.labels.clone();
                let bound = labels.remove("le").expect("a bucket has a bound");
                let bound = match bound.as_str() {
                    "+Inf" => f64::INFINITY,
                    bound => bound.parse().expect("a bound is a number"),
                };
                buckets
                    .entry((family, labels))
                    .or_default()
                    .push((bound, sample.value));
            }
        }
        assert!(!buckets.is_empty(), "there are histograms");
        for ((family, labels), buckets) in buckets {
            let is_sorted = buckets
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            assert!(is_sorted, "{family} {labels:?}: {buckets:?}");
            let (bound, all) = buckets.last().expect("a histogram has buckets");
            assert!(bound.is_infinite(), "{family} {labels:?}");
            for (suffix, expected) in [("_count", Some(*all)), ("_sum", None)] {
                let name = format!("{family}{suffix}");
                let sample = self
                    .0
                    .iter()
                    .find(|sample| sample.name == name && sample.labels == labels);
                let value = sample.map(|sample| sample.value);
                assert!(value.is_some(), "{name} {labels:?}");
                assert!(expected.is_none() || value == expected, "{name} {labels:?}");
            }
        }
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (name, mut rest) = line.split_at(line.find(['{', ' ']).expect("a name ends"));
        assert!(is_name(name), "{line}");
        let mut labels = Labels::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (name, after) = rest.split_once("=\"").expect("a label has a value");
                assert!(is_name(name) && !name.contains(':'), "{line}");
                let (value, after) = quoted(after);
                assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
                assert!(after.starts_with([',', '}']), "{line}");
                rest = after.strip_prefix(',').unwrap_or(after);
            }
            rest = &rest[1..];
        }
        let value = rest.strip_prefix(' ').expect("a blank before the value");
        Self {
            name: name.to_owned(),
            labels,
            value: value.parse().expect("a value is a number"),
        }
    }
}

/// A label value whose opening quote was taken, and what follows the closing one.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next() {
                Some((_, c @ ('\\' | '"'))) => c,
                Some((_, 'n')) => '\n',
                other => panic!("no escape: {other:?} in {text}"),
            }),
            c => value.push(c),
        }
    }
    panic!("a label value without an end: {text}")
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && name.chars().all(is_part)
}
