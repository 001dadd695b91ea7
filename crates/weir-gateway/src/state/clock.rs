//! The time of day as text, made once a second.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use weir_cache::Timestamp;
use weir_http::date::Civil;

use crate::time;

/// The time of day as text, made once a second.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    unix_seconds: Cell<u64>,
    /// One moment on both clocks: the system's, which may be set, and the monotonic one.
    both: Cell<Option<(Instant, u64)>>,
    texts: RefCell<ClockTexts>,
    /// A second, and its text up to the seconds.
    iso8601: RefCell<(u64, Vec<u8>)>,
}

/// The forms in which the time of day is written.
#[derive(Debug, Default)]
pub(crate) struct ClockTexts {
    /// The line of `Date` in a head.
    pub(crate) date_line: Vec<u8>,
    /// For the combined log.
    pub(crate) clf: Vec<u8>,
    /// For the JSON log.
    pub(crate) iso8601: Vec<u8>,
}

impl Clock {
    pub(crate) fn texts(&self) -> std::cell::Ref<'_, ClockTexts> {
        self.texts.borrow()
    }

    /// The time of day at `instant`.
    pub(crate) fn timestamp(&self, instant: Instant) -> Timestamp {
        let (then, ms) = self.both.get().unwrap_or((instant, 0));
        let passed = instant.saturating_duration_since(then).as_millis() as u64;
        Timestamp::from_ms(ms + passed)
    }

    /// Appends `at` with milliseconds: `2026-11-21T00:37:11.042Z`. The seconds are made once for all that share them.
    pub(crate) fn write_iso8601_ms(&self, at: Timestamp, out: &mut Vec<u8>) {
        let mut made = self.iso8601.borrow_mut();
        let (second, text) = &mut *made;
        if text.is_empty() || *second != at.secs() {
            *second = at.secs();
            text.clear();
            Civil::from_unix(at.secs()).write_iso8601(text);
            text.pop();
        }
        out.extend_from_slice(text);
        let ms = at.ms() % 1000;
        let digit = |place: u64| b'0' + (ms / place % 10) as u8;
        out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
    }

    pub(crate) fn update(&self) {
        let since = time::since_1970();
        self.both.set(Some((time::now(), since.as_millis() as u64)));
        let seconds = since.as_secs();
        if self.unix_seconds.replace(seconds) == seconds {
            return;
        }
        let civil = Civil::from_unix(seconds);
        let mut texts = self.texts.borrow_mut();
        let ClockTexts {
            date_line,
            clf,
            iso8601,
        } = &mut *texts;
        for text in [&mut *date_line, &mut *clf, &mut *iso8601] {
            text.clear();
        }
        date_line.extend_from_slice(b"Date: ");
        civil.write_imf_fixdate(date_line);
        date_line.extend_from_slice(b"\r\n");
        civil.write_clf(clf);
        civil.write_iso8601(iso8601);
    }
}
