//! Who has which key, as the entry says: it is asked for each one and prefers to redirect (RFC 7240, `Prefer: redirect`). A client
//! that remembers redirects knows the same after a while.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::generator;
use crate::scenario::Load;
use crate::services::Services;

/// A service that does not answer for so long will not. Those behind it may have started a moment ago.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before a question that had no good answer is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// Field lines of an answer at most.
const LINES_MAX: usize = 100;

/// The keys from 0 to `keys` of each service that has some.
pub(super) fn owners(
    services: &Services<'_>,
    load: &Load,
    keys: u32,
) -> Result<BTreeMap<String, Vec<u32>>, LabError> {
    let entry = services.entry_name();
    let failed = |why: String| LabError::Target {
        target: entry.to_owned(),
        why: format!("it does not say who has a key: {why}"),
    };
    let (_, authority) = services.entry();
    let mut line = Line::open(&authority).map_err(|error| failed(error.to_string()))?;
    let mut owners: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let began = Instant::now();
    for key in 0..keys {
        let path = generator::with_key(&load.path, &key.to_string());
        let answer = loop {
            let answer = line.ask(&path, &authority);
            let answer = answer.map_err(|error| failed(error.to_string()))?;
            if answer.status < 500 || began.elapsed() > PATIENCE {
                break answer;
            }
            std::thread::sleep(AGAIN);
        };
        let owner = match answer {
            Answer {
                status: 307 | 308,
                location: Some(location),
            } => {
                let rest = location.strip_prefix("http://").unwrap_or_default();
                let at = rest.split('/').next().unwrap_or_default();
                let owner = services.name_at(at);
                owner.ok_or_else(|| failed(format!("{location} is none of its services")))?
            }
            Answer {
                status: 200 | 404, ..
            } => entry,
            Answer { status, .. } => {
                return Err(failed(format!("GET {path} was answered with {status}")));
            }
        };
        owners.entry(owner.to_owned()).or_default().push(key);
    }
    Ok(owners)
}

/// A connection on which one request follows the other.
struct Line(BufReader<TcpStream>);

struct Answer {
    status: u16,
    location: Option<String>,
}

impl Line {
    fn open(authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, path: &str, authority: &str) -> io::Result<Answer> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nPrefer: redirect\r\n\r\n");
        self.0.get_mut().write_all(head.as_bytes())?;
        let unreadable = || io::Error::other("its answer cannot be read");
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|it| it.parse().ok());
        let mut answer = Answer {
            status: status.ok_or_else(unreadable)?,
            location: None,
        };
        let mut length = None;
        for _ in 0..LINES_MAX {
            let line = self.line()?;
            if line.is_empty() {
                let content = &mut self.0.by_ref().take(length.ok_or_else(unreadable)?);
                io::copy(content, &mut io::sink())?;
                return Ok(answer);
            }
            let (name, value) = line.split_once(':').ok_or_else(unreadable)?;
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.trim().parse().ok(),
                "location" => answer.location = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        Err(unreadable())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
