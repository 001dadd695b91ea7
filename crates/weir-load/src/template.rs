//! Text with fields that differ from request to request: `/user/{rand:1..1000}`. Pure, except that `parse` reads the
//! files of `{line:…}`.
//!
//! A field is a brace with a letter behind it. All other braces are text, so JSON needs nothing else: `{"id": {seq}}`. Where
//! text has such a brace, it is doubled: `{{name}`.
//!
//! The value of a field depends only on the request's number and the run's seed. So the same plan sends the same
//! requests on any number of threads.

mod zipf;

use std::fmt;
use std::sync::Arc;

use self::zipf::Zipf;

/// The known fields, for messages.
const KNOWN: &str = "{seq}, {rand:1..1000000}, {zipf:1..1000000:0.9}, {uuid} or {line:FILE}; \
                     where the text itself has a brace before a letter, double it: {{";
/// The default skew of `{zipf:…}`, which is that of the YCSB benchmark.
const ZIPF_SKEW: f64 = 0.99;

/// A text with fields.
#[derive(Debug, Clone, Default)]
pub struct Template {
    pieces: Vec<Piece>,
    /// As it was written, for reports.
    source: String,
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[derive(Debug, Clone)]
enum Piece {
    Text(Vec<u8>),
    Seq,
    Rand { from: u64, to: u64 },
    Zipf(Zipf),
    Uuid,
    Line(Arc<[Vec<u8>]>),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The field with its braces, or the brace that nothing ends.
    pub field: String,
    /// Its offset in the text, in bytes.
    pub at: usize,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, at, message } = self;
        write!(f, "{field} at byte {}: {message}", at + 1)
    }
}

impl std::error::Error for TemplateError {}

/// The request for which a template is filled in.
#[derive(Debug)]
pub struct Filling {
    number: u64,
    random: fastrand::Rng,
}

impl Filling {
    /// Request `number` of the run with this seed.
    pub fn new(seed: u64, number: u64) -> Self {
        Self {
            number,
            // Neighbouring seeds give unrelated sequences only after they are spread over all bits.
            random: fastrand::Rng::with_seed(
                (seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).rotate_left(29),
            ),
        }
    }

    /// A number from `[0, 1)`, uniformly distributed.
    pub fn draw(&mut self) -> f64 {
        self.random.f64()
    }
}

impl Template {
    /// Reads `text`.
    ///
    /// # Errors
    /// The first field that is unknown, incomplete or out of range; or a file that cannot be read or is empty.
    pub fn parse(text: &[u8]) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphabetic);
            match (byte, text.get(at + 1)) {
                (b'{', Some(b'{')) if is_letter(at + 2) => {
                    literal.push(byte);
                    at += 2;
                }
                (b'{', _) if is_letter(at + 1) => {
                    let end = text[at..].iter().position(|byte| *byte == b'}');
                    let error = |field: &[u8], message| TemplateError {
                        field: String::from_utf8_lossy(field).into_owned(),
                        at,
                        message,
                    };
                    let Some(end) = end.map(|end| at + end) else {
                        return Err(error(b"{", format!("no }} ends it; expected {KNOWN}")));
                    };
                    let inside = String::from_utf8_lossy(&text[at + 1..end]);
                    let piece =
                        field(&inside).map_err(|message| error(&text[at..=end], message))?;
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
                    at = end + 1;
                }
                _ => {
                    literal.push(byte);
                    at += 1;
                }
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        let source = String::from_utf8_lossy(text).into_owned();
        Ok(Self { pieces, source })
    }

    /// A text without fields, even if it has braces.
    pub fn literal(text: &[u8]) -> Self {
        let pieces = if text.is_empty() {
            Vec::new()
        } else {
            vec![Piece::Text(text.to_owned())]
        };
        let source = String::from_utf8_lossy(text).into_owned();
        Self { pieces, source }
    }

    /// Whether the text is the same for all requests.
    pub fn is_fixed(&self) -> bool {
        self.pieces
            .iter()
            .all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Whether its own text, beside the fields, would end a line of a head.
    pub fn breaks_lines(&self) -> bool {
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Text(text) if text.iter().any(is_break)))
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends the text for one request.
    pub fn fill(&self, filling: &mut Filling, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Seq => append_number(out, filling.number),
                Piece::Rand { from, to } => append_number(out, filling.random.u64(*from..=*to)),
                Piece::Zipf(zipf) => append_number(out, zipf.draw(&mut filling.random)),
                Piece::Uuid => append_uuid(out, filling.random.u128(..)),
                Piece::Line(lines) => {
                    out.extend_from_slice(&lines[filling.number as usize % lines.len()]);
                }
            }
        }
    }
}

/// Reads what stands between braces.
fn field(inside: &str) -> Result<Piece, String> {
    let (name, argument) = match inside.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (inside, None),
    };
    match (name, argument) {
        ("seq", None) => Ok(Piece::Seq),
        ("uuid", None) => Ok(Piece::Uuid),
        ("rand", Some(argument)) => {
            let (from, to) = range(argument)?;
            Ok(Piece::Rand { from, to })
        }
        ("zipf", Some(argument)) => {
            let (numbers, skew) = match argument.split_once(':') {
                Some((numbers, skew)) => (numbers, skew.parse().ok()),
                None => (argument, Some(ZIPF_SKEW)),
            };
            let (from, to) = range(numbers)?;
            let skew = skew.filter(|skew| (0.0..=10.0).contains(skew));
            let skew = skew.ok_or("expected a skew from 0 to 10, as in {zipf:1..1000000:0.9}")?;
            Ok(Piece::Zipf(Zipf::new(from, to, skew)))
        }
        ("line", Some(file)) => lines(file).map(Piece::Line),
        ("seq" | "uuid" | "rand" | "zipf" | "line", _) => {
            Err(format!("a field of another form; expected {KNOWN}"))
        }
        _ => Err(format!("an unknown field; expected {KNOWN}")),
    }
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse::<u64>().ok()?, to.parse::<u64>().ok()?)));
    match bounds {
        Some((from, to)) if from <= to => Ok((from, to)),
        Some((from, to)) => Err(format!(
            "an empty range; expected the smaller number first, as in {to}..{from}"
        )),
        None => Err("expected two whole numbers, as in 1..1000000".to_owned()),
    }
}

fn lines(file: &str) -> Result<Arc<[Vec<u8>]>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let lines: Vec<_> = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        return Err(format!("{file} has no lines"));
    }
    Ok(lines.into())
}

pub(crate) fn append_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A random UUID (RFC 9562 §5.4).
fn append_uuid(out: &mut Vec<u8>, random: u128) {
    const VERSION_4: u128 = 0x4 << 76;
    const VARIANT: u128 = 0x2 << 62;
    let bits = random & !(0xF << 76) & !(0x3 << 62) | VERSION_4 | VARIANT;
    for place in 0..32 {
        if matches!(place, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        let digit = (bits >> (124 - 4 * place)) as u8 & 0xF;
        out.push(b"0123456789abcdef"[usize::from(digit)]);
    }
}

#[cfg(test)]
mod tests;
