//! Bodies of any length that nobody has to hold: a pattern to be written and checked piece by piece, and what memory they
//! cost meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use super::Gateway;

/// Its length has no divisor in common with any buffer, so a byte that is lost, doubled or moved is noticed.
pub(crate) const PERIOD: usize = 65_521;
/// What all bodies consist of, twice, so that every window of a period is one slice.
fn pattern() -> Vec<u8> {
    let period = (0..PERIOD as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8);
    let period: Vec<u8> = period.collect();
    [period.as_slice(), &period].concat()
}

/// Writes the bytes of the pattern that lie at `range`.
pub(crate) fn write_pattern(to: &mut impl Write, range: Range<u64>) -> std::io::Result<()> {
    let pattern = pattern();
    let mut at = range.start;
    while at < range.end {
        let start = (at % PERIOD as u64) as usize;
        let length = (range.end - at).min(PERIOD as u64) as usize;
        to.write_all(&pattern[start..start + length])?;
        at += length as u64;
    }
    Ok(())
}

/// Reads as many bytes as `range` has, which must be those of the pattern there.
pub(crate) fn read_pattern(from: &mut impl Read, range: Range<u64>) {
    let pattern = pattern();
    let mut buffer = vec![0; PERIOD];
    let mut at = range.start;
    while at < range.end {
        let room = (range.end - at).min(PERIOD as u64) as usize;
        let length = from.read(&mut buffer[..room]).expect("the body goes on");
        assert!(length > 0, "the body ended after {at} bytes");
        let start = (at % PERIOD as u64) as usize;
        assert!(
            buffer[..length] == pattern[start..start + length],
            "the body differs between byte {at} and {}",
            at + length as u64
        );
        at += length as u64;
    }
}

/// Watches the resident memory of the gateway while `work` is done, and returns by how much it grew.
pub(crate) fn growth_during(gateway: &Gateway, work: impl FnOnce() + Send) -> u64 {
    let before = gateway.process.resident_bytes();
    let mut most = before;
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            most = most.max(gateway.process.resident_bytes());
            std::thread::sleep(Duration::from_millis(10));
        }
        working.join().expect("every byte arrives");
    });
    most - before
}

/// Reads a head byte by byte, so that nothing of what follows is taken with it.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head goes on");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}
