//! The clients of a scene: each asks once, on a connection of its own, and tells what it got.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use weir_http::Scheme;

use crate::connection::link::Link;
use crate::connection::{AddressText, Client, h1};
use crate::deadline::Timer;
use crate::simulation::client::{Framing, fields_of, unchunked};
use crate::simulation::scripts::SLACK_MS;
use crate::simulation::tasks::Tasks;
use crate::simulation::world::FieldList;
use crate::simulation::{Gateway, serve};

/// What a client asks for, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    at_ms: u64,
    method: &'static str,
    version: &'static str,
    /// Whole lines.
    fields: &'static str,
    body: &'static str,
    /// The end of the body, which is sent so much later.
    rest: (u64, &'static str),
    leaves_after_ms: Option<u64>,
}

/// Asks for `/` at once.
pub(super) const fn ask(method: &'static str) -> Ask {
    Ask {
        at_ms: 0,
        method,
        version: "1.1",
        fields: "",
        body: "",
        rest: (0, ""),
        leaves_after_ms: None,
    }
}

pub(super) const GET: Ask = ask("GET");

impl Ask {
    pub(super) const fn at(self, at_ms: u64) -> Self {
        Self { at_ms, ..self }
    }

    /// With these lines in its head.
    pub(super) const fn with(self, fields: &'static str) -> Self {
        Self { fields, ..self }
    }

    pub(super) const fn version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    pub(super) const fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    /// The end of its body comes so much later.
    pub(super) const fn then(self, after_ms: u64, rest: &'static str) -> Self {
        let rest = (after_ms, rest);
        Self { rest, ..self }
    }

    /// The client leaves so long after it has asked, if it has not been answered.
    pub(super) const fn leaving_after(self, ms: u64) -> Self {
        let leaves_after_ms = Some(ms);
        Self {
            leaves_after_ms,
            ..self
        }
    }

    fn head(&self) -> String {
        let Self {
            method,
            version,
            fields,
            body,
            rest,
            ..
        } = self;
        let length = match body.len() + rest.1.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        format!("{method} / HTTP/{version}\r\nHost: a.test\r\n{fields}{length}\r\n{body}")
    }
}

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Got {
    /// 0 where no response came.
    pub(super) status: u16,
    pub(super) fields: FieldList,
    pub(super) body: String,
    /// How many interim responses came before.
    pub(super) hints: usize,
    /// Whether its end was told by its framing.
    pub(super) is_whole: bool,
    /// When it ended, in milliseconds since it was asked for.
    pub(super) ms: u64,
}

impl Got {
    /// Status and body.
    pub(super) fn said(&self) -> (u16, &str) {
        (self.status, &self.body)
    }

    /// Whether it ended when it was to, give or take what the machinery takes.
    pub(super) fn came_after(&self, ms: u64) -> bool {
        (ms..=ms + SLACK_MS).contains(&self.ms)
    }
}

/// Starts all clients; what each of them got, in their order.
pub(super) fn send_all(asks: &[Ask], tasks: &Tasks, gateway: &Gateway) -> Rc<RefCell<Vec<Got>>> {
    let all = Rc::new(RefCell::new(Vec::new()));
    all.borrow_mut().resize_with(asks.len(), Got::default);
    for (number, ask) in asks.iter().copied().enumerate() {
        let (own, gateway, all) = (tasks.clone(), gateway.clone(), Rc::clone(&all));
        tasks.spawn(async move {
            own.sleep(ask.at_ms).await;
            let stream = connect(&own, &gateway);
            let got = send(&own, ask, stream).await;
            all.borrow_mut()[number] = got;
        });
    }
    all
}

/// A client's end of a connection to the gateway.
fn connect(tasks: &Tasks, gateway: &Gateway) -> UnixStream {
    let (own, theirs) = UnixStream::pair().expect("there are sockets");
    let client = Client {
        link: Link::H1(h1::Link::new(theirs.into())),
        address: AddressText::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        scheme: Scheme::Http,
        listening: None,
        timer: Timer::new(&gateway.workers[0].deadlines),
    };
    serve(gateway, tasks, client, 0);
    own
}

async fn send(tasks: &Tasks, ask: Ask, stream: UnixStream) -> Got {
    let asked_at = tasks.now_ms();
    let (mut reading, mut writing) = stream.into_split();
    let own = tasks.clone();
    // It goes on sending while it is answered, and may be answered before it has sent all.
    let sending = tokio::task::spawn_local(async move {
        let _ = writing.write_all(ask.head().as_bytes()).await;
        if !ask.rest.1.is_empty() {
            own.sleep(ask.rest.0).await;
            let _ = writing.write_all(ask.rest.1.as_bytes()).await;
        }
        writing
    });
    let mut got = Got::default();
    let patience = ask.leaves_after_ms.map(Duration::from_millis);
    match patience {
        None => read(&mut reading, ask.method, &mut got).await,
        Some(patience) => {
            let reads = read(&mut reading, ask.method, &mut got);
            let _ = tokio::time::timeout(patience, reads).await;
        }
    }
    got.ms = tasks.now_ms() - asked_at;
    sending.abort();
    got
}

/// Reads until the end of the response, or of the connection.
async fn read(stream: &mut OwnedReadHalf, method: &str, got: &mut Got) {
    let mut unread = Vec::new();
    loop {
        while let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = unread.split_off(at + 4);
            let head = String::from_utf8_lossy(&unread).into_owned();
            got.status = head[9..12].parse().expect("a status");
            got.fields = fields_of(&head);
            unread = body;
            if got.status >= 200 {
                return read_body(stream, method, got, unread).await;
            }
            got.hints += 1;
        }
        if !matches!(stream.read_buf(&mut unread).await, Ok(1..)) {
            return;
        }
    }
}

async fn read_body(stream: &mut OwnedReadHalf, method: &str, got: &mut Got, mut body: Vec<u8>) {
    let framing = Framing::of(method, got.status, &got.fields);
    got.is_whole = framing.is_whole(&body);
    while !got.is_whole {
        match stream.read_buf(&mut body).await {
            Ok(1..) => got.is_whole = framing.is_whole(&body),
            end => {
                got.is_whole = framing == Framing::Close && end.is_ok();
                break;
            }
        }
    }
    if framing == Framing::Chunks {
        body = unchunked(&body);
    }
    got.body = String::from_utf8_lossy(&body).into_owned();
}
