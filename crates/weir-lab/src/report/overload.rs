//! What is left of a service when it is asked for more than it can do: its good answers, their latency and the latency
//! of refusals, by the multiple of its capacity that was asked for.
//!
//! Only for scenarios that state the capacity. Nothing here is drawn or laid out.

use super::number;
use super::summary::{Group, Row};
use super::tables::{Column, Table};
use crate::raw::Run;

/// One rung under growing load.
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    /// Multiples of the capacity in rising order, and what was measured there.
    pub(super) points: Vec<(f64, &'a Row<'a>)>,
}

/// The rungs of a group; none when the scenario is not about overload.
pub(super) fn curves<'a>(run: &Run, group: &'a Group<'_>) -> Vec<Curve<'a>> {
    let Some(capacity) = run.capacity else {
        return Vec::new();
    };
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for row in &group.rows {
        let Some(rate) = row.load.rate else { continue };
        let point = (rate / capacity, row);
        let name = row.configuration.name.as_str();
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name,
                points: vec![point],
            }),
        }
    }
    for curve in &mut curves {
        curve
            .points
            .sort_by(|(one, _), (other, _)| one.total_cmp(other));
    }
    curves
}

impl Curve<'_> {
    /// The points at or above the capacity.
    fn loaded(&self) -> impl Iterator<Item = &Row<'_>> {
        let loaded = self.points.iter().filter(|(multiple, _)| *multiple >= 1.0);
        loaded.map(|(_, row)| *row)
    }

    /// The most good answers a second at any multiple.
    fn best(&self) -> f64 {
        self.loaded().map(|row| row.rate.value).fold(0.0, f64::max)
    }

    /// The smallest share of the best rate at any multiple.
    fn kept(&self) -> Option<f64> {
        let worst = self
            .loaded()
            .map(|row| row.rate.value)
            .min_by(f64::total_cmp)?;
        (self.best() > 0.0).then(|| worst / self.best())
    }

    /// How many times the worst 99th percentile is that of the smallest load.
    fn slowed(&self) -> Option<f64> {
        let (_, unloaded) = self.points.first()?;
        let worst = self.loaded().filter_map(|row| row.latency_us("p99"));
        Some(worst.reduce(f64::max)? / unloaded.latency_us("p99")?)
    }

    /// The worst 99th percentile of refusals at any multiple, in microseconds.
    fn refused_us(&self) -> Option<f64> {
        self.loaded().filter_map(refused_us).reduce(f64::max)
    }

    /// What the curve shows, in a sentence.
    pub(super) fn in_words(&self) -> Option<String> {
        let kept = percent(self.kept()?);
        let slowed = self.slowed().map_or(String::new(), |slowed| {
            format!(
                "; the 99th percentile of its answers is at most {} that of the least load",
                in_times(slowed)
            )
        });
        let refused = self.refused_us().map_or(String::new(), |us| {
            format!(
                "; 99 % of what it refuses it refuses within {}",
                number::time_us(us)
            )
        });
        Some(format!(
            "{} keeps {kept} of its best {} good answers a second at every multiple{slowed}{refused}.",
            self.name,
            number::figure(self.best())
        ))
    }
}

fn refused_us(row: &Row<'_>) -> Option<f64> {
    row.median(|block| block.refusal_us.get("p99").copied())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn in_times(ratio: f64) -> String {
    format!("{ratio:.1} ×")
}

/// The tables of `curves`.
pub(super) fn tables(curves: &[Curve<'_>]) -> Vec<Table> {
    let Some(first) = curves.first() else {
        return Vec::new();
    };
    let multiples: Vec<String> = first.points.iter().map(|(at, _)| multiple(*at)).collect();
    let table = |title, note: &str, last: &str, line: &dyn Fn(&Curve<'_>) -> Vec<String>| {
        let numbers = multiples.iter().map(String::as_str).chain([last]);
        let setup = Column {
            title: "Setup".to_owned(),
            is_number: false,
        };
        let numbers = numbers.map(|title| Column {
            title: title.to_owned(),
            is_number: true,
        });
        let named = |curve: &Curve<'_>| [vec![curve.name.to_owned()], line(curve)].concat();
        Table {
            title,
            note: note.to_owned(),
            columns: std::iter::once(setup).chain(numbers).collect(),
            rows: curves.iter().map(named).collect(),
        }
    };
    let cells =
        |curve: &Curve<'_>, read: &dyn Fn(&Row<'_>) -> Option<f64>, last: Option<String>| {
            let figures = curve.points.iter().map(|(_, row)| match read(row) {
                Some(figure) if row.is_valid => number::figure(figure),
                Some(figure) => format!("({})", number::figure(figure)),
                None => String::new(),
            });
            figures
                .chain([last.unwrap_or_default()])
                .collect::<Vec<_>>()
        };
    let ms = |us: Option<f64>| us.map(|us| us / 1_000.0);
    vec![
        table(
            "Goodput under overload",
            "Good answers a second, by the multiple of the capacity that was asked for; what comes too late is worth nothing. \
             Kept: the least of them from 1 × on, as a share of the best. In brackets: not valid.",
            "Kept",
            &|curve| {
                cells(
                    curve,
                    &|row| Some(row.rate.value),
                    curve.kept().map(percent),
                )
            },
        ),
        table(
            "Latency of answers under overload",
            "The 99th percentile of good answers, in milliseconds from the moment a request was due. Slowed: the worst from \
             1 × on, against the least load.",
            "Slowed",
            &|curve| {
                let slowed = curve.slowed().map(in_times);
                cells(curve, &|row| ms(row.latency_us("p99")), slowed)
            },
        ),
        table(
            "Latency of refusals",
            "The 99th percentile of answers with 4xx and 5xx, in milliseconds from the moment a request was due.",
            "Worst",
            &|curve| {
                let worst = ms(curve.refused_us()).map(number::figure);
                cells(curve, &|row| ms(refused_us(row)), worst)
            },
        ),
    ]
}

/// A multiple as the axis and the tables name it.
pub(super) fn multiple(at: f64) -> String {
    format!("{} ×", number::published(at))
}
