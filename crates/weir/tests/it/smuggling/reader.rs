//! Three ways to read a stream of requests: to the letter, and with the leniencies that servers in use have had, of
//! which some believe `Transfer-Encoding` first and some `Content-Length`.
//!
//! The lenient ones take a line feed for the end of a line, blanks around names, folded lines, codings that merely
//! contain `chunked`, lengths and sizes that merely begin with digits, and whatever control bytes there are.

/// A request as a reader understood it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) body: Vec<u8>,
}

/// What a reader finds in a stream.
#[derive(Debug)]
pub(super) struct Requests<'b> {
    pub(super) whole: Vec<Request>,
    /// Of a request that has not come whole.
    pub(super) rest: &'b [u8],
}

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Strict,
    EncodingFirst,
    LengthFirst,
}

/// Reading may stop because more is to come, or because it cannot go on.
enum Stop {
    Incomplete,
    Broken(String),
}

type Read<T> = Result<T, Stop>;

impl Reading {
    pub(super) const ALL: [Self; 3] = [Self::Strict, Self::EncodingFirst, Self::LengthFirst];

    /// Everything in `bytes`, from the first request on.
    pub(super) fn requests(self, bytes: &[u8]) -> Result<Requests<'_>, String> {
        let (mut whole, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let mut cursor = Cursor {
                reading: self,
                rest,
            };
            match cursor.request() {
                Ok(request) => whole.push(request),
                Err(Stop::Incomplete) => break,
                Err(Stop::Broken(error)) => return Err(error),
            }
            rest = cursor.rest;
        }
        Ok(Requests { whole, rest })
    }

    fn is_strict(self) -> bool {
        self == Self::Strict
    }
}

struct Cursor<'b> {
    reading: Reading,
    rest: &'b [u8],
}

impl Cursor<'_> {
    fn request(&mut self) -> Read<Request> {
        let mut line = self.line()?;
        while !self.reading.is_strict() && line.trim().is_empty() {
            line = self.line()?;
        }
        let words: Vec<_> = if self.reading.is_strict() {
            line.split(' ').collect()
        } else {
            line.split_whitespace().collect()
        };
        let &[method, target, ..] = &words[..] else {
            return Err(broken("request line", &line));
        };
        if self.reading.is_strict() && (words.len() != 3 || words[2] != "HTTP/1.1") {
            return Err(broken("request line", &line));
        }
        let fields = self.fields()?;
        Ok(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            body: self.body(&fields)?,
        })
    }

    /// Names, in lower case, and values, up to the empty line.
    fn fields(&mut self) -> Read<Vec<(String, String)>> {
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            if !self.reading.is_strict() && line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push_str(&line);
                }
                continue;
            }
            match line.split_once(':') {
                Some((name, value)) if !self.reading.is_strict() || is_token(name) => {
                    let name = name.trim_matches(is_odd).to_ascii_lowercase();
                    fields.push((name, value.trim_matches(is_odd).to_owned()));
                }
                None if !self.reading.is_strict() => {}
                _ => return Err(broken("field", &line)),
            }
        }
    }

    fn body(&mut self, fields: &[(String, String)]) -> Read<Vec<u8>> {
        let values = |wanted: &str| -> Vec<&str> {
            let own = fields.iter().filter(|(name, _)| name == wanted);
            own.map(|(_, value)| value.as_str()).collect()
        };
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        if self.reading.is_strict() {
            return match (&lengths[..], &codings[..]) {
                ([], []) => Ok(Vec::new()),
                ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let length = length.parse();
                    self.exactly(length.map_err(|_| broken("length", lengths[0]))?)
                }
                ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => self.chunks(),
                _ => Err(broken("framing", &format!("{lengths:?} {codings:?}"))),
            };
        }
        let is_chunked = codings
            .iter()
            .any(|coding| coding.to_ascii_lowercase().contains("chunked"));
        match lengths.last() {
            Some(length) if !is_chunked || self.reading == Reading::LengthFirst => {
                self.exactly(leading_number(length, 10))
            }
            _ if is_chunked => self.chunks(),
            _ => Ok(Vec::new()),
        }
    }

    fn chunks(&mut self) -> Read<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default();
            if self.reading.is_strict()
                && (digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            {
                // An extension may have blanks before its semicolon.
                let is_extended = line.len() > digits.len() && is_hexadecimal(digits.trim_end());
                if !is_extended {
                    return Err(broken("chunk size", &line));
                }
            }
            let size = leading_number(digits.trim().trim_start_matches("0x"), 16);
            if size == 0 {
                self.fields()?;
                return Ok(body);
            }
            body.extend(self.exactly(size)?);
            let end = self.line()?;
            if !end.is_empty() {
                return Err(broken("end of chunk", &end));
            }
        }
    }

    /// A line without its end.
    fn line(&mut self) -> Read<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let (line, rest) = self.rest.split_at(end.ok_or(Stop::Incomplete)? + 1);
        let text = String::from_utf8_lossy(line).into_owned();
        let text = if self.reading.is_strict() {
            let Some(text) = text.strip_suffix("\r\n") else {
                return Err(broken("line end", &text));
            };
            if text.contains(['\r', '\0']) {
                return Err(broken("control byte", text));
            }
            text
        } else {
            text.trim_end_matches(['\r', '\n'])
        };
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn exactly(&mut self, count: usize) -> Read<Vec<u8>> {
        if self.rest.len() < count {
            return Err(Stop::Incomplete);
        }
        let (bytes, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(bytes.to_vec())
    }
}

fn broken(what: &str, found: &str) -> Stop {
    Stop::Broken(format!("bad {what} {found:?}"))
}

fn is_token(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_odd(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// The number that `text` begins with; 0 when it begins with none.
fn leading_number(text: &str, base: u32) -> usize {
    let text = text.trim_matches(is_odd).trim_start_matches('+');
    let end = text.find(|c: char| !c.is_digit(base)).unwrap_or(text.len());
    usize::from_str_radix(&text[..end], base).unwrap_or(0)
}
