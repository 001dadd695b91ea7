//! A name server that says what a test tells it, on a UDP port of the loopback interface (RFC 1035 §4).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const TYPE_A: u16 = 1;
const TTL_SECONDS: u32 = 1;

/// What is said to every question.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// These are the addresses, for a second.
    Addresses(Vec<Ipv4Addr>),
    /// There is no such name.
    NoSuchName,
    /// Something is wrong with the server.
    Failure,
    /// Nothing.
    Nothing,
}

/// A running name server; it lasts as long as the test.
#[derive(Debug)]
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    says: Arc<Mutex<Says>>,
    questions: Arc<AtomicUsize>,
}

impl NameServer {
    pub(crate) fn start(says: Says) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let says = Arc::new(Mutex::new(says));
        let questions = Arc::<AtomicUsize>::default();
        let (told, counted) = (Arc::clone(&says), Arc::clone(&questions));
        std::thread::spawn(move || {
            let mut packet = [0; 1500];
            while let Ok((length, client)) = socket.recv_from(&mut packet) {
                counted.fetch_add(1, Ordering::Relaxed);
                let says = told.lock().expect("no test panics with it").clone();
                if let Some(answer) = answer(&packet[..length], &says) {
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        Self {
            address,
            says,
            questions,
        }
    }

    pub(crate) fn say(&self, says: Says) {
        *self.says.lock().expect("the server does not panic with it") = says;
    }

    /// Questions that came so far.
    pub(crate) fn questions(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }
}

/// Header, question, and an answer for each address if it was asked for them.
fn answer(question: &[u8], says: &Says) -> Option<Vec<u8>> {
    let name_bytes = question[12..].iter().position(|&length| length == 0)? + 1;
    let question_end = 12 + name_bytes + 4;
    let kind = u16::from_be_bytes([question[question_end - 4], question[question_end - 3]]);
    let (code, addresses) = match says {
        Says::Addresses(addresses) if kind == TYPE_A => (0_u8, addresses.as_slice()),
        Says::Addresses(_) => (0, &[][..]),
        Says::NoSuchName => (3, &[][..]),
        Says::Failure => (2, &[][..]),
        Says::Nothing => return None,
    };
    let mut packet = question[..2].to_vec();
    // A response, recursion desired and available.
    packet.extend([0x81, 0x80 | code]);
    for count in [1, addresses.len() as u16, 0, 0] {
        packet.extend(count.to_be_bytes());
    }
    packet.extend(&question[12..question_end]);
    for address in addresses {
        // The name is the one at byte 12.
        packet.extend([0xc0, 12]);
        packet.extend(TYPE_A.to_be_bytes());
        packet.extend(1_u16.to_be_bytes());
        packet.extend(TTL_SECONDS.to_be_bytes());
        packet.extend(4_u16.to_be_bytes());
        packet.extend(address.octets());
    }
    Some(packet)
}
