//! The disk tier under load, killed: again and again in the same directory, at random moments. The origin computes each body
//! from its key and its version, so every byte that is served can be judged without knowing what the killed process did.
//!
//! What must hold for every answer, also the first after a kill:
//! - Its body is that of the version in its head: never torn, never of another key, never an old body with a new head.
//! - Its version is not older than what a write had ended, that was answered before the request was sent: a purge that was
//!   answered stays in force.
//!
//! `WEIR_KILL_ROUNDS` says how many kills; `scripts/kill-cache` makes a hundred.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::MIB;
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Directory, Gateway, PATIENCE};

const KEYS: u64 = 300;
const CLIENTS: u64 = 4;
const ROUNDS: u64 = 8;
/// So little that nearly everything goes to disk, and what is larger than 112 KiB while it arrives.
const MEMORY: &str = "1MiB";
/// Less than all bodies together, so that objects make room while others come.
const DISK: &str = "48MiB";
const BODY_BYTES_MAX: u64 = 4 * MIB;

/// Steele, Lea and Flood 2014: a generator that any number seeds.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// From one byte to 4 MiB: each power of two is as likely as the next, up to 64 KiB for three of four keys. Another version
/// has another length.
fn body(key: u64, version: u64) -> Vec<u8> {
    let mut random = SplitMix(key << 32 | version);
    let power = key / 4 % if key.is_multiple_of(4) { 23 } else { 17 };
    let length = ((1 << power) + random.below(1 << power)).min(BODY_BYTES_MAX) as usize;
    let mut body = Vec::with_capacity(length + 8);
    while body.len() < length {
        body.extend_from_slice(&random.next().to_le_bytes());
    }
    body.truncate(length);
    body
}

/// What the origin has, and what was ended by writes that were answered.
struct World {
    versions: Vec<AtomicU64>,
    oldest: Vec<AtomicU64>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    right: AtomicU64,
    hits: AtomicU64,
    bytes: AtomicU64,
    writes: AtomicU64,
    broken_off: AtomicU64,
    after_kill: AtomicU64,
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn serve(peer: &mut Peer, world: &World) {
    // A head that waits to be acknowledged before its body follows would make the load small.
    let _ = peer.stream.set_nodelay(true);
    while let Some(head) = peer.head() {
        let (method, rest) = head.split_once(" /").expect("a request line");
        let key = rest.split(' ').next().and_then(|key| key.parse().ok());
        let key: u64 = key.expect("a key");
        if method == "POST" {
            world.versions[key as usize].fetch_add(1, Ordering::SeqCst);
            peer.send("HTTP/1.1 204 No Content\r\n\r\n");
            continue;
        }
        let version = world.versions[key as usize].load(Ordering::SeqCst);
        // A third of the keys is always asked for again, and confirmed.
        let age = if key.is_multiple_of(3) { 0 } else { 3600 };
        let fields = format!(
            "Cache-Control: max-age={age}\r\nETag: \"{version}\"\r\nX-Version: {version}\r\n"
        );
        if head.contains(&format!("If-None-Match: \"{version}\"")) {
            peer.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"));
            continue;
        }
        let body = body(key, version);
        let is_chunked = key.is_multiple_of(2);
        let framing = if is_chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {}", body.len())
        };
        peer.send(format!("HTTP/1.1 200 OK\r\n{fields}{framing}\r\n\r\n"));
        for piece in body.chunks(64 << 10) {
            if is_chunked {
                let size = format!("{:x}\r\n", piece.len());
                peer.send([size.as_bytes(), piece, b"\r\n"].concat());
            } else {
                peer.send(piece);
            }
            // As if a network lay between, so that a kill finds some bodies half written.
            if body.len() > 64 << 10 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        if is_chunked {
            peer.send("0\r\n\r\n");
        }
    }
}

/// A client that takes it as it comes when the gateway is killed in the middle of an answer.
struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Client {
    fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self {
            stream,
            unread: Vec::new(),
        })
    }

    fn ask(&mut self, request: &str) -> Option<Answer> {
        self.stream.write_all(request.as_bytes()).ok()?;
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(head).expect("text");
        let status = head.get(9..12).and_then(|text| text.parse().ok());
        let mut answer = Answer {
            status: status.expect("a status"),
            head,
            body: Vec::new(),
        };
        if let Some(length) = answer.field("Content-Length") {
            let length = length.parse().expect("a length");
            answer.body = self.take(length)?;
        } else if answer.field("Transfer-Encoding").is_some() {
            loop {
                let line = self.until(b"\r\n")?;
                let line = String::from_utf8(line).expect("text");
                let length = usize::from_str_radix(line.trim_end(), 16).expect("a size");
                let chunk = self.take(length + 2)?;
                if length == 0 {
                    break;
                }
                answer.body.extend_from_slice(&chunk[..length]);
            }
        }
        Some(answer)
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self
                .unread
                .windows(end.len())
                .position(|window| window == end)
            {
                return self.take(at + end.len());
            }
            self.fill()?;
        }
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            self.fill()?;
        }
        let taken = self.unread[..count].to_vec();
        self.unread.drain(..count);
        Some(taken)
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer).ok()?;
        self.unread.extend_from_slice(&buffer[..count]);
        (count > 0).then_some(())
    }
}

impl World {
    /// Asks for a key and judges what comes; `None` when the gateway is gone.
    fn check(&self, client: &mut Client, key: u64, fields: &str) -> Option<Answer> {
        let oldest = self.oldest[key as usize].load(Ordering::SeqCst);
        let answer = client.ask(&format!(
            "GET /{key} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"
        ))?;
        if answer.status == 200 {
            let version = answer.field("X-Version").and_then(|text| text.parse().ok());
            let version: u64 = version.expect("a version");
            assert!(
                answer.body == body(key, version),
                "key {key}: not the body of version {version}\n{}",
                answer.head
            );
            assert!(
                version >= oldest,
                "key {key}: version {version}, though {oldest} was there before\n{}",
                answer.head
            );
            add(&self.counts.right, 1);
            add(&self.counts.bytes, answer.body.len() as u64);
            let is_hit = answer
                .field("Cache-Status")
                .is_some_and(|said| said.contains("; hit"));
            add(&self.counts.hits, u64::from(is_hit));
        }
        Some(answer)
    }

    /// Sends requests until it is over, most for few of the keys, and now and then a write.
    fn load(&self, address: SocketAddr, seed: u64, is_over: &AtomicBool) {
        let mut random = SplitMix(seed);
        let mut client = Client::open(address);
        while !is_over.load(Ordering::Relaxed) {
            let Some(open) = &mut client else {
                client = Client::open(address);
                continue;
            };
            let key = random.below(KEYS).min(random.below(KEYS));
            let went_well = if random.below(40) == 0 {
                self.write(open, key)
            } else {
                let answer = self.check(open, key, "");
                answer.map(|answer| assert_eq!(answer.status, 200, "{}", answer.head))
            };
            if went_well.is_none() {
                add(&self.counts.broken_off, 1);
                client = None;
            }
        }
    }

    fn write(&self, client: &mut Client, key: u64) -> Option<()> {
        let answer = client.ask(&format!(
            "POST /{key} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ))?;
        assert_eq!(answer.status, 204, "{}", answer.head);
        // The write that was answered made at least the version after the oldest that could be there before.
        self.oldest[key as usize].fetch_add(1, Ordering::SeqCst);
        add(&self.counts.writes, 1);
        Some(())
    }
}

fn config(origin: SocketAddr, directory: &Directory) -> String {
    super::config(origin, directory, "true")
        .replace("1GiB", DISK)
        .replace(super::MEMORY, MEMORY)
}

#[test]
fn a_gateway_that_is_killed_under_load_never_serves_a_wrong_body() {
    let rounds = std::env::var("WEIR_KILL_ROUNDS")
        .map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    let numbers = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let world = Arc::new(World {
        versions: numbers(),
        oldest: numbers(),
        counts: Counts::default(),
    });
    let shown = Arc::clone(&world);
    let origin = Origin::start(move |mut peer, _| serve(&mut peer, &shown));
    let directory = Directory::new();
    let mut random = SplitMix(0x5eed);
    let (mut half_written, mut damaged) = (0, 0);
    for round in 0..rounds {
        let mut gateway = Gateway::start(&config(origin.address, &directory));
        gateway.wait_for_metric("weir_cache_disk_indexed", 1);
        damaged += gateway.metric("weir_cache_disk_damaged_total");
        let address = gateway.address;
        // What the last kill has left is looked at before anything new comes.
        let mut client = Client::open(address).expect("it listens");
        for key in 0..KEYS {
            let answer = world.check(&mut client, key, "Cache-Control: only-if-cached\r\n");
            let answer = answer.expect("it is answered");
            assert!(matches!(answer.status, 200 | 504), "{}", answer.head);
            add(&world.counts.after_kill, u64::from(answer.status == 200));
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (world, is_over) = (&world, &is_over);
                scope.spawn(move || world.load(address, round << 8 | number, is_over));
            }
            thread::sleep(Duration::from_millis(100 + random.below(900)));
            gateway.process.kill();
            is_over.store(true, Ordering::Relaxed);
        });
        let temporary = std::fs::read_dir(directory.file("store/temporary"));
        half_written += temporary.expect("it is there").count();
        let _ = origin.heads_waiting();
    }
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let counts = &world.counts;
    println!(
        "{rounds} kills: {} right answers ({} hits, {} MiB), of which {} from disk right after a kill; {} writes; \
         {} answers broken off and {half_written} files half written by kills; {damaged} files damaged; no wrong body",
        read(&counts.right),
        read(&counts.hits),
        read(&counts.bytes) / MIB,
        read(&counts.after_kill),
        read(&counts.writes),
        read(&counts.broken_off),
    );
    assert_eq!(damaged, 0, "a file had its name before it was complete");
    assert!(
        [&counts.after_kill, &counts.hits, &counts.broken_off]
            .map(read)
            .iter()
            .all(|count| *count > rounds),
        "the kills must hit something"
    );
}
