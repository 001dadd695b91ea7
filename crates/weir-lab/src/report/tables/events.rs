//! The table of what became of the events that requests made.

use super::Table;
use super::layout::Layout;
use crate::raw::Run;
use crate::report::backlog::{Followed, followed};
use crate::report::number;
use crate::report::summary::Group;

/// The columns behind those that all tables have.
const COLUMNS: [&str; 10] = [
    "Accepted a second",
    "Handled a second",
    "Backlog grows by, a second",
    "Waiting at the end",
    "Drained a second",
    "Nothing left after s",
    "End to end p50 ms",
    "p99 ms",
    "max ms",
    "Handled",
];

/// `None` when the requests made none.
pub(super) fn table(run: &Run, group: &Group<'_>) -> Option<Table> {
    let all = group.rows.iter().filter_map(followed);
    let again: u64 = all.map(|handled| handled.again).sum();
    group.rows.iter().find_map(followed)?;
    let mut layout = Layout::new(run, group);
    for column in COLUMNS {
        layout.measured(column);
    }
    if again > 0 {
        layout.measured("Handled again");
    }
    let width = COLUMNS.len() + usize::from(again > 0);
    layout.rows(group, |row| {
        let mut cells = followed(row).map_or_else(Vec::new, |handled| cells(&handled));
        cells.resize(width, String::new());
        cells
    });
    Some(layout.table(
        "Events from end to end",
        "Requests make events. Accepted are those that somebody has taken, to handle or to keep them; handled are those that the \
         service at the other end has done its work for. What waits between the two grows while the load runs, and is drained \
         after it. From end to end is the time from when an event was made until it was handled for the first time, over all \
         events of all blocks. Where some were not handled in time, it is not told."
            .to_owned(),
    ))
}

fn cells(handled: &Followed) -> Vec<String> {
    let figure = |value: Option<f64>| value.map_or(String::new(), number::figure);
    let end_to_end = |index: usize| figure(handled.end_to_end_ms.map(|ms| ms[index]));
    vec![
        number::figure(handled.accepted),
        number::figure(handled.rate),
        number::figure(handled.slope),
        number::count(handled.waiting.round() as u64),
        figure(handled.drain),
        handled.drained_s.map_or("never".to_owned(), number::figure),
        end_to_end(0),
        end_to_end(1),
        end_to_end(2),
        format!(
            "{} of {}",
            number::count(handled.handled),
            number::count(handled.made)
        ),
        number::count(handled.again),
    ]
}
