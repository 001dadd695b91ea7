//! The intervals of a report as an `HdrHistogram` log, which the library's tools read and merge exactly.

use std::io;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::Report;
use crate::outcome::Outcome;

impl Report {
    /// Writes a histogram of nanoseconds for each interval and each outcome in it, tagged with the outcome's name.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_hdr_log(&self, out: &mut impl io::Write) -> io::Result<()> {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(self.started_unix.max(0.0));
        let mut serializer = V2DeflateSerializer::new();
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("weir load: nanoseconds from the intended sending, by outcome")
            .with_start_time(started)
            .with_base_time(started)
            // The tools show milliseconds.
            .with_max_value_divisor(1e6)
            .begin_log_with(out, &mut serializer)?;
        for interval in &self.intervals {
            let from = Duration::from_secs_f64(interval.from_s);
            let lasts = Duration::from_secs_f64((interval.to_s - interval.from_s).max(0.0));
            for outcome in Outcome::ALL {
                let histogram = interval.outcomes.latency_ns(outcome);
                if histogram.is_empty() {
                    continue;
                }
                writer
                    .write_histogram(histogram, from, lasts, Tag::new(outcome.name()))
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
            }
        }
        Ok(())
    }
}
