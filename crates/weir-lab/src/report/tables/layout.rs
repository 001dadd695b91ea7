//! What the rows of all tables share: they begin with the rung, and with what tells loads apart.

use super::super::summary::{Group, Row};
use super::{Column, Table};
use crate::raw::{Load, Run};

/// Builds a table whose rows begin with the rung, and with what tells loads apart.
pub(super) struct Layout<'a> {
    notes: Vec<&'a str>,
    names_loads: bool,
    columns: Vec<Column>,
    /// The columns whose figures come from blocks, not from others.
    measured: Vec<usize>,
    rows: Vec<Vec<String>>,
    has_brackets: bool,
}

impl<'a> Layout<'a> {
    pub(super) fn new(run: &'a Run, group: &Group<'_>) -> Self {
        let notes = note_columns(run, group);
        let mut layout = Self {
            names_loads: run.loads.len() > 1 && !are_told_apart(&run.loads, &notes),
            notes,
            columns: Vec::new(),
            measured: Vec::new(),
            rows: Vec::new(),
            has_brackets: false,
        };
        layout.text("Setup");
        if layout.names_loads {
            layout.text("Load");
        }
        for index in 0..layout.notes.len() {
            let title = layout.notes[index];
            let mut cells = group.rows.iter().map(|row| row.note(title));
            let is_number = cells.all(|cell| cell.parse::<f64>().is_ok());
            layout.column(title, is_number);
        }
        layout
    }

    pub(super) fn text(&mut self, title: &str) {
        self.column(title, false);
    }

    pub(super) fn number(&mut self, title: &str) {
        self.column(title, true);
    }

    /// A number that comes from blocks. If none of them is valid, it stands in brackets.
    pub(super) fn measured(&mut self, title: &str) {
        self.measured.push(self.columns.len());
        self.number(title);
    }

    fn column(&mut self, title: &str, is_number: bool) {
        self.columns.push(Column {
            title: title.to_owned(),
            is_number,
        });
    }

    pub(super) fn rows(&mut self, group: &Group<'_>, cells: impl Fn(&Row<'_>) -> Vec<String>) {
        for row in &group.rows {
            let mut line = vec![row.configuration.name.clone()];
            line.extend(self.names_loads.then(|| row.load.name.clone()));
            line.extend(self.notes.iter().map(|column| row.note(column).to_owned()));
            line.extend(cells(row));
            for index in self.measured.iter().filter(|_| !row.is_valid) {
                if !line[*index].is_empty() {
                    line[*index] = format!("({})", line[*index]);
                    self.has_brackets = true;
                }
            }
            self.rows.push(line);
        }
    }

    pub(super) fn table(self, title: &'static str, mut note: String) -> Table {
        if self.has_brackets {
            note.push_str(" In brackets: no block of the row is valid, so the figure is not that of the service.");
        }
        Table {
            title,
            note,
            columns: self.columns,
            rows: self.rows,
        }
    }
}

/// The columns of notes that are used in this group: those of the run first, others in alphabetical order.
fn note_columns<'a>(run: &'a Run, group: &Group<'_>) -> Vec<&'a str> {
    let of_configurations = run.configurations.iter().flat_map(|c| c.notes.keys());
    let mut others: Vec<&String> = of_configurations
        .chain(run.loads.iter().flat_map(|load| load.notes.keys()))
        .collect();
    others.sort();
    let mut columns: Vec<&str> = Vec::new();
    for column in run.columns.iter().chain(others) {
        let is_empty = group.rows.iter().all(|row| row.note(column).is_empty());
        if !is_empty && !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    columns
}

/// Whether all loads differ in the cells of `columns`, so that their names are not needed.
fn are_told_apart(loads: &[Load], columns: &[&str]) -> bool {
    let cells = |load: &Load| -> Vec<Option<String>> {
        columns
            .iter()
            .map(|column| load.notes.get(*column).cloned())
            .collect()
    };
    let mut seen: Vec<_> = loads.iter().map(cells).collect();
    seen.sort();
    seen.windows(2).all(|pair| pair[0] != pair[1])
}
