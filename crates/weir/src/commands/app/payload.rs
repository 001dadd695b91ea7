//! The body of a response: a few bytes, or ten thousand JSON records that are encoded while they are sent.
//!
//! Each record is encoded again for each request, since the encoding is the work of this service. It happens one
//! frame at a time, so a long name costs a frame of memory and not ten thousand times its length.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde::Serialize;

/// How many equal records an answer has.
pub(super) const RECORDS: usize = 10_000;

/// A frame is sent once it has this many bytes; it exceeds them by less than one record.
const FRAME_BYTES: usize = 64 * 1024;

/// One record of a JSON answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Record {
    Date { year: u16, month: u8, day: u8 },
    Name { name: String },
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum Payload {
    /// These bytes; empty once they are sent.
    Bytes(Bytes),
    /// A JSON array of equal records, of which `left` are still to be sent.
    Records {
        record: Record,
        record_bytes: usize,
        left: usize,
    },
}

impl Payload {
    /// A JSON array of [`RECORDS`] times `record`.
    pub(super) fn records(record: Record) -> Self {
        let mut encoded = Vec::new();
        encode(&mut encoded, &record);
        Self::Records {
            record,
            record_bytes: encoded.len(),
            left: RECORDS,
        }
    }

    /// The next frame of the body; `None` after the last.
    pub(super) fn next_bytes(&mut self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => None,
            Self::Bytes(bytes) => Some(std::mem::take(bytes)),
            Self::Records { left: 0, .. } => None,
            Self::Records {
                record,
                record_bytes,
                left,
            } => {
                let mut frame = Vec::with_capacity(FRAME_BYTES + *record_bytes + 2);
                while *left > 0 && frame.len() < FRAME_BYTES {
                    frame.push(if *left == RECORDS { b'[' } else { b',' });
                    encode(&mut frame, record);
                    *left -= 1;
                }
                if *left == 0 {
                    frame.push(b']');
                }
                Some(frame.into())
            }
        }
    }

    fn bytes_left(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Records { left: 0, .. } => 0,
            // Before each record stands `[` or `,`, after the last one `]`.
            Self::Records {
                record_bytes, left, ..
            } => left * (record_bytes + 1) + 1,
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next_bytes().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left() == 0
    }

    /// Exact, so that the response has a `Content-Length`.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left() as u64)
    }
}

fn encode(out: &mut Vec<u8>, record: &Record) {
    serde_json::to_writer(out, record)
        .expect("numbers and strings always encode, and a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut payload: Payload) -> Vec<Bytes> {
        let mut announced = payload.bytes_left();
        let mut frames = Vec::new();
        while let Some(frame) = payload.next_bytes() {
            announced -= frame.len();
            assert_eq!(payload.bytes_left(), announced);
            frames.push(frame);
        }
        assert_eq!(announced, 0);
        assert!(payload.is_end_stream());
        frames
    }

    #[test]
    fn records_make_one_json_array_of_the_announced_length() {
        let frames = drain(Payload::records(Record::Date {
            year: 2026,
            month: 11,
            day: 5,
        }));
        let json: Vec<serde_json::Value> = serde_json::from_slice(&frames.concat()).unwrap();
        assert_eq!(json.len(), RECORDS);
        let expected = serde_json::json!({ "year": 2026, "month": 11, "day": 5 });
        assert!(json.iter().all(|record| *record == expected));
    }

    #[test]
    fn a_name_is_escaped_as_json_wants_it() {
        let frames = drain(Payload::records(Record::Name {
            name: "\"\n\u{1}é".to_owned(),
        }));
        assert!(frames[0].starts_with("[{\"name\":\"\\\"\\n\\u0001é\"},{\"name\":".as_bytes()));
    }

    #[test]
    fn a_long_name_takes_many_frames_and_none_is_long() {
        let name = "x".repeat(FRAME_BYTES / 2);
        let frame_bytes_max = FRAME_BYTES + name.len() + 20;
        let frames = drain(Payload::records(Record::Name { name }));
        assert!(frames.len() > RECORDS / 3);
        assert!(frames.iter().all(|frame| frame.len() < frame_bytes_max));
    }

    #[test]
    fn bytes_are_sent_once_and_none_of_them_is_an_empty_frame() {
        assert_eq!(drain(Payload::Bytes(Bytes::from_static(b"ok"))), ["ok"]);
        assert_eq!(drain(Payload::Bytes(Bytes::new())).len(), 0);
    }
}
