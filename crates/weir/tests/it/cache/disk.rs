//! The disk tier through the gateway: objects of any size, restarts, damage, and kills.

mod arriving;
mod damage;
mod held;
mod killed;
mod large;
mod restart;
mod shares;
mod written;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::harness::client::{Connection, Response, send};
use crate::harness::origin::{Origin, Peer};
use crate::harness::pattern::{read_head, read_pattern, write_pattern};
use crate::harness::{Directory, Gateway, wait_until};

const MIB: u64 = 1 << 20;
/// RAM takes objects of up to an eighth of it.
const MEMORY: &str = "8MiB";

/// A gateway whose one route caches with `cache`, 8 MiB in RAM and the rest in `directory`, which is indexed.
fn caching(origin: SocketAddr, directory: &Directory, cache: &str) -> Gateway {
    indexed(Gateway::start(&config(origin, directory, cache)))
}

/// Waits until nothing keeps the disk from taking objects.
fn indexed(gateway: Gateway) -> Gateway {
    gateway.wait_for_metric("weir_cache_disk_indexed", 1);
    gateway
}

fn config(origin: SocketAddr, directory: &Directory, cache: &str) -> String {
    let path = directory.file("store");
    let path = path.display();
    format!(
        "[cache]\nmemory = \"{MEMORY}\"\ndisk = {{ path = \"{path}\", size = \"1GiB\" }}\n\
         [upstream.app]\nservers = [\"{origin}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = {cache}\n"
    )
}

/// The files of objects, and their inodes.
fn files(directory: &Directory) -> Vec<(PathBuf, u64)> {
    let list = |path: PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let objects = list(directory.file("store/objects")).flat_map(list);
    let inode = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.ino());
    objects.map(|path| (path.clone(), inode(&path))).collect()
}

/// Waits until so many objects are on disk.
fn wait_for_files(directory: &Directory, count: usize) {
    let what = format!("{count} objects are on disk");
    wait_until(&what, || files(directory).len() == count);
}

const FRESH: &str = "Cache-Control: max-age=600\r\nETag: \"1\"\r\n";

/// Answers with `length` bytes of the pattern, or with the part of them that is asked for.
fn answer(peer: &mut Peer, head: &str, length: u64, fields: &str) -> std::io::Result<()> {
    if let Some(range) = head.split_once("Range: bytes=").map(|(_, rest)| rest) {
        let (first, rest) = range.split_once('-').expect("a range");
        let last = rest.split(['\r', ',']).next().expect("it ends");
        let (first, last): (u64, u64) = (number(first), number(last));
        peer.send(format!(
            "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {first}-{last}/{length}\r\nContent-Length: {}\r\n\r\n",
            last + 1 - first
        ));
        return write_pattern(&mut peer.stream, first..last + 1);
    }
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n"
    ));
    write_pattern(&mut peer.stream, 0..length)
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// An origin of which every path is `length` bytes of the pattern.
fn origin(length: u64, fields: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if answer(&mut peer, &head, length, fields).is_err() {
                return;
            }
        }
    })
}

/// Asks for `/` and checks every byte of the answer, which has a length; returns its head.
fn fetch(address: SocketAddr, length: u64) -> String {
    let mut connection = Connection::open(address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = read_head(&mut connection.stream);
    assert!(
        head.contains(&format!("\r\nContent-Length: {length}\r\n")),
        "{head}"
    );
    read_pattern(&mut connection.stream, 0..length);
    head
}

/// Asks for `/` with these fields.
fn ask(gateway: &Gateway, method: &str, fields: &str) -> Response {
    let request = format!("{method} / HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    send(gateway.address, &request)
}

/// The pattern's bytes at `range`.
fn pattern(range: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pattern(&mut bytes, range).expect("memory takes it");
    bytes
}
