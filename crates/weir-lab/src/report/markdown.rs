//! The report as Markdown, for a repository: verdict, tables, and how to run it again. Plots are in the HTML.

use super::profiles::{self, Profile};
use super::summary::Group;
use super::tables::{self, Table};
use super::{facts, verdict};
use crate::raw::Run;

/// The whole file.
pub(super) fn render(run: &Run, groups: &[Group<'_>], profiles: &[Profile]) -> String {
    let mut text = Markdown::default();
    text.block(&format!("# {}", escape(&run.title)));
    text.block(&facts::subtitle(run));
    text.block("## Verdict");
    for finding in verdict::findings(run, groups) {
        let about = if finding.about.is_empty() {
            String::new()
        } else {
            format!("**{}:** ", escape(&finding.about))
        };
        for (index, sentence) in finding.sentences.iter().enumerate() {
            let bullet = if index == 0 {
                format!("- {about}")
            } else {
                "  - ".to_owned()
            };
            text.line(&format!("{bullet}{}", escape(sentence)));
        }
    }
    text.blank();
    let reservations = verdict::reservations(run);
    let reservations: Vec<String> = reservations
        .iter()
        .map(|sentence| format!("> {}\n", escape(sentence)))
        .collect();
    if !reservations.is_empty() {
        text.block(reservations.join(">\n").trim_end());
    }
    for group in groups {
        if let Some(table) = tables::effects(run, group) {
            text.block(&format!("### {}", escape(&heading(group, table.title))));
            text.table(&table);
        }
    }
    text.block("## What was asked");
    text.block(run.about.trim());
    if !run.source.is_empty() {
        text.block(&format!("Published figures: {}", escape(&run.source)));
    }
    for group in groups {
        for table in tables::of_group(run, group) {
            text.block(&format!("## {}", escape(&heading(group, table.title))));
            text.table(&table);
        }
    }
    for profile in profiles {
        text.profile(profile);
    }
    text.invalid(run);
    text.conditions(run);
    text.0
}

fn heading(group: &Group<'_>, title: &str) -> String {
    if group.name.is_empty() {
        title.to_owned()
    } else {
        format!("{}: {title}", group.name)
    }
}

#[derive(Default)]
struct Markdown(String);

impl Markdown {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Adds one empty line, unless there is one already.
    fn blank(&mut self) {
        if !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    fn block(&mut self, text: &str) {
        self.line(text);
        self.blank();
    }

    fn table(&mut self, table: &Table) {
        let cells = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |", cells.join(" | "))
        };
        self.block(&escape(&table.note));
        self.line(&cells(
            &mut table.columns.iter().map(|column| escape(&column.title)),
        ));
        let rule = |is_number| if is_number { "---:" } else { "---" }.to_owned();
        self.line(&cells(
            &mut table.columns.iter().map(|column| rule(column.is_number)),
        ));
        for row in &table.rows {
            self.line(&cells(&mut row.iter().map(|cell| escape(cell))));
        }
        self.blank();
    }

    fn profile(&mut self, profile: &Profile) {
        self.block(&format!("## Profile: {}", escape(&profile.summary.title)));
        self.block(&escape(&profiles::introduction(&profile.summary)));
        for target in &profile.summary.targets {
            self.block(&format!("### {}", escape(&target.name)));
            for (topic, finding) in profiles::lines(target) {
                self.line(&format!("- {topic}: {}", escape(&finding)));
            }
            for (topic, file) in profiles::graphs(target) {
                self.line(&format!("- [{topic}]({file})"));
            }
            self.blank();
        }
    }

    fn invalid(&mut self, run: &Run) {
        let invalid = facts::invalid(run);
        if invalid.is_empty() {
            return;
        }
        self.block("## Blocks that are not valid");
        for line in invalid {
            self.line(&format!("- {}", escape(&line)));
        }
        self.blank();
    }

    fn conditions(&mut self, run: &Run) {
        self.block("## Machine, versions, commands");
        for (name, value) in facts::conditions(run) {
            self.line(&format!("- {name}: {}", escape(&value)));
        }
        self.blank();
        self.block("Run it again:");
        self.fenced("sh", &run.command);
        for configuration in &run.configurations {
            self.block(&format!("### {}", escape(&configuration.name)));
            for service in &configuration.services {
                self.block(&escape(&facts::service(service, configuration)));
                self.fenced("sh", &service.command);
                if !service.config.is_empty() {
                    self.fenced("", &service.config);
                }
            }
        }
    }

    /// A block of code, in a fence that is longer than any inside it.
    fn fenced(&mut self, language: &str, code: &str) {
        let runs = code.split(|character| character != '`').map(str::len);
        let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
        self.block(&format!("{fence}{language}\n{}\n{fence}", code.trim_end()));
    }
}

/// Text on one line in which no character means anything to Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' => escaped.extend(['\\', character]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
