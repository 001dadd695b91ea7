//! What was measured, by rung and load: the numbers that tables, plots and sentences share.
//!
//! Invalid blocks do not count, unless there are no others; then the row says so. Nothing is written here.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::estimate::{self, Estimate, Ratio};
use crate::blocks::{self, Ends};
use crate::raw::{Block, Configuration, Load, Published, Run};
use crate::statistics;

/// The percentiles of tables.
pub(super) const PERCENTILES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// The rows of one table.
pub(super) struct Group<'a> {
    /// Empty when there is only one.
    pub(super) name: &'a str,
    /// The rung that the others of the group are compared with.
    pub(super) baseline: &'a str,
    /// Rung by rung, and load by load within each.
    pub(super) rows: Vec<Row<'a>>,
}

/// A rung under a load.
pub(super) struct Row<'a> {
    pub(super) configuration: &'a Configuration,
    pub(super) load: &'a Load,
    /// The blocks that count.
    pub(super) blocks: Vec<&'a Block>,
    /// Whether these blocks are valid; if not, no block was.
    pub(super) is_valid: bool,
    /// 2xx and 3xx responses a second.
    pub(super) rate: Estimate,
    /// How the requests of the blocks ended.
    pub(super) ends: Ends,
    /// Compared with the baseline of the group. `None` for the baseline itself, when no round has both, and when
    /// failures forbid it.
    pub(super) against_baseline: Option<Ratio>,
    /// Whether latencies are not compared, because the baseline failed another share of its requests.
    pub(super) fails_apart: bool,
    /// Compared with the rung before it in the group, when this rung builds on that one.
    pub(super) against_previous: Option<Ratio>,
    /// All latencies of 2xx and 3xx, merged. `None` when there were none or they cannot be read.
    pub(super) latencies: Option<Histogram<u64>>,
    pub(super) published: Option<&'a Published>,
}

/// What rungs are compared by under a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Answers a second, in a closed loop. More is better.
    Rate,
    /// The 99th percentile, when the rate is given. Less is better.
    P99,
}

impl Measure {
    pub(super) fn of(load: &Load) -> Self {
        if load.rate.is_some() {
            Self::P99
        } else {
            Self::Rate
        }
    }

    fn read(self, block: &Block) -> Option<f64> {
        match self {
            Self::Rate => Some(block.rate),
            Self::P99 => block.latency_us.get("p99").copied(),
        }
    }
}

/// The groups of a run, in the order of the report.
pub(super) fn groups(run: &Run) -> Vec<Group<'_>> {
    let mut names: Vec<&str> = Vec::new();
    for configuration in &run.configurations {
        if !names.contains(&configuration.group.as_str()) {
            names.push(&configuration.group);
        }
    }
    names.into_iter().map(|name| group(run, name)).collect()
}

fn group<'a>(run: &'a Run, name: &'a str) -> Group<'a> {
    let configurations = run.configurations.iter();
    let members: Vec<&Configuration> = configurations.filter(|c| c.group == name).collect();
    let has_baseline = members.iter().any(|member| member.name == run.baseline);
    let baseline = if has_baseline {
        &run.baseline
    } else {
        // A group comes from a configuration, so there is a first one.
        &members[0].name
    };
    let mut rows = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let previous = index.checked_sub(1).map(|before| members[before]);
        let previous = previous.filter(|previous| is_step(previous, member, baseline));
        let previous = previous.map(|previous| previous.name.as_str());
        let of_load = |load| row(run, member, load, baseline, previous);
        rows.extend(run.loads.iter().filter_map(of_load));
    }
    Group {
        name,
        baseline,
        rows,
    }
}

/// Whether a rung builds on the one before it. The first rung of another program builds at most on the baseline.
fn is_step(previous: &Configuration, next: &Configuration, baseline: &str) -> bool {
    let kind = |configuration: &Configuration| {
        let mut services = configuration.services.iter();
        let entry = services.find(|service| service.name == configuration.entry);
        entry.map(|service| service.kind.clone())
    };
    previous.name == baseline || kind(previous) == kind(next)
}

fn row<'a>(
    run: &'a Run,
    configuration: &'a Configuration,
    load: &'a Load,
    baseline: &str,
    previous: Option<&str>,
) -> Option<Row<'a>> {
    let (blocks, is_valid) = blocks::counted(&run.blocks, &configuration.name, &load.name);
    let rates: Vec<f64> = blocks.iter().map(|block| block.rate).collect();
    let measure = Measure::of(load);
    let ends = Ends::of(blocks.iter().copied());
    let others = |other: &str| {
        let (others, are_valid) = blocks::counted(&run.blocks, other, &load.name);
        (is_valid && are_valid && other != configuration.name).then_some(others)
    };
    // Latencies are those of answers: a rung that lets its slowest requests fail must not look fast.
    let fails_apart = |others: &[&Block]| {
        measure == Measure::P99 && !ends.are_comparable(&Ends::of(others.iter().copied()))
    };
    let against = |other: &str| {
        let others = others(other).filter(|others| !fails_apart(others))?;
        compare(measure, &blocks, &others)
    };
    let mut published = run.published.iter();
    Some(Row {
        rate: estimate::typical(&rates)?,
        against_baseline: against(baseline),
        against_previous: previous.and_then(against),
        fails_apart: others(baseline).is_some_and(|others| fails_apart(&others)),
        ends,
        latencies: latencies(&blocks),
        published: published.find(|p| p.configuration == configuration.name && p.load == load.name),
        configuration,
        load,
        blocks,
        is_valid,
    })
}

/// Blocks of the same round are compared with each other, so changes of the machine between rounds cancel out.
fn compare(measure: Measure, blocks: &[&Block], others: &[&Block]) -> Option<Ratio> {
    let mut pairs = Vec::new();
    for block in blocks {
        let mut same_round = others.iter().filter(|other| other.round == block.round);
        let other = same_round.next().and_then(|other| measure.read(other));
        pairs.extend(other.zip(measure.read(block)));
    }
    estimate::ratio(&pairs)
}

fn latencies(blocks: &[&Block]) -> Option<Histogram<u64>> {
    merged(blocks.iter().map(|block| block.histogram.as_str()))
}

/// The histograms of raw data as one. Merging them is exact; averaging percentiles would not be.
pub(super) fn merged<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Histogram<u64>> {
    let mut merged = Histogram::<u64>::new(3).ok()?;
    for text in texts {
        let bytes = BASE64.decode(text).ok()?;
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .ok()?;
        merged.add(&histogram).ok()?;
    }
    (!merged.is_empty()).then_some(merged)
}

impl Row<'_> {
    /// The cell of a column of notes. A load overrides its configuration: no configuration caches a POST.
    pub(super) fn note(&self, column: &str) -> &str {
        let cell = self.load.notes.get(column);
        cell.or_else(|| self.configuration.notes.get(column))
            .map_or("", String::as_str)
    }

    /// Microseconds at one of [`PERCENTILES`]: from the merged histogram, or else the median of the blocks.
    pub(super) fn latency_us(&self, percentile: &str) -> Option<f64> {
        if let Some(latencies) = &self.latencies {
            let share = percentile
                .strip_prefix('p')
                .and_then(|share| share.parse().ok());
            let ns = share.map_or(latencies.max(), |share: f64| {
                latencies.value_at_percentile(share)
            });
            return Some(ns as f64 / 1_000.0);
        }
        self.median(|block| block.latency_us.get(percentile).copied())
    }

    /// The median over the blocks of what `read` finds in them.
    pub(super) fn median(&self, read: impl Fn(&Block) -> Option<f64>) -> Option<f64> {
        let samples: Vec<f64> = self.blocks.iter().filter_map(|block| read(block)).collect();
        statistics::median(&samples)
    }

    /// How the requests of all blocks ended.
    pub(super) fn outcomes(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (outcome, count) in self.blocks.iter().flat_map(|block| &block.outcomes) {
            *sums.entry(outcome.as_str()).or_default() += count;
        }
        let never_sent = self.blocks.iter().map(|block| block.never_sent).sum();
        sums.insert(blocks::NEVER_SENT, never_sent);
        sums
    }
}
