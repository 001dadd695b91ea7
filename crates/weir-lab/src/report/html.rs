//! The report as one HTML file: no network, no script of its own, light and dark, from a telephone to a wide screen.
//!
//! The template library escapes everything that comes from data. The exceptions are marked with `Raw`: our own plots,
//! which escape their texts themselves, and prose whose Markdown `prose` has rendered.

mod figures;
mod prose;

use horrorshow::helper::doctype;
use horrorshow::prelude::*;
use horrorshow::{html, owned_html};

use super::profiles::{self, Profile};
use super::summary::Group;
use super::tables::{self, Table};
use super::{facts, verdict};
use crate::raw::Run;

const STYLE: &str = include_str!("html/report.css");

/// The whole file.
pub(super) fn render(run: &Run, groups: &[Group<'_>], profiles: &[Profile]) -> String {
    let page = html! {
        : doctype::HTML;
        html(lang = "en") {
            head {
                meta(charset = "utf-8");
                meta(name = "viewport", content = "width=device-width, initial-scale=1");
                meta(name = "color-scheme", content = "light dark");
                title: &run.title;
                style: Raw(STYLE);
            }
            body {
                header {
                    p(class = "name"): format_args!("weir lab · {}", run.scenario);
                    h1: &run.title;
                    p(class = "subtitle"): facts::subtitle(run);
                }
                main {
                    : Raw(opening(run, groups));
                    @ for group in groups {
                        : Raw(measured(run, group));
                    }
                    @ for profile in profiles {
                        : Raw(profiled(profile));
                    }
                    : Raw(circumstances(run));
                }
            }
        }
    };
    let mut text = page.to_string();
    text.push('\n');
    text
}

/// `text` in a form that may stand between the quotes of an attribute.
pub(super) fn attribute(text: &str) -> String {
    html! { : text }.to_string()
}

/// The verdict, reservations about it, and what was asked.
fn opening(run: &Run, groups: &[Group<'_>]) -> String {
    let findings = verdict::findings(run, groups);
    let reservations = verdict::reservations(run);
    html! {
        section(class = "verdict") {
            h2: "Verdict";
            @ for finding in &findings {
                div(class = "finding") {
                    @ if !finding.about.is_empty() {
                        h3: &finding.about;
                    }
                    @ for sentence in &finding.sentences {
                        p: sentence;
                    }
                }
            }
            @ if !reservations.is_empty() {
                ul(class = "reservations") {
                    @ for sentence in &reservations {
                        li: sentence;
                    }
                }
            }
        }
        section {
            h2: "What was asked";
            div(class = "prose"): Raw(prose::render(&run.about));
            @ if !run.source.is_empty() {
                p(class = "note"): format_args!("Published figures: {}", run.source);
            }
        }
    }
    .to_string()
}

/// Plots and tables of a group.
fn measured(run: &Run, group: &Group<'_>) -> String {
    let tables = tables::of_group(run, group);
    html! {
        section {
            h2: if group.name.is_empty() { "What was measured" } else { group.name };
            @ if let Some(effects) = tables::effects(run, group) {
                : Raw(tabular(&effects));
            }
            : Raw(figures::goodput(run, group));
            @ for load in &run.loads {
                : Raw(figures::plots(group, load));
            }
            @ for table in &tables {
                h3: table.title;
                : Raw(tabular(table));
            }
        }
    }
    .to_string()
}

fn tabular(table: &Table) -> String {
    let class = |index: usize| table.columns[index].is_number.then_some("number");
    let begins_rung = |index: usize| index == 0 || table.rows[index - 1][0] != table.rows[index][0];
    html! {
        div(class = "table", tabindex = "0", role = "region", aria-label = table.title) {
            table {
                thead {
                    tr {
                        @ for (index, column) in table.columns.iter().enumerate() {
                            th(scope = "col", class ?= class(index)): &column.title;
                        }
                    }
                }
                tbody {
                    @ for (line, row) in table.rows.iter().enumerate() {
                        tr(class ?= begins_rung(line).then_some("rung")) {
                            @ for (index, cell) in row.iter().enumerate() {
                                td(class ?= class(index)): cell;
                            }
                        }
                    }
                }
            }
        }
        p(class = "note"): &table.note;
    }
    .to_string()
}

/// A profile with its graphs. Each graph is a page of its own inside this one and cannot affect the rest.
fn profiled(profile: &Profile) -> String {
    let graphs = |target| {
        let named = profiles::graphs(target).into_iter();
        let graphs = named.filter_map(|(topic, file)| Some((topic, profile.graph(&file)?)));
        graphs
            .map(|(topic, svg)| figures::flame_graph(topic, svg))
            .collect::<Vec<String>>()
    };
    html! {
        section {
            h2: format_args!("Profile: {}", profile.summary.title);
            p: profiles::introduction(&profile.summary);
            @ for target in &profile.summary.targets {
                h3: &target.name;
                dl(class = "facts") {
                    @ for (topic, finding) in profiles::lines(target) {
                        dt: topic;
                        dd: finding;
                    }
                }
                @ for graph in graphs(target) {
                    : Raw(graph);
                }
            }
        }
    }
    .to_string()
}

/// Everything needed to judge the numbers and to measure them again.
fn circumstances(run: &Run) -> String {
    let invalid = facts::invalid(run);
    html! {
        @ if !invalid.is_empty() {
            section {
                h2: "Blocks that are not valid";
                ul {
                    @ for line in &invalid {
                        li: line;
                    }
                }
            }
        }
        section {
            h2: "Machine, versions, commands";
            dl(class = "facts") {
                @ for (name, value) in facts::conditions(run) {
                    dt: name;
                    dd: value;
                }
            }
            h3: "Run it again";
            pre { code: &run.command; }
            h3: "Configurations";
            @ for configuration in &run.configurations {
                details {
                    summary: &configuration.name;
                    : owned_html! {
                        @ for service in &configuration.services {
                            p: facts::service(service, configuration);
                            pre { code: &service.command; }
                            @ if !service.config.is_empty() {
                                pre { code: service.config.trim_end(); }
                            }
                        }
                    };
                }
            }
        }
    }
    .to_string()
}
