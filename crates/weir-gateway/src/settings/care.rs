//! What keeps load from breaking an upstream: the settings of refusing.
//!
//! Everything is off unless a file says otherwise. `weir-policy` makes the decisions; these settings say which ones,
//! and on what basis.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_policy::health::check;
use weir_policy::limit::concurrency;
use weir_policy::limit::priority::Priority;
use weir_policy::limit::rate::Quota;
use weir_policy::retry::{BudgetSettings, FullJitter};
use weir_policy::{breaker, ejection, hedge};

use crate::settings::Respond;

/// What a route requires of every request, whether it is forwarded, redirected or answered here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteLimits {
    /// How often one key may ask. A request must pass all rules, or it is answered 429.
    pub rates: Vec<RateRule>,
    /// Bytes of a request body; more is 413.
    pub body_bytes: u64,
}

/// What a route does for its upstream, and for clients whose requests fail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteCare {
    /// Whether to ask the upstream at all.
    pub breaker: Option<BreakerRule>,
    /// Who goes first when requests have to wait.
    pub priority: PriorityRule,
    /// When a request is sent again.
    pub retry: RetryRule,
    /// What a client gets when its request was refused or failed.
    pub fallback: Option<Box<Fallback>>,
}

/// What all routes to an upstream do for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpstreamCare {
    /// How many requests may be in flight, and who waits. `None`: any number.
    pub concurrency: Option<concurrency::Settings>,
    /// Whether a fixed limit in it counts for each endpoint, so that none gets more even if others fail.
    pub is_limited_per_endpoint: bool,
    /// When an endpoint that is worse than its siblings leaves. `None`: never.
    pub ejection: Option<ejection::Settings>,
    /// A breaker for each endpoint.
    pub breaker: Option<BreakerRule>,
    /// How endpoints are checked. `None`: they are not.
    pub health: Option<HealthCheck>,
    /// How many requests may be sent again.
    pub retry_budget: BudgetSettings,
}

/// A circuit breaker, and what counts as a failure for it.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerRule {
    /// When it opens, and for how long.
    pub breaker: breaker::Settings,
    /// Answers with these statuses are failures; no answer is one too.
    pub failures: StatusSet,
}

/// Some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSet(pub Vec<RangeInclusive<u16>>);

impl StatusSet {
    /// Whether `status` is among them.
    pub fn has(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// 500 to 599, except for those that a client can provoke: any service answers 501 to a method or coding that it
    /// does not know, and 505 to such a version. Otherwise any client could make the service look broken.
    pub fn server_errors() -> Self {
        Self(vec![500..=500, 502..=504, 506..=599])
    }
}

/// How often one key may ask.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRule {
    /// How often.
    pub quota: Quota,
    /// What the key is.
    pub key: RateKey,
    /// Keys remembered at once. When there are more, those that used least lately are forgotten.
    pub keys_max: usize,
}

impl RateRule {
    /// [`RateRule::keys_max`], unless configured otherwise: 1.6 MB.
    pub const KEYS_MAX_DEFAULT: usize = 100_000;
}

/// What requests that are counted together have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// All requests of the route.
    Route,
    /// The address of the client's end of the connection.
    ClientAddress,
    /// The value of a field, whose name is in lower case; requests without it are counted together.
    Header(String),
    /// The value of a parameter of the route's path.
    Parameter(String),
}

/// Where the priority of a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityRule {
    /// The field that contains it, whose name is in lower case. Anyone who can set it can get ahead of others.
    pub header: Option<String>,
    /// The priority without such a field, or with an unknown word in it.
    pub otherwise: Priority,
}

impl Default for PriorityRule {
    fn default() -> Self {
        Self {
            header: None,
            otherwise: Priority::Normal,
        }
    }
}

/// When a request is sent again after a bad answer or none. This does not cover connections that could not be opened,
/// nor kept ones that had been closed: there the endpoint has not seen the request.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRule {
    /// How often one request is sent at most, from 1. Copies by `hedge` do not count.
    pub attempts: u32,
    /// Answers with these statuses are retried.
    pub statuses: StatusSet,
    /// How long one attempt may take, from the sending of the request to the response head, if another attempt may
    /// follow.
    pub per_try: Option<Duration>,
    /// How long to wait before each retry.
    pub backoff: FullJitter,
    /// When a second endpoint is asked as well. `None`: never.
    pub hedge: Option<hedge::Settings>,
}

impl Default for RetryRule {
    /// A single attempt.
    fn default() -> Self {
        Self {
            attempts: 1,
            statuses: StatusSet(vec![502..=504]),
            per_try: None,
            backoff: FullJitter::default(),
            hedge: None,
        }
    }
}

/// What a client gets when its request was refused or failed: the first of these that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallback {
    /// Which requests get one.
    pub on: FallbackOn,
    /// A stored response to the same request, however stale.
    pub stale: bool,
    /// The answer of another upstream: an index into [`super::Settings::upstreams`].
    pub upstream: Option<usize>,
    /// A fixed answer.
    pub answer: Option<Respond>,
}

/// Which requests get a fallback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FallbackOn {
    /// All requests without an answer.
    #[default]
    Any,
    /// Requests that were not sent on: a breaker is open, or the upstream has no place.
    Refused,
    /// Requests that were to be sent on, but failed.
    Failed,
}

/// How endpoints are checked.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// How often, and how many results change the state.
    pub check: check::Settings,
    /// How long one check may take.
    pub timeout: Duration,
    /// What the check asks.
    pub probe: Probe,
}

impl HealthCheck {
    /// [`HealthCheck::timeout`], unless configured otherwise.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
}

/// What a check asks of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// To accept a connection.
    Tcp,
    /// To answer a GET.
    Http {
        /// Path and query.
        path: String,
        /// The `Host`; `None` is the endpoint's own.
        host: Option<String>,
        /// What it must answer with.
        statuses: StatusSet,
        /// What the first 64 KiB of the body must contain.
        body: Option<String>,
    },
}
