//! Files that are torn or have a bit flipped: a miss, or a response that is visibly cut off; never a wrong byte.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use super::{FRESH, MIB, ask, caching, fetch, files, origin, pattern, wait_for_files};
use crate::harness::client::Connection;
use crate::harness::pattern::read_head;
use crate::harness::{Directory, Gateway, wait_until};

const LENGTH: u64 = 8 * MIB;

/// The file of the one object there is.
fn file(directory: &Directory) -> File {
    wait_for_files(directory, 1);
    let path = &files(directory)[0].0;
    let opened = File::options().read(true).write(true).open(path);
    opened.expect("the file is there")
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is as long");
    file.write_all_at(&[byte[0] ^ 1], at)
        .expect("it can be written");
}

fn filled(origin: std::net::SocketAddr, directory: &Directory) -> Gateway {
    let gateway = caching(origin, directory, "true");
    fetch(gateway.address, LENGTH);
    gateway
}

#[test]
fn damage_that_shows_before_the_first_byte_is_a_miss() {
    let damages: [fn(&File); 4] = [
        // The first block, the head's sum, the key in the trailer, and a file that lost its end.
        |file| flip(file, 64 + 1000),
        |file| flip(file, 50),
        |file| {
            let length = file.metadata().expect("it is open").len();
            flip(file, length - 10);
        },
        |file| file.set_len(1000).expect("it can be cut"),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let origin = origin(LENGTH, FRESH);
        let directory = Directory::new();
        let gateway = filled(origin.address, &directory);
        damage(&file(&directory));
        let head = fetch(gateway.address, LENGTH);
        assert!(
            head.contains("\r\nCache-Status: weir; fwd=uri-miss; stored"),
            "{number}: {head}"
        );
        assert_eq!(origin.heads_waiting(), 2);
        wait_until("it is stored again", || {
            fetch(gateway.address, LENGTH).contains("weir; hit")
        });
    }
}

#[test]
fn damage_behind_the_first_bytes_breaks_the_response_off() {
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let gateway = filled(origin.address, &directory);
    flip(&file(&directory), 5 * MIB);
    // What is not damaged can be had.
    let part = ask(&gateway, "GET", "Range: bytes=0-999999\r\n");
    assert_eq!((part.status, part.body), (206, pattern(0..1_000_000)));

    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    read_head(&mut connection.stream);
    let mut body = Vec::new();
    let end = connection.stream.read_to_end(&mut body);
    assert!(end.is_err(), "{} bytes and a clean end", body.len());
    assert!(body.len() < 5 * MIB as usize && body == pattern(0..body.len() as u64));
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"gateway\",reason=\"store_failed\"}",
        1,
    );

    assert_eq!(origin.heads_waiting(), 1);
    fetch(gateway.address, LENGTH);
    assert_eq!(origin.heads_waiting(), 1);
}
