//! What is asked: requests with weights. The number of a request and the seed alone decide which one it is.

use weir_http::Method;
use weir_http::head::is_token_byte;

use crate::template::{Filling, Template};

/// A request to send.
#[derive(Debug, Clone)]
pub struct Request {
    /// How often it is sent, relative to the weights of the others; above zero.
    pub weight: f64,
    /// The method, a token.
    pub method: String,
    /// Path and query, beginning with `/`.
    pub path: Template,
    /// Names and values. `Host` replaces the target's; weir writes the framing.
    pub headers: Vec<(String, Template)>,
    /// The body; empty is none.
    pub body: Template,
}

impl Request {
    /// GET of a path without fields.
    pub fn get(path: &str) -> Self {
        Self {
            weight: 1.0,
            method: "GET".to_owned(),
            path: Template::literal(path.as_bytes()),
            headers: Vec::new(),
            body: Template::default(),
        }
    }

    /// Whether the same bytes are sent each time.
    pub fn is_fixed(&self) -> bool {
        let headers = self.headers.iter().map(|(_, value)| value);
        headers
            .chain([&self.path, &self.body])
            .all(Template::is_fixed)
    }
}

/// Requests, each with its share of the load.
#[derive(Debug, Clone)]
pub struct Mix {
    requests: Vec<Request>,
    /// Cumulative weights, divided by their sum; the last one is 1.
    up_to: Vec<f64>,
}

/// Why requests cannot be a mix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MixError {
    /// There are none.
    Empty,
    /// The weight of request `.0`, counted from 0, is not above zero.
    Weight(usize),
    /// A method that is no token, or one after which no answer could be read: CONNECT, TRACE.
    Method(usize, String),
    /// A field name that is no token, or belongs to the framing.
    HeaderName(usize, String),
    /// The value of this field would end its line.
    HeaderValue(usize, String),
}

impl std::fmt::Display for MixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "expected at least one request"),
            Self::Weight(at) => write!(f, "request {}: expected a weight above zero", at + 1),
            Self::Method(at, method) => {
                write!(f, "request {}: {method:?} is no method to send", at + 1)
            }
            Self::HeaderName(at, name) => write!(
                f,
                "request {}: {name:?} is no header to set; expected a name such as \"accept\", and lengths, transfer \
                 codings and connection options are set by the generator",
                at + 1
            ),
            Self::HeaderValue(at, name) => write!(
                f,
                "request {}: the value of {name:?} has a line break, which would begin another header",
                at + 1
            ),
        }
    }
}

impl std::error::Error for MixError {}

impl Mix {
    /// Checks that each request can be sent.
    ///
    /// # Errors
    /// See [`MixError`].
    pub fn new(requests: Vec<Request>) -> Result<Self, MixError> {
        if requests.is_empty() {
            return Err(MixError::Empty);
        }
        for (at, request) in requests.iter().enumerate() {
            if !(request.weight > 0.0 && request.weight.is_finite()) {
                return Err(MixError::Weight(at));
            }
            let method = request.method.as_bytes();
            if !is_token(method) || Method::of(method).is_err() {
                return Err(MixError::Method(at, request.method.clone()));
            }
            let refused = |name: &str| !is_token(name.as_bytes()) || is_framing(name);
            if let Some((name, _)) = request.headers.iter().find(|(name, _)| refused(name)) {
                return Err(MixError::HeaderName(at, name.clone()));
            }
            let mut headers = request.headers.iter();
            if let Some((name, _)) = headers.find(|(_, value)| value.breaks_lines()) {
                return Err(MixError::HeaderValue(at, name.clone()));
            }
        }
        let whole: f64 = requests.iter().map(|request| request.weight).sum();
        let mut sum = 0.0;
        let mut up_to: Vec<_> = requests
            .iter()
            .map(|request| {
                sum += request.weight;
                sum / whole
            })
            .collect();
        // Rounding must not leave a gap in which nothing is chosen.
        if let Some(last) = up_to.last_mut() {
            *last = 1.0;
        }
        Ok(Self { requests, up_to })
    }

    /// A mix of one request.
    ///
    /// # Errors
    /// See [`MixError`].
    pub fn only(request: Request) -> Result<Self, MixError> {
        Self::new(vec![request])
    }

    /// All requests.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The index of the request to send.
    pub fn choose(&self, filling: &mut Filling) -> usize {
        if self.requests.len() == 1 {
            return 0;
        }
        let drawn = filling.draw();
        self.up_to.partition_point(|up_to| *up_to <= drawn)
    }
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte))
}

fn is_framing(name: &str) -> bool {
    [
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "expect",
    ]
    .iter()
    .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_weights() {
        let weighted = |path: &str, weight| Request {
            weight,
            ..Request::get(path)
        };
        let mix = Mix::new(vec![
            weighted("/a", 7.0),
            weighted("/b", 2.0),
            weighted("/c", 1.0),
        ]);
        let mix = mix.expect("a mix");
        let mut counts = [0_u32; 3];
        for number in 0..100_000 {
            counts[mix.choose(&mut Filling::new(1, number))] += 1;
        }
        for (count, expected) in counts.into_iter().zip([70_000_u32, 20_000, 10_000]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let get = || Request::get("/");
        let header = |name: &str| Request {
            headers: vec![(name.to_owned(), Template::default())],
            ..get()
        };
        let method = |method: &str| Request {
            method: method.to_owned(),
            ..get()
        };
        let weight = |weight| Request { weight, ..get() };
        let cases = [
            (vec![], MixError::Empty),
            (vec![get(), weight(0.0)], MixError::Weight(1)),
            (vec![weight(f64::NAN)], MixError::Weight(0)),
            (vec![method("G T")], MixError::Method(0, "G T".to_owned())),
            (
                vec![method("CONNECT")],
                MixError::Method(0, "CONNECT".to_owned()),
            ),
            (
                vec![header("a b")],
                MixError::HeaderName(0, "a b".to_owned()),
            ),
            (
                vec![header("Content-Length")],
                MixError::HeaderName(0, "Content-Length".to_owned()),
            ),
        ];
        for (requests, error) in cases {
            assert_eq!(Mix::new(requests).expect_err("refused"), error);
        }
    }
}
