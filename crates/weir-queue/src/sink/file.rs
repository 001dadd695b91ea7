//! A file that messages are appended to, a line for each.
//!
//! What is written is on the disk before the sink goes on, and where the file ended then is noted with it. After a restart what is
//! behind that is compared with what is to be written next: as far as it is the same, it is ours and is not written again, so that each
//! message is there once. Nothing is ever cut off, and what somebody else has written stays.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde::de::IgnoredAny;
use xxhash_rust::xxh3::xxh3_64;

use super::columns::{request_line, rfc3339, uuid};
use super::{File, Item, Lines as Form, Mark, Origin, Trouble};

/// Bytes behind the mark that are looked at.
const TAIL_BYTES_MAX: u64 = 64 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct Lines {
    settings: File,
    origin: Origin,
    /// Where it ended when the last batch was written.
    mark: Mark,
    open: Option<Open>,
}

/// The file, open at its end.
#[derive(Debug)]
struct Open {
    file: fs::File,
    /// What is behind the mark: what was written and not noted, perhaps.
    tail: Vec<u8>,
}

impl Lines {
    pub(super) fn new(settings: File, origin: Origin, mark: Mark) -> Self {
        Self {
            settings,
            origin,
            mark,
            open: None,
        }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn write(&mut self, items: &[Item]) -> Result<Mark, Trouble> {
        let mut lines = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let appended = self.append(item, &mut lines);
            appended.map_err(|why| Trouble::Refused { at: Some(at), why })?;
        }
        match self.write_all(&lines) {
            Ok(mark) => {
                self.mark = mark;
                Ok(mark)
            }
            Err(error) => {
                // What was written of it is found when it is opened again.
                self.close();
                let path = self.settings.path.display();
                Err(Trouble::Away(format!("cannot write {path}: {error}")))
            }
        }
    }

    fn write_all(&mut self, lines: &[u8]) -> io::Result<Mark> {
        let path = &*self.settings.path;
        if self.open.is_some() && name_of(path)? != Some(self.mark.file) {
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            closed => {
                let (open, mark) = Open::of(path, self.mark)?;
                self.mark = mark;
                closed.insert(open)
            }
        };
        let mark = open.write(lines, self.mark)?;
        open.file.sync_data()?;
        Ok(mark)
    }

    /// Appends the line of a message.
    fn append(&self, item: &Item, lines: &mut Vec<u8>) -> Result<(), String> {
        match self.settings.lines {
            Form::Messages => self.append_message(item, lines)?,
            Form::Contents => {
                let body = item.body.trim_ascii_end();
                if !body.contains(&b'\n') {
                    lines.extend(body);
                } else if serde_json::from_slice::<IgnoredAny>(body).is_ok() {
                    // None of them is in a string (RFC 8259 §7).
                    let spaced = body.iter().map(|&byte| match byte {
                        b'\n' | b'\r' => b' ',
                        other => other,
                    });
                    lines.extend(spaced);
                } else {
                    return Err("its content has several lines, and is no JSON".to_owned());
                }
            }
        }
        lines.push(b'\n');
        Ok(())
    }

    fn append_message(&self, item: &Item, lines: &mut Vec<u8>) -> Result<(), String> {
        let message = item.message().ok_or(super::LATER)?;
        let (method, path) = request_line(message.head);
        let body = std::str::from_utf8(&item.body).ok();
        let line = Line {
            id: uuid(self.origin.id(item.offset)),
            queue: &self.origin.queue,
            offset: item.offset,
            time: rfc3339(item.time_ms),
            key: message.key.map(String::from_utf8_lossy),
            method: String::from_utf8_lossy(method),
            path: String::from_utf8_lossy(path),
            body,
            body_base64: body.is_none().then(|| BASE64_STANDARD.encode(&item.body)),
        };
        serde_json::to_writer(lines, &line).map_err(|error| error.to_string())
    }
}

/// A line that says how its message came.
#[derive(Serialize)]
struct Line<'a> {
    id: String,
    queue: &'a str,
    offset: u64,
    time: String,
    key: Option<Cow<'a, str>>,
    method: Cow<'a, str>,
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// Where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Open {
    /// Opens the file, and says where what is known of it ends. Of one that was not noted, nothing is.
    fn of(path: &Path, mark: Mark) -> io::Result<(Self, Mark)> {
        let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
        if let Some(directory) = directory {
            fs::create_dir_all(directory)?;
        }
        // To open a pipe would be to wait for its reader.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.open(path)?;
        if file.try_lock().is_err() {
            return Err(io::Error::other("another sink or process has it open"));
        }
        // A name that a crash takes back would take the file with it.
        if let Some(directory) = directory {
            fs::File::open(directory)?.sync_all()?;
        }
        let end = end_of(&file)?;
        let is_noted = end.file == mark.file && mark.bytes <= end.bytes;
        let known = Mark {
            file: end.file,
            bytes: if is_noted { mark.bytes } else { 0 },
        };
        let mut tail = Vec::new();
        let known = if end.bytes - known.bytes <= TAIL_BYTES_MAX {
            tail.resize((end.bytes - known.bytes) as usize, 0);
            file.read_exact_at(&mut tail, known.bytes)?;
            known
        } else {
            end
        };
        Ok((Self { file, tail }, known))
    }

    /// Has these lines behind the mark, and says where they end.
    fn write(&mut self, lines: &[u8], mark: Mark) -> io::Result<Mark> {
        let tail = std::mem::take(&mut self.tail);
        if tail.len() > lines.len() && tail.starts_with(lines) {
            // There is more that may be what comes next.
            self.tail = tail[lines.len()..].to_vec();
            return Ok(Mark {
                bytes: mark.bytes + lines.len() as u64,
                ..mark
            });
        }
        let missing = lines.strip_prefix(&*tail);
        if missing.is_none() && !tail.ends_with(b"\n") {
            // Somebody has left half a line.
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(missing.unwrap_or(lines))?;
        end_of(&self.file)
    }
}

/// Which file it is, and where it ends.
fn end_of(file: &fs::File) -> io::Result<Mark> {
    let metadata = file.metadata()?;
    Ok(Mark {
        file: number(&metadata),
        bytes: metadata.len(),
    })
}

/// Which file stands at a path now, if one does.
fn name_of(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(number(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What tells a file from others: where it is, and when it was made, since places are taken anew.
fn number(metadata: &fs::Metadata) -> u64 {
    let made = metadata.created().ok();
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made_ns = made.unwrap_or_default().as_nanos() as u64;
    let mut place = Vec::with_capacity(24);
    for part in [metadata.dev(), metadata.ino(), made_ns] {
        place.extend(part.to_le_bytes());
    }
    xxh3_64(&place)
}
