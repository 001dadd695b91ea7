//! One statement for Cassandra, in its native protocol: a service may need a keyspace before others start. Nothing is read but whether
//! it was carried out.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Version 4 of the protocol, as a request and as a response.
const REQUEST: u8 = 0x04;
const RESPONSE: u8 = 0x84;
const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;
/// Consistency ONE, and no flags.
const PARAMETERS: [u8; 3] = [0, 1, 0];
/// A keyspace is made within this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// An answer is not longer than that.
const BODY_BYTES_MAX: u32 = 1 << 20;

/// Has `statement` carried out.
pub(super) fn carry_out(address: SocketAddr, statement: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut startup = vec![0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        startup.extend((text.len() as u16).to_be_bytes());
        startup.extend(text.bytes());
    }
    ask(&mut stream, STARTUP, &startup, READY)?;
    let length = (statement.len() as u32).to_be_bytes();
    let query = [&length[..], statement.as_bytes(), &PARAMETERS].concat();
    ask(&mut stream, QUERY, &query, RESULT)
}

/// A frame: version (1), flags (1), stream (2), opcode (1), length (4), body.
fn ask(stream: &mut TcpStream, opcode: u8, body: &[u8], expected: u8) -> io::Result<()> {
    let head = [REQUEST, 0, 0, 0, opcode];
    let length = (body.len() as u32).to_be_bytes();
    stream.write_all(&[&head[..], &length, body].concat())?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [version, _, _, _, answer, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if version != RESPONSE || length > BODY_BYTES_MAX {
        return Err(io::Error::other("it does not speak version 4 of CQL"));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body)?;
    if answer == expected {
        return Ok(());
    }
    // An error: its code (4), and a text with its length (2).
    let text = body.get(6..).unwrap_or_default();
    Err(io::Error::other(String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What a server that answers with these frames makes of a statement, and the statement as it came.
    fn answered(answers: [&'static [u8]; 2]) -> (Result<(), String>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut last = Vec::new();
                for answer in answers {
                    let mut head = [0; 9];
                    if stream.read_exact(&mut head).is_err() {
                        break;
                    }
                    let length = u32::from_be_bytes(head[5..].try_into().expect("four bytes"));
                    last = vec![0; length as usize];
                    stream.read_exact(&mut last).expect("a body");
                    stream.write_all(answer).expect("it is taken");
                }
                last
            });
            let done = carry_out(address, "USE a").map_err(|error| error.to_string());
            (done, server.join().expect("it does not panic"))
        })
    }

    #[test]
    fn a_statement_is_carried_out_or_refused() {
        const READY: &[u8] = &[0x84, 0, 0, 0, 2, 0, 0, 0, 0];
        const DONE: &[u8] = &[0x84, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 1];
        const REFUSED: &[u8] = &[
            0x84, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0x22, 0, 0, 2, b'n', b'o',
        ];
        const OLD: &[u8] = &[0x83, 0, 0, 0, 2, 0, 0, 0, 0];
        let (done, statement) = answered([READY, DONE]);
        assert_eq!(done, Ok(()));
        assert_eq!(statement, b"\0\0\0\x05USE a\0\x01\0");
        assert_eq!(answered([READY, REFUSED]).0, Err("no".to_owned()));
        assert_eq!(answered([REFUSED, DONE]).0, Err("no".to_owned()));
        let (old, _) = answered([OLD, DONE]);
        assert!(old.is_err_and(|why| why.contains("version 4")));
    }
}
