//! What is in the directory of a queue when it is opened.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Directory, Disk, Error, Log, Recovered};

use crate::clock;
use crate::dead::DeadLetters;
use crate::ids::{Ids, Kept};
use crate::intake::readable;
use crate::journal::{Journal, Known};
use crate::message::Message;
use crate::progress::Checkpoint;
use crate::settings::Settings;
use crate::sink::SinkSettings;
use crate::token::{Secret, random};

/// A segment is such a part of what a queue may have, so that what was delivered makes room little by little.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
const SEGMENT_BYTES_MAX: u64 = 256 << 20;
const DEAD_SEGMENT_BYTES_MAX: u64 = 16 << 20;
const FETCHED_SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// Messages that a crash of the machine may have taken back at most, where messages are acknowledged before they are on the disk: more
/// than come in the second that is not.
const LOST_MAX: u64 = 1 << 24;
/// Bytes of the log that are read for the `Idempotency-Key`s in it when a queue is opened.
const IDS_READ_MAX: u64 = 256 << 20;
/// All of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) journal: Journal,
    pub(crate) known: Known,
    pub(crate) dead: DeadLetters,
    pub(crate) ids: Ids,
    pub(crate) secret: Secret,
    pub(crate) sinks: Vec<OpenedSink>,
    /// Where it lives in Kafka: for what is fetched of it.
    pub(crate) fetched: Option<Log>,
}

/// What is in the directory of a sink.
#[derive(Debug)]
pub(crate) struct OpenedSink {
    pub(crate) settings: SinkSettings,
    pub(crate) journal: Journal,
    pub(crate) known: Known,
    pub(crate) dead: DeadLetters,
    /// Messages that nobody was told to be kept.
    pub(crate) left_out: Vec<u64>,
}

impl OpenedSink {
    /// Opens what is there, and makes what is not.
    pub(crate) fn of(queue: &Settings, settings: SinkSettings) -> Result<Self, Error> {
        let path = queue.path.join("sinks").join(&settings.name);
        let (journal, known) = Journal::open(below(&path, "journal")?, seed(&path)?)?;
        let dead = dead_letters(&path, queue, &known)?;
        Ok(Self {
            settings,
            journal,
            known,
            dead,
            left_out: Vec::new(),
        })
    }
}

impl Opened {
    /// Opens what is there, and makes what is not.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Error> {
        let path = &*settings.path;
        let segment_bytes = segment_bytes(settings);
        // The first of them keeps other processes out.
        let mut log = messages(settings, segment_bytes)?;
        let secret = Secret::of(path).map_err(|error| failed("keep a secret in", path, error))?;
        let lives_there = settings.topic.is_some();
        let own = path.join(if lives_there { "kafka" } else { "upstream" });
        let (mut journal, mut known) = Journal::open(below(&own, "journal")?, seed(path)?)?;
        let dead = dead_letters(&own, settings, &known)?;
        let sinks = settings.sinks.iter();
        let sinks = sinks.map(|sink| OpenedSink::of(settings, sink.clone()));
        let mut sinks: Vec<OpenedSink> = sinks.collect::<Result<_, _>>()?;
        let (ids, torn) = read_tail(&log, settings)?;
        for sink in &mut sinks {
            sink.left_out.clone_from(&torn);
        }
        let next = log.next_offset();
        let before = moved(path, lives_there)?;
        if !lives_there {
            emptied(&path.join("kafka/log"))?;
        }
        let fetched = if lives_there {
            for sink in &mut sinks {
                if sink.settings.name == Settings::TOPIC {
                    let low = &mut sink.known.checkpoint.low;
                    *low = before.max(*low);
                }
            }
            let fetched = fetched(path, segment_bytes)?;
            known.checkpoint = Checkpoint {
                low: fetched.next_offset(),
                ..Checkpoint::default()
            };
            journal.forget();
            Some(fetched)
        } else {
            if before > known.checkpoint.low {
                known.checkpoint.settled.insert(0, (0, before));
                journal.forget();
            }
            None
        };
        // What a crash of the machine took back may have been delivered before: its offsets are not given again.
        let has_ended = Ended::take(path).map_err(|error| failed("look at", path, error))?;
        let may_miss = settings.durability.may_lose() && next > 0 && !has_ended;
        let gap = if may_miss { LOST_MAX } else { 0 };
        let behind_sinks = sinks.iter().map(|sink| sink.known.end()).max();
        let ends = if lives_there { 0 } else { known.end() };
        log.skip_to(ends.max(behind_sinks.unwrap_or(0)).max(next + gap))?;
        if !lives_there {
            if log.next_offset() > next {
                // Nothing will come there.
                known.settle(next..log.next_offset());
                journal.forget();
            }
            for offset in torn {
                journal.settled(offset);
                known.settle(offset..offset + 1);
            }
        }
        Ok(Self {
            log,
            journal,
            known,
            dead,
            ids,
            secret,
            sinks,
            fetched,
        })
    }
}

/// Where what delivered before has come to, when a queue has moved since it was opened last: from here into Kafka, or back.
fn moved(path: &Path, lives_there: bool) -> Result<u64, Error> {
    let note = path.join("lives");
    let lived = fs::read_to_string(&note).unwrap_or_default();
    let lives = if lives_there { "kafka" } else { "" };
    if lived == lives {
        return Ok(0);
    }
    fs::write(&note, lives).map_err(|error| failed("write in", path, error))?;
    let before = if lives_there {
        path.join("upstream")
    } else {
        path.join("sinks").join(Settings::TOPIC)
    };
    if !before.exists() {
        return Ok(0);
    }
    let (_, known) = Journal::open(below(&before, "journal")?, seed(path)?)?;
    Ok(known.checkpoint.low)
}

/// A log for what is fetched from Kafka, with nothing in it. Its offsets are those of no other before.
fn fetched(path: &Path, segment_bytes: u64) -> Result<Log, Error> {
    emptied(&path.join("kafka/log"))?;
    let settings = weir_log::Settings {
        segment_bytes: segment_bytes.min(FETCHED_SEGMENT_BYTES_MAX),
        readable: weir_log::Readable::Written,
        seed: seed(path)?,
    };
    let (mut log, _) = Log::open(below(path, "kafka/log")?, settings)?;
    log.skip_to(clock::now_ms() << 20)?;
    Ok(log)
}

fn emptied(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("empty", directory, error))
        }
        _ => Ok(()),
    }
}

fn dead_letters(path: &Path, queue: &Settings, known: &Known) -> Result<DeadLetters, Error> {
    let bytes = segment_bytes(queue).min(DEAD_SEGMENT_BYTES_MAX);
    DeadLetters::open(
        below(path, "dead")?,
        (bytes, seed(path)?),
        known.gone.clone(),
    )
}

/// Bytes of a segment of the log.
pub(crate) fn segment_bytes(settings: &Settings) -> u64 {
    let bytes = settings.bytes_max / SEGMENTS;
    bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// The log of the messages.
fn messages(settings: &Settings, segment_bytes: u64) -> Result<Log, Error> {
    let log_settings = weir_log::Settings {
        segment_bytes,
        readable: readable(settings.durability),
        seed: seed(&settings.path)?,
    };
    let (log, Recovered { torn_bytes }) = Log::open(below(&settings.path, "log")?, log_settings)?;
    if torn_bytes > 0 {
        let name = &settings.name;
        tell(
            Level::Info,
            format_args!(
                "queue {name}: {torn_bytes} bytes at the end of its log were not written whole and are left out; nobody was told that they are kept"
            ),
        );
    }
    Ok(log)
}

fn below(path: &Path, name: &str) -> Result<Arc<dyn Disk>, Error> {
    Ok(Arc::new(Directory::open(&path.join(name))?))
}

fn seed(path: &Path) -> Result<u64, Error> {
    let seed = random().map(u64::from_le_bytes);
    seed.map_err(|error| failed("make random numbers for", path, error))
}

/// What could not be done with the directory.
pub(crate) fn failed(doing: &'static str, path: &Path, error: io::Error) -> Error {
    let name = path.display().to_string();
    Error::Io { doing, name, error }
}

/// The `Idempotency-Key`s of the window, as far back as reading does not take long; and the messages of a batch at the end that is
/// not whole, which nobody was told to be kept.
fn read_tail(log: &Log, settings: &Settings) -> Result<(Ids, Vec<u64>), Error> {
    let mut ids = Ids::default();
    let now_ms = clock::now_ms();
    let since_ms = now_ms.saturating_sub(settings.id_window.as_millis() as u64);
    let mut cursor = log.read_from(0);
    cursor.go_to_time(since_ms)?;
    // A batch is in one segment, so that the last one has all of it.
    let window = log.tail_offset(IDS_READ_MAX).max(cursor.offset());
    cursor.go_to(window.min(log.tail_offset(1)));
    let mut batch: Vec<u64> = Vec::new();
    loop {
        let record = match cursor.read() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            // Whoever delivers comes there too, and says so.
            Err(Error::Damaged(damage)) => {
                if cursor.skip_damaged().is_none() {
                    return Err(Error::Damaged(damage));
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(message) = Message::read(record.head) else {
            batch.clear();
            continue;
        };
        let (number, count) = message.part;
        if number == 0 {
            batch.clear();
        }
        batch.push(record.offset);
        if number + 1 < count {
            continue;
        }
        if let Some((id, content)) = message.id
            && record.time_ms >= since_ms
        {
            let kept = Kept {
                first: record.offset - u64::from(number),
                count,
                content,
                time_ms: record.time_ms,
            };
            ids.insert(id, kept, since_ms);
        }
        batch.clear();
    }
    Ok((ids, batch))
}

/// A file that says that all was on the disk when the queue ended.
pub(crate) struct Ended;

impl Ended {
    const FILE: &str = "ended";

    /// Whether it is there. It is so no longer.
    pub(crate) fn take(directory: &Path) -> io::Result<bool> {
        match fs::remove_file(directory.join(Self::FILE)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn put(directory: &Path) {
        // Without it some offsets are left out, and nothing else.
        let _ = fs::write(directory.join(Self::FILE), "");
    }
}
