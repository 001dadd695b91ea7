//! The simulated origin: answers each request by what its resource may say, and writes both down.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::simulation::plan::{End, Resource};
use crate::simulation::world::{Answer, Change, World, body_of, values};

/// Bytes of a body that are sent at once.
const PIECE_BYTES: usize = 20_000;

/// Serves whoever connects, for as long as the simulation lasts.
pub(super) fn listen(world: &World) {
    let _ = std::fs::remove_file(&world.plan.socket);
    let listener = UnixListener::bind(&world.plan.socket).expect("a path is free");
    let serving = world.clone();
    world.tasks.spawn_quietly(async move {
        for connection in 0_u64.. {
            let (stream, _) = listener.accept().await.expect("it listens");
            let world = serving.clone();
            serving.tasks.spawn_quietly(async move {
                let _ = serve(&world, stream, connection).await;
            });
        }
    });
}

async fn serve(world: &World, mut stream: UnixStream, connection: u64) -> std::io::Result<()> {
    let mut random = fastrand::Rng::with_seed(world.plan.seed ^ connection);
    let mut unread = Vec::new();
    while let Some(number) = read(world, &mut stream, &mut unread).await? {
        let target = world.answers.borrow()[number].target.clone();
        let path = target.split('?').next().unwrap_or_default();
        let mut resources = world.plan.resources.iter();
        let known = resources.find(|resource| resource.path == path);
        let Some(resource) = known else {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                .await?;
            continue;
        };
        let goes_on = answer(world, &mut stream, number, resource, &mut random).await?;
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a request and writes it down; `None` at the end.
async fn read(
    world: &World,
    stream: &mut UnixStream,
    unread: &mut Vec<u8>,
) -> std::io::Result<Option<usize>> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let asked_at = world.tasks.now_ms();
    let head = String::from_utf8_lossy(&unread[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let fields: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = values(&fields, "content-length");
    let length: usize = length.first().map_or(0, |text| text.parse().unwrap_or(0));
    while unread.len() < head_end + length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8_lossy(&unread[head_end..head_end + length]).into_owned();
    unread.drain(..head_end + length);
    let asked_by = values(&fields, "x-request");
    let asked_by = asked_by
        .first()
        .map_or(usize::MAX, |text| text.parse().unwrap_or(0));
    let mut answers = world.answers.borrow_mut();
    answers.push(Answer {
        asked_by,
        method,
        target,
        fields,
        body,
        asked_at,
        ..Answer::default()
    });
    Ok(Some(answers.len() - 1))
}

/// Answers; `false` when the connection is over.
async fn answer(
    world: &World,
    stream: &mut UnixStream,
    number: usize,
    resource: &Resource,
    random: &mut fastrand::Rng,
) -> std::io::Result<bool> {
    let drawn = (
        one(random, &resource.head_ms),
        one(random, &resource.status),
    );
    let (head_ms, status) = resource.first.get(number).copied().unwrap_or(drawn);
    world.tasks.sleep(head_ms).await;
    let end = one(random, &resource.ends);
    let is_change = is_change(&world.answers.borrow()[number]);
    let end = if is_change { End::Well } else { end };
    if end == End::Silent || status == 0 {
        return Ok(false);
    }
    let made = Made::new(world, number, resource, (status, end), random);
    let (head, body) = made.write_down(world, number);
    stream.write_all(head.as_bytes()).await?;
    let is_short = !body.is_empty() && matches!(end, End::Cut | End::Hangs);
    let shown = if is_short { body.len() / 2 } else { body.len() };
    for piece in body[..shown].chunks(PIECE_BYTES) {
        if end == End::Chunked {
            let size = format!("{:x}\r\n", piece.len());
            stream.write_all(size.as_bytes()).await?;
        }
        stream.write_all(piece).await?;
        if end == End::Chunked {
            stream.write_all(b"\r\n").await?;
        }
        world.tasks.sleep(one(random, &resource.piece_ms)).await;
    }
    if is_short && end == End::Hangs {
        // Until the gateway gives up.
        while stream.read(&mut [0; 64]).await? > 0 {}
    }
    if is_short {
        return Ok(false);
    }
    if end == End::Chunked && head.contains("Transfer-Encoding") && !made.is_head {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    world.answers.borrow_mut()[number].is_whole = true;
    Ok(end != End::ByClosing)
}

fn is_change(asked: &Answer) -> bool {
    matches!(asked.method.as_str(), "PUT" | "DELETE")
}

/// An answer before it is sent.
struct Made {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    is_head: bool,
}

impl Made {
    /// What the resource has for this request.
    fn new(
        world: &World,
        number: usize,
        resource: &Resource,
        (status, end): (u16, End),
        random: &mut fastrand::Rng,
    ) -> Self {
        let asked = &world.answers.borrow()[number];
        let mut made = Self {
            status,
            fields: vec![("X-Answer", number.to_string())],
            body: body_of(number, one(random, &resource.body_bytes)),
            is_head: asked.method == "HEAD",
        };
        let is_get = asked.method == "GET" || made.is_head;
        let known = if is_get {
            confirmed(world, asked, resource)
        } else {
            None
        };
        if is_change(asked) {
            made.status = 204;
            made.body.clear();
        } else if let Some(known) = known {
            // What it confirms keeps its number; this one says when that was.
            made.fields = vec![
                ("X-Confirmed", number.to_string()),
                ("ETag", format!("\"{known}\"")),
            ];
            made.status = 304;
            made.body.clear();
        } else if is_get && resource.has_ranges && made.status == 200 {
            made.cut_to(values(&asked.fields, "range").first().copied());
        }
        let (mut vary, mut control) = (one(random, &resource.vary), one(random, &resource.control));
        vary = resource.first_vary.get(number).copied().unwrap_or(vary);
        if made.status == 503 {
            // Who says that it is overrun says nothing of storing that.
            control = "";
        }
        for (name, value) in [("Cache-Control", control), ("Vary", vary)] {
            if !value.is_empty() {
                made.fields.push((name, value.to_owned()));
            }
        }
        if resource.has_etag && known.is_none() {
            made.fields.push(("ETag", format!("\"{number}\"")));
        }
        if resource.sets_cookie {
            made.fields.push(("Set-Cookie", format!("s={number}")));
        }
        match (made.status, end) {
            (204 | 304, _) => {}
            (_, End::Chunked) => made
                .fields
                .push(("Transfer-Encoding", "chunked".to_owned())),
            (_, End::ByClosing) => made.fields.push(("Connection", "close".to_owned())),
            _ => made
                .fields
                .push(("Content-Length", made.body.len().to_string())),
        }
        made
    }

    /// Answers a request for a part.
    fn cut_to(&mut self, range: Option<&str>) {
        let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
            return;
        };
        let Some((first, last)) = range.split_once('-') else {
            return;
        };
        let (length, first) = (self.body.len(), first.parse().unwrap_or(0));
        if first >= length {
            self.status = 416;
            self.fields
                .push(("Content-Range", format!("bytes */{length}")));
            self.body.clear();
            return;
        }
        let last = last.parse().unwrap_or(length - 1).min(length - 1);
        self.status = 206;
        let part = format!("bytes {first}-{last}/{length}");
        self.fields.push(("Content-Range", part));
        self.body = self.body[first..=last].to_vec();
    }

    /// Tells the oracle, and gives the bytes to send.
    fn write_down(&self, world: &World, number: usize) -> (String, Vec<u8>) {
        let answer = &mut world.answers.borrow_mut()[number];
        answer.answered_at = Some(world.tasks.now_ms());
        answer.status = self.status;
        answer.body_bytes = self.body.len() as u64;
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        answer.response = fields.collect();
        if is_change(answer) {
            world.changes.borrow_mut().push(Change {
                target: answer.target.clone(),
                answer: Some(number),
                begun_at: answer.asked_at,
                done_at: u64::MAX,
            });
        }
        let mut head = format!("HTTP/1.1 {} Said\r\n", self.status);
        for (name, value) in &self.fields {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        let body = if self.is_head {
            Vec::new()
        } else {
            self.body.clone()
        };
        (head, body)
    }
}

/// Which answer the request's condition names that is right still: to a request with the same fields, of those that the
/// resource may go by, and unchanged since.
fn confirmed(world: &World, asked: &Answer, resource: &Resource) -> Option<usize> {
    let answers = world.answers.borrow();
    let changes = world.changes.borrow();
    let tags = values(&asked.fields, "if-none-match");
    let numbers = tags.iter().flat_map(|tags| tags.split(','));
    let mut numbers = numbers.filter_map(|tag| tag.trim().trim_matches('"').parse::<usize>().ok());
    numbers.find(|&number| {
        let Some(earlier) = answers.get(number) else {
            return false;
        };
        let mut names = resource.vary.iter().flat_map(|vary| vary.split(", "));
        let is_same = names.all(|name| {
            let name = name.to_ascii_lowercase();
            values(&earlier.fields, &name) == values(&asked.fields, &name)
        });
        let is_changed = |change: &Change| {
            change.target == earlier.target && change.begun_at >= earlier.asked_at
        };
        let is_it = earlier.target == asked.target && earlier.status == 200;
        is_it && is_same && !changes.iter().any(is_changed)
    })
}

fn one<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}
