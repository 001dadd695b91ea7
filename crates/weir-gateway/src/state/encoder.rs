//! An encoder: one stream through one of the libraries, into memory.
//!
//! The memory of an encoder ([`state_bytes`]) counts in the budget of all that is held for clients. If there is no
//! room, or the worker already has [`ENCODERS_MAX`], responses pass as they are. Nothing here knows HTTP or decides
//! anything.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use weir_cache::negotiate::{Coding, Levels};
use weir_cache::store::{Grant, Transient};

use crate::metrics::WorkerMetrics;

/// The most encoders that a worker has at once.
const ENCODERS_MAX: usize = 256;
/// The window of streams, as a power of two. The memory of an encoder is a multiple of it.
const STREAM_WINDOW_LOG: u8 = 18;
/// The window of a stored form: Brotli's usual one. Zstandard chooses by level and length, within the 8 MiB that
/// decoders must support (RFC 9659).
const BROTLI_WINDOW_LOG: u8 = 22;
/// The library hands its output on in pieces of this size.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;
/// Why errors of the libraries are not handled: they only pass on the writer's, and writing to a vector cannot fail.
const IN_MEMORY: &str = "compression into memory fails only when there is none left";

/// A worker's encoders.
#[derive(Debug)]
pub(crate) struct Encoders(Rc<Running>);

#[derive(Debug)]
struct Running {
    count: Cell<usize>,
    metrics: Arc<WorkerMetrics>,
    transient: Arc<Transient>,
}

impl Encoders {
    /// A worker's encoders, none so far. `metrics` counts what they do, `transient` what they hold.
    pub(crate) fn new(metrics: Arc<WorkerMetrics>, transient: Arc<Transient>) -> Self {
        Self(Rc::new(Running {
            count: Cell::default(),
            metrics,
            transient,
        }))
    }

    /// An encoder for a stream, unless there are too many or they hold too much memory.
    pub(crate) fn begin(&self, coding: Coding, levels: Levels) -> Option<Encoder> {
        let running = &self.0;
        let level = levels.of(coding);
        let grant = Arc::new(Grant::new(&running.transient));
        if running.count.get() >= ENCODERS_MAX || !grant.try_add(state_bytes(coding, level)) {
            running.metrics.compress.refused.add(1);
            return None;
        }
        let library = Library::new(coding, level, None)?;
        running.count.set(running.count.get() + 1);
        running.metrics.compress.began(coding);
        Some(Encoder {
            library: Some(library),
            grant,
            running: Rc::clone(running),
        })
    }
}

/// The encoder of one response.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// `None` once the stream has ended.
    library: Option<Library>,
    /// Shared with the code that looks for room.
    grant: Arc<Grant>,
    running: Rc<Running>,
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.running.count.set(self.running.count.get() - 1);
    }
}

impl Encoder {
    /// The memory that it holds.
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// Takes more of the content; its output may wait for more.
    pub(crate) fn write(&mut self, content: &[u8]) {
        self.running
            .metrics
            .compress
            .bytes_in
            .add(content.len() as u64);
        if let Some(library) = &mut self.library {
            library.writer().write_all(content).expect(IN_MEMORY);
        }
    }

    /// Hands all content taken so far to `out`, in a form that can be decoded without what follows.
    pub(crate) fn flush(&mut self, out: impl FnOnce(&[u8])) {
        if let Some(library) = &mut self.library {
            library.writer().flush().expect(IN_MEMORY);
        }
        self.take(out);
    }

    /// Hands the finished output to `out`.
    pub(crate) fn take(&mut self, out: impl FnOnce(&[u8])) {
        if let Some(library) = &mut self.library {
            let made = library.made();
            self.running
                .metrics
                .compress
                .bytes_out
                .add(made.len() as u64);
            out(made);
            made.clear();
        }
    }

    /// Ends the stream and hands the rest to `out`.
    pub(crate) fn finish(&mut self, out: impl FnOnce(&[u8])) {
        if let Some(library) = self.library.take() {
            let rest = library.finish();
            self.running
                .metrics
                .compress
                .bytes_out
                .add(rest.len() as u64);
            out(&rest);
            self.grant.set(0);
        }
    }
}

/// The most KiB that an encoder for a stream holds, by level, as measured with a window of [`STREAM_WINDOW_LOG`].
const ZSTD_KIB: [u64; 20] = [
    448, 448, 640, 1_152, 2_432, 3_072, 3_072, 5_632, 5_632, 10_752, 21_504, 21_504, 41_472,
    33_280, 49_664, 65_920, 33_280, 49_664, 50_176, 82_944,
];
const BROTLI_KIB: [u64; 12] = [
    192, 192, 1_088, 1_088, 1_408, 1_920, 2_944, 9_088, 15_808, 24_576, 3_712, 3_712,
];
/// It is the same for every level.
const GZIP_KIB: u64 = 384;

/// The most bytes that an encoder for a stream holds.
fn state_bytes(coding: Coding, level: u8) -> u64 {
    let of = |table: &[u64]| {
        let at = usize::from(level).min(table.len() - 1);
        table[at]
    };
    let kib = match coding {
        Coding::Identity => 0,
        Coding::Gzip => GZIP_KIB,
        Coding::Zstd => of(&ZSTD_KIB),
        Coding::Brotli => of(&BROTLI_KIB),
    };
    kib << 10
}

/// Compresses a whole body at once; `None` when that would be no smaller.
pub(crate) fn whole(body: &[Bytes], coding: Coding, level: u8) -> Option<Bytes> {
    let bytes = body.iter().map(Bytes::len).sum();
    let mut library = Library::new(coding, level, Some(bytes))?;
    for piece in body {
        library.writer().write_all(piece).expect(IN_MEMORY);
    }
    let mut made = library.finish();
    made.shrink_to_fit();
    (made.len() < bytes).then(|| made.into())
}

enum Library {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
}

impl Library {
    /// `None` for [`Coding::Identity`]. `bytes` is the length of the content, which is known for stored responses.
    fn new(coding: Coding, level: u8, bytes: Option<usize>) -> Option<Self> {
        match coding {
            Coding::Gzip => {
                let level = Compression::new(u32::from(level));
                Some(Self::Gzip(GzEncoder::new(Vec::new(), level)))
            }
            Coding::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), i32::from(level));
                let mut encoder = encoder.expect(IN_MEMORY);
                // The level and the window come from a checked config, and are within the library's range.
                match bytes {
                    Some(bytes) => encoder.set_pledged_src_size(Some(bytes as u64)),
                    None => encoder.window_log(u32::from(STREAM_WINDOW_LOG)),
                }
                .expect(IN_MEMORY);
                Some(Self::Zstd(encoder))
            }
            Coding::Brotli => {
                let window = bytes.map_or(STREAM_WINDOW_LOG, |_| BROTLI_WINDOW_LOG);
                let parameters = BrotliEncoderParams {
                    quality: i32::from(level),
                    lgwin: i32::from(window),
                    size_hint: bytes.unwrap_or_default(),
                    ..BrotliEncoderParams::default()
                };
                let made = Vec::new();
                let writer = CompressorWriter::with_params(made, BROTLI_BUFFER_BYTES, &parameters);
                Some(Self::Brotli(Box::new(writer)))
            }
            Coding::Identity => None,
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
        }
    }

    fn made(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.finish().expect(IN_MEMORY),
            Self::Zstd(encoder) => encoder.finish().expect(IN_MEMORY),
            Self::Brotli(encoder) => encoder.into_inner(),
        }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}
