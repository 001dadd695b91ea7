//! What standard error shows during a run: on a terminal a few lines that are redrawn, in a pipe a line every few
//! seconds.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use weir_load::outcome::Outcome;
use weir_load::progress::Progress;
use weir_load::report::show;

/// Time between two lines that stay.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// The longest bar, in characters.
const BAR: usize = 30;
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// The view of a run; dropping it leaves the terminal as it was.
pub(super) struct Live {
    mode: Mode,
    last_line: Instant,
    /// Lines to be overwritten.
    drawn: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Lines,
    Terminal,
}

impl Live {
    pub(super) fn begin(is_quiet: bool) -> Self {
        let mode = match (is_quiet, super::is_watched()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Terminal,
            (false, false) => Mode::Lines,
        };
        if mode == Mode::Terminal {
            put(HIDE_CURSOR);
        }
        Self {
            mode,
            last_line: Instant::now(),
            drawn: 0,
        }
    }

    /// Shows how far the run is.
    pub(super) fn show(&mut self, progress: &Progress<'_>) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines => {
                if self.last_line.elapsed() >= LINE_EVERY {
                    self.last_line = Instant::now();
                    put(&format!("{}\n", line(progress)));
                }
            }
            Mode::Terminal => {
                let size = Size::of_terminal();
                self.redraw(&size.fit(&[
                    bar(progress, size.columns),
                    line(progress),
                    ends(progress),
                ]));
            }
        }
    }

    /// Prints a line that stays.
    pub(super) fn say(&mut self, text: &str) {
        if self.mode != Mode::Quiet {
            self.redraw("");
            put(&format!("{text}\n"));
        }
    }

    fn redraw(&mut self, view: &str) {
        let mut text = String::new();
        if self.drawn > 0 {
            // Moves up to the first of our lines and clears from there to the end of the screen.
            let _ = write!(text, "\x1b[{}A\r\x1b[J", self.drawn);
        }
        text.push_str(view);
        self.drawn = view.lines().count();
        put(&text);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.mode == Mode::Terminal {
            self.redraw("");
            restore();
        }
    }
}

/// Leaves the terminal as it was. For a process that ends without dropping its view.
pub(super) fn restore() {
    if super::is_watched() {
        put(SHOW_CURSOR);
    }
}

/// The size of the terminal.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    /// Asked each time, because windows change. A terminal that does not say has the traditional size.
    fn of_terminal() -> Self {
        let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
        let known = |count: Option<u16>, otherwise| {
            count
                .filter(|count| *count > 0)
                .map_or(otherwise, usize::from)
        };
        Self {
            columns: known(size.map(|size| size.ws_col), 80),
            rows: known(size.map(|size| size.ws_row), 24),
        }
    }

    /// As many of the lines as can be redrawn: none wraps to the next row, and none scrolls out at the top. The cursor
    /// stands below the last one.
    fn fit(self, lines: &[String]) -> String {
        let rows = lines.iter().take(self.rows.saturating_sub(1));
        let cut = rows.flat_map(|line| line.chars().take(self.columns).chain(['\n']));
        cut.collect()
    }
}

/// With few columns, the bar gets shorter.
fn bar(progress: &Progress<'_>, columns: usize) -> String {
    let phase = if progress.is_counting {
        format!("{:.0} %", progress.done * 100.0)
    } else {
        "warming up".to_owned()
    };
    let phase = format!("{phase}, {:.1} s", progress.elapsed.as_secs_f64());
    let length = columns.saturating_sub(phase.len() + "[] ".len()).min(BAR);
    let filled = (progress.done * length as f64).round() as usize;
    format!(
        "[{}{}] {phase}",
        "#".repeat(filled),
        "-".repeat(length - filled)
    )
}

fn line(progress: &Progress<'_>) -> String {
    let recent = progress.recent;
    let rate = recent.total() as f64 / progress.recent_seconds.max(f64::MIN_POSITIVE);
    let latency = recent.good_latency_ns();
    let latency = if latency.is_empty() {
        "no answer".to_owned()
    } else {
        let at = |quantile| show(latency.value_at_quantile(quantile));
        format!(
            "p50 {}, p99 {}, max {}",
            at(0.5),
            at(0.99),
            show(latency.max())
        )
    };
    let errors = recent.total() - recent.good();
    format!("{rate:.0}/s, {latency}, {errors} not good")
}

/// How requests have ended so far.
fn ends(progress: &Progress<'_>) -> String {
    let counts = Outcome::ALL.into_iter().filter_map(|outcome| {
        let count = progress.so_far.count(outcome);
        (count > 0).then(|| format!("{} {count}", outcome.name()))
    });
    counts.collect::<Vec<_>>().join("  ")
}

/// Writes text. If nobody reads it, the run goes on.
fn put(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_into_the_terminal() {
        let lines = ["123 µs".to_owned(), String::new(), "x".to_owned()];
        for (columns, rows, expected) in [
            (80, 24, "123 µs\n\nx\n"),
            (5, 24, "123 µ\n\nx\n"),
            (80, 3, "123 µs\n\n"),
            (80, 1, ""),
            (1, 2, "1\n"),
        ] {
            let size = Size { columns, rows };
            assert_eq!(size.fit(&lines), expected, "{columns}x{rows}");
        }
    }

    #[test]
    fn the_bar_gives_way_to_the_figures() {
        let outcomes = weir_load::outcome::Outcomes::default();
        let progress = Progress {
            elapsed: Duration::from_millis(1500),
            is_counting: true,
            done: 0.5,
            so_far: &outcomes,
            recent: &outcomes,
            recent_seconds: 1.0,
        };
        for (columns, expected) in [
            (80, "[###############---------------] 50 %, 1.5 s"),
            (18, "[##--] 50 %, 1.5 s"),
            (5, "[] 50 %, 1.5 s"),
        ] {
            assert_eq!(bar(&progress, columns), expected, "{columns}");
        }
    }
}
