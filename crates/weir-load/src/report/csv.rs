//! The intervals of a report as CSV (RFC 4180), one line each.

use std::fmt::Write as _;

use super::{PERCENTILES, Report};
use crate::outcome::Outcome;

impl Report {
    /// A line of names, then a line for each second or so: counts by outcome, and the latency of 2xx and 3xx in
    /// microseconds.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("from_s,to_s,rate");
        for outcome in Outcome::ALL {
            let _ = write!(text, ",{}", outcome.name());
        }
        for (name, _) in PERCENTILES {
            let _ = write!(text, ",{name}_us");
        }
        text.push_str(",max_us\r\n");
        for interval in &self.intervals {
            let (from, to) = (interval.from_s, interval.to_s);
            let outcomes = &interval.outcomes;
            let rate = outcomes.total() as f64 / (to - from).max(f64::MIN_POSITIVE);
            let _ = write!(text, "{from:.3},{to:.3},{rate:.1}");
            for outcome in Outcome::ALL {
                let _ = write!(text, ",{}", outcomes.count(outcome));
            }
            let latency = outcomes.good_latency_ns();
            let quantiles = PERCENTILES
                .iter()
                .map(|(_, quantile)| latency.value_at_quantile(*quantile));
            for nanos in quantiles.chain([latency.max()]) {
                // Empty means that nothing was measured; 0 would be a measurement.
                if latency.is_empty() {
                    text.push(',');
                } else {
                    let _ = write!(text, ",{}", nanos as f64 / 1e3);
                }
            }
            text.push_str("\r\n");
        }
        text
    }
}
