//! Pictures in the HTML report: the plots of a load, and flame graphs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use horrorshow::html;
use horrorshow::prelude::*;

use crate::raw::{Incident, Load, Run};
use crate::report::profiles::Graph;
use crate::report::summary::{Group, Measure, Row};
use crate::report::{backlog, incident, overload, plot};

/// The plot of a scenario about overload; empty for others.
pub(super) fn goodput(run: &Run, group: &Group<'_>) -> String {
    let curves = overload::curves(run, group);
    let Some(capacity) = run.capacity.filter(|_| !curves.is_empty()) else {
        return String::new();
    };
    let label = "Good answers a second of each rung over the multiple of the capacity";
    let plot = plot::goodput::draw(&curves, capacity, label);
    html! {
        div(class = "plots") {
            figure {
                figcaption {
                    strong: "Good answers a second";
                    : " over the multiple of the capacity that was asked for";
                }
                : Raw(&plot);
                ul(class = "legend") {
                    @ for (color, curve) in curves.iter().enumerate() {
                        li {
                            span(class = "swatch", style = swatch(color)): "";
                            : curve.name;
                        }
                    }
                }
            }
        }
    }
    .to_string()
}

/// The style of a field in the colour of a rung.
fn swatch(color: usize) -> String {
    format!("background:var(--rung-{})", color % plot::RUNGS.len())
}

/// The two plots of a load, and the legend of their colours.
pub(super) fn plots(group: &Group<'_>, load: &Load) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in &group.rows {
        if !names.contains(&row.configuration.name.as_str()) {
            names.push(&row.configuration.name);
        }
    }
    let index = |row: &Row<'_>| {
        names
            .iter()
            .position(|name| *name == row.configuration.name)
    };
    let of_load = group.rows.iter().filter(|row| row.load.name == load.name);
    let rows: Vec<(usize, &Row<'_>)> = of_load.filter_map(|row| Some((index(row)?, row))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let throughput = plot::throughput::draw(
        &rows,
        &format!("Requests per second of each rung: {}", load.name),
    );
    let latency = plot::latency::draw(
        &rows,
        &format!("Latency by percentile of each rung: {}", load.name),
    );
    let has_published = rows.iter().any(|(_, row)| row.published.is_some());
    let mut timelines = timelines(&rows, &load.name);
    timelines.extend(backlogs(&rows, &load.name));
    html! {
        h3(class = "load"): &load.name;
        div(class = "plots") {
            @ for (caption, timeline) in &timelines {
                figure {
                    figcaption { strong: *caption; }
                    : Raw(timeline);
                }
            }
            figure {
                figcaption {
                    strong: "Requests per second";
                    : " with 95 % intervals";
                    @ if has_published { : "; ◆ published" }
                    @ if Measure::of(load) == Measure::P99 { : "; the rate was given" }
                }
                : Raw(&throughput);
            }
            @ if let Some(latency) = &latency {
                figure {
                    figcaption {
                        strong: "Latency by percentile";
                        : ", both axes logarithmic";
                    }
                    : Raw(latency);
                    ul(class = "legend") {
                        @ for (color, row) in &rows {
                            li {
                                span(class = "swatch", style = swatch(*color)): "";
                                : legend(row);
                            }
                        }
                    }
                }
            }
        }
    }
    .to_string()
}

/// The requests that reached a service which went bad, and those that failed or were slow, over time:
/// captions and plots.
fn timelines(rows: &[(usize, &Row<'_>)], load: &str) -> Vec<(&'static str, String)> {
    let incidents = rows.iter().filter_map(|(color, row)| {
        let block = row.blocks.iter().find(|block| block.incident.is_some())?;
        Some((*color, block.incident.as_ref()?, block.seconds))
    });
    let incidents: Vec<_> = incidents.collect();
    let Some(&(_, first, end_s)) = incidents.first() else {
        return Vec::new();
    };
    let bad_s = (first.from_s, first.to_s);
    let draw = |caption: &'static str, of: fn(&Incident, f64) -> Vec<(f64, f64)>| {
        let curves = incidents.iter();
        let curves: Vec<_> = curves
            .map(|(color, incident, seconds)| (*color, of(incident, *seconds)))
            .collect();
        let label = format!("{caption}: {load}");
        (caption, plot::timeline::draw(&curves, bad_s, end_s, &label))
    };
    vec![
        draw(
            "% of requests that failed or were slow, by when they were due",
            incident::bad_percent,
        ),
        draw(
            "Requests per second that came to the service",
            incident::reached,
        ),
    ]
}

/// The events that waited to be handled, over time.
fn backlogs(rows: &[(usize, &Row<'_>)], load: &str) -> Option<(&'static str, String)> {
    let of_row = |(color, row): &(usize, &Row<'_>)| {
        let block = row.blocks.iter().find(|block| block.events.is_some())?;
        Some((*color, backlog::curve(block)?, block.seconds))
    };
    let curves: Vec<_> = rows.iter().filter_map(of_row).collect();
    let load_s = curves.iter().map(|(.., load_s)| *load_s);
    let load_s = load_s.reduce(f64::max)?;
    let ends = curves.iter().filter_map(|(_, curve, _)| curve.last());
    let end_s = ends.map(|(at, _)| *at).fold(load_s, f64::max);
    let caption = "Events that wait to be handled, in one block of each rung; the shade begins at the end of the load";
    let label = format!("{caption}: {load}");
    let curves: Vec<_> = curves
        .into_iter()
        .map(|(color, curve, _)| (color, curve))
        .collect();
    let drawn = plot::timeline::draw(&curves, (load_s, end_s), end_s, &label);
    Some((caption, drawn))
}

/// A name, and what its curve does not show.
fn legend(row: &Row<'_>) -> String {
    let failed = if row.ends.failed.is_empty() {
        String::new()
    } else {
        format!(", without the {} that failed", row.ends.share_in_words())
    };
    let validity = if row.is_valid { "" } else { ", not valid" };
    format!("{}{failed}{validity}", row.configuration.name)
}

/// A flame graph: a page of its own inside the report that cannot affect the rest.
pub(super) fn flame_graph(topic: &str, svg: &Graph) -> String {
    let source = format!("data:image/svg+xml;base64,{}", BASE64.encode(&svg.text));
    html! {
        figure(class = "flame") {
            figcaption {
                strong: topic;
                : "; wider is more, a click zooms in";
            }
            iframe(
                sandbox = "allow-scripts",
                loading = "lazy",
                title = topic,
                height = svg.height,
                src = &source
            ): "";
        }
    }
    .to_string()
}
