//! An upstream that answers every request with an empty 200 and keeps every byte it was sent.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::reader::Reading;

/// What one connection brought since it was looked at last.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) bytes: Vec<u8>,
    pub(super) is_open: bool,
}

/// The upstream.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) address: SocketAddr,
    records: Records,
}

/// Of all connections, in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Records(Arc<Mutex<Vec<Record>>>);

impl Records {
    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let records = Records::default();
        let for_connections = records.clone();
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().flatten().enumerate() {
                let records = for_connections.clone();
                records.lock().push(Record {
                    bytes: Vec::new(),
                    is_open: true,
                });
                std::thread::spawn(move || {
                    answer(stream, &records, index);
                    records.lock()[index].is_open = false;
                });
            }
        });
        Self { address, records }
    }

    /// Connections open now.
    pub(super) fn open(&self) -> usize {
        self.records.lock().iter().filter(|own| own.is_open).count()
    }

    /// Connections there were so far.
    pub(super) fn connections(&self) -> usize {
        self.records.lock().len()
    }

    /// What came since the last time, connection by connection.
    pub(super) fn take(&self) -> Vec<Record> {
        let mut records = self.records.lock();
        let taken = records.clone();
        for record in &mut *records {
            record.bytes.clear();
        }
        taken
    }
}

/// Answers each request once it is whole, however oddly it is written.
fn answer(mut stream: TcpStream, records: &Records, index: usize) {
    let _ = stream.set_nodelay(true);
    let mut unanswered = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        records.lock()[index]
            .bytes
            .extend_from_slice(&buffer[..count]);
        unanswered.extend_from_slice(&buffer[..count]);
        let Ok(requests) = Reading::EncodingFirst.requests(&unanswered) else {
            return;
        };
        let rest = requests.rest.len();
        for _ in requests.whole {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        unanswered.drain(..unanswered.len() - rest);
    }
}
