//! How requests are spread over several upstreams, and how clients come back to where they were.

use std::time::Duration;

use crate::settings::HashOn;

/// Several upstreams that share the requests of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// At least one, no upstream twice, and one of them has a weight above zero.
    ///
    /// What is stored of the answers of the first has the keys of a route without a split; those of each other one have keys of
    /// their own.
    pub shares: Vec<Share>,
    /// Who stays with an upstream; `None`: each request is drawn anew.
    pub by: Option<SplitBy>,
}

/// The share of one upstream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Index into [`Settings::upstreams`](super::Settings::upstreams).
    pub upstream: usize,
    /// Relative to the others: finite, and not negative.
    pub weight: f64,
}

/// What requests have in common that go to the same upstream of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitBy {
    /// A part of the request. One without it is drawn anew each time.
    Part(HashOn),
    /// A number that its client was given.
    Cookie(Cookie),
}

/// A cookie that the gateway sets and reads, and nobody else. Its value is a number of 16 hexadecimal digits. It has the
/// attributes `HttpOnly` and `Path=/`, and `Secure` where its client has come by TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// A token (RFC 9110 §5.6.2).
    pub name: String,
    /// How long a client keeps it, in whole seconds; `None`: as long as its session.
    pub max_age: Option<Duration>,
    /// For this domain and those below it; `None`: for the host that was asked.
    pub domain: Option<String>,
    /// Whether it is sent with requests that other sites cause.
    pub same_site: SameSite,
}

/// The attribute of that name (draft-ietf-httpbis-rfc6265bis-20 §4.1.2.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SameSite {
    /// Only where the user follows a link.
    #[default]
    Lax,
    /// Never.
    Strict,
    /// Always. It needs TLS, so `Secure` is said whatever the connection.
    None,
}

/// How the clients of an upstream come back to the endpoint that has served them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky {
    /// It names the endpoint. No other upstream and no split has one of its name.
    pub cookie: Cookie,
    /// What the value is made with of the address of the endpoint, so that nobody can find out that address. Empty is what everybody
    /// knows.
    pub secret: String,
}

/// Copies of requests whose answers nobody gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// Index into [`Settings::upstreams`](super::Settings::upstreams): none that the route itself forwards to.
    pub upstream: usize,
    /// Of the requests that are forwarded; above 0, and at most 1.
    pub share: f64,
    /// Requests of which methods, in upper case.
    pub methods: Vec<String>,
    /// A request with a larger body is not copied.
    pub body_bytes: u64,
    /// Copies that are under way at once, of all workers. Beyond that, a request is not copied.
    pub in_flight: u32,
}

impl Mirror {
    /// The field by which a copy is known.
    pub const FIELD: &str = "x-weir-mirror";
    /// [`Mirror::body_bytes`], unless configured otherwise.
    pub const BODY_BYTES: u64 = 64 << 10;
    /// [`Mirror::in_flight`], unless configured otherwise.
    pub const IN_FLIGHT: u32 = 128;
}
