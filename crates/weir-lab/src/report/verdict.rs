//! What helped, in words: the first part of a report.
//!
//! A difference is claimed only when the statistics call it one; everything else is "the same" or "no difference
//! shown". Failures are always reported: rates and latencies are those of answers.

mod events;
mod incident;

use super::estimate::Ratio;
use super::number;
use super::overload;
use super::summary::{Group, Measure, Row};
use crate::blocks::FAILED_APART_MAX;
use crate::raw::{Load, Run};
use crate::statistics::Verdict;

/// What was found under one load.
pub(super) struct Finding {
    /// The group and the load, where they need a name.
    pub(super) about: String,
    /// Whole sentences; the first one is the most important.
    pub(super) sentences: Vec<String>,
}

/// What a reader must know before believing the findings; whole sentences, none when all is well.
pub(super) fn reservations(run: &Run) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(failure) = &run.failure {
        sentences.push(format!(
            "The run broke off; what was measured until then stands here. {failure}"
        ));
    } else if run.is_interrupted {
        sentences.push(
            "The run was ended before its last block; what was measured until then stands here."
                .to_owned(),
        );
    }
    if run.is_quick {
        sentences.push(
            "This was a quick run: it shows that everything works and which way things point, no more.".to_owned(),
        );
    }
    let invalid = run.blocks.iter().filter(|block| !block.is_valid).count();
    if invalid > 0 {
        let (all, verb) = (run.blocks.len(), if invalid == 1 { "is" } else { "are" });
        sentences.push(format!(
            "{invalid} of {all} blocks {verb} not valid; why stands below. They count nowhere; figures that rest on no other \
             block stand in brackets."
        ));
    }
    for left_out in &run.left_out {
        sentences.push(format!(
            "{} did not run: {}",
            left_out.configuration, left_out.why
        ));
    }
    sentences
}

/// The findings, in the order of the tables.
pub(super) fn findings(run: &Run, groups: &[Group<'_>]) -> Vec<Finding> {
    if run.capacity.is_some() {
        return groups
            .iter()
            .map(|group| under_overload(run, group))
            .collect();
    }
    let of_group = |group| {
        run.loads
            .iter()
            .filter_map(move |load| finding(run, group, load))
    };
    groups.iter().flat_map(of_group).collect()
}

/// What each rung keeps over all loads: one load alone says nothing about that.
fn under_overload(run: &Run, group: &Group<'_>) -> Finding {
    let curves = overload::curves(run, group);
    Finding {
        about: group.name.to_owned(),
        sentences: curves
            .iter()
            .filter_map(overload::Curve::in_words)
            .collect(),
    }
}

fn finding(run: &Run, group: &Group<'_>, load: &Load) -> Option<Finding> {
    let rows: Vec<&Row<'_>> = group
        .rows
        .iter()
        .filter(|row| row.load.name == load.name)
        .collect();
    let baseline = rows
        .iter()
        .find(|row| row.configuration.name == group.baseline)?;
    let names = [
        group.name,
        if run.loads.len() > 1 { &load.name } else { "" },
    ];
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let ladder = Ladder {
        measure: Measure::of(load),
        baseline,
        rows: &rows,
    };
    // When a service went bad, its effect is the finding. A percentile over good and bad times is none.
    let incident = incident::sentences(&rows);
    Some(Finding {
        about: names.join(", "),
        sentences: [
            if incident.is_empty() {
                ladder.sentences()
            } else {
                incident
            },
            events::sentences(&rows),
        ]
        .concat(),
    })
}

/// The rungs under one load.
struct Ladder<'a> {
    measure: Measure,
    baseline: &'a Row<'a>,
    rows: &'a [&'a Row<'a>],
}

impl Ladder<'_> {
    fn sentences(&self) -> Vec<String> {
        let compared: Vec<(&str, Ratio)> = self.against_baseline().collect();
        let best = self.best(compared.iter().copied());
        let news = match best {
            Some(best) => self.best_in_words(best),
            None if compared.is_empty() => self.baseline_alone(),
            None if compared.iter().all(|(_, ratio)| self.is_worse(ratio)) => {
                format!("{} beat all others.", self.baseline.configuration.name)
            }
            None => format!(
                "Nothing was shown to be better than {}.",
                self.baseline_sized()
            ),
        };
        let others = compared
            .into_iter()
            .filter(|(name, _)| best.is_none_or(|(of_best, _)| of_best != *name));
        let mut sentences = vec![news];
        sentences.extend(self.others(&others.collect::<Vec<_>>()));
        sentences.extend(best.and_then(|_| self.largest_step()));
        sentences.extend(self.not_compared());
        sentences.extend(self.failures());
        let unknown = self.rows.iter().filter(|row| !row.is_valid);
        let unknown: Vec<&str> = unknown.map(|row| row.configuration.name.as_str()).collect();
        if !unknown.is_empty() {
            sentences.push(format!(
                "Without a valid block, so that nothing is said of it: {}.",
                unknown.join("; ")
            ));
        }
        sentences
    }

    fn against_baseline(&self) -> impl Iterator<Item = (&str, Ratio)> {
        self.rows
            .iter()
            .filter_map(|row| Some((row.configuration.name.as_str(), row.against_baseline?)))
    }

    /// Whether `ratio` is shown to be an improvement.
    fn is_better(&self, ratio: &Ratio) -> bool {
        let is_more = ratio.estimate.value > 1.0;
        ratio.verdict == Verdict::Different && is_more == (self.measure == Measure::Rate)
    }

    /// Whether `ratio` is shown to be the opposite.
    fn is_worse(&self, ratio: &Ratio) -> bool {
        ratio.verdict == Verdict::Different && !self.is_better(ratio)
    }

    fn best<'n>(
        &self,
        compared: impl Iterator<Item = (&'n str, Ratio)>,
    ) -> Option<(&'n str, Ratio)> {
        let better = compared.filter(|(_, ratio)| self.is_better(ratio));
        better.max_by(|(_, one), (_, other)| {
            let order = one.estimate.value.total_cmp(&other.estimate.value);
            if self.measure == Measure::Rate {
                order
            } else {
                order.reverse()
            }
        })
    }

    /// The best rung, with what others published for the same pair.
    fn best_in_words(&self, (name, ratio): (&str, Ratio)) -> String {
        let published = |row: &Row<'_>| row.published.and_then(|published| published.rate);
        let best = self.rows.iter().find(|row| row.configuration.name == name);
        let theirs = best
            .and_then(|row| published(row))
            .zip(published(self.baseline));
        let theirs = theirs.filter(|_| self.measure == Measure::Rate);
        let theirs = theirs.map_or(String::new(), |(rung, base)| {
            format!(
                " The published figures say {}.",
                number::change(rung / base)
            )
        });
        let did_best = match self.measure {
            Measure::Rate => "gave the most",
            Measure::P99 => "was the fastest",
        };
        format!(
            "{name} {did_best}: {} {}.{theirs}",
            self.effect(&ratio),
            self.baseline_sized()
        )
    }

    /// All other rungs, by what they were shown to do.
    fn others(&self, compared: &[(&str, Ratio)]) -> Vec<String> {
        let kind = |ratio: &Ratio| match ratio.verdict {
            Verdict::Different if self.is_better(ratio) => "Better too",
            Verdict::Different => "Worse",
            Verdict::AlikeEnough => "The same within 1 %",
            Verdict::CannotTell => "No difference shown",
        };
        let mut sentences = Vec::new();
        for name in [
            "Better too",
            "Worse",
            "The same within 1 %",
            "No difference shown",
        ] {
            let those = compared.iter().filter(|(_, ratio)| kind(ratio) == name);
            let those = those
                .map(|(rung, ratio)| format!("{rung} ({})", number::change(ratio.estimate.value)));
            let those: Vec<String> = those.collect();
            if !those.is_empty() {
                sentences.push(format!("{name}: {}.", those.join("; ")));
            }
        }
        sentences
    }

    /// The rung that gained most over the one below it; none when that is the baseline anyway.
    fn largest_step(&self) -> Option<String> {
        let steps = self.rows.iter().skip(2);
        let steps =
            steps.filter_map(|row| Some((row.configuration.name.as_str(), row.against_previous?)));
        let (name, ratio) = self.best(steps)?;
        Some(format!(
            "The largest step: {name}, {} the rung before it.",
            self.effect(&ratio)
        ))
    }

    /// The rungs whose latencies are not compared, because they failed another share of their requests.
    fn not_compared(&self) -> Option<String> {
        let apart = self.rows.iter().filter(|row| row.fails_apart);
        let apart: Vec<&str> = apart.map(|row| row.configuration.name.as_str()).collect();
        let (of_baseline, names) = (self.baseline.ends.share_in_words(), apart.join("; "));
        (!apart.is_empty()).then(|| {
            format!(
                "Not compared by latency, because another share of requests failed than the {of_baseline} of {}: {names}.",
                self.baseline.configuration.name
            )
        })
    }

    /// How requests failed. Rungs with a negligible share of failures are not named.
    fn failures(&self) -> Option<String> {
        let failed = self
            .rows
            .iter()
            .filter(|row| row.ends.failed_share() > FAILED_APART_MAX);
        let failed = failed.map(|row| {
            let (name, ends) = (&row.configuration.name, &row.ends);
            format!("to {name}, {}", ends.in_words())
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| format!("Of the requests {}.", failed.join("; of those ")))
    }

    /// The effect of a rung, before the name of what it affects.
    fn effect(&self, Ratio { estimate, .. }: &Ratio) -> String {
        let interval = number::change_interval(estimate);
        let interval = interval.map_or(String::new(), |interval| {
            format!(" (95 % interval {interval})")
        });
        let percent = number::percent(estimate.value);
        let percent = percent.trim_start_matches(['+', '−']);
        match self.measure {
            Measure::P99 if estimate.value < 1.0 => {
                format!("a 99th percentile {percent} %{interval} below")
            }
            Measure::P99 => format!("a 99th percentile {percent} %{interval} above"),
            Measure::Rate if number::is_told_in_times(estimate.value) => {
                format!(
                    "{} times the answers{interval} of",
                    number::times(estimate.value)
                )
            }
            Measure::Rate if estimate.value < 1.0 => {
                format!("{percent} % fewer answers{interval} than")
            }
            Measure::Rate => format!("{percent} % more answers{interval} than"),
        }
    }

    /// The baseline with its figure.
    fn baseline_sized(&self) -> String {
        let name = &self.baseline.configuration.name;
        if !self.baseline.is_valid {
            return name.clone();
        }
        match (self.measure, self.baseline.latency_us("p99")) {
            (Measure::P99, Some(us)) => format!("{name}, which has {}", number::time_us(us)),
            (Measure::P99, None) => name.clone(),
            (Measure::Rate, _) => {
                format!(
                    "{name}, which gave {} a second",
                    number::figure(self.baseline.rate.value)
                )
            }
        }
    }

    /// The sentence when there is nothing to compare with.
    fn baseline_alone(&self) -> String {
        if !self.baseline.is_valid {
            let name = &self.baseline.configuration.name;
            return format!("Nothing is said of {name}: no block of it is valid.");
        }
        let p99 = self.baseline.latency_us("p99");
        let p99 = p99.map_or(String::new(), |us| {
            format!(", 99 % of them within {}", number::time_us(us))
        });
        let name = &self.baseline.configuration.name;
        format!(
            "{name} gave {} answers a second{p99}.",
            number::figure(self.baseline.rate.value)
        )
    }
}
