//! A report for a person at a terminal.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{PERCENTILES, Report};
use crate::outcome::Outcome;

impl Report {
    /// The report as lines of text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        if self.is_cut_short {
            writeln!(
                out,
                "ended early, as told; the figures are those of the time until then"
            )?;
        }
        writeln!(
            out,
            "{} requests in {:.2} s, {:.1}/s; {:.1}/s good",
            self.requests(),
            self.seconds,
            self.rate(),
            self.goodput()
        )?;
        if let Some(planned) = self.planned() {
            writeln!(
                out,
                "planned {planned}, sent {}, {} of them late because every connection was waiting; never sent {}",
                self.sent, self.sent_late, self.not_sent
            )?;
        }
        writeln!(out)?;
        self.write_latencies(out)?;
        writeln!(out)?;
        self.write_generator(out)?;
        for remark in &self.remarks {
            writeln!(out, "{remark}")?;
        }
        if let Some(limit) = &self.server_limit {
            writeln!(out, "\nTHE SERVER DID NOT KEEP UP. {limit}")?;
        }
        if self.is_valid() {
            return Ok(());
        }
        writeln!(
            out,
            "\nNOT VALID: the generator was the limit, these are not the server's figures."
        )?;
        for reason in &self.why_invalid {
            writeln!(out, "- {reason}")?;
        }
        Ok(())
    }

    fn write_latencies(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "{:<10}{:>11}", "outcome", "count")?;
        for (name, _) in PERCENTILES {
            write!(out, "{name:>9}")?;
        }
        writeln!(out, "{:>9}", "max")?;
        for outcome in Outcome::ALL {
            let latency = self.outcomes.latency_ns(outcome);
            if !latency.is_empty() {
                write_row(out, outcome.name(), latency)?;
            }
        }
        if self.not_sent > 0 {
            writeln!(out, "{:<10}{:>11}", "never sent", self.not_sent)?;
        }
        let kinds = [Outcome::Success, Outcome::Redirection];
        if kinds.iter().all(|kind| self.outcomes.count(*kind) > 0) {
            write_row(out, "good", &self.outcomes.good_latency_ns())?;
        }
        Ok(())
    }

    fn write_generator(&self, out: &mut String) -> std::fmt::Result {
        let per_request = self.generator_cpu_s * 1e6 / (self.requests().max(1) as f64);
        write!(
            out,
            "generator: {:.2} s of CPU, {per_request:.1} µs a request",
            self.generator_cpu_s
        )?;
        if !self.lag_ns.is_empty() {
            let lag = |quantile| show(self.lag_ns.value_at_quantile(quantile));
            write!(
                out,
                "; it sent late by {} (p50), {} (p99), {} (max)",
                lag(0.5),
                lag(0.99),
                show(self.lag_ns.max())
            )?;
        }
        writeln!(out)
    }
}

fn write_row(out: &mut String, name: &str, latency: &Histogram<u64>) -> std::fmt::Result {
    write!(out, "{name:<10}{:>11}", latency.len())?;
    for (_, quantile) in PERCENTILES {
        write!(out, "{:>9}", show(latency.value_at_quantile(*quantile)))?;
    }
    writeln!(out, "{:>9}", show(latency.max()))
}

/// Nanoseconds in the unit that reads best.
pub fn show(nanos: u64) -> String {
    let nanos = nanos as f64;
    let (value, unit) = match nanos {
        ..1e3 => return format!("{nanos}ns"),
        1e3..1e6 => (nanos / 1e3, "µs"),
        1e6..1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_their_unit() {
        for (nanos, shown) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00µs"),
            (12_340, "12.3µs"),
            (999_400, "999µs"),
            (1_234_000, "1.23ms"),
            (200_000_000, "200ms"),
            (10_000_000_000, "10.0s"),
        ] {
            assert_eq!(show(nanos), shown);
        }
    }
}
