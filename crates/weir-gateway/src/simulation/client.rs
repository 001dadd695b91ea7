//! The simulated clients: each sends its requests on connections of its own, reads as fast as it likes, and may leave.

use std::net::IpAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weir_cache::store::PurgeKind;
use weir_http::Scheme;

use crate::cache::scope;
use crate::connection::link::Link;
use crate::connection::{AddressText, Client, h1};
use crate::deadline::Timer;
use crate::simulation::plan::{AskPlan, HOST};
use crate::simulation::world::{Change, FieldList, Got, Request, World, values};
use crate::simulation::{Gateway, serve};

/// Bytes that a client reads at once.
const READ_BYTES: usize = 64 << 10;

/// Starts all clients, and the operator who purges.
pub(super) fn send_all(world: &World, gateway: &Gateway) {
    for number in 0..world.plan.clients.len() {
        let (own, gateway) = (world.clone(), gateway.clone());
        world.tasks.spawn(async move {
            let mut connection = None;
            for ask in &own.plan.clients[number].asks {
                own.tasks.sleep(ask.after_ms).await;
                connection = send(&own, &gateway, (number, ask), connection).await;
            }
        });
    }
    for &(at_ms, resource) in &world.plan.purges {
        let (own, gateway) = (world.clone(), gateway.clone());
        world.tasks.spawn(async move {
            own.tasks.sleep(at_ms).await;
            purge(&own, &gateway, resource).await;
        });
    }
}

async fn purge(world: &World, gateway: &Gateway, resource: usize) {
    let target = world.plan.resources[resource].path.clone();
    let snapshot = gateway.shared.snapshot();
    let scopes = scope::of_url(&format!("http://{HOST}{target}"), &snapshot);
    let begun_at = world.tasks.now_ms();
    let cache = gateway.shared.cache().expect("a route caches");
    for scope in scopes.expect("it is a URL") {
        let _ = cache.purge(scope, PurgeKind::Hard).await;
    }
    world.changes.borrow_mut().push(Change {
        target,
        answer: None,
        begun_at,
        done_at: world.tasks.now_ms(),
    });
}

/// A client's end of a connection to the gateway.
fn connect(world: &World, gateway: &Gateway, number: usize) -> UnixStream {
    let (own, theirs) = UnixStream::pair().expect("there are sockets");
    let plan = &world.plan.clients[number];
    let address: IpAddr = plan.address.parse().expect("it is an address");
    let client = Client {
        link: Link::H1(h1::Link::new(theirs.into())),
        address: AddressText::new(address),
        scheme: Scheme::Http,
        listening: None,
        timer: Timer::new(&gateway.workers[plan.worker].deadlines),
    };
    serve(gateway, &world.tasks, client, plan.worker);
    own
}

/// Sends one request and reads what comes; gives the connection back if it can be used again.
async fn send(
    world: &World,
    gateway: &Gateway,
    (client, ask): (usize, &AskPlan),
    connection: Option<UnixStream>,
) -> Option<UnixStream> {
    let mut stream = connection.unwrap_or_else(|| connect(world, gateway, client));
    let number = {
        let mut requests = world.requests.borrow_mut();
        requests.push(Request {
            method: ask.method.to_owned(),
            target: world.plan.resources[ask.resource].path.clone(),
            fields: ask.fields.clone(),
            body: ask.body.to_owned(),
            address: world.plan.clients[client].address.clone(),
            sent_at: world.tasks.now_ms(),
            ..Request::default()
        });
        requests.len() - 1
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", ask.method, ask.target);
    for (name, value) in &ask.fields {
        head.extend([name, ": ", value, "\r\n"]);
    }
    let length = ask.body.len();
    head.extend(["X-Request: ", &number.to_string(), "\r\n"]);
    if length > 0 {
        head.extend(["Content-Length: ", &length.to_string(), "\r\n"]);
    }
    head.extend(["\r\n", ask.body]);
    let exchange = async {
        stream.write_all(head.as_bytes()).await.ok()?;
        read(world, &mut stream, number, ask).await
    };
    let ended = match ask.leaves_after_ms {
        None => exchange.await,
        Some(ms) => {
            let patience = std::time::Duration::from_millis(ms);
            tokio::time::timeout(patience, exchange)
                .await
                .unwrap_or_else(|_| {
                    world.requests.borrow_mut()[number].has_left = true;
                    None
                })
        }
    };
    world.requests.borrow_mut()[number].is_over = true;
    ended.filter(|can_go_on| *can_go_on).map(|_| stream)
}

/// Reads one response; whether the connection can be used again. `None` when it ended before there was a head.
async fn read(
    world: &World,
    stream: &mut UnixStream,
    number: usize,
    ask: &AskPlan,
) -> Option<bool> {
    let mut unread = Vec::new();
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut unread).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&unread[..head_end]).into_owned();
    let body = unread.split_off(head_end);
    let mut got = Got {
        status: head.get(9..12)?.parse().ok()?,
        fields: fields_of(&head),
        head_at: world.tasks.now_ms(),
        body,
        ..Got::default()
    };
    // The oracle also looks at what a client got that left inside of the body.
    let (status, framing) = (got.status, Framing::of(ask.method, got.status, &got.fields));
    loop {
        let is_whole = framing.is_whole(&got.body);
        if is_whole {
            got.is_whole = true;
            break;
        }
        world.tasks.sleep(ask.read_ms).await;
        let mut piece = Vec::with_capacity(READ_BYTES);
        match stream.read_buf(&mut piece).await {
            Ok(0) => {
                got.is_whole = framing == Framing::Close;
                break;
            }
            Err(_) => break,
            Ok(_) => got.body.extend_from_slice(&piece),
        }
    }
    if framing == Framing::Chunks {
        got.body = unchunked(&got.body);
    }
    got.ended_at = world.tasks.now_ms();
    let closes = values(&got.fields, "connection").contains(&"close");
    let goes_on = got.is_whole && framing != Framing::Close && !closes;
    let done = values(&got.fields, "x-answer")
        .first()
        .and_then(|text| text.parse().ok());
    if status < 400
        && let Some(done) = done
    {
        let mut changes = world.changes.borrow_mut();
        let mut own = changes
            .iter_mut()
            .filter(|change| change.answer == Some(done));
        if let Some(change) = own.next() {
            change.done_at = change.done_at.min(got.head_at);
        }
    }
    world.requests.borrow_mut()[number].got = Some(got);
    Some(goes_on)
}

pub(super) fn fields_of(head: &str) -> FieldList {
    let lines = head
        .split("\r\n")
        .skip(1)
        .filter_map(|line| line.split_once(':'));
    let fields = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    fields.collect()
}

/// How the end of a body shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunks,
    Close,
}

impl Framing {
    pub(super) fn of(method: &str, status: u16, fields: &FieldList) -> Self {
        if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
            return Self::Length(0);
        }
        if !values(fields, "transfer-encoding").is_empty() {
            return Self::Chunks;
        }
        let length = values(fields, "content-length");
        let length = length.first().and_then(|text| text.parse().ok());
        length.map_or(Self::Close, Self::Length)
    }

    pub(super) fn is_whole(self, body: &[u8]) -> bool {
        match self {
            Self::Length(length) => body.len() >= length,
            Self::Chunks => body.ends_with(b"0\r\n\r\n") && is_chunked_whole(body),
            Self::Close => false,
        }
    }
}

fn is_chunked_whole(body: &[u8]) -> bool {
    chunks(body).last().is_some_and(<[u8]>::is_empty)
}

pub(super) fn unchunked(body: &[u8]) -> Vec<u8> {
    chunks(body).flatten().copied().collect()
}

/// The chunks of a body as far as they are here whole; the last one is empty.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let line_end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = str::from_utf8(&rest[..line_end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?, 16).ok()?;
        let chunk = rest.get(line_end + 2..line_end + 2 + size)?;
        rest = rest.get(line_end + 4 + size..).unwrap_or_default();
        Some(chunk)
    })
}
