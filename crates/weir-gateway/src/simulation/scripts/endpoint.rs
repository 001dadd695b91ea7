//! The endpoints of an upstream, and what becomes of each request that comes to them.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::simulation::tasks::Tasks;

/// What becomes of one request. The body of an answer is the number of the request, from 1, unless it says otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act {
    /// A 103 goes first, after so long.
    hint_after_ms: Option<u64>,
    /// And then the rest, after so long.
    after_ms: u64,
    status: u16,
    /// Whole lines.
    fields: &'static str,
    body: Option<&'static str>,
    /// Whether the body of the request is not waited for.
    is_rash: bool,
    end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Well,
    /// Closed without a byte.
    Closes,
    /// Closed inside of the head.
    InHead,
    /// Closed in the middle of the body.
    InBody,
    /// What comes is no response.
    Nonsense,
    /// Nothing comes until the gateway closes.
    Hangs,
    /// The second half of the body comes so much later.
    Pauses(u64),
}

pub(super) const CLOSES: Act = says(0).ending(End::Closes);
pub(super) const CLOSES_IN_HEAD: Act = says(0).ending(End::InHead);
pub(super) const NONSENSE: Act = says(0).ending(End::Nonsense);
pub(super) const HANGS: Act = says(0).ending(End::Hangs);

/// An answer, at once.
pub(super) const fn says(status: u16) -> Act {
    Act {
        hint_after_ms: None,
        after_ms: 0,
        status,
        fields: "",
        body: None,
        is_rash: false,
        end: End::Well,
    }
}

impl Act {
    const fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    pub(super) const fn after(self, after_ms: u64) -> Self {
        Self { after_ms, ..self }
    }

    /// With a 103 before, after so long.
    pub(super) const fn hinted(self, after_ms: u64) -> Self {
        let hint_after_ms = Some(after_ms);
        Self {
            hint_after_ms,
            ..self
        }
    }

    /// With these lines in its head.
    pub(super) const fn with(self, fields: &'static str) -> Self {
        Self { fields, ..self }
    }

    pub(super) const fn saying(self, body: &'static str) -> Self {
        let body = Some(body);
        Self { body, ..self }
    }

    /// Without waiting for the body of the request.
    pub(super) const fn rashly(self) -> Self {
        let is_rash = true;
        Self { is_rash, ..self }
    }

    /// It breaks off in the middle of the body.
    pub(super) const fn broken(self) -> Self {
        self.ending(End::InBody)
    }

    /// The second half of the body comes so much later.
    pub(super) const fn pausing(self, ms: u64) -> Self {
        self.ending(End::Pauses(ms))
    }

    /// Plays it; `false` when the connection is over.
    async fn play(
        &self,
        (number, method): (usize, &str),
        stream: &mut UnixStream,
        tasks: &Tasks,
    ) -> io::Result<bool> {
        if let Some(ms) = self.hint_after_ms {
            tasks.sleep(ms).await;
            let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
            stream.write_all(hint).await?;
        }
        tasks.sleep(self.after_ms).await;
        let (head, body) = self.answer(number, method);
        let (first, second) = body.split_at(body.len() / 2);
        match self.end {
            End::Closes => return Ok(false),
            End::Hangs => {
                while stream.read(&mut [0; 64]).await? > 0 {}
                return Ok(false);
            }
            End::InHead => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-").await?,
            End::Nonsense => stream.write_all(b"nonsense\r\n\r\n").await?,
            End::InBody => stream.write_all((head + first).as_bytes()).await?,
            End::Well => stream.write_all((head + &body).as_bytes()).await?,
            End::Pauses(ms) => {
                stream.write_all((head + first).as_bytes()).await?;
                tasks.sleep(ms).await;
                stream.write_all(second.as_bytes()).await?;
            }
        }
        Ok(matches!(self.end, End::Well | End::Pauses(_)))
    }

    fn answer(&self, number: usize, method: &str) -> (String, String) {
        let body = self.body.map_or_else(|| number.to_string(), str::to_owned);
        let Self { status, fields, .. } = self;
        let length = match status {
            204 | 304 => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!("HTTP/1.1 {status} Said\r\n{fields}{length}\r\n");
        let is_empty = method == "HEAD" || length.is_empty();
        (head, if is_empty { String::new() } else { body })
    }
}

/// What an endpoint was asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) endpoint: usize,
    pub(super) head: String,
    pub(super) body: String,
    /// Whether the gateway has closed instead of waiting for the answer; only [`HANGS`] looks.
    pub(super) was_given_up: bool,
}

/// An upstream: its endpoints, and what becomes of who comes to them.
pub(super) struct Stage {
    acts: Vec<Act>,
    pub(super) asked: RefCell<Vec<Asked>>,
}

impl Stage {
    pub(super) fn new(acts: Vec<Act>) -> Self {
        Self {
            acts,
            asked: RefCell::default(),
        }
    }

    /// Nobody listens where there is nothing to be done.
    pub(super) fn is_dark(&self) -> bool {
        self.acts.is_empty()
    }

    /// Serves whoever connects to one of `sockets`.
    pub(super) fn open(self: &Rc<Self>, tasks: &Tasks, sockets: &[PathBuf]) {
        for (endpoint, socket) in sockets.iter().enumerate() {
            let listener = UnixListener::bind(socket).expect("a path is free");
            let (stage, own) = (Rc::clone(self), tasks.clone());
            tasks.spawn_quietly(async move {
                loop {
                    let (stream, _) = listener.accept().await.expect("it listens");
                    let (stage, tasks) = (Rc::clone(&stage), own.clone());
                    own.spawn_quietly(async move {
                        // It ends when the gateway closes.
                        let _ = stage.serve(&tasks, stream, endpoint).await;
                    });
                }
            });
        }
    }

    async fn serve(
        &self,
        tasks: &Tasks,
        mut stream: UnixStream,
        endpoint: usize,
    ) -> io::Result<()> {
        let mut unread = Vec::new();
        loop {
            let Some(head) = read_head(&mut stream, &mut unread).await? else {
                return Ok(());
            };
            let number = self.note(endpoint, &head);
            let act = self.acts[(number - 1).min(self.acts.len() - 1)];
            if !act.is_rash {
                let body = read_body(&mut stream, &mut unread, &head).await?;
                self.asked.borrow_mut()[number - 1].body = body;
            }
            let method = head.split(' ').next().unwrap_or_default();
            if !act.play((number, method), &mut stream, tasks).await? {
                self.asked.borrow_mut()[number - 1].was_given_up = matches!(act.end, End::Hangs);
                return Ok(());
            }
        }
    }

    /// Writes it down; its number, from 1.
    fn note(&self, endpoint: usize, head: &str) -> usize {
        let mut asked = self.asked.borrow_mut();
        asked.push(Asked {
            endpoint,
            head: head.to_owned(),
            ..Asked::default()
        });
        asked.len()
    }
}

/// `None` at the end of the connection.
async fn read_head(stream: &mut UnixStream, unread: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<_> = unread.drain(..at + 4).collect();
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
}

async fn read_body(
    stream: &mut UnixStream,
    unread: &mut Vec<u8>,
    head: &str,
) -> io::Result<String> {
    let lower = head.to_ascii_lowercase();
    let length = lower.split_once("content-length: ");
    let length = length.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    let length: usize = length.unwrap_or(0);
    while unread.len() < length {
        if stream.read_buf(unread).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let body: Vec<_> = unread.drain(..length).collect();
    Ok(String::from_utf8_lossy(&body).into_owned())
}
