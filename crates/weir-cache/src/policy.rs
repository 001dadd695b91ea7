//! What a route may configure about its cache, as plain, valid values. The binary parses them from a file; this file
//! says what each means, and its default.
//!
//! [`CachePolicy::default`] is `cache = true`: only what the origin says counts.

use std::time::Duration;

/// A route's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePolicy {
    /// What distinguishes stored responses besides the target.
    pub key: KeyParts,
    /// Whether a POST may be answered from the cache, keyed by a digest of its body. Default: no.
    pub caches_post: bool,
    /// How long a response stays fresh.
    pub ttl: Ttl,
    /// Serve stale for this long while one request refreshes, whatever `stale-while-revalidate` says. Default: what the
    /// origin says. This and the next two hold for statuses that describe the resource ([`is_of_resource`]).
    pub stale_while_revalidate: Option<Duration>,
    /// Serve stale for this long when the origin answers 500, 502, 503 or 504, whatever `stale-if-error` says. Default:
    /// what the origin says.
    pub stale_if_error: Option<Duration>,
    /// Serve stale for this long when the origin cannot be reached at all, unless something forbids it (RFC 9111 §4.2.4
    /// lets a disconnected cache do so). Default: one hour.
    pub stale_if_unreachable: Duration,
    /// What happens to responses with `Set-Cookie`.
    pub set_cookie: SetCookie,
    /// What happens to responses to requests with `Cookie`.
    pub request_cookie: RequestCookie,
    /// Whether clients may ask for freshness with `Cache-Control` and `Pragma` (RFC 9111 §5.2.1). If clients must not
    /// be able to cause requests to the origin, the route says no. Default: yes.
    pub obeys_clients: bool,
    /// Requests that are neither answered from the cache nor stored.
    pub bypass: Vec<Bypass>,
    /// Store a response only when it is asked for the n-th time or later. Default: 1.
    pub uses_min: u32,
    /// Larger bodies are passed on and not stored.
    pub body_bytes_max: u64,
    /// Stored variants of one key (RFC 9111 §4.1); the oldest is removed first. Default: 32.
    pub variants_max: usize,
    /// Bytes of the shared RAM that the stored responses of this route may take. Default: all.
    pub memory_bytes_max: Option<u64>,
    /// Refresh in the background once this share of the freshness lifetime has passed, in percent. Default: never.
    pub refresh_ahead_percent: Option<u8>,
    /// How long a request waits for the answer to another one before it asks itself (one waiting request at a time).
    /// Default: twice the median time of the route's answers, and at least 100 ms.
    pub collapse_wait: Option<Duration>,
    /// Whether `en, de` and `de, en` ask for different responses. RFC 9110 §12.5.4 says that the order cannot be relied
    /// upon. Many origins take the first language anyway, so one client's order would decide for others. Default: yes.
    pub language_order_matters: bool,
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self {
            key: KeyParts::default(),
            caches_post: false,
            ttl: Ttl::default(),
            stale_while_revalidate: None,
            stale_if_error: None,
            stale_if_unreachable: Duration::from_secs(3600),
            set_cookie: SetCookie::default(),
            request_cookie: RequestCookie::default(),
            obeys_clients: true,
            bypass: Vec::new(),
            uses_min: 1,
            body_bytes_max: 1 << 30,
            variants_max: 32,
            memory_bytes_max: None,
            refresh_ahead_percent: None,
            collapse_wait: None,
            language_order_matters: true,
        }
    }
}

/// How long a response stays fresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ttl {
    /// By status, for responses that may be stored, whatever the origin says about freshness; the first match counts.
    /// `no-store` and `private` still hold.
    pub forced: Vec<(StatusMatch, Duration)>,
    /// By status, for responses about which the origin says nothing; the first match counts.
    pub by_status: Vec<(StatusMatch, Duration)>,
    /// For responses that only have a modification date.
    pub heuristic: Heuristic,
}

impl Ttl {
    /// The forced lifetime of responses with `status`.
    pub fn forced_for(&self, status: u16) -> Option<Duration> {
        first_match(&self.forced, status)
    }

    /// The default for responses with `status`.
    pub fn of_status(&self, status: u16) -> Option<Duration> {
        first_match(&self.by_status, status)
    }
}

fn first_match(by_status: &[(StatusMatch, Duration)], status: u16) -> Option<Duration> {
    let is_it = |(is_match, _): &&(StatusMatch, Duration)| is_match.holds(status);
    by_status.iter().find(is_it).map(|&(_, ttl)| ttl)
}

/// Whether a response with `status` describes the resource: 2xx, 3xx, 404 and 410. Other statuses are about one
/// request, or about a failure of the origin. A route's setting covers them only if it names them.
pub const fn is_of_resource(status: u16) -> bool {
    matches!(status, 200..=399 | 404 | 410)
}

/// Statuses that share a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMatch {
    /// This one.
    Is(u16),
    /// All of one class: 4 is 400 to 499.
    Class(u8),
    /// 200, 203, 204, 301, 302, 307 and 308: what `ttl = "1d"` without a status means.
    Usual,
    /// [`is_of_resource`]: what `force_ttl = "1d"` without a status means.
    OfResource,
    /// Every status.
    Any,
}

impl StatusMatch {
    fn holds(self, status: u16) -> bool {
        match self {
            Self::Is(one) => one == status,
            Self::Class(hundreds) => u16::from(hundreds) == status / 100,
            Self::Usual => matches!(status, 200 | 203 | 204 | 301 | 302 | 307 | 308),
            Self::OfResource => is_of_resource(status),
            Self::Any => true,
        }
    }
}

/// Freshness that is guessed from `Last-Modified` (RFC 9111 §4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heuristic {
    /// Share of the time since the last modification, in percent. Zero guesses nothing.
    pub percent: u8,
    /// The longest guess.
    pub max: Duration,
}

impl Default for Heuristic {
    /// A tenth, and at most a day.
    fn default() -> Self {
        Self {
            percent: 10,
            max: Duration::from_secs(86_400),
        }
    }
}

/// What happens to responses with `Set-Cookie`. RFC 9111 §7.3 lets a cache store them with their cookies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// Stored if the origin itself says that all may have them, and for how long: `public` with a lifetime, `s-maxage`, or a
    /// lifetime in `CDN-Cache-Control`. A `max-age` alone, a heuristic, or a `ttl` of the route is not enough: it would give
    /// one user's session to the next.
    #[default]
    StoreIfOriginSays,
    /// Stored like other responses.
    Store,
    /// Never stored.
    Refuse,
}

/// What happens to responses to requests with `Cookie`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestCookie {
    /// Stored if somebody says that others may have them, or for how long: the origin with a lifetime or `public`, the route
    /// with a `ttl`. A heuristic is not enough, nor is a validator: it would give one user's page to the next. Stored as well
    /// if cookies tell requests apart, by `Vary` or the key.
    #[default]
    StoreIfSaid,
    /// Stored like other responses.
    Store,
    /// Never stored.
    Refuse,
}

/// The parts of the primary key (RFC 9111 §2). Scheme, host and path are always included, unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyParts {
    /// What identifies the site.
    pub host: HostKey,
    /// The name of the upstream, which contains no line end, where several have answers of their own to the same.
    pub upstream: Option<String>,
    /// The part of the query.
    pub query: QueryKey,
    /// Request fields, in lower case, beyond those the origin names in `Vary`.
    pub headers: Vec<String>,
    /// Cookies by name.
    pub cookies: Vec<String>,
    /// By what else the route is chosen than by the target, without a line end. Two routes of one target never share what
    /// is stored. Empty for the route of a target alone.
    pub route: String,
}

impl Default for KeyParts {
    fn default() -> Self {
        Self {
            host: HostKey::Asked,
            upstream: None,
            query: QueryKey::Whole,
            headers: Vec::new(),
            cookies: Vec::new(),
            route: String::new(),
        }
    }
}

/// What identifies the site in the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostKey {
    /// The host that the request is for.
    #[default]
    Asked,
    /// The upstream of this name, which contains neither a slash nor a line end. For a route that serves the same under
    /// many hosts. With nothing in place of the host, routes to other upstreams would share its keys.
    Upstream(String),
}

/// Which part of the query belongs to the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum QueryKey {
    /// All of it, as sent.
    #[default]
    Whole,
    /// All parameters, sorted by name: the order is known not to matter.
    Sorted,
    /// These parameters, sorted by name.
    Only(Vec<String>),
    /// All parameters except these, sorted by name.
    Except(Vec<String>),
    /// Nothing.
    Ignored,
}

/// Requests that bypass the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bypass {
    /// With this field, whatever its value, or with this value.
    Header(String, Option<String>),
    /// With this cookie.
    Cookie(String),
    /// With this query parameter.
    Query(String),
}
