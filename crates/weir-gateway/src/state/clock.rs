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
