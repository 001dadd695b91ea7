//! What the operator is told of while the gateway runs: a message on standard error for each change, never for a request.
//!
//! All messages of the process are written here, by one thread: nobody else waits for the reader of standard error, which may be
//! a pipe that nobody reads. Standard error is one for the process, and so is how it is written to:
//!
//! ```text
//! 2026-11-23T18:46:37.123Z warn  weir: 127.0.0.1:9001 of upstream app is down: connection refused
//! {"time":"2026-11-23T18:46:37.123Z","level":"warn","message":"127.0.0.1:9001 of upstream app is down: connection refused"}
//! ```

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use weir_http::date::Civil;

use crate::outlet;
use crate::settings::{Level, MessageFormat, Messages};
use crate::tell::queue::{Next, Queue};
use crate::time;

mod queue;

/// What is still to be written.
static QUEUE: Queue = Queue::new();

/// How long the end of the process waits for the reader of standard error.
const FLUSH: Duration = Duration::from_secs(1);

/// The format and the least level, as numbers.
static FORMAT: AtomicU8 = AtomicU8::new(MessageFormat::Text as u8);
static LEVEL_MIN: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Messages are written like this from now on.
pub fn follow(messages: Messages) {
    FORMAT.store(messages.format as u8, Ordering::Relaxed);
    LEVEL_MIN.store(messages.level_min as u8, Ordering::Relaxed);
}

/// Whether messages are JSON.
pub fn is_json() -> bool {
    FORMAT.load(Ordering::Relaxed) == MessageFormat::Json as u8
}

/// Tells the operator, without waiting for anybody: the message is written soon, or dropped when standard error takes none and
/// too many wait already.
pub fn tell(level: Level, what: fmt::Arguments<'_>) {
    if (level as u8) < LEVEL_MIN.load(Ordering::Relaxed) {
        return;
    }
    let message = message(level, &what.to_string());
    if has_writer() {
        QUEUE.put(message);
    } else {
        write(&message);
    }
}

/// Waits until everything told is written, for a second at most: for the end of the process.
pub fn flush() {
    QUEUE.flush(FLUSH);
}

/// Whether the thread that writes could be started, which happens with the first message.
fn has_writer() -> bool {
    static HAS_WRITER: OnceLock<bool> = OnceLock::new();
    *HAS_WRITER.get_or_init(|| {
        let thread = std::thread::Builder::new().name("messages".to_owned());
        thread.spawn(write_messages).is_ok()
    })
}

fn write_messages() {
    loop {
        match QUEUE.next() {
            Next::Message(message) => write(&message),
            Next::Dropped(count) => write(&message(
                Level::Warning,
                &format!("{count} messages were dropped here: standard error was not read"),
            )),
        }
    }
}

/// Writes in one piece, so that what other processes write does not mix with it. A closed standard error is no reason to end.
fn write(message: &str) {
    let _ = outlet::write_all(&mut io::stderr(), message.as_bytes());
}

/// A message as it is written now.
fn message(level: Level, what: &str) -> String {
    let now = time::since_1970();
    if is_json() {
        json(now, level, what)
    } else {
        text(now, level, what, is_colourful())
    }
}

/// Whether a person reads along who wants colours (<https://no-color.org>).
fn is_colourful() -> bool {
    static IS_COLOURFUL: OnceLock<bool> = OnceLock::new();
    *IS_COLOURFUL.get_or_init(|| {
        let has_none = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        io::stderr().is_terminal() && !has_none
    })
}

fn json(now: Duration, level: Level, what: &str) -> String {
    let mut line = String::from("{\"time\":\"");
    write_time(now, &mut line);
    // Writing to a string cannot fail.
    let _ = writeln!(
        line,
        "\",\"level\":\"{}\",\"message\":{}}}",
        level.name(),
        serde_json::Value::from(what)
    );
    line
}

/// Further lines of a message are indented. Control characters are escaped, so that a terminal stays safe.
fn text(now: Duration, level: Level, what: &str, is_colourful: bool) -> String {
    let (dim, colour, plain) = match (is_colourful, level) {
        (false, _) => ("", "", ""),
        (true, Level::Info) => ("\x1b[2m", "\x1b[32m", "\x1b[0m"),
        (true, Level::Warning) => ("\x1b[2m", "\x1b[33m", "\x1b[0m"),
        (true, Level::Error) => ("\x1b[2m", "\x1b[31m", "\x1b[0m"),
    };
    let mut line = String::from(dim);
    write_time(now, &mut line);
    // Writing to a string cannot fail.
    let _ = write!(line, "{plain} {colour}{:<5}{plain} weir: ", level.name());
    for character in what.trim_end().chars() {
        match character {
            '\n' => line.push_str("\n  "),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line.push('\n');
    line
}

/// As in RFC 3339, with milliseconds.
fn write_time(now: Duration, out: &mut String) {
    let mut text = Vec::with_capacity(24);
    Civil::from_unix(now.as_secs()).write_iso8601(&mut text);
    let seconds = text.strip_suffix(b"Z").unwrap_or(&text);
    out.push_str(&String::from_utf8_lossy(seconds));
    let _ = write!(out, ".{:03}Z", now.subsec_millis());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(1_795_459_597_042);

    #[test]
    fn a_message_has_time_and_level() {
        assert_eq!(
            text(NOW, Level::Info, "listening", false),
            "2026-11-23T18:46:37.042Z info  weir: listening\n"
        );
        assert_eq!(
            text(NOW, Level::Error, "it stays:\nf:1: a\x1b[0m\n", false),
            "2026-11-23T18:46:37.042Z error weir: it stays:\n  f:1: a\\u{1b}[0m\n"
        );
        assert_eq!(
            text(NOW, Level::Warning, "down", true),
            "\x1b[2m2026-11-23T18:46:37.042Z\x1b[0m \x1b[33mwarn \x1b[0m weir: down\n"
        );
        assert_eq!(
            json(NOW, Level::Warning, "a \"b\"\nc"),
            "{\"time\":\"2026-11-23T18:46:37.042Z\",\"level\":\"warn\",\"message\":\"a \\\"b\\\"\\nc\"}\n"
        );
    }
}
