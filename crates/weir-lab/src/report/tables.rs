//! The tables of a report as text cells. Markdown and HTML print the same ones.
//!
//! A table leaves out a column that would be empty in every row.

mod events;
mod layout;
mod refusals;

use self::layout::Layout;
use super::summary::{Group, Measure, PERCENTILES, Row};
use super::{backlog, incident, number, overload};
use crate::blocks;
use crate::raw::Run;

/// A table before it is laid out.
pub(super) struct Table {
    /// What it shows; a heading.
    pub(super) title: &'static str,
    /// What a reader must know to read it right; one or two sentences.
    pub(super) note: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A column and how its cells are aligned.
pub(super) struct Column {
    pub(super) title: String,
    /// Numbers are aligned right, digit below digit.
    pub(super) is_number: bool,
}

/// The order of outcomes, which is not alphabetical.
const OUTCOMES: [&str; 8] = [
    "2xx",
    "3xx",
    "4xx",
    "5xx",
    "refused",
    "reset",
    "timeout",
    blocks::NEVER_SENT,
];

/// What every rung gained under every load, at a glance: a column for each load. `None` with only one load, since the
/// table of throughput says it then. `None` under overload, which has tables of its own.
pub(super) fn effects(run: &Run, group: &Group<'_>) -> Option<Table> {
    if run.loads.len() < 2 || run.capacity.is_some() {
        return None;
    }
    let loads = run.loads.iter().map(|load| Column {
        title: load.name.clone(),
        is_number: true,
    });
    let setup = Column {
        title: "Setup".to_owned(),
        is_number: false,
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &group.rows {
        let name = &row.configuration.name;
        if rows.last().is_none_or(|last| last[0] != *name) {
            rows.push(vec![name.clone()]);
            rows.last_mut()
                .expect("just pushed")
                .resize(run.loads.len() + 1, String::new());
        }
        let place = run.loads.iter().position(|load| load.name == row.load.name);
        let cells = rows.last_mut().expect("pushed above");
        cells[place.expect("a row is of a load of the run") + 1] = effect(row, group);
    }
    Some(Table {
        title: "At a glance",
        note: format!(
            "Requests per second against {}, with 95 % intervals; 99th percentiles where the rate was given.",
            group.baseline
        ),
        columns: std::iter::once(setup).chain(loads).collect(),
        rows,
    })
}

fn effect(row: &Row<'_>, group: &Group<'_>) -> String {
    if !row.is_valid {
        return "not valid".to_owned();
    }
    if row.fails_apart {
        return format!("not compared, {} failed", row.ends.share_in_words());
    }
    let Some(ratio) = &row.against_baseline else {
        let is_baseline = row.configuration.name == group.baseline;
        return if is_baseline {
            number::figure(row.rate.value)
        } else {
            String::new()
        };
    };
    let change = number::change(ratio.estimate.value);
    let interval = number::change_interval(&ratio.estimate);
    interval.map_or(change.clone(), |interval| format!("{change} ({interval})"))
}

/// All tables of a group.
pub(super) fn of_group(run: &Run, group: &Group<'_>) -> Vec<Table> {
    let mut tables = overload::tables(&overload::curves(run, group));
    tables.extend(incidents(run, group));
    tables.extend([throughput(run, group), latency(run, group)]);
    tables.extend(refusals::table(run, group));
    tables.extend(events::table(run, group));
    tables.extend(per_service(run, group));
    tables.push(outcomes(run, group));
    tables
}

/// The main table, which shows our figures beside the published ones.
fn throughput(run: &Run, group: &Group<'_>) -> Table {
    let mut layout = Layout::new(run, group);
    let has_published = group.rows.iter().any(|row| published_rate(row).is_some());
    layout.measured("Requests per second");
    layout.measured("95 % interval");
    let has_failures = has_failures(group);
    if has_failures {
        layout.measured("Failed");
    }
    if has_published {
        layout.number("Published");
    }
    layout.number(&format!("Against {}", group.baseline));
    layout.number("95 % interval");
    layout.text("Blocks");
    layout.rows(group, |row| {
        let mut cells = vec![number::figure(row.rate.value), number::interval(&row.rate)];
        cells.extend(has_failures.then(|| row.ends.share_in_words()));
        if has_published {
            cells.push(published_rate(row).map_or(String::new(), number::published));
        }
        let against = row.against_baseline.as_ref().map(|ratio| &ratio.estimate);
        cells.push(match against {
            Some(ratio) => number::change(ratio.value),
            None if row.fails_apart => "not compared".to_owned(),
            None => String::new(),
        });
        cells.push(
            against
                .and_then(number::change_interval)
                .unwrap_or_default(),
        );
        cells.push(blocks(run, row));
        cells
    });
    let is_open = group
        .rows
        .iter()
        .any(|row| Measure::of(row.load) == Measure::P99);
    let compared = if is_open {
        "Under a given rate, rungs are compared by the 99th percentile of their answers: less is better. Where different \
         shares of requests failed, they are not: what failed has no latency."
    } else {
        "Answers with 2xx and 3xx only."
    };
    layout.table(
        "Throughput",
        format!("{compared} The geometric mean of the blocks; a block is one measurement with fresh processes."),
    )
}

/// Whether there are failures that a table must report.
fn has_failures(group: &Group<'_>) -> bool {
    group.rows.iter().any(|row| !row.ends.failed.is_empty())
}

fn published_rate(row: &Row<'_>) -> Option<f64> {
    row.published.and_then(|published| published.rate)
}

/// How many blocks a row stands for, and what is wrong with them.
fn blocks(run: &Run, row: &Row<'_>) -> String {
    let of_row = |block: &&crate::raw::Block| {
        block.configuration == row.configuration.name && block.load == row.load.name
    };
    let measured = run.blocks.iter().filter(of_row).count();
    let counted = row.blocks.len();
    match row.is_valid {
        false => format!("none of {measured} valid"),
        true if counted == measured => counted.to_string(),
        true => format!("{counted} of {measured} valid"),
    }
}

fn latency(run: &Run, group: &Group<'_>) -> Table {
    let mut layout = Layout::new(run, group);
    for percentile in PERCENTILES {
        layout.measured(percentile);
    }
    let has_failures = has_failures(group);
    if has_failures {
        layout.measured("Failed");
    }
    let published = |row: &Row<'_>| {
        let figures = row
            .published
            .iter()
            .flat_map(|published| &published.latency_ms);
        let texts = figures.map(|(name, ms)| format!("{name} {}", number::published(*ms)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let has_published = group.rows.iter().any(|row| !published(row).is_empty());
    if has_published {
        layout.text("Published");
    }
    layout.rows(group, |row| {
        let percentiles = PERCENTILES.iter().map(|percentile| {
            let us = row.latency_us(percentile);
            us.map_or(String::new(), |us| number::figure(us / 1_000.0))
        });
        let mut cells: Vec<String> = percentiles.collect();
        cells.extend(has_failures.then(|| row.ends.share_in_words()));
        cells.extend(has_published.then(|| published(row)));
        cells
    });
    layout.table(
        "Latency",
        "Milliseconds of 2xx and 3xx answers, from the moment a request was meant to be sent; what failed has no latency \
         here. The histograms of all blocks are merged; nothing is averaged."
            .to_owned(),
    )
}

/// What a service that went bad did to the requests, and when it was left and found again. `None` when no service went
/// bad.
fn incidents(run: &Run, group: &Group<'_>) -> Option<Table> {
    let suffered = |row: &Row<'_>| incident::suffered(&row.blocks);
    group.rows.iter().find_map(suffered)?;
    let mut layout = Layout::new(run, group);
    layout.measured("Failed or slow while it is bad");
    layout.measured("After the first second");
    layout.measured("Left after s");
    layout.measured("Back after s");
    layout.rows(group, |row| {
        let Some(suffered) = suffered(row) else {
            return vec![String::new(); 4];
        };
        let seconds = |seconds: Option<f64>| seconds.map_or("never".to_owned(), number::figure);
        vec![
            blocks::share_in_words(suffered.share),
            blocks::share_in_words(suffered.share_later),
            seconds(suffered.left_s),
            seconds(suffered.back_s),
        ]
    });
    Some(layout.table(
        "When one goes bad",
        "Requests that failed or were answered later than a second, as a share of those that were due while the service was \
         bad, and of those from its second second on. It is left when less than a tenth of what usually comes to it does, \
         and back when half of that comes again; the one counts from when it went bad, the other from when it was well, \
         both give or take a tenth of a second."
            .to_owned(),
    ))
}

/// CPU time and memory, a column for each service that takes part in the group.
fn per_service(run: &Run, group: &Group<'_>) -> [Table; 2] {
    let mut names: Vec<&str> = Vec::new();
    for service in group
        .rows
        .iter()
        .flat_map(|row| &row.configuration.services)
    {
        if !names.contains(&service.name.as_str()) {
            names.push(&service.name);
        }
    }
    let memory_peak = |row: &Row<'_>, name: &str| {
        row.median(|block| {
            let mut usages = block.services.iter();
            let usage = usages.find(|usage| usage.name == name)?;
            Some(usage.rss_peak_bytes? as f64)
        })
    };
    let mut cpu = Layout::new(run, group);
    let mut memory = Layout::new(run, group);
    cpu.measured("all");
    for name in &names {
        cpu.measured(name);
        memory.measured(name);
    }
    cpu.measured("generator");
    cpu.rows(group, |row| {
        let all = row.median(blocks::cpu_us_per_answer);
        let of_service = |name: &&str| row.median(|block| blocks::part_us_per_answer(block, name));
        let generator = row.median(|block| blocks::per_answer(block, block.generator_cpu_seconds));
        let parts = names.iter().map(of_service);
        let cells = std::iter::once(all).chain(parts).chain([generator]);
        cells
            .map(|us| us.map_or(String::new(), number::figure))
            .collect()
    });
    memory.rows(group, |row| {
        let of_service = |name: &&str| memory_peak(row, name);
        let cells = names.iter().map(of_service);
        cells
            .map(|bytes| bytes.map_or(String::new(), |bytes| number::mebibytes(bytes as u64)))
            .collect()
    });
    let cpu = cpu.table(
        "CPU time",
        format!(
            "Microseconds for each 2xx or 3xx answer, those for requests that failed included: of all services between the client \
             and the answer together, then of each; the median of the blocks.{}",
            also_in_cpu(group)
        ),
    );
    let memory = memory.table(
        "Memory",
        "Peak MiB resident, the processes of a service added up; pages that they share count for each.".to_owned(),
    );
    [cpu, memory]
}

/// What is in the figures of CPU time besides the answers of a row.
fn also_in_cpu(group: &Group<'_>) -> String {
    let any = |is: fn(&Row<'_>) -> bool| group.rows.iter().any(is);
    let mut also = String::new();
    if any(|row| backlog::followed(row).is_some()) {
        also.push_str(" What is done after the load for the events that it has made is included.");
    }
    if any(|row| row.blocks.iter().any(|block| block.answers_beside > 0)) {
        also.push_str(
            " Loads that ran at the same time share it: it is for each answer to any of them, and the generator's for its own.",
        );
    }
    also
}

fn outcomes(run: &Run, group: &Group<'_>) -> Table {
    let mut layout = Layout::new(run, group);
    let occurs = |outcome: &&str| {
        *outcome == "2xx"
            || group
                .rows
                .iter()
                .any(|row| row.outcomes().get(*outcome).is_some_and(|count| *count > 0))
    };
    let columns: Vec<&str> = OUTCOMES.into_iter().filter(occurs).collect();
    layout.measured("Requests");
    for column in &columns {
        layout.measured(column);
    }
    layout.rows(group, |row| {
        let outcomes = row.outcomes();
        let requests = row.blocks.iter().map(|block| block.requests).sum();
        let counts = columns
            .iter()
            .map(|column| outcomes.get(column).copied().unwrap_or(0));
        std::iter::once(requests)
            .chain(counts)
            .map(number::count)
            .collect()
    });
    layout.table(
        "Outcomes",
        "How the requests of the counted blocks ended. What does not stand here did not happen."
            .to_owned(),
    )
}
