//! How a metric is declared. From the declarations come both the page and the tables of `docs/reference/observing.md`.

use crate::admin::prometheus::counted::Counted;
use crate::metrics::{
    ByClass, CLASSES, CacheMetrics, Counter, EndpointMetrics, Histogram, LATENCY_BOUNDS_US,
    WorkerMetrics, added,
};

/// One metric: all that is said of it.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Sentences of Markdown on one line. On the page, they stand without what their links lead to.
    pub(super) help: &'static str,
    /// Each sample has the labels of one of these lists, which differ in length.
    pub(super) labels: &'static [&'static [Label]],
    pub(super) source: Source,
}

/// What a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What tells the samples of a metric apart.
pub(super) struct Label {
    pub(super) name: &'static str,
    /// All that it can be; none where that is in the hands of the configuration, or is told elsewhere.
    pub(super) values: fn() -> Vec<&'static str>,
}

impl Label {
    pub(super) const fn open(name: &'static str) -> Self {
        Self {
            name,
            values: Vec::new,
        }
    }
}

pub(super) const ROUTE: Label = Label::open("route");
pub(super) const UPSTREAM: Label = Label::open("upstream");
pub(super) const ENDPOINT: Label = Label::open("endpoint");
pub(super) const WORKER: Label = Label::open("worker");
pub(super) const CLASS: Label = Label {
    name: "class",
    values: || CLASSES.to_vec(),
};

/// Where samples come from.
pub(super) enum Source {
    /// One, the sum over the workers.
    Workers(fn(&WorkerMetrics) -> &Counter),
    /// One for each endpoint, the sum over the workers.
    Endpoints(fn(&EndpointMetrics) -> &Counter),
    /// One for each route with a cache, the sum over the workers.
    Cache(fn(&CacheMetrics) -> &Counter),
    /// Any others.
    Samples(fn(&Counted<'_>) -> Vec<Sample>),
    /// The same. `None`: the configuration has nothing that they are about.
    Optional(fn(&Counted<'_>) -> Option<Vec<Sample>>),
}

impl Source {
    /// The samples, in the order of the page; `None` where the page does not have the metric.
    pub(super) fn samples(&self, counted: &Counted<'_>) -> Option<Vec<Sample>> {
        match self {
            Self::Workers(of) => {
                let workers = counted.shared.metrics.iter();
                Some(vec![Sample::sum(workers.map(|worker| of(worker).read()))])
            }
            Self::Endpoints(of) => {
                let endpoints = counted.endpoints();
                let samples = endpoints
                    .map(|(labels, endpoint)| Sample::new(&labels, endpoint.state.metrics.sum(of)));
                Some(samples.collect())
            }
            Self::Cache(of) => {
                counted.shared.cache()?;
                let samples = counted.cached_routes().map(|(route, tables)| {
                    let counts = tables.iter().map(|table| of(table).read());
                    Sample::new(&[route], counts.sum())
                });
                Some(samples.collect())
            }
            Self::Samples(of) => Some(of(counted)),
            Self::Optional(of) => of(counted),
        }
    }
}

/// One line of the page, or all those of one histogram.
pub(super) struct Sample {
    /// What the labels are, in their order.
    pub(super) labels: Vec<String>,
    pub(super) value: Value,
}

/// What a sample says.
pub(super) enum Value {
    Number(u64),
    /// Written as seconds.
    Micros(u64),
    /// How many took how long, as [`Histogram::counts`] has it, and all their time.
    Latencies {
        counts: [u64; LATENCY_BOUNDS_US.len() + 1],
        sum_us: u64,
    },
}

impl Sample {
    pub(super) fn new(labels: &[&str], number: u64) -> Self {
        Self::of(labels, Value::Number(number))
    }

    pub(super) fn of(labels: &[&str], value: Value) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Self { labels, value }
    }

    /// It wraps, because a gauge may be below zero on one worker.
    fn sum(counts: impl Iterator<Item = u64>) -> Self {
        Self::new(&[], counts.fold(0, u64::wrapping_add))
    }

    /// One for each class that was counted, with that as the last label.
    pub(super) fn by_class<'m>(
        labels: &[&str],
        tables: impl Iterator<Item = &'m ByClass>,
    ) -> Vec<Self> {
        let counts = added(tables.map(ByClass::counts));
        let classes = CLASSES.into_iter().zip(counts);
        let counted = classes.filter(|(_, count)| *count > 0);
        counted
            .map(|(class, count)| Self::new(&[labels, &[class]].concat(), count))
            .collect()
    }

    pub(super) fn latencies<'m>(
        labels: &[&str],
        tables: impl Iterator<Item = &'m Histogram> + Clone,
    ) -> Self {
        let value = Value::Latencies {
            counts: added(tables.clone().map(Histogram::counts)),
            sum_us: tables.map(|table| table.sum_us.read()).sum(),
        };
        Self::of(labels, value)
    }
}
