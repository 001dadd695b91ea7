//! What is done with requests: routes, and how they forward, redirect, answer or have a service answer.

use std::time::Duration;

use weir_cache::CachePolicy;
use weir_cache::negotiate::CompressPolicy;

use crate::settings::template::Template;
use crate::settings::{
    Conditions, Cors, ErrorPages, HeaderEdits, Mirror, ResponseHeaders, RouteCare, RouteLimits,
    Split,
};

/// What is done with the requests of one host, path and set of methods that meet some conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The label in metrics: the config's `name`, else host and path.
    pub name: String,
    /// Hosts.
    pub host: HostPattern,
    /// Paths: static, `{name}` and `{*rest}`.
    pub path: String,
    /// Methods, in upper case; `None` is any. GET includes HEAD.
    pub methods: Option<Vec<String>>,
    /// What else is wanted of requests.
    pub conditions: Conditions,
    /// Limits for every request, whatever the action.
    pub limits: RouteLimits,
    /// What pages of other origins are told, if anything. A route that forwards removes what its upstream says of it.
    pub cors: Option<Box<Cors>>,
    /// What clients read with errors.
    pub error_pages: ErrorPages,
    /// Changes to the fields of its answers, after the gateway's own.
    pub response_headers: ResponseHeaders,
    /// What the route does.
    pub action: Action,
    /// The app of guard's interface that it belongs to; `None` for routes of a file.
    pub app: Option<Box<str>>,
}

/// Which hosts a route serves. Names are in lower case and carry no port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Every host, also requests without one.
    Any,
    /// One name.
    Exact(String),
    /// `*.example.com` holds `example.com`: any name with at least one more label in front.
    Wildcard(String),
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(name) => write!(f, "*.{name}"),
        }
    }
}

/// What a route does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sends the request to an upstream and its answer back.
    Forward(Forward),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with a fixed response.
    Respond(Respond),
    /// Has a service inside the process answer.
    Serve(Serve),
}

impl Action {
    /// How requests get from here to an upstream, now or later.
    pub fn rule(&self) -> Option<&Forward> {
        match self {
            Self::Forward(rule) => Some(rule),
            Self::Serve(serve) => serve.delivery.as_deref(),
            Self::Redirect(_) | Self::Respond(_) => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn rule_mut(&mut self) -> Option<&mut Forward> {
        match self {
            Self::Forward(rule) => Some(rule),
            Self::Serve(serve) => serve.delivery.as_deref_mut(),
            Self::Redirect(_) | Self::Respond(_) => None,
        }
    }
}

/// How a route has a service answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Serve {
    /// Its name, by which it is opened.
    pub service: String,
    /// Until it has answered; late is 504. Also between two pieces of content.
    pub timeout: Duration,
    /// How its errands get to their upstream, where it has any.
    pub delivery: Option<Box<Forward>>,
}

/// How a route forwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Index into [`Settings::upstreams`](super::Settings::upstreams). Of a route with a [`split`](Forward::split), the first in it.
    pub upstream: usize,
    /// The upstreams that share the requests, if there are several.
    pub split: Option<Box<Split>>,
    /// Who gets copies of requests, besides.
    pub mirror: Option<Box<Mirror>>,
    /// Removed from the front of the path before forwarding; the rest always begins with `/`.
    pub strip_prefix: Option<String>,
    /// The path to ask for instead, made of parameters of the route's path; the query goes along. Never beside
    /// `strip_prefix`. No text of it that stands beside a parameter in a segment is made of dots alone.
    pub rewrite: Option<Box<Template>>,
    /// Changes to the request's fields, after the gateway's own.
    pub request_headers: HeaderEdits,
    /// Deadlines on the upstream's side.
    pub timeouts: UpstreamTimeouts,
    /// Bytes of a request body that are collected before a request enters an upstream with a limit or a breaker.
    pub request_buffer: u64,
    /// Bytes of a response that are read ahead of a slow client, from an upstream with a limit.
    pub response_buffer: u64,
    /// How responses are cached; `None` caches nothing. It needs [`Settings::cache`](super::Settings::cache).
    pub cache: Option<Box<CachePolicy>>,
    /// What is compressed for clients that accept it; `None` compresses nothing.
    pub compress: Option<Box<CompressPolicy>>,
    /// Protocols that a client may upgrade to, in lower case. Other requests are answered as if they had asked for no
    /// upgrade.
    pub upgrade: Vec<String>,
    /// When a request is not forwarded, when it is sent again, and what its client gets instead of an answer.
    pub care: Box<RouteCare>,
}

impl Forward {
    /// [`Forward::request_buffer`], unless configured otherwise.
    pub const REQUEST_BUFFER: u64 = 256 << 10;
    /// [`Forward::response_buffer`], unless configured otherwise.
    pub const RESPONSE_BUFFER: u64 = 256 << 10;

    /// Every upstream that it names, each an index into [`Settings::upstreams`](super::Settings::upstreams).
    pub fn upstreams(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.clone().each_upstream(|index| found.push(*index));
        found
    }

    /// Shows every upstream that it names, to be changed.
    pub(crate) fn each_upstream(&mut self, mut show: impl FnMut(&mut usize)) {
        show(&mut self.upstream);
        let shares = self.split.iter_mut().flat_map(|split| &mut split.shares);
        shares.for_each(|share| show(&mut share.upstream));
        self.mirror
            .iter_mut()
            .for_each(|mirror| show(&mut mirror.upstream));
        let fallback = self.care.fallback.iter_mut();
        let fallback = fallback.filter_map(|fallback| fallback.upstream.as_mut());
        fallback.for_each(show);
    }
}

/// Deadlines for the upstream's side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Until a connection is open; late means another endpoint is tried, then 504. By default 1.5 s: a service whose queue
    /// of connections is full drops the first SYN, and the kernel sends the next one after 1 s (RFC 6298 §2).
    pub connect: Duration,
    /// From the end of the request until the response head is complete; late is 504.
    pub response: Duration,
    /// Between two reads of the response body, or two writes of the request body; late breaks off the response.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(1500),
            response: Duration::from_secs(30),
            idle: Duration::from_secs(30),
        }
    }
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The `Location`: parameters of the path, `host`, `path` and `scheme`. The request's query is appended if the
    /// `Location` has none.
    pub location: Template,
}

/// A fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// Must be empty for 204 and 304.
    pub body: Vec<u8>,
    /// Further fields, such as `content-type`. Names are in lower case.
    pub headers: Vec<(String, Template)>,
}
