//! What a run says in one word: whether it may be believed, whether the server answered, and whether it kept its promises.
//! A build server needs no more.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::promise::Promise;
use crate::report::{Report, show};
use crate::search::Trial;

/// The verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is valid, and nothing was promised.
    Measured,
    /// All promises were kept.
    Kept,
    /// The server broke a promise.
    Missed,
    /// The generator was the limit, so nothing is said about the server.
    NotValid,
    /// Nothing was promised, and no request had a good answer.
    NoGoodAnswer,
}

impl Verdict {
    /// Judges `report` by `promises`; all must hold, and there may be none.
    pub fn of(report: &Report, promises: &[Promise]) -> Self {
        let has_promises = !promises.is_empty();
        let is_kept = promises.iter().all(|promise| promise.judge(report).is_kept);
        let is_answered = report.outcomes.good() > 0;
        // What failed for lack of ports here says nothing about the server.
        let is_known = report.requests() > 0 && report.local_failures == 0;
        match Trial::of(report, promises) {
            _ if is_known && !is_answered && has_promises => Self::Missed,
            _ if is_known && !is_answered => Self::NoGoodAnswer,
            Trial::Broken(_) if !is_kept => Self::Missed,
            Trial::Kept if has_promises && !report.is_cut_short => Self::Kept,
            // The load that was asked for was not all sent.
            _ if has_promises && report.is_cut_short => Self::NotValid,
            _ if !report.is_valid() => Self::NotValid,
            _ if has_promises => Self::Kept,
            _ => Self::Measured,
        }
    }

    /// The name in JSON, and the first words of the line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Kept => "slo kept",
            Self::Missed => "slo missed",
            Self::NotValid => "not valid",
            Self::NoGoodAnswer => "no good answer",
        }
    }

    /// The verdict on `report` in one line, with the figures that it rests on.
    pub fn line(self, report: &Report, promises: &[Promise]) -> String {
        let mut line = format!("{}: ", self.name());
        if report.is_cut_short {
            line.push_str("ended early, as told; ");
        }
        if self == Self::NotValid {
            line.push_str(&report.why_invalid.join(" "));
            line.push(' ');
        }
        if self == Self::Kept && !report.is_valid() {
            line.push_str("with the delays of the generator in the latencies: ");
        }
        for promise in promises {
            let _ = write!(line, "{}; ", promise.judge(report).words);
        }
        let _ = write!(
            line,
            "{} requests in {:.2} s, {:.1}/s good",
            report.requests(),
            report.seconds,
            report.goodput()
        );
        let good = report.outcomes.good_latency_ns();
        if !good.is_empty() {
            let [p50, p99] = [0.5, 0.99].map(|quantile| show(good.value_at_quantile(quantile)));
            let _ = write!(line, ", p50 {p50}, p99 {p99}");
        }
        for outcome in Outcome::ALL.into_iter().filter(|it| !it.is_good()) {
            let count = report.outcomes.count(outcome);
            if count > 0 {
                let _ = write!(line, ", {count} {}", outcome.name());
            }
        }
        if report.not_sent > 0 {
            let _ = write!(line, ", {} never sent", report.not_sent);
        }
        if report.server_limit.is_some() {
            line.push_str("; the server did not keep up");
        }
        line.push('\n');
        line
    }

    /// What a report's JSON says besides: `verdict`, and `slo`, a list with each promise.
    pub fn add_to(self, json: &mut Value, report: &Report, promises: &[Promise]) {
        json["verdict"] = self.name().into();
        let slo = promises.iter().map(|promise| {
            let found = promise.judge(report);
            json!({"promise": promise.to_string(), "kept": found.is_kept, "found": found.words})
        });
        json["slo"] = slo.collect();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::tests::report;

    const SLO: [Promise; 1] = [Promise::Latency {
        quantile: 0.5,
        within: Duration::from_millis(100),
    }];

    /// Of a run that is given the validity that its audit would.
    fn said(run: &Report, promises: &[Promise]) -> &'static str {
        let run = Report {
            why_invalid: crate::audit::verdict(run),
            ..run.clone()
        };
        Verdict::of(&run, promises).name()
    }

    #[test]
    fn a_run_is_judged_by_what_it_shows() {
        let good = report(&[(Outcome::Success, 5_000_000)]);
        let slow = report(&[(Outcome::Success, 500_000_000)]);
        let missing = report(&[(Outcome::ClientError, 1_000)]);
        let without_ports = Report {
            local_failures: 1,
            ..report(&[(Outcome::Refused, 1_000)])
        };
        // With one connection, nobody knows what more of them would have carried.
        let unsent = Report {
            not_sent: 300,
            ..good.clone()
        };
        let mut behind = unsent.clone();
        for in_flight in 1..=64 {
            behind
                .held
                .note(10_000_000 * in_flight, in_flight as usize, 64);
            behind.held.note(640_000_000, 64, 64);
        }
        for (run, without, with) in [
            (good, "measured", "slo kept"),
            (slow, "measured", "slo missed"),
            (missing, "no good answer", "slo missed"),
            (without_ports, "not valid", "not valid"),
            (report(&[]), "not valid", "not valid"),
            (unsent, "not valid", "not valid"),
            (behind, "measured", "slo missed"),
        ] {
            assert_eq!(
                (said(&run, &[]), said(&run, &SLO)),
                (without, with),
                "{run:?}"
            );
        }
    }
}
