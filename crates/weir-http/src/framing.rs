//! The fields that say where a message ends and whether its connection stays open, gathered while a head is read:
//! `Content-Length`, `Transfer-Encoding` (RFC 9112 §6) and `Connection` (RFC 9110 §7.6.1). Requests and responses share
//! these rules; `request.rs` and `response.rs` decide what each makes of them.

use crate::Reject;
use crate::body::Framing;
use crate::head::{self, FieldName, Version};

/// The fields that frame a body, gathered while a head is read.
#[derive(Debug, Default)]
pub(crate) struct FramingFields {
    length: Option<u64>,
    encoded: bool,
}

impl FramingFields {
    pub(crate) fn read(&mut self, id: FieldName, value: &[u8]) -> Result<(), Reject> {
        if id == FieldName::ContentLength {
            let length = parse_length(value)?;
            return if self.length.replace(length).is_some() {
                Err(Reject::LengthRepeated)
            } else {
                Ok(())
            };
        }
        if self.encoded {
            return Err(Reject::EncodingNotChunked);
        }
        self.encoded = true;
        if value.eq_ignore_ascii_case(b"chunked") {
            Ok(())
        } else {
            Err(diagnose_encoding(value))
        }
    }

    pub(crate) fn of_request(&self, version: Version) -> Result<Framing, Reject> {
        match (self.length, self.chunked(version)?) {
            (_, true) => Ok(Framing::Chunked),
            (Some(0) | None, false) => Ok(Framing::Empty),
            (Some(length), false) => Ok(Framing::Length(length)),
        }
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether the body is chunked, after checking that nothing contradicts it.
    pub(crate) fn chunked(&self, version: Version) -> Result<bool, Reject> {
        match (self.encoded, self.length) {
            (true, Some(_)) => Err(Reject::LengthAndEncoding),
            (true, None) if version == Version::Http10 => Err(Reject::EncodingInHttp10),
            (encoded, _) => Ok(encoded),
        }
    }
}

/// 1*DIGIT, at most 18 of them: no sign, no blank, no list (RFC 9110 §8.6).
fn parse_length(value: &[u8]) -> Result<u64, Reject> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        // "5, 5" is a length that is repeated in one line.
        let list = value.contains(&b',');
        return Err(if list {
            Reject::LengthRepeated
        } else {
            Reject::LengthInvalid
        });
    }
    Ok(value
        .iter()
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn diagnose_encoding(value: &[u8]) -> Reject {
    let (mut codings, mut chunked, mut last_chunked) = (0, 0, false);
    head::for_each_element(value, |coding| {
        codings += 1;
        last_chunked = coding.eq_ignore_ascii_case(b"chunked");
        chunked += i32::from(last_chunked);
    });
    if chunked == 1 && last_chunked && codings > 1 {
        Reject::EncodingUnknown
    } else {
        Reject::EncodingNotChunked
    }
}

/// The maximum number of options in `Connection`. Every field is looked up among them, so this bounds the work.
const CONNECTION_OPTIONS_MAX: usize = 16;

/// The options of `Connection`, gathered while a head is read.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    options: usize,
    persistence: Persistence,
    pub(crate) upgrade: bool,
    pub(crate) names_fields: bool,
}

/// What a sender says about its connection. If two disagree, the later in this list holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Persistence {
    #[default]
    OfVersion,
    KeepAlive,
    Close,
}

impl Connection {
    pub(crate) fn read(&mut self, value: &[u8]) -> Result<(), Reject> {
        head::for_each_element(value, |option| {
            self.options += 1;
            match option.len() {
                5 if head::is(option, b"close") => self.persistence = Persistence::Close,
                10 if head::is(option, b"keep-alive") => {
                    self.persistence = self.persistence.max(Persistence::KeepAlive);
                }
                7 if head::is(option, b"upgrade") => self.upgrade = true,
                // These two fields are never forwarded, whether they are named or not.
                2 if head::is(option, b"te") => {}
                14 if head::is(option, b"http2-settings") => {}
                _ => self.names_fields = true,
            }
        });
        if self.options > CONNECTION_OPTIONS_MAX {
            return Err(Reject::FieldValue);
        }
        Ok(())
    }

    pub(crate) fn keeps_alive(&self, version: Version) -> bool {
        match self.persistence {
            Persistence::OfVersion => version == Version::Http11,
            Persistence::KeepAlive => true,
            Persistence::Close => false,
        }
    }
}
