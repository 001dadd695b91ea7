//! Which of the bytes after a head belong to its message.
//!
//! A [`Body`] is given the bytes as they arrive and says how many of them belong to the body. It never copies: the
//! gateway passes those bytes on as they came.

use crate::Reject;
use crate::chunk::ChunkDecoder;

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// There is no body.
    #[default]
    Empty,
    /// This many bytes, at least 1.
    Length(u64),
    /// Chunks, of which the last is empty, then trailer fields.
    Chunked,
    /// Everything until the sender closes; responses only.
    UntilClose,
}

/// What a body is made of, without its framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of content.
    Content(&'a [u8]),
    /// Bytes of the lines of trailer fields (RFC 9110 §6.5), which come after all content.
    Trailers(&'a [u8]),
}

/// The reading of one body.
#[derive(Debug, Default, Clone)]
pub enum Body {
    /// The body has ended.
    #[default]
    Done,
    /// This many bytes are still to come.
    Length(u64),
    /// Inside chunked framing.
    Chunked(ChunkDecoder),
    /// Until the sender closes.
    UntilClose,
}

impl Body {
    /// The body that `framing` announces, at its first byte.
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty | Framing::Length(0) => Self::Done,
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(ChunkDecoder::default()),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// How many of `input` belong to the body, framing included. `input` must follow the bytes taken before. What
    /// comes after the body is the next message.
    ///
    /// # Errors
    /// Broken chunked framing.
    pub fn take(&mut self, input: &[u8]) -> Result<usize, Reject> {
        self.read(input, |_| {})
    }

    /// Like [`Body::take`], and hands the content, without any framing, to `content`.
    ///
    /// # Errors
    /// Broken chunked framing.
    pub fn decode(
        &mut self,
        input: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<usize, Reject> {
        self.read(input, |piece| {
            if let Piece::Content(bytes) = piece {
                content(bytes);
            }
        })
    }

    /// Like [`Body::take`], and hands each piece of the body to `piece`.
    ///
    /// # Errors
    /// Broken chunked framing.
    pub fn read(
        &mut self,
        input: &[u8],
        mut piece: impl FnMut(Piece<'_>),
    ) -> Result<usize, Reject> {
        match self {
            Self::Done => Ok(0),
            Self::UntilClose => {
                piece(Piece::Content(input));
                Ok(input.len())
            }
            Self::Length(left) => {
                let taken = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *left -= taken as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                piece(Piece::Content(&input[..taken]));
                Ok(taken)
            }
            Self::Chunked(decoder) => {
                let taken = decoder.decode(input, &mut piece)?;
                if decoder.is_done() {
                    *self = Self::Done;
                }
                Ok(taken)
            }
        }
    }

    /// Whether every byte of the body was taken.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Whether who passes the body on may end it here as its sender could: nothing has begun whose length was told.
    pub fn may_be_ended_here(&self) -> bool {
        match self {
            Self::Chunked(decoder) => decoder.is_between_chunks(),
            Self::Length(_) => false,
            Self::Done | Self::UntilClose => true,
        }
    }

    /// Whether the sender may close now without cutting the body off.
    pub fn may_end_here(&self) -> bool {
        matches!(self, Self::Done | Self::UntilClose)
    }
}
