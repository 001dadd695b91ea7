//! What became of the events that requests made, in words: an answer that comes early is not yet work that is done.

use crate::report::backlog::{Followed, followed};
use crate::report::number;
use crate::report::summary::Row;

/// A backlog that grows by less than this share of what is accepted does not grow.
const GROWS: f64 = 0.02;

/// A sentence for each rung whose requests made events; none when they did not.
pub(super) fn sentences(rows: &[&Row<'_>]) -> Vec<String> {
    let told = rows.iter().filter(|row| row.is_valid).filter_map(|row| {
        let handled = followed(row)?;
        Some(sentence(&row.configuration.name, &handled))
    });
    told.collect()
}

fn sentence(name: &str, handled: &Followed) -> String {
    let by = &handled.by;
    let accepted = number::figure(handled.accepted);
    let grows = if handled.slope > handled.accepted * GROWS {
        format!(
            "{by} handled {} of the {accepted} events a second that were accepted; those that waited became {} more each second",
            number::figure(handled.rate),
            number::figure(handled.slope),
        )
    } else {
        format!("{by} handled the {accepted} events a second that were accepted as they came")
    };
    let drained = match handled.drained_s {
        None => format!(
            "; of {} events, {} were not handled in the time that they had",
            number::count(handled.made),
            number::count(handled.made.saturating_sub(handled.handled))
        ),
        Some(seconds) if seconds > 0.0 => format!(
            "; after the load it took {} s until none was left",
            number::figure(seconds)
        ),
        Some(_) => String::new(),
    };
    let end_to_end = handled
        .end_to_end_ms
        .map_or(String::new(), |[p50, p99, _]| {
            format!(
                "; from end to end an event took {} in the median, 99 % of them {}",
                number::time_us(p50 * 1e3),
                number::time_us(p99 * 1e3)
            )
        });
    format!("{name}: {grows}{drained}{end_to_end}.")
}
