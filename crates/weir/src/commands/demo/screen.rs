//! Standard output: text that stays, and on a terminal one line that is overwritten.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;

/// Back to the beginning of the line, and clear it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// Writes to standard output; an error means that nobody reads it.
pub(super) struct Screen {
    stdout: io::Stdout,
    is_terminal: bool,
}

impl Screen {
    pub(super) fn stdout() -> Self {
        let stdout = io::stdout();
        Self {
            is_terminal: stdout.is_terminal(),
            stdout,
        }
    }

    /// Text that has its own line breaks.
    pub(super) fn print(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.stdout.write_all(text.as_bytes());
        written
            .and_then(|()| self.stdout.flush())
            .context("cannot write to standard output")
    }

    /// A line that stays.
    pub(super) fn event(&mut self, text: &str) -> anyhow::Result<()> {
        self.print(&event(self.is_terminal, text))
    }

    /// A line that the next one replaces on a terminal.
    pub(super) fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.print(&line(self.is_terminal, text))
    }
}

fn event(is_terminal: bool, text: &str) -> String {
    let clear = if is_terminal { CLEAR_LINE } else { "" };
    format!("{clear}{text}\n")
}

fn line(is_terminal: bool, text: &str) -> String {
    if is_terminal {
        format!("{CLEAR_LINE}{text}")
    } else {
        format!("{text}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_written_over() {
        let told = |is_terminal| {
            [
                line(is_terminal, "1"),
                line(is_terminal, "2"),
                event(is_terminal, "ended"),
            ]
        };
        assert_eq!(told(false).concat(), "1\n2\nended\n");
        assert_eq!(told(true).concat(), "\r\x1b[K1\r\x1b[K2\r\x1b[Kended\n");
    }
}
