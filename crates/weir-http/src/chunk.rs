//! Chunked framing (RFC 9112 §7.1), read strictly and without copying.
//!
//! ```text
//! chunk        = size [ ";" extension ] CRLF  data CRLF
//! chunked-body = *chunk  "0" [ ";" extension ] CRLF  *( field-line CRLF )  CRLF
//! ```
//!
//! The gateway passes chunks on as they came, so what this decoder accepts must mean the same to every recipient. It
//! allows no blanks around sizes, no LF without CR, no control bytes in extensions, and no trailer field that frames or
//! routes.

use std::io::Write as _;

use crate::Reject;
use crate::body::Piece;
use crate::head::is_token_byte;

/// The maximum bytes of chunk extensions in one message. Their only known use is to exhaust the recipient.
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 4096;
/// The maximum bytes of trailer fields in one message.
pub const TRAILER_BYTES_MAX: u32 = 8192;

/// Trailer names that would change the framing, the routing or the sender of the message (RFC 9110 §6.5.1).
const FORBIDDEN_TRAILERS: [&[u8]; 14] = [
    b"transfer-encoding",
    b"content-length",
    b"host",
    b"connection",
    b"keep-alive",
    b"te",
    b"trailer",
    b"upgrade",
    b"authorization",
    b"cookie",
    b"set-cookie",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
];
/// All names are still possible: one bit for each.
const ANY_FORBIDDEN: u16 = (1 << FORBIDDEN_TRAILERS.len()) - 1;

/// A position in chunked framing.
#[derive(Debug, Default, Clone)]
pub struct ChunkDecoder {
    state: State,
    extension_bytes: u32,
    trailer_bytes: u32,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Size {
        value: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    TrailerStart,
    /// After so many bytes of a name that may still become one of these forbidden ones.
    TrailerName {
        bytes: u8,
        possible: u16,
    },
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl Default for State {
    fn default() -> Self {
        Self::Size {
            value: 0,
            digits: 0,
        }
    }
}

impl State {
    /// Whether the byte that led here from `before` is part of a trailer line.
    fn is_behind_trailer_byte(self, before: Self) -> bool {
        match self {
            Self::TrailerName { .. } | Self::TrailerValue | Self::TrailerLf => true,
            Self::TrailerStart => matches!(before, Self::TrailerLf),
            _ => false,
        }
    }
}

impl ChunkDecoder {
    /// Takes the bytes of `input` that belong to the body, hands their pieces to `piece`, and returns how many bytes
    /// were taken: all of them unless the body ended.
    ///
    /// # Errors
    /// Framing that RFC 9112 forbids, or that a lenient recipient could read differently.
    pub fn decode(
        &mut self,
        input: &[u8],
        piece: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, Reject> {
        let mut at = 0;
        while at < input.len() {
            match self.state {
                State::Done => break,
                State::Data { left } => {
                    let taken = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(input.len() - at);
                    piece(Piece::Content(&input[at..at + taken]));
                    at += taken;
                    let left = left - taken as u64;
                    self.state = if left == 0 {
                        State::DataCr
                    } else {
                        State::Data { left }
                    };
                }
                state => {
                    self.state = self.step(state, input[at])?;
                    if self.state.is_behind_trailer_byte(state) {
                        piece(Piece::Trailers(&input[at..=at]));
                    }
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// Whether the last byte of the body was taken.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether a chunk may begin here, and the last one too.
    pub fn is_between_chunks(&self) -> bool {
        matches!(self.state, State::Size { digits: 0, .. })
    }

    fn step(&mut self, state: State, byte: u8) -> Result<State, Reject> {
        match state {
            State::Size { value, digits } => Self::size(value, digits, byte),
            State::Extension { size } => self.extension(size, byte),
            State::SizeLf { size } => match (byte, size) {
                (b'\n', 0) => Ok(State::TrailerStart),
                (b'\n', left) => Ok(State::Data { left }),
                _ => Err(Reject::BareCr),
            },
            State::DataCr => {
                if byte == b'\r' {
                    Ok(State::DataLf)
                } else {
                    Err(Reject::ChunkEnd)
                }
            }
            State::DataLf => {
                if byte == b'\n' {
                    Ok(State::default())
                } else {
                    Err(Reject::ChunkEnd)
                }
            }
            State::EndLf => {
                if byte == b'\n' {
                    Ok(State::Done)
                } else {
                    Err(Reject::BareCr)
                }
            }
            _ => self.trailer(state, byte),
        }
    }

    fn size(value: u64, digits: u8, byte: u8) -> Result<State, Reject> {
        match (byte, char::from(byte).to_digit(16)) {
            // Fifteen digits stay below 2^60, so no sum with a size can overflow.
            (_, Some(digit)) if digits < 15 => Ok(State::Size {
                value: value << 4 | u64::from(digit),
                digits: digits + 1,
            }),
            (b'\r', _) if digits > 0 => Ok(State::SizeLf { size: value }),
            (b';', _) if digits > 0 => Ok(State::Extension { size: value }),
            (b'\n', _) if digits > 0 => Err(Reject::BareLf),
            _ => Err(Reject::ChunkSize),
        }
    }

    fn extension(&mut self, size: u64, byte: u8) -> Result<State, Reject> {
        self.extension_bytes += 1;
        match byte {
            b'\r' => Ok(State::SizeLf { size }),
            b'\n' => Err(Reject::BareLf),
            _ if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX => {
                Err(Reject::ChunkExtensionTooLarge)
            }
            b'\t' | b' '..=b'~' => Ok(State::Extension { size }),
            _ => Err(Reject::ChunkExtension),
        }
    }

    fn trailer(&mut self, state: State, byte: u8) -> Result<State, Reject> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Reject::TrailerTooLarge);
        }
        match (state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerStart, _) => Self::trailer_name(0, ANY_FORBIDDEN, byte),
            (State::TrailerName { bytes, possible }, b':') => {
                if possible_names(possible).any(|name| name.len() == usize::from(bytes)) {
                    Err(Reject::Trailer)
                } else {
                    Ok(State::TrailerValue)
                }
            }
            (State::TrailerName { bytes, possible }, _) => {
                Self::trailer_name(bytes, possible, byte)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, b'\n') => Err(Reject::BareLf),
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::TrailerValue),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::TrailerLf, _) => Err(Reject::BareCr),
            _ => Err(Reject::Trailer),
        }
    }

    fn trailer_name(bytes: u8, possible: u16, byte: u8) -> Result<State, Reject> {
        if byte == b'\n' {
            return Err(Reject::BareLf);
        }
        if !is_token_byte(byte) {
            return Err(Reject::Trailer);
        }
        let mut still = 0;
        for (at, name) in FORBIDDEN_TRAILERS.iter().enumerate() {
            let goes_on = name.get(usize::from(bytes)) == Some(&byte.to_ascii_lowercase());
            still |= u16::from(goes_on) << at;
        }
        Ok(State::TrailerName {
            // No forbidden name is that long.
            bytes: bytes.saturating_add(1),
            possible: possible & still,
        })
    }
}

/// The forbidden names that these bits stand for.
fn possible_names(possible: u16) -> impl Iterator<Item = &'static [u8]> {
    let names = FORBIDDEN_TRAILERS.iter().enumerate();
    names.filter_map(move |(at, name)| (possible >> at & 1 == 1).then_some(*name))
}

/// Appends `content` as a chunk. Without content it appends nothing, since an empty chunk is the last one.
pub fn write_chunk(content: &[u8], out: &mut Vec<u8>) {
    if !content.is_empty() {
        begin_chunk(content.len(), out);
        out.extend_from_slice(content);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends what stands in front of the content of a chunk. The content must not be empty, and CRLF comes behind it.
pub fn begin_chunk(content_bytes: usize, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{content_bytes:x}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content, and how many bytes were taken.
    fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), Reject> {
        let (mut decoder, mut content, mut taken) = (ChunkDecoder::default(), Vec::new(), 0);
        for piece in input.chunks(step) {
            taken += decoder.decode(piece, &mut |piece: Piece<'_>| {
                if let Piece::Content(data) = piece {
                    content.extend_from_slice(data);
                }
            })?;
        }
        Ok((content, taken, decoder.is_done()))
    }

    #[test]
    fn a_last_chunk_may_come_between_chunks_alone() {
        let text = b"3;a=b\r\nabc\r\n0\r\n\r\n";
        let mut body = crate::body::Body::new(crate::body::Framing::Chunked);
        let may_end: Vec<usize> = (0..text.len())
            .filter(|&at| {
                let may_end = body.may_be_ended_here();
                assert_eq!(body.take(&text[at..=at]), Ok(1));
                may_end
            })
            .collect();
        assert_eq!(may_end, [0, 12]);
        assert!(body.may_be_ended_here());
    }

    #[test]
    fn trailers_are_the_lines_behind_the_last_chunk() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"0\r\n\r\n", b""),
            (b"1;x: y\r\na\r\n0;z\r\n\r\nGET", b""),
            (
                b"1\r\na\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nZ: 3\r\n",
                b"X-Sum: 1\r\nY:\r\n",
            ),
            (b"0\r\nA: b\tc \r\n\r\n", b"A: b\tc \r\n"),
        ];
        for (input, expected) in cases {
            for step in [1, 2, 3, input.len()] {
                let (mut decoder, mut trailers) = (ChunkDecoder::default(), Vec::new());
                for piece in input.chunks(step) {
                    let mut note = |piece: Piece<'_>| {
                        if let Piece::Trailers(lines) = piece {
                            trailers.extend_from_slice(lines);
                        }
                    };
                    decoder.decode(piece, &mut note).unwrap();
                }
                let text = input.escape_ascii();
                assert_eq!(trailers, expected, "{text} by {step}");
            }
        }
    }

    #[test]
    fn well_formed_bodies() {
        let cases: [(&[u8], &[u8], usize); 6] = [
            (b"0\r\n\r\n", b"", 5),
            (b"3\r\nabc\r\n0\r\n\r\nGET", b"abc", 13),
            (b"00A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", 22),
            (b"1;a=b;c=\"d e\"\r\nx\r\n0;z\r\n\r\n", b"x", 25),
            (b"0\r\nX-Sum: 1\r\nY:\r\n\r\n", b"", 19),
            (b"1\r\n\n\r\n0\r\n\r\n", b"\n", 11),
        ];
        for (input, content, taken) in cases {
            for step in [1, 2, 3, input.len()] {
                let text = input.escape_ascii();
                assert_eq!(
                    decode(input, step),
                    Ok((content.to_vec(), taken, true)),
                    "{text} by {step}"
                );
            }
        }
    }

    #[test]
    fn broken_bodies() {
        let cases: [(&[u8], Reject); 23] = [
            (b"\r\n", Reject::ChunkSize),
            (b"x\r\n", Reject::ChunkSize),
            (b" 3\r\n", Reject::ChunkSize),
            (b"3 \r\n", Reject::ChunkSize),
            (b"+3\r\n", Reject::ChunkSize),
            (b"0x3\r\n", Reject::ChunkSize),
            (b"1000000000000000\r\n", Reject::ChunkSize),
            (b";a\r\n", Reject::ChunkSize),
            (b"3\nabc\r\n", Reject::BareLf),
            (b"3\rabc", Reject::BareCr),
            (b"3;a\nabc", Reject::BareLf),
            (b"3;\0\r\n", Reject::ChunkExtension),
            (b"3;\x7f\r\n", Reject::ChunkExtension),
            (b"3\r\nabcd\r\n", Reject::ChunkEnd),
            (b"3\r\nabc\n", Reject::ChunkEnd),
            (b"3\r\nabc\rx", Reject::ChunkEnd),
            (b"0\r\n\n", Reject::BareLf),
            (b"0\r\n\rx", Reject::BareCr),
            (b"0\r\nHost: b\r\n\r\n", Reject::Trailer),
            (b"0\r\nTransfer-Encoding: chunked\r\n\r\n", Reject::Trailer),
            (b"0\r\nX-Forwarded-Proto: https\r\n\r\n", Reject::Trailer),
            (b"0\r\nX : b\r\n\r\n", Reject::Trailer),
            (b"0\r\nX: b\nY: c\r\n\r\n", Reject::BareLf),
        ];
        for (input, reject) in cases {
            assert_eq!(decode(input, 1), Err(reject), "{}", input.escape_ascii());
            assert_eq!(
                decode(input, input.len()),
                Err(reject),
                "{}",
                input.escape_ascii()
            );
        }
    }

    #[test]
    fn what_grows_has_a_limit() {
        let extension = [
            b"1;".as_slice(),
            &[b'a'; CHUNK_EXTENSION_BYTES_MAX as usize + 1],
        ]
        .concat();
        assert_eq!(decode(&extension, 100), Err(Reject::ChunkExtensionTooLarge));
        let many_small = b"1;aaaaaaa\r\nx\r\n".repeat(CHUNK_EXTENSION_BYTES_MAX as usize / 8 + 1);
        assert_eq!(
            decode(&many_small, 100),
            Err(Reject::ChunkExtensionTooLarge)
        );
        let trailers = [
            b"0\r\n".as_slice(),
            &b"a: b\r\n".repeat(TRAILER_BYTES_MAX as usize / 6 + 1),
        ]
        .concat();
        assert_eq!(decode(&trailers, 100), Err(Reject::TrailerTooLarge));
    }
}
