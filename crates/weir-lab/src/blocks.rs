//! What some blocks say together: which of them count, and how their requests ended.
//!
//! Latencies are those of answers alone, so a target that lets its slowest requests fail looks fast. [`Ends`] must
//! stand beside them, and says when two of them must not be compared. Nothing here is measured or printed.

use std::collections::BTreeMap;

use crate::raw::{Block, Usage};
use crate::statistics;

/// When the shares of failed requests of two targets differ by more than this, their latencies are not compared: they
/// answered different questions. It is a tenth of 1 %, the smallest part that a usual percentile leaves out.
pub const FAILED_APART_MAX: f64 = 0.001;

/// Outcomes that are answers.
const ANSWERS: [&str; 2] = ["2xx", "3xx"];

/// The end of requests that were due and never sent, because the service did not keep up.
pub const NEVER_SENT: &str = "never sent";

/// How requests ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// 2xx and 3xx.
    pub answers: u64,
    /// All others that occurred, by outcome.
    pub failed: BTreeMap<String, u64>,
}

impl Ends {
    /// The ends of all requests of `blocks`.
    pub fn of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        let mut ends = Self::default();
        for block in blocks {
            let never_sent = (NEVER_SENT.to_owned(), block.never_sent);
            let failed = block.outcomes.clone().into_iter().chain([never_sent]);
            for (end, count) in failed {
                if ANSWERS.contains(&end.as_str()) {
                    ends.answers += count;
                } else if count > 0 {
                    *ends.failed.entry(end).or_default() += count;
                }
            }
        }
        ends
    }

    /// The part of all requests that was not answered, from 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let failed: u64 = self.failed.values().sum();
        failed as f64 / (failed + self.answers).max(1) as f64
    }

    /// Whether latencies of the two may be compared.
    pub fn are_comparable(&self, other: &Self) -> bool {
        (self.failed_share() - other.failed_share()).abs() <= FAILED_APART_MAX
    }

    /// The share alone: `0 %`, `0.02 %`, `31 %`.
    pub fn share_in_words(&self) -> String {
        share_in_words(self.failed_share())
    }

    /// Completes "of the requests to it": `none failed`, `31 % failed (310 5xx, 2 timeout)`.
    pub fn in_words(&self) -> String {
        if self.failed.is_empty() {
            return "none failed".to_owned();
        }
        let failed = self.failed.iter();
        let counts: Vec<String> = failed
            .map(|(end, count)| format!("{count} {end}"))
            .collect();
        format!("{} failed ({})", self.share_in_words(), counts.join(", "))
    }
}

/// A share from 0 to 1 as percent: `0 %`, `0.02 %`, `31 %`.
pub fn share_in_words(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        _ if percent < 0.01 => "< 0.01 %".to_owned(),
        _ if percent < 0.95 => format!("{percent:.2} %"),
        _ if percent < 9.5 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Microseconds of CPU time that everything between the client and the answer used for each answer of `block`: all of its
/// services. `None` when there is no answer, or of one of them no CPU time was read. A proxy alone would be cheap beside
/// any application.
///
/// All CPU time is divided by the answers, so the time for failed requests counts too. Neither a timeout nor a cheap
/// refusal makes a service look cheap.
pub fn cpu_us_per_answer(block: &Block) -> Option<f64> {
    let services = block.services.iter().map(|usage| usage.cpu_seconds);
    let seconds: Option<f64> = services.sum();
    per_any_answer(block, seconds.filter(|_| !block.services.is_empty())?)
}

/// The part of one service in [`cpu_us_per_answer`].
pub fn part_us_per_answer(block: &Block, service: &str) -> Option<f64> {
    let mut services = block.services.iter();
    let usage = services.find(|usage| usage.name == service)?;
    per_any_answer(block, usage.cpu_seconds?)
}

/// `seconds` that services spent on `block`, for each answer to it or to the loads beside it, in microseconds. Nobody knows which of
/// them they were spent on.
fn per_any_answer(block: &Block, seconds: f64) -> Option<f64> {
    let answers = Ends::of([block]).answers + block.answers_beside;
    (answers > 0).then(|| seconds * 1e6 / answers as f64)
}

/// The parts of [`cpu_us_per_answer`] as medians over `blocks`, each with its name by `called`, from the client on: `weir
/// 12.3 + service 140.2`. `None` when the blocks have no services.
pub fn parts_in_words(blocks: &[&Block], called: impl Fn(&str) -> String) -> Option<String> {
    let services = &blocks.first()?.services;
    let parts = services.iter().rev().map(|Usage { name, .. }| {
        let figures: Vec<f64> = blocks
            .iter()
            .filter_map(|block| part_us_per_answer(block, name))
            .collect();
        let figure = statistics::median(&figures);
        let figure = figure.map_or("unknown".to_owned(), |us| format!("{us:.1}"));
        format!("{} {figure}", called(name))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(" + "))
}

/// `seconds` that were spent on `block`, per answer, in microseconds.
pub fn per_answer(block: &Block, seconds: f64) -> Option<f64> {
    let answers = Ends::of([block]).answers;
    (answers > 0).then(|| seconds * 1e6 / answers as f64)
}

/// Why some of `blocks` do not count, for a reader who has not seen them: how many there are, then each reason once
/// with its count. Reasons that differ only in figures are one. Empty when all blocks are valid.
pub fn not_valid(blocks: &[Block]) -> Vec<String> {
    let invalid: Vec<&Block> = blocks.iter().filter(|block| !block.is_valid).collect();
    let mut reasons: Vec<(String, &str, usize)> = Vec::new();
    for block in &invalid {
        let kind = block.why_invalid.replace(|c: char| c.is_ascii_digit(), "");
        match reasons.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., count)) => *count += 1,
            None => reasons.push((kind, &block.why_invalid, 1)),
        }
    }
    if invalid.is_empty() {
        return Vec::new();
    }
    let reasons = reasons
        .into_iter()
        .map(|(_, why, count)| format!("  {count} ×: {why}"));
    let heading = format!("{} of {} blocks not valid:", invalid.len(), blocks.len());
    std::iter::once(heading).chain(reasons).collect()
}

/// The valid blocks of a configuration under a load, and `true`. When none is valid, all of them and `false`.
pub fn counted<'b>(blocks: &'b [Block], configuration: &str, load: &str) -> (Vec<&'b Block>, bool) {
    let all = blocks.iter();
    let all = all.filter(|block| block.configuration == configuration && block.load == load);
    let (valid, invalid): (Vec<_>, Vec<_>) = all.partition(|block| block.is_valid);
    if valid.is_empty() {
        (invalid, false)
    } else {
        (valid, true)
    }
}

/// The rates of two configurations under a load, in the rounds in which both are valid.
pub fn pairs_of_rates(blocks: &[Block], load: &str, [a, b]: [&str; 2]) -> Vec<(f64, f64)> {
    let [(a, a_is_valid), (b, b_is_valid)] = [a, b].map(|name| counted(blocks, name, load));
    if !a_is_valid || !b_is_valid {
        return Vec::new();
    }
    let pair = |a: &Block| {
        let b = b.iter().find(|b| b.round == a.round)?;
        Some((a.rate, b.rate))
    };
    a.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A valid block in which nothing happened.
    pub(crate) fn block(configuration: &str, round: usize) -> Block {
        Block {
            configuration: configuration.to_owned(),
            load: "page".to_owned(),
            round,
            order: 0,
            at_seconds: 0.0,
            seconds: 1.0,
            requests: 0,
            rate: 0.0,
            outcomes: BTreeMap::new(),
            latency_us: BTreeMap::new(),
            refusal_us: BTreeMap::new(),
            histogram: String::new(),
            bytes_received: 0,
            generator_cpu_seconds: 0.0,
            is_valid: true,
            why_invalid: String::new(),
            services: Vec::new(),
            incident: None,
            events: None,
            never_sent: 0,
            answers_beside: 0,
        }
    }

    pub(crate) fn with_ends(mut block: Block, ends: &[(&str, u64)]) -> Block {
        let ends = ends.iter().map(|(end, count)| ((*end).to_owned(), *count));
        block.outcomes = ends.collect();
        block.requests = block.outcomes.values().sum();
        block
    }

    pub(crate) fn invalid(mut block: Block, why: &str) -> Block {
        block.is_valid = false;
        why.clone_into(&mut block.why_invalid);
        block
    }

    #[test]
    fn failures_are_told_with_their_share() {
        let ends = |ends: &[(&str, u64)]| Ends::of(&[with_ends(block("A", 0), ends)]);
        for (ends, told) in [
            (ends(&[]), "none failed"),
            (ends(&[("2xx", 5), ("5xx", 0)]), "none failed"),
            (
                ends(&[("2xx", 680), ("3xx", 10), ("5xx", 300), ("timeout", 10)]),
                "31 % failed (300 5xx, 10 timeout)",
            ),
            (
                ends(&[("2xx", 99_980), ("reset", 20)]),
                "0.02 % failed (20 reset)",
            ),
            (
                ends(&[("2xx", 999_999), ("4xx", 1)]),
                "< 0.01 % failed (1 4xx)",
            ),
            (ends(&[("refused", 3)]), "100 % failed (3 refused)"),
        ] {
            assert_eq!(ends.in_words(), told);
        }
    }

    #[test]
    fn cpu_time_is_paid_by_answers() {
        let used = |ends: &[(&str, u64)]| {
            let mut block = with_ends(block("A", 0), ends);
            block.services.push(Usage {
                name: "app".to_owned(),
                cpu_seconds: Some(0.0625),
                rss_peak_bytes: None,
            });
            block.services.push(Usage {
                name: "weir".to_owned(),
                cpu_seconds: Some(0.03125),
                rss_peak_bytes: None,
            });
            let parts = parts_in_words(&[&block], str::to_owned);
            (cpu_us_per_answer(&block), parts.expect("two"))
        };
        let told = |us: f64, parts: &str| (Some(us), parts.to_owned());
        assert_eq!(
            used(&[("2xx", 900), ("3xx", 100)]),
            told(93.75, "weir 31.2 + app 62.5")
        );
        // Half of the requests fail, so each answer cost twice as much.
        let failed = [("5xx", 200), ("timeout", 200), ("refused", 100)];
        assert_eq!(
            used(&[&[("2xx", 500)], &failed[..]].concat()),
            told(187.5, "weir 62.5 + app 125.0")
        );
        let unknown = (None, "weir unknown + app unknown".to_owned());
        assert_eq!(used(&failed), unknown);
        assert_eq!(cpu_us_per_answer(&block("A", 0)), None);
    }

    #[test]
    fn cpu_time_is_shared_with_the_loads_beside() {
        let mut block = with_ends(block("A", 0), &[("2xx", 100), ("5xx", 50)]);
        block.answers_beside = 300;
        block.generator_cpu_seconds = 0.5;
        block.services.push(Usage {
            name: "app".to_owned(),
            cpu_seconds: Some(0.25),
            rss_peak_bytes: None,
        });
        assert_eq!(cpu_us_per_answer(&block), Some(625.0));
        assert_eq!(part_us_per_answer(&block, "app"), Some(625.0));
        assert_eq!(per_answer(&block, 0.5), Some(5000.0), "its own answers");
    }

    #[test]
    fn shares_that_are_apart_are_not_comparable() {
        let failed = |failed: u64| {
            Ends::of(&[with_ends(
                block("A", 0),
                &[("2xx", 10_000 - failed), ("5xx", failed)],
            )])
        };
        assert!(failed(0).are_comparable(&failed(10)));
        assert!(!failed(0).are_comparable(&failed(11)));
        assert!(!failed(3_000).are_comparable(&failed(0)));
        assert!(failed(3_000).are_comparable(&failed(3_005)));
    }

    #[test]
    fn reasons_that_differ_in_figures_alone_are_told_once() {
        let busy = |percent: u32| {
            invalid(
                block("A", 0),
                &format!("The thread computed for {percent} % of the time."),
            )
        };
        let blocks = [
            busy(97),
            block("A", 0),
            busy(93),
            invalid(block("B", 0), "No port."),
        ];
        assert_eq!(
            not_valid(&blocks),
            [
                "3 of 4 blocks not valid:",
                "  2 ×: The thread computed for 97 % of the time.",
                "  1 ×: No port."
            ]
        );
        assert_eq!(not_valid(&blocks[1..2]), [""; 0]);
    }
}
