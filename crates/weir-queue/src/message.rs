//! A message: a request that is kept, and what is known of how it came.
//!
//! It is the head of a record of the log, whose body is the content of the request.
//!
//! ```text
//!  0         1        2        3            11       15      19
//!  ├─────────┼────────┼────────┼────────────┼────────┼───────┼────────┬──────┬───────┬──────────┬─────┬────┬─────────┬──────┐
//!  │ version │ scheme │ absent │ expires ms │ number │ count │ client │ peer │ route │ upstream │ key │ id │ content │ head │
//!  └─────────┴────────┴────────┴────────────┴────────┴───────┴────────┴──────┴───────┴──────────┴─────┴────┴─────────┴──────┘
//! ```
//!
//! Numbers are little-endian. `client`, `peer`, `route`, `upstream`, `key` and `id` are a length of two bytes and as many bytes;
//! addresses have four or sixteen. Bit 0 of `absent` says that there is no key, bit 1 that there is no id. `content` is the hash that
//! belongs to the id, of eight bytes; `head` is the rest.

use std::net::{IpAddr, Ipv4Addr};

use weir_http::Scheme;

const VERSION: u8 = 1;
const NO_KEY: u8 = 1;
const NO_ID: u8 = 2;

/// A request that was acknowledged, but for its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'b> {
    /// How its client has connected.
    pub scheme: Scheme,
    /// When it is no longer to be delivered, in milliseconds since 1970; 0 is never.
    pub expires_ms: u64,
    /// Which of the messages of its request it is, from 0, and how many they are. One that came alone is 0 of 1.
    pub part: (u32, u32),
    /// In whose name it is delivered.
    pub client: IpAddr,
    /// Who had sent it: the client, or a trusted proxy.
    pub peer: IpAddr,
    /// The name of the route that it came by.
    pub route: &'b str,
    /// The name of the upstream that it is for; empty when it is for none.
    pub upstream: &'b str,
    /// What it shares with those that it must not overtake.
    pub key: Option<&'b [u8]>,
    /// Its `Idempotency-Key`, with a hash of what was sent under it.
    pub id: Option<(&'b [u8], u64)>,
    /// The head of the request, as [`weir_http::kept`] makes it.
    pub head: &'b [u8],
}

/// A field of a message is longer than two bytes can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl<'b> Message<'b> {
    /// One that no client has sent, and that is for no upstream.
    pub(crate) fn of_nobody(route: &'b str, head: &'b [u8]) -> Self {
        let nobody = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        Self {
            scheme: Scheme::Http,
            expires_ms: 0,
            part: (0, 1),
            client: nobody,
            peer: nobody,
            route,
            upstream: "",
            key: None,
            id: None,
            head,
        }
    }

    /// Appends its bytes.
    ///
    /// # Errors
    /// A name, a key or an id has more than 65,535 bytes. Nothing is appended then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let (id, content) = self.id.unwrap_or_default();
        let key = self.key.unwrap_or_default();
        let texts = [self.route.as_bytes(), self.upstream.as_bytes(), key, id];
        if texts.iter().any(|text| text.len() > usize::from(u16::MAX)) {
            return Err(TooLong);
        }
        let no_key = u8::from(self.key.is_none()) * NO_KEY;
        let no_id = u8::from(self.id.is_none()) * NO_ID;
        let scheme = match self.scheme {
            Scheme::Http => 0,
            Scheme::Https => 1,
        };
        out.extend([VERSION, scheme, no_key | no_id]);
        out.extend(self.expires_ms.to_le_bytes());
        out.extend(self.part.0.to_le_bytes());
        out.extend(self.part.1.to_le_bytes());
        for address in [self.client, self.peer] {
            match address {
                IpAddr::V4(address) => write_text(out, &address.octets()),
                IpAddr::V6(address) => write_text(out, &address.octets()),
            }
        }
        for text in texts {
            write_text(out, text);
        }
        out.extend(content.to_le_bytes());
        out.extend(self.head);
        Ok(())
    }

    /// Reads what [`Message::write`] has written; `None` when it is something else.
    pub fn read(mut bytes: &'b [u8]) -> Option<Self> {
        let rest = &mut bytes;
        let [version, scheme, absent] = take(rest)?;
        let scheme = match scheme {
            0 => Scheme::Http,
            1 => Scheme::Https,
            _ => return None,
        };
        if version != VERSION || absent & !(NO_KEY | NO_ID) != 0 {
            return None;
        }
        let expires_ms = u64::from_le_bytes(take(rest)?);
        let part = (
            u32::from_le_bytes(take(rest)?),
            u32::from_le_bytes(take(rest)?),
        );
        let (client, peer) = (address(rest)?, address(rest)?);
        let route = std::str::from_utf8(text(rest)?).ok()?;
        let upstream = std::str::from_utf8(text(rest)?).ok()?;
        let (key, id) = (text(rest)?, text(rest)?);
        let content = u64::from_le_bytes(take(rest)?);
        let is_sound = part.0 < part.1
            && (absent & NO_KEY == 0 || key.is_empty())
            && (absent & NO_ID == 0 || (id.is_empty() && content == 0));
        is_sound.then_some(Self {
            scheme,
            expires_ms,
            part,
            client,
            peer,
            route,
            upstream,
            key: (absent & NO_KEY == 0).then_some(key),
            id: (absent & NO_ID == 0).then_some((id, content)),
            head: rest,
        })
    }
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text);
}

/// The next bytes, so many.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn address(rest: &mut &[u8]) -> Option<IpAddr> {
    let octets = text(rest)?;
    match *octets {
        [a, b, c, d] => Some([a, b, c, d].into()),
        _ => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> Message<'static> {
        Message {
            scheme: Scheme::Https,
            expires_ms: 1_700_000_000_000,
            part: (2, 7),
            client: [192, 0, 2, 7].into(),
            peer: [0; 16].into(),
            route: "events",
            upstream: "logs",
            key: Some(b"user-7"),
            id: Some((b"\"a\"", 99)),
            head: b"POST / HTTP/1.1\r\n\r\n",
        }
    }

    fn written(message: &Message<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.write(&mut bytes).expect("it is short");
        bytes
    }

    #[test]
    fn what_is_absent_is_not_what_is_empty() {
        let absent = Message {
            key: None,
            id: None,
            ..message()
        };
        let empty = Message {
            key: Some(b""),
            id: Some((b"", 0)),
            ..message()
        };
        for message in [absent, empty] {
            assert_eq!(Message::read(&written(&message)), Some(message));
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let long = vec![b'a'; 65_536];
        let text = String::from_utf8(long.clone()).expect("it is text");
        for message in [
            Message {
                key: Some(&long),
                ..message()
            },
            Message {
                id: Some((&long, 0)),
                ..message()
            },
            Message {
                route: &text,
                ..message()
            },
            Message {
                upstream: &text,
                ..message()
            },
        ] {
            let mut out = b"before".to_vec();
            assert_eq!(message.write(&mut out), Err(TooLong));
            assert_eq!(out, b"before");
        }
        let just = Message {
            key: Some(&long[1..]),
            ..message()
        };
        assert_eq!(Message::read(&written(&just)), Some(just));
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        let bytes = written(&message());
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        for (at, byte, what) in [
            (0, 2, "another version"),
            (1, 2, "another scheme"),
            (2, 4, "an unknown flag"),
            (2, 1, "no key, and one"),
            (2, 2, "no id, and one"),
            (15, 2, "the third of two"),
            (19, 3, "an address of three bytes"),
        ] {
            assert_eq!(Message::read(&changed(at, byte)), None, "{what}");
        }
        let fixed = bytes.len() - message().head.len();
        for length in 0..fixed {
            assert_eq!(Message::read(&bytes[..length]), None, "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_is_read(
            client: IpAddr, peer: IpAddr, numbers: (u64, u32, u64), route: String, upstream: String,
            key: Option<Vec<u8>>, id: Option<Vec<u8>>, head: Vec<u8>,
        ) {
            let (expires_ms, count, content) = numbers;
            let count = count.max(1);
            let message = Message {
                scheme: Scheme::Http, expires_ms, part: (count - 1, count), client, peer, route: &route, upstream: &upstream,
                key: key.as_deref(), id: id.as_deref().map(|id| (id, content)), head: &head,
            };
            let bytes = written(&message);
            prop_assert_eq!(Message::read(&bytes), Some(message));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
            let _ = Message::read(&bytes);
            let mut bytes = written(&message());
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Message::read(&bytes);
        }
    }
}
